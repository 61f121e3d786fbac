"""Placement rules, one file per rule or family of rules; the order of these imports numbers the rules."""

from gpusched_env.core.placement import (  # noqa: I001 - the order of the numbers
    in_order, pack, consolidate, yarn, drawn, contention, least_busy, fastest_type, fork, shared, most_free, rails,
    steady,
)  # fmt: skip

__all__ = [
    "consolidate", "contention", "drawn", "fastest_type", "fork", "in_order", "least_busy", "most_free", "pack",
    "rails", "shared", "steady", "yarn",
]  # fmt: skip
