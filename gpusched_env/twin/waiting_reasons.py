"""What the reason of a pending job means for a forecast; the words are in ``traces/parsing/slurm_reasons.py``."""

from __future__ import annotations

from gpusched_env.traces.parsing.slurm_reasons import HELD, LIMITED, NEVER, WAITS, meaning_of

__all__ = ["HELD", "LIMITED", "NEVER", "WAITS", "kind_of"]


def kind_of(reason: str) -> str:
    """Return WAITS, HELD, LIMITED or NEVER, for a reason as squeue writes it, or one of a twin (own_limits.py)."""
    words = reason.strip().strip("()").replace("_", " ")
    return NEVER if words.startswith(("above ", "no GPUs of ")) else meaning_of(words.partition(",")[0].strip())[1]
