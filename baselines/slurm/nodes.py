"""Plans by node, if some job demands a number of nodes: which nodes a job takes, and from when on.

As Slurm's backfill, a plan for later reserves whole nodes, so that no later job can be in its way there. The nodes of
running jobs become free GPU by GPU. Slots are those of profile.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.slurm.cells import can_start_in, count_room, end_slot, place_parts, share_out
from gpusched_env.baselines.slurm.queue import job_of
from gpusched_env.baselines.slurm.state import KEPT, OPEN, SlurmState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.placing import fits, reserve
from gpusched_env.core.placement.taking import packs_better, room_of, take, unable, unreserve
from gpusched_env.core.state import Run
from gpusched_env.problem.cluster import MACHINE

NONE: Final = -1  # after the last entry of a list
NEVER: Final = 1 << 40  # [slot]
UNUSABLE: Final = 1 << 20  # barriers


@kernel(lazy=True)
def list_open(sim: Run, plan: SlurmState) -> None:
    """List the nodes with free GPUs; later in the cycle, no others have any."""
    m = plan.memory
    m["open_nodes"] = 0
    for node in range(sim.world["nodes"]):
        plan.places[node]["soon"] = NEVER
        if sim.free[node] > 0:
            plan.open_nodes[m["open_nodes"]] = node
            m["open_nodes"] += 1


@kernel(lazy=True)
def begin_nodes(plan: SlurmState) -> None:
    """Begin a cycle without ends of jobs and without bookings."""
    plan.memory["entries"] = 0
    for at in range(len(plan.first_entry)):
        plan.first_entry[at]["frees"] = NONE
        plan.first_entry[at]["books"] = NONE
        plan.first_entry[at]["ends"] = NONE
    for node in range(len(plan.places)):
        plan.places[node]["last_booking"] = NONE


@helper
def new_entry(plan: SlurmState, node: int, count: int, following: int) -> int:
    """Add an entry before another one of the same list; return its number."""
    number = plan.memory["entries"]
    plan.entries[number]["node"] = node
    plan.entries[number]["count"] = count
    plan.entries[number]["next"] = following
    plan.memory["entries"] += 1
    return number


@helper
def add_free(plan: SlurmState, slot: int, node: int, count: int) -> None:
    """Note that GPUs of a node become free in a slot, if it is in the window."""
    if slot < len(plan.first_entry):
        plan.first_entry[slot]["frees"] = new_entry(plan, node, count, plan.first_entry[slot]["frees"])


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
        add_free(plan, slot, node, count)


@helper
def is_usable(sim: Run, plan: SlurmState, request: int, node: int) -> bool:
    """Return whether a job may use a node, planned reservations aside; a node that has failed may not be used."""
    kind = plan.kinds[request]
    if sim.world["node_sets"] > 0:
        group = sim.class_set[kind]
        reasons = sim.closed[group, node]
        for r in range(len(plan.closes_s)):
            if plan.holds_cell[r, plan.cell_of[node]] and sim.barred[r, group]:
                in_force = plan.closes_s[r] <= sim.world["clock_s"] < plan.opens_s[r]
                reasons -= plan.step[r] if in_force else 0
        if reasons > 0:
            return False
    finite: bool = sim.paces[kind, MACHINE, sim.nodes[node]["gpu_type"]]["iteration_s"] < np.inf
    return finite


@helper
def opens_now(sim: Run, plan: SlurmState, request: int, node: int, length: int) -> bool:
    """Return whether a job that takes ``length`` slots from now on may use a node; 0 = a start in the main pass."""
    if (length > 0 and plan.places[node]["soon"] < length) or unable(sim, plan.kinds[request], node):
        return False
    if plan.memory["divided"] == 0:
        return True
    cell = plan.cell_of[node]
    return plan.kept[cell] <= (KEPT if length > 0 else OPEN) and can_start_in(sim, plan, request, cell)


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
def bar(plan: SlurmState, node: int, step: int) -> int:
    """Count a reason more or less not to use a node, if the search has met it; return the change of the room [GPU]."""
    place = plan.places[node]
    if place["met_in"] != plan.memory["search"]:
        return 0
    before = place["barriers"]
    place["barriers"] = before + step
    if before == 0:
        return -plan.rooms[place["have"]]
    return plan.rooms[place["have"]] if before + step == 0 else 0


@helper
def meet(sim: Run, plan: SlurmState, request: int, node: int, begin: int, end: int) -> None:
    """Note the GPUs of a node that are free now, and why a job cannot use it in some slot of [begin, end)."""
    m = plan.memory
    place = plan.places[node]
    place["met_in"] = m["search"]
    plan.near[m["near"]] = node
    m["near"] += 1
    place["have"] = sim.free[node]
    reasons = 0
    entry = place["last_booking"]
    while entry >= 0:
        reasons += plan.entries[entry]["begin"] < end and plan.entries[entry]["count"] > begin
        entry = plan.entries[entry]["before"]
    if m["everywhere"] == 0:
        reasons += 0 if is_usable(sim, plan, request, node) else UNUSABLE
        for r in range(len(plan.closes_s)):
            reasons += plan.shut[r] == 1 and plan.holds_cell[r, plan.cell_of[node]] == 1
    place["barriers"] = reasons


@kernel(lazy=True)
def begin_search(sim: Run, plan: SlurmState, request: int, length: int) -> int:
    """Meet the nodes with free GPUs; return the GPUs that the gang of a job may use of them for ``length`` slots."""
    m = plan.memory
    m["search"] += 1
    m["near"] = 0
    m["everywhere"] = sim.world["node_sets"] == 0 and sim.world["types"] == 1
    for count in range(len(plan.rooms)):
        plan.rooms[count] = room_of(sim, plan.kinds[request], count)
    for r in range(len(plan.closes_s)):
        plan.shut[r] = 0
    room = 0
    for i in range(m["open_nodes"]):
        node = plan.open_nodes[i]
        if sim.free[node] > 0:
            meet(sim, plan, request, node, 0, length)
            room += plan.rooms[plan.places[node]["have"]] if plan.places[node]["barriers"] == 0 else 0
    return room


@kernel(lazy=True)
def first_on_nodes(sim: Run, plan: SlurmState, request: int, length: int) -> int:
    """Return the first slot after the present one from which nodes have room for a job for ``length`` slots; -1 = none.

    Only nodes with free GPUs are looked at, and what changes from slot to slot. O(slots + ends of jobs + bookings).
    """
    slots = len(plan.first_entry)
    gang = sim.jobs[job_of(plan, request)]["gpus"]
    full = end_slot(sim, plan, request, 1) - 1 if len(plan.closes_s) > 0 else 0
    room = begin_search(sim, plan, request, length)
    search = plan.memory["search"]
    first, entries, places, rooms = plan.first_entry, plan.entries, plan.places, plan.rooms  # looked up once
    for at in range(1, slots):
        entry = first[at + length - 1]["books"] if at + length - 1 < slots else NONE
        while entry >= 0:
            room += bar(plan, entries[entry]["node"], 1)
            entry = entries[entry]["next"]
        entry = first[at]["ends"]
        while entry >= 0:
            room += bar(plan, entries[entry]["node"], -1)
            entry = entries[entry]["next"]
        if len(plan.closes_s) > 0:
            room += shut_nodes(sim, plan, request, at, at + full)
        entry = first[at]["frees"]
        while entry >= 0:
            node = entries[entry]["node"]
            if places[node]["met_in"] != search:
                meet(sim, plan, request, node, at, at + length)
                room += rooms[places[node]["have"]] if places[node]["barriers"] == 0 else 0
            before = places[node]["have"]
            places[node]["have"] = before + entries[entry]["count"]
            if places[node]["barriers"] == 0:
                room += rooms[places[node]["have"]] - rooms[before]
            entry = entries[entry]["next"]
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
                    change += bar(plan, node, 1 if shut else -1)
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
            if plan.places[node]["barriers"] == 0 and suits(plan, node, best, left):
                best = node
        place = plan.places[best]
        left -= plan.rooms[place["have"]]
        place["barriers"] = UNUSABLE
        place["soon"] = min(place["soon"], begin)
        booking = new_entry(plan, best, end, plan.first_entry[begin]["books"])
        plan.entries[booking]["begin"] = begin
        plan.entries[booking]["before"] = place["last_booking"]
        plan.first_entry[begin]["books"] = booking
        place["last_booking"] = booking
        if end < len(plan.first_entry):
            plan.first_entry[end]["ends"] = new_entry(plan, best, 0, plan.first_entry[end]["ends"])


@helper
def suits(plan: SlurmState, node: int, best: int, left: int) -> bool:
    """Return whether a node suits ``left`` GPUs of a gang better than another; -1 = none."""
    have = plan.places[node]["have"]
    other = plan.places[best]["have"] if best >= 0 else 0
    if plan.rooms[have] != plan.rooms[other]:
        return packs_better(plan.rooms[have], plan.rooms[other], left)
    return best >= 0 and (have, node) < (other, best)


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
        add_free(plan, slot, node, count)


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
