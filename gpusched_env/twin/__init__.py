"""A twin of a user's own cluster: fitted to its log, scored on the rest of the log, and asked what would change."""

from gpusched_env.twin.model import GroupScore, Pool, Problem, Remainder, Score, Twin, read_twin, write_twin

__all__ = [
    "GroupScore", "Pool", "Problem", "Remainder", "Score", "Twin", "read_twin", "write_twin",
]  # fmt: skip
