"""Optimus: GPUs one by one to the job whose remaining time they shorten most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.elastic.granting import Grants, by_gain
from gpusched_env.baselines.elastic.sizes import SizingScheduler
from gpusched_env.baselines.elastic.speed_model import fit_seconds
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClairvoyantView, ClusterView


@dataclass
class Optimus(SizingScheduler):
    """Give every job its smallest size, then grant sizes to the jobs that gain most by them.

    The gain of a job is the time by which its next size shortens its remaining run time, divided by the GPUs that this
    size adds. GPUs are granted until none are left or no job gains.

    Parameters
    ----------
    smallest_first : True = small gangs choose their nodes before large ones, as in the code of Pollux's authors, so
        that large gangs take the nodes that are left; default False = by arrival
    fit : number of smallest sizes of a job that are measured in trial runs, before it starts. Its speeds are those of
        a model that is fitted to these sizes and to each size on which it has run so far: the time of an iteration on r
        GPUs is a / r + b + c r, with a, b, c >= 0. Default 0 = the true speed at each size is known

    Notes
    -----
    By default, this is the version with an oracle of Pollux's authors: it knows the remaining iterations and the true
    speed at each size. The paper estimates both: the speed from a fitted model (``fit``; the paper's has terms for
    parameter servers, this one is for all-reduce), the iterations from a curve fitted to the loss. Workloads have no
    losses, so the iterations are always true ones. Ties: the earliest arrival. A decision point takes O(n x GPUs), n =
    number of jobs in the system.

    References
    ----------
    Y. Peng et al., "Optimus: An efficient dynamic resource scheduler for deep learning clusters", EuroSys 2018,
    sections 3.2 and 4.1; petuum/adaptdl, branch osdi21-artifact, ``simulator/optimus.py`` (Apache-2.0).
    """

    smallest_first: bool = False
    fit: int = 0

    clairvoyant = True
    name = "optimus"

    def __post_init__(self) -> None:
        """Check the number of trial runs."""
        if self.fit < 0:
            raise SchedulerError(f"optimus: fit is {self.fit!r}: give a number of sizes, or 0 for true speeds")

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        super().reset(view)
        self._measured: dict[int, set[int]] = {}  # job -> its sizes that have been measured [GPU]

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs by marginal gains."""
        assert isinstance(view, ClairvoyantView)
        rows = grants.listed[:count]
        if self.fit:
            for job, held in zip(rows.tolist(), view.held_gpus(rows).tolist(), strict=True):
                self._fit(view, grants, job, held)
        grants.left[:count] = view.iterations_left(rows)
        by_gain(grants, count, gpus)

    def _fit(self, view: ClusterView, grants: Grants, job: int, held: int) -> None:
        """Fit the speeds of a job again if it is new, or holds a number of GPUs that it has not had before."""
        sizes = view.sizes(job)
        known = self._measured.setdefault(job, set())
        before = len(known)
        known.update(sizes[: self.fit].tolist() if not known else [], [held] if held else [])
        if len(known) == before:
            return
        at = np.flatnonzero(np.isin(sizes, list(known)))
        a, b, c = fit_seconds(sizes[at].tolist(), (1.0 / view.size_rates(job)[at]).tolist())
        grants.rates[job, 1 : len(sizes) + 1] = 1.0 / (a / sizes + b + c * sizes)
