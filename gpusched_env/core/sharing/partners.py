"""Which running gangs a waiting job should join, and at which sub-batch: Theorem 1 of SJF-BSBF (docs/sjf_bsbf.md)."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.flows import micro_s
from gpusched_env.core.placement.taking import unable
from gpusched_env.core.sharing.choices import EXACT_TIE, MEASURED, SEARCH
from gpusched_env.core.sharing.seats import MEMORY_SLACK, has_seat, may_share, memory_left
from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK


@kernel
def tightest_tier(sim: Run, gang: int) -> int:
    """The tightest tier at which the empty cluster can hold a gang."""
    if gang <= sim.world["node_gpus"]:
        return MACHINE
    for rack in range(sim.world["racks"]):
        if gang <= sim.racks[rack]["gpus"]:
            return RACK
    return NETWORK


@kernel
def alone_s(sim: Run, kind: int, option: int, tier: int, gpu_type: int) -> float:
    """Return the time of one iteration of a job class with a sub-batch, alone on its GPUs [s]."""
    size = sim.sub_batches[kind, option, gpu_type]
    pace = sim.paces[kind, tier, gpu_type]
    if size["sub_steps"] == 1:
        return pace["iteration_s"]
    share = size["compute_share"]
    return (size["sub_steps"] - 1) * share * pace["compute_s"] + micro_s(pace, share)


@kernel
def has_room(sim: Run, kind: int, option: int, gpu: int) -> bool:
    """Return whether a gang of a job class, with a given sub-batch, may take a seat on a GPU, free or not."""
    if not has_seat(sim, gpu):
        return False
    gpu_type = sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
    left = memory_left(sim, gpu)
    if sim.sub_batches[kind, option, gpu_type]["memory"] > left + MEMORY_SLACK:
        return False
    if unable(sim, kind, sim.gpu_node[gpu]):
        return False
    return may_share(sim, gpu, kind)


@kernel
def last_option(sim: Run, kind: int, choices: int) -> int:
    """Find the last option, which is the smallest sub-batch, that the search may choose for a job class."""
    last = sim.sub_batches.shape[1] - 1 if choices & SEARCH else 0
    while sim.sub_batches[kind, last, 0]["sub_steps"] == 0:
        last -= 1
    return last


@kernel
def judge_pair(sim: Run, row: int, number: int, tier: int, work_left: float, choices: int) -> None:
    """Find the best sub-batch for a waiting job that joins a running gang, and the mean JCT of the pair.

    Sets the fields ``benefit_s`` (inf = the job should not join), ``option`` and ``offers`` of the gang. A smaller
    sub-batch never makes an iteration shorter. So with one GPU type, the largest sub-batch that fits is the best one,
    and if sharing does not help with the whole batch, it does not help with any sub-batch.
    """
    w = sim.world
    r = sim.replicas[number]
    kind = sim.jobs[row]["job_class"]
    beside = sim.jobs[r["job"]]["job_class"]
    r["benefit_s"] = np.inf
    r["option"] = -1
    r["offers"] = -1
    left_s = work_left * (r["iteration_s"] if choices & MEASURED else r["solo_s"])
    remaining = sim.jobs[row]["remaining"]
    one_type = w["types"] == 1
    if one_type:
        whole_s = remaining * alone_s(sim, kind, 0, tier, 0)
        sequence_s = mean_in_sequence(left_s, whole_s)
        sharing_s = mean_sharing(left_s, whole_s, sim.interference[beside, kind, 0], sim.interference[kind, beside, 0])
        if not sequence_s - sharing_s > EXACT_TIE * sequence_s:
            return
    for option in range(last_option(sim, kind, choices) + 1):
        offers = -1
        seat = r["first_gpu"]
        while seat >= 0:
            gpu = seat % w["gpus"]
            if (offers < 0 or gpu < offers) and has_room(sim, kind, option, gpu):
                offers = gpu
            seat = sim.gpu_next[seat]
        if offers < 0:
            continue
        gpu_type = sim.nodes[sim.gpu_node[offers]]["gpu_type"]
        whole_s = remaining * alone_s(sim, kind, 0, tier, gpu_type)
        new_s = remaining * alone_s(sim, kind, option, tier, gpu_type)
        sequence_s = mean_in_sequence(left_s, whole_s)
        sharing_s = mean_sharing(
            left_s, new_s, sim.interference[beside, kind, gpu_type], sim.interference[kind, beside, gpu_type]
        )
        if sequence_s - sharing_s > EXACT_TIE * sequence_s and sharing_s < r["benefit_s"]:
            r["benefit_s"] = sharing_s
            r["option"] = option
            r["offers"] = offers
        if one_type:
            break


@kernel
def judge_pairs(sim: Run, row: int, choices: int) -> None:
    """Apply :func:`judge_pair` to a waiting job and each running gang."""
    w = sim.world
    tier = tightest_tier(sim, sim.jobs[row]["gpus"])
    for i in range(w["running"]):
        number = sim.running[i]
        r = sim.replicas[number]
        r["offers"] = -1
        if r["phase"] == ACTIVE:
            elapsed = max(w["clock_s"] - r["since_s"], 0.0)
            left = max(sim.jobs[r["job"]]["remaining"] - elapsed / r["iteration_s"], 0.0)
            judge_pair(sim, row, number, tier, left, choices)


@kernel
def better_pair(sim: Run, one: int, other: int) -> bool:
    """Return whether ``one`` is better to join than ``other``: smaller mean JCT, then lower GPU, then lower replica."""
    first, second = sim.replicas[one], sim.replicas[other]
    if first["benefit_s"] != second["benefit_s"]:
        return first["benefit_s"] < second["benefit_s"]
    if first["offers"] != second["offers"]:
        return first["offers"] < second["offers"]
    return one < other
