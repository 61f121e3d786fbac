"""Which running gangs a waiting job should join, and at which sub-batch: Theorem 1 of SJF-BSBF (sjf_bsbf.md 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK, RACK
from gpusched_env.simulator.flows import micro_s
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.pairs import mean_in_sequence, mean_sharing
from gpusched_env.simulator.seats import MEMORY_SLACK, has_seat, may_share, memory_left
from gpusched_env.simulator.sharing_choices import EXACT_TIE, MEASURED, SEARCH
from gpusched_env.simulator.state import ACTIVE
from gpusched_env.simulator.taking import unable

Array = np.ndarray[Any, Any]


@helper
def tightest_tier(world: Array, racks: Array, b: int, gang: int) -> int:
    """Tier of a gang on as few machines as the empty cluster offers."""
    if gang <= world[b]["node_gpus"]:
        return int64(MACHINE)
    for rack in range(world[b]["racks"]):
        if gang <= racks[b, rack]["gpus"]:
            return int64(RACK)
    return int64(NETWORK)


@helper
def alone_s(paces: Array, sub_batches: Array, b: int, kind: int, option: int, tier: int, gpu_type: int) -> float:
    """Seconds of one iteration of a job class at a sub-batch, alone on its GPUs [s]."""
    size = sub_batches[b, kind, option, gpu_type]
    pace = paces[b, kind, tier, gpu_type]
    if size["sub_steps"] == 1:
        return pace["iteration_s"]
    share = size["compute_share"]
    return (size["sub_steps"] - 1) * share * pace["compute_s"] + micro_s(pace, share)


@helper
def has_room(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    sub_batches: Array, interference: Array, b: int, kind: int, option: int, gpu: int,
) -> bool:
    """Tell whether a gang of a class may take a seat on a GPU, free or not, at a sub-batch."""
    if not has_seat(world, holder, b, gpu):
        return False
    gpu_type = int64(nodes[b, gpu_node[b, gpu]]["gpu_type"])
    left = memory_left(world, jobs, replicas, nodes, holder, gpu_node, sub_batches, b, gpu)
    if sub_batches[b, kind, option, gpu_type]["memory"] > left + MEMORY_SLACK:
        return False
    if unable(paces, b, kind, gpu_type):
        return False
    return may_share(world, jobs, replicas, nodes, holder, gpu_node, interference, b, gpu, kind)


@helper
def last_option(sub_batches: Array, b: int, kind: int, choices: int) -> int:
    """Find the smallest sub-batch of a class that is looked at."""
    last = sub_batches.shape[2] - 1 if choices & SEARCH else 0
    while sub_batches[b, kind, last, 0]["sub_steps"] == 0:
        last -= 1
    return int64(last)


@helper
def judge_pair(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    paces: Array, sub_batches: Array, interference: Array, b: int, row: int, number: int, tier: int, work_left: float,
    choices: int,
) -> None:
    """Find the sub-batch at which a waiting job would best join a running gang, and the pair's mean JCT then.

    Fills the gang's ``benefit_s`` (inf = it should not join), ``option`` and ``offers``. A smaller sub-batch never
    makes an iteration shorter, so on one GPU type the largest that fits is the best, and a pair that loses with the
    whole batch loses with every other.
    """
    w = world[b]
    r = replicas[b, number]
    kind = int64(jobs[b, row]["job_class"])
    beside = int64(jobs[b, r["job"]]["job_class"])
    r["benefit_s"] = np.inf
    r["option"] = -1
    r["offers"] = -1
    left_s = work_left * (r["iteration_s"] if choices & MEASURED else r["solo_s"])
    remaining = jobs[b, row]["remaining"]
    one_type = paces.shape[3] == 1
    if one_type:
        whole_s = remaining * alone_s(paces, sub_batches, b, kind, int64(0), tier, int64(0))
        sequence_s = mean_in_sequence(left_s, whole_s)
        sharing_s = mean_sharing(left_s, whole_s, interference[b, beside, kind, 0], interference[b, kind, beside, 0])
        if not sequence_s - sharing_s > EXACT_TIE * sequence_s:
            return
    for option in range(last_option(sub_batches, b, kind, choices) + 1):
        offers = int64(-1)
        seat = int64(r["first_gpu"])
        while seat >= 0:
            gpu = seat % w["gpus"]
            if (offers < 0 or gpu < offers) and has_room(
                world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind,
                int64(option), gpu,
            ):
                offers = gpu
            seat = int64(gpu_next[b, seat])
        if offers < 0:
            continue
        gpu_type = int64(nodes[b, gpu_node[b, offers]]["gpu_type"])
        whole_s = remaining * alone_s(paces, sub_batches, b, kind, int64(0), tier, gpu_type)
        new_s = remaining * alone_s(paces, sub_batches, b, kind, int64(option), tier, gpu_type)
        sequence_s = mean_in_sequence(left_s, whole_s)
        sharing_s = mean_sharing(
            left_s, new_s, interference[b, beside, kind, gpu_type], interference[b, kind, beside, gpu_type]
        )
        if sequence_s - sharing_s > EXACT_TIE * sequence_s and sharing_s < r["benefit_s"]:
            r["benefit_s"] = sharing_s
            r["option"] = option
            r["offers"] = offers
        if one_type:
            break


@helper
def judge_pairs(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, sub_batches: Array, interference: Array, b: int, row: int,
    choices: int,
) -> None:
    """Judge a waiting job beside each running gang."""
    w = world[b]
    tier = tightest_tier(world, racks, b, int64(jobs[b, row]["gpus"]))
    for i in range(w["running"]):
        number = int64(running[b, i])
        r = replicas[b, number]
        r["offers"] = -1
        if r["phase"] == ACTIVE:
            elapsed = max(w["clock_s"] - r["since_s"], 0.0)
            left = max(jobs[b, r["job"]]["remaining"] - elapsed / r["iteration_s"], 0.0)
            judge_pair(
                world, jobs, replicas, nodes, holder, gpu_next, gpu_node, paces, sub_batches, interference, b, row,
                number, tier, left, choices,
            )


@helper
def better_pair(replicas: Array, b: int, one: int, other: int) -> bool:
    """Tell whether a waiting job should rather join gang ``one``: least mean JCT, then the lowest GPU."""
    first, second = replicas[b, one], replicas[b, other]
    if first["benefit_s"] != second["benefit_s"]:
        return first["benefit_s"] < second["benefit_s"]
    if first["offers"] != second["offers"]:
        return first["offers"] < second["offers"]
    return one < other
