"""HadarE without a simulator: plays slot after slot on the planned copies, in real-valued steps.

It shares the plan of a slot with the package, which tests/baselines/test_hadare.py computes by hand, and is independent
of its runs. The method has no public code: orders and overheads are ours (docs/hadar.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusched_env.baselines.hadar.slots import plan_slot

RESTORE_S, MERGE_S = 10.0, 5.0
AWS, LAB = np.array([1.0, 0.65, 0.2]), np.array([1.0, 0.8, 0.6, 0.45, 0.12])


class Played(NamedTuple):
    """Ends of the jobs [s], and share of the nodes' time until the last end that is training."""

    ends: np.ndarray
    utilisation: float


def play_slots(
    remaining: list[float] | np.ndarray, rates: np.ndarray, slot_s: float = 360.0, copies: int | None = None
) -> Played:
    """Play. ``copies`` = 1 is a scheduler that migrates jobs each slot; only jobs that move pay the restore."""
    left = np.array(remaining, float)
    jobs, nodes = rates.shape
    ends = np.zeros(jobs)
    trained = start = 0.0
    before = np.full(nodes, -1)
    while (left > 0).any():
        given = plan_slot(left, rates, copies)
        for job in np.flatnonzero(left > 0).tolist():
            held = np.flatnonzero(given == job)
            if not len(held):
                continue
            stays = copies == 1 and before[held[0]] == job
            train_s = max(slot_s - RESTORE_S * (not stays) - MERGE_S * (len(held) > 1), 0.0)
            seconds = min(left[job] / float(rates[job, held].sum()), train_s)  # all copies end together
            done = rates[job, held] * seconds
            trained += seconds * len(held)
            left[job] -= done.sum()
            if left[job] <= 1e-9 * done.sum():
                left[job] = 0.0
                ends[job] = start + (slot_s - train_s) + seconds
        before = given
        start += slot_s
    return Played(ends, trained / (nodes * ends.max()))


def mix(seed: int, jobs: int, speeds: np.ndarray, spread: bool) -> tuple[np.ndarray, np.ndarray]:
    """Steps and rates of jobs of 0.3 to 3 h on the fastest node;
    ``spread``: speeds of each job vary by U(0.8, 1.25).
    """
    rng = np.random.default_rng(seed)
    factors = rng.uniform(0.8, 1.25, (jobs, len(speeds))) if spread else np.ones((jobs, len(speeds)))
    rates = speeds * factors
    return rng.uniform(0.3, 3.0, jobs) * 3_600 * rates.max(axis=1), rates
