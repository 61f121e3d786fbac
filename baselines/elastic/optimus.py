"""Optimus: GPUs one by one to the job whose remaining time they shorten most."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.elastic.sizes import Ladder, SizingScheduler, one_size_each
from gpusched_env.portable.keys import rounded_key
from gpusched_env.simulator import ClairvoyantView, ClusterView


@dataclass
class Optimus(SizingScheduler):
    """Give every job its smallest size, then grant sizes to the jobs that gain most by them.

    The gain of a job is the time by which its next size shortens its remaining run time, divided by the GPUs that this
    size adds. GPUs are granted until none are left or no job gains.

    Notes
    -----
    This is the version with an oracle of Pollux's authors: it knows the remaining iterations and the true speed at each
    size. The paper estimates both: the iterations from a curve fitted to the loss, the speed from a fitted model. Ties:
    the earliest arrival. A decision point takes O(n log n + n x GPUs), n = number of jobs in the system.

    References
    ----------
    Y. Peng et al., "Optimus: An efficient dynamic resource scheduler for deep learning clusters", EuroSys 2018,
    section 4.1; petuum/adaptdl, branch osdi21-artifact, ``simulator/optimus.py`` (Apache-2.0).
    """

    clairvoyant = True

    @property
    def name(self) -> str:
        """Name in tables."""
        return "optimus"

    def shares(self, view: ClusterView, rows: np.ndarray, gpus: int) -> list[Ladder]:
        """Divide the GPUs by marginal gains."""
        assert isinstance(view, ClairvoyantView)
        left = dict(zip(rows.tolist(), view.iterations_left(rows).tolist(), strict=True))
        ladders = Ladder.of(view, rows)
        gpus = one_size_each(ladders, gpus)
        heap = [(-_gain(each, left[each.job]), at) for at, each in enumerate(ladders)]
        heapq.heapify(heap)
        while gpus > 0 and heap:
            gain, at = heapq.heappop(heap)
            each = ladders[at]
            if gain < 0.0 and each.more <= gpus:
                gpus -= each.climb()
                heapq.heappush(heap, (-_gain(each, left[each.job]), at))
        return ladders


def _gain(each: Ladder, left: float) -> float:
    """Return the seconds by which the next size shortens the remaining time, per GPU that it adds."""
    if each.at_most or each.gpus == 0:
        return 0.0
    return rounded_key((left / each.rate - left / each.next_rate) / each.more)
