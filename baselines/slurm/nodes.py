"""Plans by node, if some job demands a number of nodes: which nodes a job takes, and from when on.

As Slurm's backfill, a plan for later reserves whole nodes, so that no later job can be in its way there. The nodes of
running jobs become free GPU by GPU. Slots are those of profile.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.slurm.cells import can_start_in, count_room, end_slot, place_parts, share_out
from gpusched_env.baselines.slurm.queue import job_of
from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.placing import fits, reserve
from gpusched_env.core.placement.taking import packs_better, room_of, take, unable, unreserve
from gpusched_env.core.state import Run
from gpusched_env.problem.cluster import MACHINE

FREES, BOOKS, ENDS = range(3)  # lists of entries: GPUs that become free, bookings that begin, bookings that end
NONE: Final = -1  # after the last entry of a list
NEVER: Final = 1 << 40  # [slot]
UNUSABLE: Final = 1 << 20  # barriers


@kernel(lazy=True)
def list_open(sim: Run, plan: SlurmState) -> None:
    """List the nodes with free GPUs; later in the cycle, no others have any."""
    m = plan.memory
    m["open_nodes"] = 0
    for node in range(sim.world["nodes"]):
        plan.soon[node] = NEVER
        if sim.free[node] > 0:
            plan.open_nodes[m["open_nodes"]] = node
            m["open_nodes"] += 1


@kernel(lazy=True)
def begin_nodes(plan: SlurmState) -> None:
    """Begin a cycle without ends of jobs and without bookings."""
    plan.memory["entries"] = 0
    for at in range(plan.first_entry.shape[1]):
        for which in range(ENDS + 1):
            plan.first_entry[which, at] = NONE
    for node in range(len(plan.last_booking)):
        plan.last_booking[node] = NONE


@helper
def add_entry(plan: SlurmState, which: int, slot: int, node: int, count: int) -> int:
    """Add an entry to a list of a slot of the window; return its number."""
    entry = plan.memory["entries"]
    if slot < plan.first_entry.shape[1]:
        plan.entry_node[entry] = node
        plan.entry_count[entry] = count
        plan.entry_next[entry] = plan.first_entry[which, slot]
        plan.first_entry[which, slot] = entry
        plan.memory["entries"] += 1
    return entry


@kernel(lazy=True)
def add_gang_end(sim: Run, plan: SlurmState, number: int, slot: int) -> None:
    """Note that the GPUs of a gang become free in a slot."""
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        node = sim.gpu_node[seat]
        count = 0
        while seat >= 0 and sim.gpu_node[seat] == node:
            count += 1
            seat = sim.gpu_next[seat]
        add_entry(plan, FREES, slot, node, count)


@helper
def is_usable(sim: Run, plan: SlurmState, request: int, node: int) -> bool:
    """Return whether a job may use a node, planned reservations aside; a node that has failed may not be used."""
    kind = plan.kinds[request]
    if sim.world["node_sets"] > 0:
        group = sim.class_set[kind]
        reasons = sim.closed[group, node]
        for r in range(len(plan.closes_s)):
            if plan.holds_cell[r, plan.cell_of[node]] and sim.barred[r, group]:
                reasons -= plan.closes_s[r] <= sim.world["clock_s"] < plan.opens_s[r]
        if reasons > 0:
            return False
    finite: bool = sim.paces[kind, MACHINE, sim.nodes[node]["gpu_type"]]["iteration_s"] < np.inf
    return finite


@helper
def opens_now(sim: Run, plan: SlurmState, request: int, node: int, length: int) -> bool:
    """Return whether a job that takes ``length`` slots from now on may use a node; 0 = a start in the main pass."""
    if (length > 0 and plan.soon[node] < length) or unable(sim, plan.kinds[request], node):
        return False
    if plan.memory["divided"] == 0:
        return True
    cell = plan.cell_of[node]
    return can_start_in(sim, plan, request, cell) and (length > 0 or plan.kept[cell] == 0)


@kernel(lazy=True)
def may_fit(sim: Run, plan: SlurmState, request: int) -> bool:
    """Return whether the gang of a job could start if no node were booked; later starts of the cycle aside."""
    kind = plan.kinds[request]
    if plan.bound_in[kind] != plan.memory["cycle"]:
        plan.bound_in[kind] = plan.memory["cycle"]
        plan.bound[kind] = 0
        for i in range(plan.memory["open_nodes"]):
            node = plan.open_nodes[i]
            if not unable(sim, kind, node):
                plan.bound[kind] += room_of(sim, kind, sim.free[node])
    return sim.jobs[job_of(plan, request)]["gpus"] <= plan.bound[kind]


@kernel(lazy=True)
def has_room_now(sim: Run, plan: SlurmState, request: int, length: int) -> bool:
    """Return whether the gang of a job finds room in the first ``length`` slots on nodes that are not booked."""
    gang = sim.jobs[job_of(plan, request)]["gpus"]
    if gang > sim.world["free_gpus"] or not may_fit(sim, plan, request):
        return False
    room = 0
    for i in range(plan.memory["open_nodes"]):
        node = plan.open_nodes[i]
        if sim.free[node] > 0 and opens_now(sim, plan, request, node, length):
            room += room_of(sim, plan.kinds[request], sim.free[node])
            if room >= gang:
                return True
    return False


@kernel(lazy=True)
def place_on_nodes(sim: Run, plan: SlurmState, request: int, length: int) -> bool:
    """Write the GPUs of a start to ``chosen``: those that the rule takes on nodes that :func:`opens_now` tells."""
    gang = sim.jobs[job_of(plan, request)]["gpus"]
    random = sim.world["random"]
    first = 0
    for node in range(sim.world["nodes"]):
        if sim.free[node] > 0 and not opens_now(sim, plan, request, node, length):
            first = take(sim, node, sim.free[node], first)
    end = reserve(sim, first, plan.kinds[request], gang, plan.memory["rule"], sim.world["free_gpus"] - first)
    sim.world["random"] = random
    unreserve(sim, 0, end)
    for i in range(first, end):
        sim.chosen[i - first] = sim.chosen[i]
    return end == first + gang


@helper
def bar(sim: Run, plan: SlurmState, node: int, step: int) -> int:
    """Count a reason more or less not to use a node, if the search has met it; return the change of the room [GPU]."""
    if plan.met_in[node] != plan.memory["search"]:
        return 0
    before = plan.barriers[node]
    plan.barriers[node] = before + step
    if before == 0:
        return -plan.rooms[plan.have[node]]
    return plan.rooms[plan.have[node]] if before + step == 0 else 0


@kernel(lazy=True)
def meet(sim: Run, plan: SlurmState, request: int, node: int, begin: int, end: int) -> int:
    """Note the GPUs of a node that are free now, and why a job cannot use it in some slot of [begin, end).

    Returns the GPUs that the gang of the job may use.
    """
    m = plan.memory
    plan.met_in[node] = m["search"]
    plan.near[m["near"]] = node
    m["near"] += 1
    plan.have[node] = sim.free[node]
    reasons = 0 if is_usable(sim, plan, request, node) else UNUSABLE
    entry = plan.last_booking[node]
    while entry >= 0:
        reasons += plan.entry_begin[entry] < end and plan.entry_count[entry] > begin
        entry = plan.entry_before[entry]
    for r in range(len(plan.closes_s)):
        reasons += plan.shut[r] * plan.holds_cell[r, plan.cell_of[node]]
    plan.barriers[node] = reasons
    return plan.rooms[plan.have[node]] if reasons == 0 else 0


@kernel(lazy=True)
def first_on_nodes(sim: Run, plan: SlurmState, request: int, length: int) -> int:
    """Return the first slot after the present one from which nodes have room for a job for ``length`` slots; -1 = none.

    Only nodes with free GPUs are looked at, and what changes from slot to slot. O(slots + ends of jobs + bookings).
    """
    m = plan.memory
    slots = plan.first_entry.shape[1]
    gang = sim.jobs[job_of(plan, request)]["gpus"]
    full = end_slot(sim, plan, request, 1) - 1 if len(plan.closes_s) > 0 else 0
    m["search"] += 1
    m["near"] = 0
    for count in range(len(plan.rooms)):
        plan.rooms[count] = room_of(sim, plan.kinds[request], count)
    for r in range(len(plan.closes_s)):
        plan.shut[r] = 0
    room = 0
    for i in range(m["open_nodes"]):
        if sim.free[plan.open_nodes[i]] > 0:
            room += meet(sim, plan, request, plan.open_nodes[i], 0, length)
    for at in range(1, slots):
        entry = plan.first_entry[BOOKS, at + length - 1] if at + length - 1 < slots else NONE
        while entry >= 0:
            room += bar(sim, plan, plan.entry_node[entry], 1)
            entry = plan.entry_next[entry]
        entry = plan.first_entry[ENDS, at]
        while entry >= 0:
            room += bar(sim, plan, plan.entry_node[entry], -1)
            entry = plan.entry_next[entry]
        if len(plan.closes_s) > 0:
            room += shut_nodes(sim, plan, request, at, at + full)
        entry = plan.first_entry[FREES, at]
        while entry >= 0:
            node = plan.entry_node[entry]
            if plan.met_in[node] != m["search"]:
                room += meet(sim, plan, request, node, at, at + length)
            before = plan.have[node]
            plan.have[node] = before + plan.entry_count[entry]
            if plan.barriers[node] == 0:
                room += plan.rooms[plan.have[node]] - plan.rooms[before]
            entry = plan.entry_next[entry]
        if room >= gang:
            return at
    return NONE


@kernel(lazy=True)
def shut_nodes(sim: Run, plan: SlurmState, request: int, begin: int, end: int) -> int:
    """Apply the planned reservations that close nodes in some slot of [begin, end); return the change of the room."""
    change = 0
    for r in range(len(plan.closes_s)):
        shut = plan.shut_from[r] < end and plan.shut_until[r] > begin
        if shut != (plan.shut[r] == 1) and sim.barred[r, sim.class_set[plan.kinds[request]]]:
            plan.shut[r] = 1 if shut else 0
            for node in range(sim.world["nodes"]):
                if plan.holds_cell[r, plan.cell_of[node]]:
                    change += bar(sim, plan, node, 1 if shut else -1)
    return change


@kernel(lazy=True)
def book_nodes(plan: SlurmState, begin: int, end: int, gang: int) -> None:
    """Book the nodes of a gang, found by :func:`first_on_nodes`, for the slots from ``begin`` until before ``end``.

    Each is the one with least room for the rest of the gang, else with most. Ties: the fewest free GPUs, then the
    lowest number.
    """
    left = gang
    while left > 0:
        best = NONE
        for i in range(plan.memory["near"]):
            node = plan.near[i]
            if plan.barriers[node] == 0 and suits(plan, node, best, left):
                best = node
        left -= plan.rooms[plan.have[best]]
        plan.barriers[best] = UNUSABLE
        plan.soon[best] = min(plan.soon[best], begin)
        entry = add_entry(plan, BOOKS, begin, best, end)
        plan.entry_begin[entry] = begin
        plan.entry_before[entry] = plan.last_booking[best]
        plan.last_booking[best] = entry
        add_entry(plan, ENDS, end, best, 0)


@helper
def suits(plan: SlurmState, node: int, best: int, left: int) -> bool:
    """Return whether a node suits ``left`` GPUs of a gang better than another; -1 = none."""
    room = plan.rooms[plan.have[node]]
    than = plan.rooms[plan.have[best]] if best >= 0 else 0
    if room != than:
        return packs_better(room, than, left)
    return best >= 0 and (plan.have[node], node) < (plan.have[best], best)


@kernel(lazy=True)
def add_start(sim: Run, plan: SlurmState, slot: int, gang: int) -> None:
    """Note when the GPUs ``chosen`` of a gang that starts now become free."""
    i = 0
    while i < gang:
        node = sim.gpu_node[sim.chosen[i]]
        count = 0
        while i < gang and sim.gpu_node[sim.chosen[i]] == node:
            count += 1
            i += 1
        add_entry(plan, FREES, slot, node, count)


@kernel
def fits_main(sim: Run, plan: SlurmState, request: int) -> bool:
    """Return whether a job can start in the main pass; with partitions, its GPUs are then in ``chosen``."""
    m = plan.memory
    gang = sim.jobs[job_of(plan, request)]["gpus"]
    if gang > sim.world["free_gpus"]:
        return False
    if m["divided"] == 0:
        return fits(sim, plan.kinds[request], gang, m["rule"])
    if m["by_node"]:
        return place_on_nodes(sim, plan, request, 0)
    if count_room(sim, plan, request) < gang:
        return False
    share_out(plan, gang)
    return place_parts(sim, plan, request)


@kernel(lazy=True)
def fits_cycle(sim: Run, plan: SlurmState, request: int, length: int) -> bool:
    """Return whether the rule finds GPUs for a job that has room in ``length`` slots, as :func:`fits_main`."""
    m = plan.memory
    gang = sim.jobs[job_of(plan, request)]["gpus"]
    if m["by_node"]:
        return place_on_nodes(sim, plan, request, length)
    if m["divided"] == 0:
        return fits(sim, plan.kinds[request], gang, m["rule"])
    share_out(plan, gang)
    return place_parts(sim, plan, request)
