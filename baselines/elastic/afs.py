"""AFS-L: elastic share, which grants GPUs by a comparison of two jobs at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.elastic.sizes import Ladder, SizingScheduler
from gpusched_env.portable.keys import rounded_key
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision


@dataclass
class Afs(SizingScheduler):
    """Grant GPUs one by one, each to the job that wins every comparison with another job.

    Two jobs are compared as if they had the cluster to themselves. If neither has a GPU, the shorter one wins. Else let
    a be the job that would finish first with its present GPUs, and b the other one. One more GPU makes a finish sooner,
    and b too, because b takes over the GPUs of a. So b wins only if the GPU adds more to its rate, relative to its new
    rate, than to the rate of a, relative to the present rate of a.

    Notes
    -----
    Remaining iterations are known (AFS-L of the paper). The comparison is not transitive; jobs are compared in the
    order of their arrivals (choice), and a tie keeps the earlier job. GPUs are divided again when a job arrives or
    finishes (choice). With sizes that skip numbers, the next size counts as one GPU. A division takes O(n x GPUs), n =
    number of jobs in the system.

    References
    ----------
    C. Hwang et al., "Elastic resource sharing for distributed deep learning", NSDI 2021, section 4. The rule is written
    from the literature; the authors' code is not public.
    """

    clairvoyant = True

    @property
    def name(self) -> str:
        """Name in tables."""
        return "afs"

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        self._divided: list[int] = []

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Divide the GPUs anew if the jobs in the system have changed, or if some job waits although GPUs are free."""
        present = np.sort(np.concatenate([view.running, view.waiting])).tolist()
        if present != self._divided or (len(view.waiting) and view.free_gpus):
            self._divided = present
            yield from super().decide(view)

    def shares(self, view: ClusterView, rows: np.ndarray, gpus: int) -> list[Ladder]:
        """Divide the GPUs by comparisons."""
        assert isinstance(view, ClairvoyantView)
        left = dict(zip(rows.tolist(), view.iterations_left(rows).tolist(), strict=True))
        ladders = Ladder.of(view, rows)
        while fitting := [each for each in ladders if each.gains and each.more <= gpus]:
            winner = fitting[0]
            for other in fitting[1:]:
                if later_wins(winner, other, left[winner.job], left[other.job]):
                    winner = other
            gpus -= winner.climb()
        return ladders


def later_wins(first: Ladder, later: Ladder, first_left: float, later_left: float) -> bool:
    """Return whether the later of two jobs gets the next GPUs; it may be the one that would finish first.

    Parameters
    ----------
    first_left, later_left : their remaining iterations
    """
    if first.gpus == later.gpus == 0:
        return rounded_key(later_left / later.next_rate) < rounded_key(first_left / first.next_rate)
    if rounded_key(_seconds(later, later_left)) < rounded_key(_seconds(first, first_left)):
        return not _longer_wins(later, first)
    return _longer_wins(first, later)


def _seconds(each: Ladder, left: float) -> float:
    return left / each.rate if each.gpus else math.inf


def _longer_wins(shorter: Ladder, longer: Ladder) -> bool:
    """Return whether the job that ends later gets the next GPUs; a job without GPUs is never the shorter one."""
    of_longer = (longer.next_rate - longer.rate) / longer.next_rate
    of_shorter = (shorter.next_rate - shorter.rate) / shorter.rate
    return rounded_key(of_longer) > rounded_key(of_shorter)
