"""Arnold: placement of gangs that train LLMs over minipods, and reservations for planned jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.arnold.program import Matrix, layout
from gpusched_env.baselines.checking import Range, check
from gpusched_env.baselines.estimates import EstimatingScheduler, is_strict, reserved_s
from gpusched_env.problem.dependencies import BEGIN
from gpusched_env.simulator import ClusterView, Decision, Start

WEIGHT: Final = Range(0.0, 0.5, "a number from 0 to 0.5")
PIPELINE_INSIDE: Final = 1  # PLAN_DTYPE, order: consecutive servers are stages of one pipeline


@dataclass
class Arnold(EstimatingScheduler):
    """Place each gang so that its pipeline and data-parallel groups span few minipods; keep places for planned jobs.

    A gang of whole servers is a matrix: a row is a pipeline-parallel group, a column the servers that train one stage.
    An integer program minimises alpha x minipods of the gang + (1 - alpha) x minipods of the row that spans most. A
    minipod is a rack of the cluster. A planned job, one that is held until its ``begin_s``, gets servers as soon as
    enough of them are free by its start; until then, only jobs that are predicted to end before may use them.

    Parameters
    ----------
    alpha : weight of data-parallel groups for dense models, default 0 as published; at most 0.5
    moe_alpha : the same for plans with expert parallelism, default 0.3 as published
    estimator, sigma, estimator_seed : run times by which jobs are let onto kept servers, as for ``sjf``; default "user"
        = ``estimate_s``

    Notes
    -----
    Deviations. The paper takes alpha from the gains that the nearest of its profiled jobs showed; here it is one of the
    two values published. It predicts run times by a learned model. Its program may give a row any servers. Here ranks
    follow the numbers of servers: a row is consecutive servers, and may span more minipods than in the program where
    these have less room than a row. If the plan of a gang has the stages outermost (order 0), the rows are stages, and
    the weights change places; a gang without a plan is data parallel. Ours: order of arrival, planned jobs first; a
    gang that finds no place blocks the queue unless the scenario says otherwise; best fit for gangs that are no whole
    servers. Of the paper's comparisons, ``fifo`` is best fit, and ``fifo:placement=random-servers`` random fit; its GPU
    packing and its recursive bipartitioning are not specified in what we read, and left out.

    References
    ----------
    Arnold: "Efficient Pre-Training of LLMs via Topology-Aware Communication Alignment on More Than 9600 GPUs",
    NeurIPS 2025 (arXiv 2509.15940).
    """

    left_s = staticmethod(reserved_s)

    estimator: str = "user"
    alpha: float = 0.0
    moe_alpha: float = 0.3
    name = "arnold"
    needs = ("spread",)
    remembers_gpus = True
    knows_node_counts = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check("arnold", self, alpha=WEIGHT, moe_alpha=WEIGHT)

    def reset(self, view: ClusterView) -> None:
        """Forget the plans of an earlier run."""
        super().reset(view)
        self._plans: dict[int, tuple[np.ndarray, float]] = {}  # planned job -> its GPUs, and when it starts [s]

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan held jobs, then start jobs by arrival, planned ones first."""
        self._plan(view)
        strict, failed = is_strict(view, True), set[int]()
        for job in sorted(view.waiting.tolist(), key=lambda job: (job not in self._plans, view.arrival_s[job], job)):
            usable = view.is_free
            others = [plan for other, plan in self._plans.items() if other != job]
            if view.job_class[job] in failed and not others:
                continue
            end_s = view.now_s + float(self.remaining_s(view, np.array([job]))[0]) if others else 0.0
            for kept, start_s in others:
                usable[kept] &= end_s <= start_s
            gpus = self._plans[job][0] if job in self._plans else np.empty(0, np.int64)
            if not len(gpus) or not usable[gpus].all():
                gpus = self._gpus(view, job, usable)
            if len(gpus):
                yield Start(job, gpus=tuple(gpus.tolist()))
                self._plans.pop(job, None)
            elif strict and job not in self._plans:
                return
            else:
                failed.add(int(view.job_class[job]))

    def _plan(self, view: ClusterView) -> None:
        """Choose GPUs for each job that is held until a time and has none yet, earliest start first."""
        begin_s = view.told(BEGIN, 0.0) if len(view.held) else np.empty(0)
        planned = [job for job in view.held.tolist() if begin_s[job] > 0 and job not in self._plans]
        ends_s = view.now_s + self.remaining_s(view, view.running) if planned else np.empty(0)
        # arrival_s of a held job is its submission
        for start_s, job in sorted((float(view.arrival_s[job] + begin_s[job]), job) for job in planned):
            usable = ~np.isin(view.holders, view.running[ends_s > start_s])
            for kept, _ in self._plans.values():
                usable[kept] = False
            if len(gpus := self._gpus(view, job, usable)):
                self._plans[job] = gpus, start_s

    def _gpus(self, view: ClusterView, job: int, usable: np.ndarray) -> np.ndarray:
        """Return the GPUs of ``usable`` that a job gets; empty = it waits."""
        cluster, nodes = view.cluster, view.cluster.nodes
        size = nodes["gpus"].max()
        servers, rest = divmod(int(view.gpus[job]), int(size))
        if rest or servers > (nodes["gpus"] == size).sum():
            return np.array(view.where(job, "pack", usable), np.int64)
        able = view.able_gpus(np.array([job]))
        there = cluster.node_of_gpu[usable if able is None else usable & able[0]]
        empty = np.flatnonzero(np.bincount(there, minlength=len(nodes)) == size)
        racks = nodes["rack"][empty]
        found = layout(np.bincount(racks, minlength=len(cluster.racks)), self._matrix(view, job, servers))
        if found is None:
            return np.empty(0, np.int64)
        place = np.arange(len(empty)) - np.searchsorted(racks, racks)  # of each node in its rack
        return np.flatnonzero(np.isin(cluster.node_of_gpu, empty[place < found[racks]]))

    def _matrix(self, view: ClusterView, job: int, servers: int) -> Matrix:
        """Return a job of whole servers as rows of servers with consecutive ranks."""
        workload = view.simulation.instance.workload
        plans = workload.profiles.plans
        mine = (plans["profile"] == workload.jobs["profile"][job]) & (plans["gpus"] == view.gpus[job])
        if not mine.any():
            return Matrix(servers, 1, self.alpha, 1.0 - self.alpha)
        plan = plans[int(np.argmax(mine))]
        stages = 1 if servers % plan["pp"] else int(plan["pp"])  # else stages share servers
        alpha = self.moe_alpha if plan["ep"] > 1 else self.alpha
        if plan["order"] == PIPELINE_INSIDE or stages == 1:
            return Matrix(servers // stages, stages, alpha, 1.0 - alpha)
        return Matrix(stages, servers // stages, 1.0 - alpha, alpha)
