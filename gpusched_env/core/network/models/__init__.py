"""Contention models, one per file; each is registered on import."""

from gpusched_env.core.network.models import budget, flat, kway, max_min, solo, table, tiers

__all__ = ["budget", "flat", "kway", "max_min", "solo", "table", "tiers"]
