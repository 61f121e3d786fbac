"""Contention models, one a file; each is registered when it is imported."""

from gpusched_env.core.network.models import budget, flat, kway, max_min, solo, table, tiers

__all__ = ["budget", "flat", "kway", "max_min", "solo", "table", "tiers"]
