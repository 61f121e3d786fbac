"""Partitions and reservations in Slurm's passes: free GPUs by cell, and the GPUs of a start.

A cell is a largest set of nodes that belong to the same partitions and reservations and have the same GPU type. A job
may use some of the cells. It gets its GPUs from the cell in which they fit best, else from several cells.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import claim_after_s
from gpusched_env.baselines.slurm.profile import slot_after, slot_of
from gpusched_env.baselines.slurm.state import OPEN, WITHHELD, SlurmState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.placing import reserve
from gpusched_env.core.placement.taking import unreserve
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, Run
from gpusched_env.problem.cluster import MACHINE

FOREVER_S: Final = 1e12  # [s] longest time limit for which slots are counted


@kernel(lazy=True)
def count_free(sim: Run, plan: SlurmState) -> None:
    """Write the free GPUs of each cell to ``unused``."""
    for cell in range(len(plan.unused)):
        plan.unused[cell] = 0
    for node in range(sim.world["nodes"]):
        plan.unused[plan.cell_of[node]] += sim.free[node]


@kernel(lazy=True)
def failed_gpus(sim: Run) -> int:
    """Count the free GPUs of nodes that are closed, if all jobs may use the same nodes."""
    count = 0
    for node in range(sim.world["nodes"]):
        if sim.closed[0, node] > 0:
            count += sim.free[node]
    return count


@kernel(lazy=True)
def begin_cells(sim: Run, plan: SlurmState) -> None:
    """Begin the profiles with the GPUs ``unused``; nothing starts now on nodes that are withheld."""
    slots = plan.cells.shape[1]
    for cell in range(len(plan.unused)):
        for at in range(slots):
            plan.cells[cell, at] = 0
        first = 1 if plan.kept[cell] == WITHHELD else 0
        if first < slots:
            plan.cells[cell, first] = plan.unused[cell]


@kernel(lazy=True)
def time_reservations(sim: Run, plan: SlurmState) -> None:
    """Write the slots in which reservations close nodes."""
    base = slot_of(sim.world["clock_s"], plan.memory["slot_s"])
    for r in range(len(plan.closes_s)):
        plan.shut_from[r] = slot_of(plan.closes_s[r], plan.memory["slot_s"]) - base
        plan.shut_until[r] = slot_after(plan.opens_s[r], plan.memory["slot_s"]) - base


@kernel(lazy=True)
def may_use(sim: Run, plan: SlurmState, request: int, cell: int) -> bool:
    """Return whether a cell is in the partition of a job, and of a GPU type that can run it; reservations aside."""
    kind = plan.kinds[request]
    node = plan.node_in[cell]
    gpu_type = sim.nodes[node]["gpu_type"]
    return plan.within[sim.class_set[kind], cell] > 0 and sim.paces[kind, MACHINE, gpu_type]["iteration_s"] < np.inf


@kernel(lazy=True)
def free_in_partition(sim: Run, plan: SlurmState, request: int) -> int:
    """Count the GPUs ``unused`` of the cells that a job may use in a cycle, reservations aside."""
    count = 0
    for cell in range(len(plan.unused)):
        if plan.unused[cell] > 0 and plan.kept[cell] != WITHHELD and may_use(sim, plan, request, cell):
            count += plan.unused[cell]
    return count


@kernel(lazy=True)
def is_shut(plan: SlurmState, cell: int, begin: int, end: int) -> bool:
    """Return whether one of the ``closers`` closes a cell in one of the slots from ``begin`` until before ``end``."""
    for i in range(plan.closings[cell]):
        r = plan.closers[cell, i]
        if plan.shut_from[r] < end and plan.shut_until[r] > begin:
            return True
    return False


@kernel(lazy=True)
def list_cells(sim: Run, plan: SlurmState, request: int) -> int:
    """Write a job's cells to ``mine``, and the reservations that close them to ``closers``; return their number."""
    count = 0
    group = sim.class_set[plan.kinds[request]]
    for cell in range(len(plan.room)):
        plan.room[cell] = 0
        if may_use(sim, plan, request, cell):
            plan.mine[count] = cell
            count += 1
            plan.closings[cell] = 0
            for r in range(len(plan.closes_s)):
                if plan.holds_cell[r, cell] and sim.barred[r, group] and plan.shut_until[r] > 0:
                    plan.closers[cell, plan.closings[cell]] = r
                    plan.closings[cell] += 1
    return count


@kernel(lazy=True)
def room_in_cells(sim: Run, plan: SlurmState, request: int, count: int, begin: int, end: int) -> int:
    """Write the GPUs of each of ``mine[:count]`` that a job may hold in all slots [begin, end); return their sum.

    0 if those of the first slot are too few. Reservations count up to the job's time limit, also behind the window.
    """
    total = 0
    at_first = 0
    last = end_slot(sim, plan, request, begin)
    for i in range(count):
        cell = plan.mine[i]
        plan.room[cell] = 0
        if not is_shut(plan, cell, begin, last):
            plan.room[cell] = max(plan.cells[cell, begin], 0)
            at_first += plan.room[cell]
    if at_first < sim.jobs[plan.row_of[request]]["gpus"]:
        return 0
    for i in range(count):
        cell = plan.mine[i]
        if plan.room[cell] > 0:
            least = plan.cells[cell, begin]
            for at in range(begin + 1, end):
                least = min(least, plan.cells[cell, at])
            plan.room[cell] = max(least, 0)
            total += plan.room[cell]
    return total


