"""How alike the run times of one user's jobs of one day are, and draws that are as alike.

People submit many similar jobs at once. If the run times of a queue were drawn independently, their errors would cancel
out, and the starts of the last jobs of a long queue would seem to be known within a few per cent.
"""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.portable import arrays

Array = np.ndarray


def batches(user: Array, submitted_s: Array, day_s: float) -> Array:
    """int64 [J]: number of the batch of each job, which is one user's jobs of one day."""
    who = np.unique(user, return_inverse=True)[1]
    day = np.unique(np.floor(submitted_s / day_s), return_inverse=True)[1]
    found: Array = np.unique(who * (day.max(initial=0) + 1) + day, return_inverse=True)[1]
    return found


def likeness(batch: Array, submitted_s: Array, group: Array, run_s: Array, least: int) -> float:
    """Return the probability with which a job has the rank of its batch, 0..1.

    Ranks are those of run times within a group, as numbers of 0..1. If each job has the rank of its batch with
    probability p and else one of its own, ranks of two jobs of a batch have the correlation p x p. It is measured on
    jobs of a batch that were submitted one after the other, which are the most alike.

    Only groups with at least ``least`` jobs count; ``run_s`` may be in parts of the time limit.
    """
    order = np.lexsort((run_s, group))
    begins = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0])
    count = np.diff(np.r_[begins, len(order)])
    size = np.empty(len(order), np.int64)
    rank = np.empty(len(order))
    size[order] = np.repeat(count, count)
    rank[order] = (np.arange(len(order)) - np.repeat(begins, count) + 0.5) / np.repeat(count, count) - 0.5
    after = np.lexsort((submitted_s, batch))
    first, second = after[:-1], after[1:]
    pairs = (batch[first] == batch[second]) & (size[first] >= least) & (size[second] >= least)
    if not pairs.any():
        return 0.0
    correlation = 12.0 * arrays.total((rank[first] * rank[second])[pairs]) / int(pairs.sum())  # 1 / 12 is the variance
    return math.sqrt(min(max(correlation, 0.0), 1.0))


def alike(rng: np.random.Generator, batch: Array, part: float) -> Array:
    """float64 [J]: numbers of 0..1, where each job has that of its batch with the probability ``part``."""
    own, chosen = rng.random(len(batch)), rng.random(len(batch)) < part
    shared = rng.random(int(batch.max(initial=-1)) + 1)
    return np.where(chosen, shared[batch], own) if len(batch) else own
