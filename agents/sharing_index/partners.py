"""Beside which running gangs a waiting job may start: a linear score of each pair."""

from __future__ import annotations

import numpy as np

from gpusched_env.agents.sharing_index.state import SharingState
from gpusched_env.core.events import work_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.sharing.choices import SEARCH
from gpusched_env.core.sharing.partners import alone_s, has_room, last_option, tightest_tier
from gpusched_env.core.sharing.seats import slowdown_by_company
from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.portable.elementary import log

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
