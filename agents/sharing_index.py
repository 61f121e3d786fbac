"""A sharing index: a linear score says beside which running gangs a waiting job starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint, weights_of
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.baselines.list_policies.lines import sort_rows
from gpusched_env.core.driver import BEGINS, NOTHING, START, Choice, policy
from gpusched_env.core.events import seconds_left, work_left
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.placement.shared import EVERYWHERE, find_shared, share_within
from gpusched_env.core.sharing.choices import BENEFIT, SEARCH
from gpusched_env.core.sharing.partners import alone_s, has_room, last_option, tightest_tier
from gpusched_env.core.sharing.seats import slowdown_by_company
from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.portable.elementary import log
from gpusched_env.simulator import CompiledScheduler, Simulation

FORMAT: Final = "gpusched-sharing-index-1"
# Terms of the score of a waiting job beside a running gang: 1; ln(T_seq / T_con) of Theorem 1 of SJF-BSBF; ln of the
# remaining time of the gang / that of the job; ln of the sizes likewise; ln of how much the job would slow the gang
# down beyond what others do already; ln of the slowdown by the sub-batch that fits; demand of the waiting jobs / (GPUs
# of the cluster + this demand).
TERMS: Final = ("bias", "benefit", "longer", "larger", "slowed", "split", "crowd")


@dataclass(frozen=True)
class SharingRule:
    """The weights of a sharing index. The defaults share by the test of SJF-BSBF.

    Parameters
    ----------
    gang : weight of ln(gang size) in the key of a job, which is ln(remaining time) + this
    weights : of TERMS
    """

    gang: float = 0.0
    weights: tuple[float, ...] = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    @classmethod
    def load(cls, path: Path) -> SharingRule:
        """Read a file that a search has written."""
        with checkpoint(path, FORMAT, "a sharing index") as (_, stored):
            return cls(float(stored["gang"]), weights_of(stored, TERMS))


MEMORY_DTYPE: Final = np.dtype(
    [
        ("gang", "<f8"),  # weight of ln(gang size) in a key
        ("listed", "<i8"),  # entries of ``order``
        ("option", "<i8"),  # sub-batch of the job that starts
    ]
)


class SharingState(Handle):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(MEMORY_DTYPE)
    weights = array(np.float64, "terms")  # of a pair, in the order of rule.TERMS
    order = array(np.int32, "jobs")  # waiting jobs, smallest key first
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")


SHORTEST_S = 1e-3  # [s] shortest remaining time whose logarithm is taken


@kernel
def pair_score(sim: Run, plan: SharingState, row: int, number: int, gpu_type: int, tier: int) -> float:
    """Return the score of a waiting job at ``option`` of a running gang beside this gang; above 0 = it may join."""
    w = sim.world
    r = sim.replicas[number]
    option = r["option"]
    kind = sim.jobs[row]["job_class"]
    beside = r["job_class"]
    left_s = max(work_left(sim, r["job"]) * r["solo_s"], SHORTEST_S)
    whole_s = max(sim.jobs[row]["remaining"] * alone_s(sim, kind, 0, tier, gpu_type), SHORTEST_S)
    new_s = max(sim.jobs[row]["remaining"] * alone_s(sim, kind, option, tier, gpu_type), SHORTEST_S)
    mine, others = sim.interference[kind, beside, gpu_type], sim.interference[beside, kind, gpu_type]
    crowd = w["waiting_gpus"] / w["gpus"]
    score = plan.weights[0]
    score += plan.weights[1] * log(mean_in_sequence(left_s, whole_s) / mean_sharing(left_s, new_s, others, mine))
    score += plan.weights[2] * log(left_s / whole_s)
    score += plan.weights[3] * log(r["gpus"] / sim.jobs[row]["gpus"])
    score += plan.weights[4] * log(others / min(slowdown_by_company(sim, number), others))
    score += plan.weights[5] * log(new_s / whole_s)
    score += plan.weights[6] * (crowd / (1.0 + crowd))
    return score


@kernel
def judge_partner(sim: Run, plan: SharingState, row: int, number: int, tier: int) -> None:
    """Score a pair at the largest sub-batch for which the gang's GPUs have room.

    Sets the fields ``benefit_s`` (minus the score: small values are better), ``option`` and ``offers`` of the gang.
    """
    r = sim.replicas[number]
    kind = sim.jobs[row]["job_class"]
    r["benefit_s"] = np.inf
    r["option"] = -1
    r["offers"] = -1
    for option in range(last_option(sim, kind, SEARCH) + 1):
        offers = -1
        seat = r["first_gpu"]
        while seat >= 0:
            gpu = seat % sim.world["gpus"]
            if (offers < 0 or gpu < offers) and has_room(sim, kind, option, gpu):
                offers = gpu
            seat = sim.gpu_next[seat]
        if offers >= 0:
            r["option"] = option
            score = pair_score(sim, plan, row, number, sim.nodes[sim.gpu_node[offers]]["gpu_type"], tier)
            if score > 0.0:
                r["benefit_s"] = -score
                r["offers"] = offers
            else:
                r["option"] = -1
            return


@kernel
def judge_partners(sim: Run, plan: SharingState, row: int) -> None:
    """Score a waiting job beside each running gang."""
    tier = tightest_tier(sim, sim.jobs[row]["gpus"])
    for i in range(sim.world["running"]):
        number = sim.running[i]
        sim.replicas[number]["offers"] = -1
        if sim.replicas[number]["phase"] == ACTIVE:
            judge_partner(sim, plan, row, number, tier)


@kernel
def order_jobs(sim: Run, plan: SharingState) -> None:
    """Sort the waiting jobs by their keys; ties: the lower row."""
    m = plan.memory
    m["listed"] = sim.world["waiting"]
    for i in range(m["listed"]):
        row = sim.waiting[sim.world["first_waiting"] + i]
        plan.order[i] = row
        size = log(float(sim.jobs[row]["gpus"]))
        plan.keys[row] = log(max(seconds_left(sim, row), SHORTEST_S)) + m["gang"] * size
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, m["listed"])


@kernel
def find_gpus(sim: Run, plan: SharingState, row: int) -> int:
    """Write the GPUs on which a waiting job would start now to ``chosen``; return their number, 0 = it does not fit.

    They are free GPUs if there are enough, otherwise also GPUs of the partners with the best scores.
    """
    if sim.jobs[row]["gpus"] <= sim.world["free_gpus"]:
        count, option = find_shared(sim, row, SEARCH)
    elif sim.world["gpu_jobs"] > 1:
        judge_partners(sim, plan, row)
        count, option = share_within(sim, row, SEARCH | BENEFIT, EVERYWHERE)
    else:
        return 0
    plan.memory["option"] = option
    return count


@policy
@kernel
def next_start(sim: Run, choice: Choice, plan: SharingState) -> int:
    """Write the next start of the walk, on the GPUs in ``chosen``; return START, or NOTHING if the walk is over."""
    m = plan.memory
    c = choice.made
    if c["first"] == BEGINS:
        order_jobs(sim, plan)
        c["share"] = 1
    while c["at"] < m["listed"]:
        c["row"] = plan.order[c["at"]]
        c["at"] += 1
        c["gpus"] = find_gpus(sim, plan, c["row"])
        if c["gpus"] > 0:
            c["sub_steps"] = sim.sub_batches[sim.jobs[c["row"]]["job_class"], m["option"], 0]["sub_steps"]
            return START
    return NOTHING


@dataclass
class SharingIndex(SearchedRule, CompiledScheduler):
    """Start jobs by remaining time and size, on free GPUs or beside partners that a score chooses; never preempt.

    The key of a job is ln(remaining time) + gang x ln(gang size); small keys come first. A waiting job starts on free
    GPUs if there are enough. Otherwise it takes the free GPUs, and GPUs of the running gangs beside which its score is
    above 0, best score first, at the largest sub-batch for which there is room. If that is not enough, it waits.

    Notes
    -----
    Ties: the lower row; among partners the lower GPU. A decision point takes O(waiting x (running + GPUs)).
    """

    policy: ClassVar = next_start
    kind: ClassVar = "sharing index"
    load = SharingRule.load
    clairvoyant: bool = field(init=False, default=True)
    needs = ("sharing",)
    knows_partitions = False  # it expects that no gang is preempted
    knows_node_counts = False

    def begin(self, simulation: Simulation, alone: bool) -> SharingState:
        """Return the arrays of a run."""
        jobs = len(simulation.instance.workload)
        memory = np.zeros((), MEMORY_DTYPE)
        memory["gang"] = self.rule.gang
        return SharingState(
            memory=memory,
            weights=np.array(self.rule.weights),
            order=np.zeros(jobs, np.int32),
            scratch=np.zeros(jobs, np.int32),
            keys=np.zeros(jobs),
            ranks=np.zeros(jobs),
        )
