"""Placement on shared GPUs: the rules share-first-fit and share-best-benefit (docs/sjf_bsbf.md)."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.node_orders import count_gangs, first_gpus_by_gangs, next_node, node_key
from gpusched_env.core.placement.pack import place_packed
from gpusched_env.core.placement.placing import reserve
from gpusched_env.core.placement.rules import RULE_NUMBER, placement_rule
from gpusched_env.core.placement.taking import FREE, unable_somewhere, unreserve
from gpusched_env.core.sharing.choices import BENEFIT, FEWEST_GANGS, ONE_NODE, SEARCH
from gpusched_env.core.sharing.partners import better_pair, has_room, judge_pairs, last_option
from gpusched_env.core.sharing.seats import MEMORY_SLACK
from gpusched_env.core.state import WAITING, Run

PACK: Final = RULE_NUMBER["pack"]
EVERYWHERE: Final = -1
# If enough GPUs are free, both rules place gangs as the rule "pack"; otherwise find_shared chooses the GPUs.
placement_rule(
    "share-first-fit", "as pack; if too few GPUs are free, also GPUs of other jobs, by GPU id; else wait", shares=SEARCH
)(place_packed)
placement_rule(
    "share-best-benefit",
    "as pack; if too few GPUs are free, also GPUs of jobs with which sharing lowers mean JCT; else wait",
    shares=SEARCH | BENEFIT,
)(place_packed)


@kernel
def gpus_of(sim: Run, node: int) -> tuple[int, int]:
    """Return the begin and the end of the GPU ids of a machine, or of the whole cluster if ``node`` is EVERYWHERE."""
    if node == EVERYWHERE:
        return 0, sim.world["gpus"]
    first = sim.nodes[node]["first_gpu"]
    return first, first + sim.nodes[node]["gpus"]


@kernel
def append_gpus_of(sim: Run, row: int, at: int, option: int, number: int, node: int) -> int:
    """Append to ``chosen`` the GPUs of a running gang on a machine that have room for a job; return the end."""
    low, high = gpus_of(sim, node)
    gang, kind = sim.jobs[row]["gpus"], sim.jobs[row]["job_class"]
    last = low - 1
    while at < gang:
        following = -1
        seat = sim.replicas[number]["first_gpu"]
        while seat >= 0:
            gpu = seat % sim.world["gpus"]
            if last < gpu < high and (following < 0 or gpu < following) and has_room(sim, kind, option, gpu):
                following = gpu
            seat = sim.gpu_next[seat]
        if following < 0:
            break
        last = following
        taken = False
        for i in range(at):  # two partners may hold the same GPU
            taken = taken or sim.chosen[i] == following
        if not taken:
            sim.chosen[at] = following
            at += 1
    return at


@kernel
def by_benefit(sim: Run, row: int, at: int, node: int) -> tuple[int, int]:
    """Append to ``chosen`` the GPUs on a machine of the gangs that the job should join, the best pair first.

    Returns the index after the last appended GPU, and the smallest of the sub-batches of the pairs.
    """
    w = sim.world
    gang = sim.jobs[row]["gpus"]
    option = 0
    joined = -1
    while at < gang:
        best = -1
        for i in range(w["running"]):
            number = sim.running[i]
            if (
                sim.replicas[number]["offers"] >= 0
                and (joined < 0 or better_pair(sim, joined, number))
                and (best < 0 or better_pair(sim, number, best))
            ):
                best = number
        if best < 0:
            break
        joined = best
        size = sim.replicas[best]["option"]
        end = append_gpus_of(sim, row, at, size, best, node)
        if end > at:
            option = max(option, size)
        at = end
    return at, option


@kernel
def append_by_id(sim: Run, row: int, at: int, option: int, held: bool, node: int) -> int:
    """Append to ``chosen`` the first GPUs of a machine that have room for a job with a sub-batch; return the end.

    ``held``: only GPUs that other gangs hold; otherwise only free GPUs.
    """
    low, high = gpus_of(sim, node)
    gang, kind = sim.jobs[row]["gpus"], sim.jobs[row]["job_class"]
    for gpu in range(low, high):
        if at < gang and (sim.holder[gpu] != FREE) == held and has_room(sim, kind, option, gpu):
            sim.chosen[at] = gpu
            at += 1
    return at


@kernel
def append_shared_by_gangs(sim: Run, row: int, at: int, option: int) -> int:
    """Append to ``chosen`` held GPUs that have room, machines with the fewest gangs first; return the end."""
    gang = sim.jobs[row]["gpus"]
    key, node = -1, -1
    while at < gang:
        node = next_node(sim, gang, False, key, node)
        if node < 0:
            break
        key = node_key(sim, gang, False, node)
        at = append_by_id(sim, row, at, option, True, node)
    return at


@kernel
def fits_all(sim: Run, kind: int, gang: int, option: int) -> bool:
    """Return whether all chosen GPUs have room for a job class with a sub-batch."""
    for i in range(gang):  # noqa: SIM110 - generators are not compiled
        if not has_room(sim, kind, option, sim.chosen[i]):
            return False
    return True


@kernel
def share_within(sim: Run, row: int, choices: int, node: int) -> tuple[int, int]:
    """Choose the free GPUs of a machine, and shared GPUs for the rest of a gang; see :func:`find_shared`."""
    low, high = gpus_of(sim, node)
    gang, kind = sim.jobs[row]["gpus"], sim.jobs[row]["job_class"]
    by_gangs = choices & (FEWEST_GANGS | ONE_NODE) > 0 and high - low == sim.world["gpus"]
    last = last_option(sim, kind, choices)
    if choices & BENEFIT:
        at = append_by_id(sim, row, 0, last, False, node)
        at, option = by_benefit(sim, row, at, node)
        while at == gang and option <= last:  # the sub-batch of the pairs may be too large for other GPUs
            if fits_all(sim, kind, gang, option):
                return gang, option
            option += 1
        return 0, 0
    for size in range(last + 1):
        at = append_by_id(sim, row, 0, size, False, node)
        at = append_shared_by_gangs(sim, row, at, size) if by_gangs else append_by_id(sim, row, at, size, True, node)
        if at == gang:
            return gang, size
    return 0, 0


@kernel
def on_one_node(sim: Run, row: int, choices: int) -> tuple[int, int]:
    """Choose the GPUs of a gang, free or shared, on the first machine in the order of :func:`next_node` that can."""
    gang = sim.jobs[row]["gpus"]
    key, node = -1, -1
    while True:
        node = next_node(sim, gang, True, key, node)
        if node < 0:
            return 0, 0
        key = node_key(sim, gang, True, node)
        if gang <= sim.nodes[node]["gpus"]:
            count, option = share_within(sim, row, choices, node)
            if count > 0:
                return count, option


@kernel(lazy=True)
def find_shared(sim: Run, row: int, choices: int) -> tuple[int, int]:
    """Write the GPUs that a waiting job would get now to ``chosen``: free GPUs, and shared GPUs if too few are free.

    Nothing is reserved. ``choices`` are flags of core/sharing/choices.py. Returns the number of GPUs (0 = the job does
    not fit), and the index in ``sub_batches`` of the sub-batch with which the job fits.
    """
    w = sim.world
    if row < 0 or row >= w["jobs"] or sim.jobs[row]["status"] != WAITING:
        return 0, 0
    gang = sim.jobs[row]["gpus"]
    kind = sim.jobs[row]["job_class"]
    supply = w["free_gpus"]
    top = (w["gpu_jobs"] - 1) * w["gpus"]
    seats = 0
    for gpu in range(w["gpus"]):
        seats += sim.holder[gpu + top] == FREE
    if gang > seats:
        return 0, 0
    in_sight = choices & (FEWEST_GANGS | ONE_NODE) > 0
    if in_sight:
        count_gangs(sim)
    judged = choices & BENEFIT > 0 and w["gpu_jobs"] > 1
    if judged and (gang > supply or choices & ONE_NODE or unable_somewhere(sim, kind)):
        judge_pairs(sim, row, choices)
    if choices & ONE_NODE:
        count, option = on_one_node(sim, row, choices)
        if count > 0:
            return count, option
    if in_sight:
        end = first_gpus_by_gangs(sim, kind, gang)
    else:
        end = reserve(sim, 0, kind, gang, PACK, supply)
        unreserve(sim, 0, end)
    if end > 0:
        for option in range(sim.sub_batches.shape[1]):  # alone, with the largest sub-batch that fits into memory
            room = sim.sub_batches[kind, option, 0]["sub_steps"] > 0
            for i in range(end):
                gpu_type = sim.nodes[sim.gpu_node[sim.chosen[i]]]["gpu_type"]
                room = room and sim.sub_batches[kind, option, gpu_type]["memory"] <= 1.0 + MEMORY_SLACK
            if room:
                return end, option
        return 0, 0
    if w["gpu_jobs"] == 1:
        return 0, 0
    return share_within(sim, row, choices, EVERYWHERE)
