"""Kueue: quotas that tenants lend to each other, and get back by preemption."""
