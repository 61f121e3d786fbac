"""Theorem 1 of SJF-BSBF: when two jobs should share a GPU, and what their mean JCT is then (docs/sjf_bsbf.md)."""

from __future__ import annotations

from gpusched_env.core.handle import helper


@helper
def mean_in_sequence(left_s: float, new_s: float) -> float:
    """Return T_seq, the mean JCT of a running job with ``left_s`` left and a new job that waits for its end [s]."""
    return left_s + new_s / 2.0


@helper
def mean_sharing(left_s: float, new_s: float, left_slowdown: float, new_slowdown: float) -> float:
    """Return T_con, the mean JCT of both jobs if the new job joins at once [s].

    Parameters
    ----------
    left_s, new_s : remaining run times of the running and of the new job, each alone on the GPUs [s]
    left_slowdown, new_slowdown : slowdown xi of each job while both run
    """
    if left_slowdown * left_s >= new_slowdown * new_s:  # the new job ends first
        return left_s / 2.0 + (1.0 - 1.0 / (2.0 * left_slowdown)) * new_slowdown * new_s
    return new_s / 2.0 + (1.0 - 1.0 / (2.0 * new_slowdown)) * left_slowdown * left_s
