"""The GPUs of a gang that starts: reserve them, choose its sub-batch, and hold them."""

from __future__ import annotations

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.parts import in_whole_parts
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import in_parts, is_closed, unable
from gpusched_env.core.refusals import APPLIED, BAD_GPUS, CANNOT_RUN, IS_CLOSED, MAY_NOT_SHARE, NO_MEMORY, SPLITS_PART
from gpusched_env.core.sharing.seats import (
    largest_sub_batch,
    leave_seats,
    may_share,
    reserved_seat,
    take_seat,
    tell_neighbours,
)
from gpusched_env.core.state import Run


@kernel(lazy=True)
def reserve_given(sim: Run, kind: int, gang: int, given: int, share: bool) -> int:
    """Reserve the GPUs ``chosen[:given]`` for a job class; return an index into REFUSALS, APPLIED = all of them.

    They are those of copies of ``gang`` GPUs. ``share``: other gangs may hold some of them. Of GPUs that are refused,
    none stays reserved.
    """
    for i in range(given):
        gpu = sim.chosen[i]
        if not take_seat(sim, gpu, share):
            leave_seats(sim, 0, i)
            return BAD_GPUS
        node = sim.gpu_node[gpu]
        if unable(sim, kind, node):
            leave_seats(sim, 0, i + 1)
            return IS_CLOSED if is_closed(sim, kind, node) else CANNOT_RUN
    for copy in range(given // gang if in_parts(sim, kind) else 0):
        if not in_whole_parts(sim, kind, copy * gang, (copy + 1) * gang):
            leave_seats(sim, 0, given)
            return SPLITS_PART
    return APPLIED


@kernel(lazy=True)
def class_there(sim: Run, row: int, given: int) -> int:
    """Return the class of a job in the first of its partitions that has all GPUs ``chosen[:given]``, else its own."""
    for choice in range(sim.first_choice[row], sim.first_choice[row + 1]):
        kind = sim.choices[choice]["job_class"]
        inside = True
        for i in range(given):
            gpu = sim.chosen[i]
            inside = inside and gpu >= 0 and not unable(sim, kind, sim.gpu_node[gpu])
        if inside:
            return kind
    return sim.jobs[row]["job_class"]


@kernel(lazy=True)
def enter_partition(sim: Run, row: int, kind: int) -> None:
    """Let a job belong to the first of its partitions in which it has this class; the time limit is that of there."""
    choice = sim.first_choice[row]
    while sim.choices[choice]["job_class"] != kind:
        choice += 1
    sim.jobs[row]["job_class"] = kind
    sim.jobs[row]["limit_s"] = sim.choices[choice]["limit_s"]


@kernel(lazy=True)
def reserve_shared(sim: Run, row: int, way: int) -> tuple[int, int]:
    """Reserve the GPUs that a sharing rule finds for a waiting job; return their number and the job's sub-steps there.

    ``way`` is the field ``shares`` of the rule. The number is 0 if the rule finds no place.
    """
    taken, sub_batch = find_shared(sim, row, way)
    if taken == 0:
        return 0, 0
    for i in range(taken):
        take_seat(sim, sim.chosen[i], True)
    return taken, sim.sub_batches[sim.jobs[row]["job_class"], sub_batch, 0]["sub_steps"]


@kernel(lazy=True)
def choose_sub_batch(sim: Run, kind: int, taken: int, sub_steps: int) -> tuple[int, int]:
    """Choose the sub-batch of a job class on the reserved GPUs ``chosen[:taken]``; leave the GPUs if none suits.

    ``sub_steps`` 0 = the smallest number for which the memory suffices. Returns an index into REFUSALS (APPLIED = there
    is such a sub-batch, and the job's model may share these GPUs), and the index of the sub-batch.
    """
    option = largest_sub_batch(sim, kind, taken, sub_steps)
    welcome = True
    for i in range(taken):
        welcome = welcome and may_share(sim, sim.chosen[i], kind)
    if option >= 0 and welcome:
        return APPLIED, option
    leave_seats(sim, 0, taken)
    return NO_MEMORY if welcome else MAY_NOT_SHARE, 0


@helper
def hold(sim: Run, number: int, taken: int) -> None:
    """Give a replica the reserved GPUs ``chosen[:taken]``, and write them to the log buffer of GPUs."""
    w = sim.world
    before = -1
    for i in range(taken):
        gpu = sim.chosen[i]
        seat = reserved_seat(sim, gpu)
        sim.holder[seat] = number
        sim.gpu_next[seat] = -1
        if before >= 0:
            sim.gpu_next[before] = seat
        else:
            sim.replicas[number]["first_gpu"] = seat
        before = seat
        if seat == gpu:
            sim.busy[gpu]["since_s"] = w["clock_s"]
            w["free_gpus"] -= 1
        sim.event_gpus[w["event_gpus"] + i] = gpu


@kernel(lazy=True)
def meet_company(sim: Run, number: int) -> None:
    """Mark a gang that starts on ``chosen`` GPUs, and its new neighbours there: their slowdowns must be computed."""
    r = sim.replicas[number]
    r["told_s"] = -1.0
    r["company_changed"] = 1
    if sim.world["contention"] == 0:
        r["bottleneck"] = -1
    for i in range(r["gpus"]):
        tell_neighbours(sim, sim.chosen[i])
