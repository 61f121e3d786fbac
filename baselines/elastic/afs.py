"""AFS-L: elastic share, which grants GPUs by a comparison of two jobs at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.elastic.granting import Grants, by_comparison
from gpusched_env.baselines.elastic.sizes import SizingScheduler
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
    name = "afs"

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        super().reset(view)
        self._divided: list[int] = []
        self._divided_at_s = -np.inf

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Divide the GPUs anew if the jobs in the system have changed, or if some job waits although GPUs are free.

        Asked again at the same time, it divides again: its decisions may not have been carried out, as of a teacher.
        """
        present = np.sort(np.concatenate([view.running, view.waiting])).tolist()
        asked_again = view.now_s == self._divided_at_s
        if present != self._divided or asked_again or (len(view.waiting) and view.free_gpus):
            self._divided, self._divided_at_s = present, view.now_s
            yield from super().decide(view)

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs by comparisons."""
        assert isinstance(view, ClairvoyantView)
        grants.left[:count] = view.iterations_left(grants.listed[:count])
        by_comparison(grants, count, gpus)


class AfsWithoutLengths(Afs):
    """AFS-P: AFS for jobs of unknown lengths. The attained GPU time of a job stands for its remaining length.

    Jobs that have had little service are compared as if they were short, as under Tiresias.

    Notes
    -----
    The rule of the paper for unknown lengths is not public; this one is our choice: the remaining length of a job is
    the iterations that its attained GPU time would give on one GPU at its smallest size, so that shares of jobs with
    equal service are compared by speeds alone. The rest is as in AFS-L: a job without service is the shortest one, GPUs
    are divided again when a job arrives or finishes, ties keep the earlier job.

    References
    ----------
    C. Hwang et al., "Elastic resource sharing for distributed deep learning", NSDI 2021, section 4.
    """

    clairvoyant = False
    name = "afs-p"

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs by comparisons."""
        rows = grants.listed[:count]
        grants.left[:count] = view.attained_gpu_s(rows) * grants.rates[rows, 1] / grants.sizes[rows, 1]
        by_comparison(grants, count, gpus)