@helper
def limit_left_s(sim: Run, plan: SlurmState, request: int, row: int) -> float:
    """Return the time that a waiting job may still run by the limit of its request, doubled if it has passed it [s]."""
    had_s = sim.jobs[row]["service_s"]
    left_s: float = max(claim_after_s(plan.limit_s[request], had_s, sim.world["clock_s"]) - had_s, 0.0)
    return left_s


@kernel(lazy=True)
def end_slot(sim: Run, plan: SlurmState, request: int, begin: int) -> int:
    """Return the slot before which a job ends by its time limit if it begins in a slot."""
    m = plan.memory
    left_s = min(limit_left_s(sim, plan, request, plan.row_of[request]), FOREVER_S)
    if begin == 0:
        now_s = sim.world["clock_s"]
        return max(slot_after(now_s + left_s, m["slot_s"]) - slot_of(now_s, m["slot_s"]), 1)
    return begin + max(slot_after(left_s, m["slot_s"]), 1)


@kernel(lazy=True)
def some_open(sim: Run, plan: SlurmState, request: int, count: int, begin: int) -> bool:
    """Return whether no reservation closes some cell of ``mine[:count]`` to a job that begins in a slot."""
    last = end_slot(sim, plan, request, begin)
    for i in range(count):  # noqa: SIM110 - generators are not compiled
        if not is_shut(plan, plan.mine[i], begin, last):
            return True
    return False


@kernel(lazy=True)
def last_without_room(sim: Run, plan: SlurmState, request: int, count: int, begin: int, end: int) -> int:
    """Find the last slot of [begin, end) in which the cells ``mine[:count]`` have too few free GPUs for a job."""
    gang = sim.jobs[plan.row_of[request]]["gpus"]
    reserved = len(plan.closes_s) > 0
    at = end - 1
    if count == 1 and not reserved:
        cell = plan.mine[0]
        while at >= begin and plan.cells[cell, at] >= gang:
            at -= 1
        return at
    while at >= begin:
        together = 0
        for i in range(count):
            cell = plan.mine[i]
            if plan.cells[cell, at] > 0 and not (reserved and is_shut(plan, cell, at, at + 1)):
                together += plan.cells[cell, at]
        if together < gang:
            return at
        at -= 1
    return at


@kernel(lazy=True)
def first_room_in_cells(sim: Run, plan: SlurmState, request: int, begin: int, length_now: int, length: int) -> int:
    """Return the first slot, from ``begin`` on, at which a job fits for long enough; -1 = none. Fills ``room``.

    As in profile.py, but a gang keeps its GPUs: the least numbers of free GPUs of its cells must add up to it.
    """
    slots = plan.cells.shape[1]
    count = list_cells(sim, plan, request)
    seen = begin  # the slots from ``begin`` until before this one have enough free GPUs
    while begin < slots:
        if len(plan.closes_s) > 0 and not some_open(sim, plan, request, count, begin):
            begin += 1
            continue
        end = min(begin + (length_now if begin == 0 else length), slots)
        first = max(begin, min(seen, end))
        at = last_without_room(sim, plan, request, count, first, end)
        seen = max(seen, end)
        if at >= first:
            begin = at + 1
        elif room_in_cells(sim, plan, request, count, begin, end) >= sim.jobs[plan.row_of[request]]["gpus"]:
            return begin
        else:
            begin += 1
    return -1


@kernel(lazy=True)
def can_start_in(sim: Run, plan: SlurmState, request: int, cell: int) -> bool:
    """Return whether a job may use a cell, and no reservation needs it now or before the time limit of the job."""
    now_s = sim.world["clock_s"]
    end_s = now_s + limit_left_s(sim, plan, request, plan.row_of[request])
    group = sim.class_set[plan.kinds[request]]
    if not may_use(sim, plan, request, cell):
        return False
    for r in range(len(plan.closes_s)):
        if plan.holds_cell[r, cell] and sim.barred[r, group] and plan.closes_s[r] < end_s and plan.opens_s[r] > now_s:
            return False
    return True


@kernel(lazy=True)
def count_room(sim: Run, plan: SlurmState, request: int) -> int:
    """Write the free GPUs of each cell that no reservation needs before the limit of a job to ``room``."""
    count_free(sim, plan)
    total = 0
    for cell in range(len(plan.room)):
        is_open = plan.kept[cell] == OPEN and can_start_in(sim, plan, request, cell)
        plan.room[cell] = plan.unused[cell] if is_open else 0
        total += plan.room[cell]
    return total


