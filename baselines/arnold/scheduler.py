"""Arnold: placement of gangs that train LLMs over minipods, and reservations for planned jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.arnold.program import Matrix, layout
from gpusched_env.baselines.checking import Range, check
from gpusched_env.baselines.estimates import EstimatingScheduler, is_strict
from gpusched_env.baselines.usable_gpus import packed, usable_gpus
from gpusched_env.problem.dependencies import BEGIN
from gpusched_env.simulator import ClusterView, Decision, Start

WEIGHT: Final = Range(0.0, 0.5, "a number from 0 to 0.5")
PIPELINE_INSIDE: Final = 1  # PLAN_DTYPE, order: consecutive servers are stages of one pipeline


class Plan(NamedTuple):
    """The nodes that are kept for a planned job, and its start [s]."""

    nodes: np.ndarray
    start_s: float


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
    placement : "program" (default), or a placement rule for all gangs: with "pack", "random-servers" and others, only
        the placement differs from Arnold's
    estimator, sigma, estimator_seed : run times by which jobs are let onto kept servers, as for ``sjf``; default "user"
        = ``estimate_s``

    Notes
    -----
    Deviations. The paper takes alpha from the gains that the nearest of its profiled jobs showed; here it is one of the
    two values published. It predicts run times by a learned model. Its program may give any servers to a row. Here
    ranks follow the numbers of servers, so a row is consecutive servers, and where minipods have less room than a row,
    it may span more of them than in the program. If the plan of a gang has the stages outermost (order 0), the rows of
    our program are stages, and the weights change places. Gangs without a plan are data parallel. Ours are: order of
    arrival, planned jobs first; the first gang that finds no place blocks the queue unless the scenario says otherwise;
    best fit for gangs that no whole servers of the cluster hold. Of the paper's comparisons, ``placement=pack`` is best
    fit and "random-servers" random fit; its GPU packing and dual recursive bipartitioning are not specified in what we
    read, and left out. HiGHS solves a program for each spread, at most 2,000 nodes each.

    References
    ----------
    Arnold: "Efficient Pre-Training of LLMs via Topology-Aware Communication Alignment on More Than 9600 GPUs",
    NeurIPS 2025 (arXiv 2509.15940).
    """

    estimator: str = "user"
    alpha: float = 0.0
    moe_alpha: float = 0.3
    placement: str = "program"
    name = "arnold"
    remembers_gpus = True
    knows_node_counts = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check("arnold", self, alpha=WEIGHT, moe_alpha=WEIGHT)

    def reset(self, view: ClusterView) -> None:
        """Forget the plans of an earlier run."""
        super().reset(view)
        self._plans: dict[int, Plan] = {}

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan held jobs, then start jobs by arrival, planned ones first."""
        self._plan(view)
        strict = is_strict(view, True)
        for job in sorted(view.waiting.tolist(), key=lambda job: (job not in self._plans, view.arrival_s[job], job)):
            gpus = self._gpus(view, job)
            if gpus:
                yield Start(job, gpus=gpus)
            if not view.refusal and gpus:
                self._plans.pop(job, None)
            elif strict and job not in self._plans:
                return

    def _plan(self, view: ClusterView) -> None:
        """Choose nodes for each job that is held until a time and has none yet, earliest start first."""
        begin_s = view.told(BEGIN, 0.0) if len(view.held) else np.empty(0)
        planned = [job for job in view.held.tolist() if begin_s[job] > 0 and job not in self._plans]
        if not planned or self.placement != "program":
            return
        running = view.running
        ends_s = view.now_s + self.remaining_s(view, running)
        nodes_of = [np.unique(view.cluster.node_of_gpu[view.holders == job]) for job in running.tolist()]
        # arrival_s of a held job is its submission
        for start_s, job in sorted((float(view.arrival_s[job] + begin_s[job]), job) for job in planned):
            empty = self._whole(view, job, np.ones(view.cluster.gpus, bool))
            for held, end_s in zip(nodes_of, ends_s.tolist(), strict=True):
                empty[held] &= end_s <= start_s
            for plan in self._plans.values():
                empty[plan.nodes] = False
            if (nodes := self._nodes(view, job, empty)) is not None:
                self._plans[job] = Plan(nodes, start_s)

    def _gpus(self, view: ClusterView, job: int) -> tuple[int, ...]:
        """Return the GPUs on which a job starts now; () = it waits."""
        usable, gang = usable_gpus(view, job), int(view.gpus[job])
        cluster = view.cluster
        others = [plan for other, plan in self._plans.items() if other != job]
        if others:
            end_s = view.now_s + float(self.remaining_s(view, np.array([job]))[0])
            for plan in others:
                if end_s > plan.start_s:
                    usable &= ~np.isin(cluster.node_of_gpu, plan.nodes)
        if self.placement != "program":
            return view.where(job, self.placement)
        servers, rest = divmod(gang, int(cluster.nodes["gpus"].max()))
        if rest or servers > self._whole(view, job, np.ones(cluster.gpus, bool)).sum():
            return packed(cluster, usable, gang)
        empty = self._whole(view, job, usable)
        if job in self._plans and empty[self._plans[job].nodes].all():
            nodes: np.ndarray | None = self._plans[job].nodes
        else:
            nodes = self._nodes(view, job, empty)
        return () if nodes is None else tuple(np.flatnonzero(np.isin(cluster.node_of_gpu, nodes)).tolist())

    def _whole(self, view: ClusterView, job: int, usable: np.ndarray) -> np.ndarray:
        """Boolean [N]: whether all GPUs of each node of the largest size are usable for a job."""
        nodes = view.cluster.nodes
        able = view.able_gpus(np.array([job]))
        count = np.bincount(
            view.cluster.node_of_gpu[usable if able is None else usable & able[0]], minlength=len(nodes)
        )
        whole: np.ndarray = (count == nodes["gpus"]) & (nodes["gpus"] == nodes["gpus"].max())
        return whole

    def _nodes(self, view: ClusterView, job: int, empty: np.ndarray) -> np.ndarray | None:
        """Return the nodes of the program's solution for a job on ``empty`` nodes; None = there is none."""
        nodes, gang = view.cluster.nodes, int(view.gpus[job])
        servers, rest = divmod(gang, int(nodes["gpus"].max()))
        if rest or servers > empty.sum():
            return None
        racks = nodes["rack"]
        found = layout(np.bincount(racks[empty], minlength=len(view.cluster.racks)), self._matrix(view, job, servers))
        if found is None:
            return None
        chosen = [np.flatnonzero(empty & (racks == rack))[:count] for rack, count in enumerate(found.tolist()) if count]
        return np.concatenate(chosen)

    def _matrix(self, view: ClusterView, job: int, servers: int) -> Matrix:
        """Return a job of whole servers as rows of servers with consecutive ranks."""
        workload = view.simulation.instance.workload
        plans = workload.profiles.plans
        mine = (plans["profile"] == workload.jobs["profile"][job]) & (plans["gpus"] == view.gpus[job])
        if not mine.any():
            return Matrix(servers, 1, self.alpha, 1.0 - self.alpha)
        plan = plans[int(np.argmax(mine))]
        alpha = self.moe_alpha if plan["ep"] > 1 else self.alpha
        if servers % plan["pp"]:  # stages share servers
            return Matrix(servers, 1, alpha, 1.0 - alpha)
        if plan["order"] == PIPELINE_INSIDE:
            return Matrix(servers // int(plan["pp"]), int(plan["pp"]), alpha, 1.0 - alpha)
        return Matrix(int(plan["pp"]), servers // int(plan["pp"]), 1.0 - alpha, alpha)