@kernel(lazy=True)
def share_out(plan: SlurmState, gang: int) -> None:
    """Write the GPUs that a gang takes of each cell to ``parts``: one cell by best fit, else the largest ones first.

    Ties: the lowest cell. The sum of ``room`` must be at least the gang.
    """
    best = -1
    for cell in range(len(plan.room)):
        plan.parts[cell] = 0
        if plan.room[cell] >= gang and (best < 0 or plan.room[cell] < plan.room[best]):
            best = cell
    left = gang
    while left > 0:
        if best < 0:
            best = 0
            for cell in range(1, len(plan.room)):
                if plan.room[cell] - plan.parts[cell] > plan.room[best] - plan.parts[best]:
                    best = cell
        count = min(left, plan.room[best] - plan.parts[best])
        plan.parts[best] += count
        left -= count
        best = -1


@kernel(lazy=True)
def place_parts(sim: Run, plan: SlurmState, request: int) -> bool:
    """Write the GPUs of a start to ``chosen``: those that the placement rule takes in each cell; False = no place."""
    kind = plan.kinds[request]
    group = sim.class_set[kind]
    random = sim.world["random"]
    at = 0
    found = True
    for cell in range(len(plan.parts)):
        if plan.parts[cell] > 0 and found:
            for node in range(sim.world["nodes"]):
                if plan.cell_of[node] != cell:
                    sim.closed[group, node] += 1
            end = reserve(sim, at, kind, plan.parts[cell], plan.memory["rule"], sim.world["free_gpus"] - at)
            for node in range(sim.world["nodes"]):
                if plan.cell_of[node] != cell:
                    sim.closed[group, node] -= 1
            found = end == at + plan.parts[cell]
            at = end
    unreserve(sim, 0, at)
    sim.world["random"] = random
    return found


@kernel(lazy=True)
def take_parts(plan: SlurmState, begin: int, end: int) -> None:
    """Take the GPUs of ``parts`` from slot ``begin`` until before slot ``end``."""
    for cell in range(len(plan.parts)):
        if plan.parts[cell] > 0:
            for at in range(begin, min(end, plan.cells.shape[1])):
                plan.cells[cell, at] -= plan.parts[cell]


@kernel(lazy=True)
def add_end(sim: Run, plan: SlurmState, number: int, slot: int) -> None:
    """Add the GPUs of a gang to the free GPUs of their cells from a slot on, before the sums are formed."""
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        plan.cells[plan.cell_of[sim.gpu_node[seat % sim.world["gpus"]]], slot] += 1
        seat = sim.gpu_next[seat]


@kernel(lazy=True)
def sum_cells(plan: SlurmState) -> None:
    """Turn the GPUs that become free in each slot into those that are free."""
    for cell in range(plan.cells.shape[0]):
        for at in range(1, plan.cells.shape[1]):
            plan.cells[cell, at] += plan.cells[cell, at - 1]


@kernel(lazy=True)
def useful_gpus(sim: Run, plan: SlurmState, request: int, number: int) -> int:
    """Count the GPUs of a gang that a job could use, also until its time limit, on nodes not kept for another job."""
    count = 0
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        cell = plan.cell_of[sim.gpu_node[seat % sim.world["gpus"]]]
        if plan.kept[cell] == OPEN and can_start_in(sim, plan, request, cell):
            count += 1
        seat = sim.gpu_next[seat]
    return count


@kernel
def in_grace(sim: Run, number: int) -> bool:
    """Return whether a gang will be preempted at the end of its grace time, which is its lease."""
    r = sim.replicas[number]
    return r["phase"] == ACTIVE and (r["lease_s"] < np.inf or r["lease_over"] == 1)


@kernel
def leaves(sim: Run, number: int) -> bool:
    """Return whether a gang writes a checkpoint, or will be preempted at the end of its grace time."""
    return sim.replicas[number]["phase"] == CHECKPOINTING or in_grace(sim, number)


@kernel(lazy=True)
def needed(sim: Run, plan: SlurmState, request: int) -> int:
    """Return the GPUs that a job lacks, beyond those that are free for it, in checkpoints or in grace times."""
    lacks = sim.jobs[plan.row_of[request]]["gpus"] - count_room(sim, plan, request)
    for i in range(sim.world["running"]):
        if leaves(sim, sim.running[i]):
            lacks -= useful_gpus(sim, plan, request, sim.running[i])
    return lacks


@kernel(lazy=True)
def keep_cells(sim: Run, plan: SlurmState, request: int, how: int) -> None:
    """Keep the nodes of its partition for a job that cannot start, from later jobs of other partitions.

    As in Slurm (``_schedule`` of job_scheduler.c), the rest of the main pass starts nothing on these nodes; if they
    are WITHHELD, neither does a cycle that follows.
    """
    for cell in range(len(plan.kept)):
        if plan.within[sim.class_set[plan.kinds[request]], cell] > 0:
            plan.kept[cell] = max(plan.kept[cell], how)


@kernel(lazy=True)
def all_withheld(plan: SlurmState) -> bool:
    """Return whether no cycle may start anything."""
    for cell in range(len(plan.kept)):  # noqa: SIM110 - generators are not compiled
        if plan.kept[cell] != WITHHELD:
            return False
    return True
