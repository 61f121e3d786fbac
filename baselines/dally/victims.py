"""Victims: running gangs that are preempted for a waiting job that is more sensitive to the network.

The number of victims is the smallest that makes room for the job.
"""

from __future__ import annotations

from gpusched_env.baselines.dally.keeping import keep, may_stop
from gpusched_env.baselines.dally.placing import ANYWHERE, IN_RACK, ON_MACHINE, ON_SLOT, REFUSED
from gpusched_env.baselines.dally.ranking import compared
from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.events import work_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.taking import FREE, NO_LIMIT
from gpusched_env.core.queries import Asked
from gpusched_env.core.state import Run


@kernel
def nw_of(sim: Run, delay: Delay, row: int) -> float:
    """Return the present Nw of a job: work done, in seconds without communication / productive seconds."""
    done = sim.jobs[row]["iterations"] - work_left(sim, row)
    seconds = sim.jobs[row]["service_s"]
    if sim.jobs[row]["replica"] >= 0:
        seconds += max(sim.world["clock_s"] - sim.replicas[sim.jobs[row]["replica"]]["since_s"], 0.0)
    return compared(delay, done * delay.tasks[row]["compute_s"] / seconds) if seconds > 0.0 else 0.0


@kernel
def nw_now(sim: Run, delay: Delay, asked: Asked) -> None:
    """Write the present Nw of jobs to ``answers``."""
    for i in range(len(asked.rows)):
        asked.answers[0, i] = nw_of(sim, delay, asked.rows[i])


@kernel
def rate_victims(sim: Run, delay: Delay) -> float:
    """Set ``victim_nw`` of all gangs: the Nw if the gang may be a victim, otherwise -1; return the largest."""
    r = delay.rules
    largest = -1.0
    for i in range(r["held"]):
        row = delay.held[i]
        task = delay.tasks[row]
        task["victim_nw"] = -1.0
        if (
            sim.world["clock_s"] - task["last_s"] >= r["victim_held_s"]
            and task["evicted"] < r["victim_limit"]
            and may_stop(sim, delay, row)
        ):
            task["victim_nw"] = nw_of(sim, delay, row)
            largest = max(largest, task["victim_nw"])
    return largest


@kernel
def range_of(sim: Run, delay: Delay, tier: int, i: int) -> tuple[int, int]:
    """Range of GPUs of the ``i``-th place of a tier in visiting order, as ``begin, end``."""
    if tier == ON_SLOT:
        slot = delay.slot_order[i]
        return delay.slot_gpu[slot], (delay.slot_gpu[slot + 1])
    if tier == ANYWHERE:
        return 0, sim.world["gpus"]
    first = delay.node_order[i] if tier == ON_MACHINE else sim.racks[i]["first_node"]
    last = first if tier == ON_MACHINE else first + sim.racks[i]["nodes"] - 1
    return sim.nodes[first]["first_gpu"], (sim.nodes[last]["first_gpu"] + sim.nodes[last]["gpus"])


@helper
def job_on(sim: Run, gpu: int) -> int:
    """Return the row of the job that holds a GPU; -1 = none."""
    return sim.replicas[sim.holder[gpu]]["job"] if sim.holder[gpu] >= 0 else -1


@kernel
def count_inside(sim: Run, delay: Delay, row: int, begin: int, end: int) -> int:
    """Count the GPUs of ``begin:end`` by the job that holds them; return how many GPUs on offer a job lacks there.

    If ``rules.marks`` is set, the GPUs on offer are kept for the job.
    """
    for gpu in range(begin, end):
        if job_on(sim, gpu) >= 0:
            delay.tasks[job_on(sim, gpu)]["inside"] = 0
    left = delay.tasks[row]["gpus"]
    for gpu in range(begin, end):
        if delay.leaker[gpu] >= 0:
            continue
        if job_on(sim, gpu) >= 0:
            delay.tasks[job_on(sim, gpu)]["inside"] += 1
        elif sim.holder[gpu] == FREE and left > 0:
            left -= 1
            if delay.rules["marks"]:
                keep(delay, row, gpu)
    return left


@kernel
def count_victims(sim: Run, delay: Delay, row: int, begin: int, end: int, most: int) -> int:
    """Return the smallest number of victims that make room for a job on ``begin:end``; NO_LIMIT = above ``most``.

    The gang that holds the most of these GPUs is chosen first; ties: the gang with the lowest GPU. If ``rules.marks``
    is set, victims are marked to stop, and GPUs are kept for the job: those on offer, then the victims' in ascending
    order.
    """
    least_nw = delay.tasks[row]["nw"] + delay.rules["victim_margin"]
    left = count_inside(sim, delay, row, begin, end)
    count = 0
    while left > 0:
        victim = -1
        largest = 0
        for gpu in range(begin, end):
            of = job_on(sim, gpu)
            if of >= 0 and delay.tasks[of]["victim_nw"] >= least_nw and delay.tasks[of]["inside"] > largest:
                victim = of
                largest = delay.tasks[of]["inside"]
        if victim < 0 or count == most:
            return NO_LIMIT
        count += 1
        left -= largest
        delay.tasks[victim]["inside"] = 0
        if delay.rules["marks"]:
            delay.tasks[victim]["stops"] = 1
            delay.tasks[victim]["evicted"] += 1
    for gpu in range(begin, end if delay.rules["marks"] else begin):
        stops = job_on(sim, gpu) >= 0 and delay.leaker[gpu] < 0 and delay.tasks[job_on(sim, gpu)]["stops"] > 0
        if stops and delay.tasks[row]["leaked"] < delay.tasks[row]["gpus"]:
            keep(delay, row, gpu)
    return count


@kernel
def evict_for(sim: Run, delay: Delay, row: int, rack_too: bool, network_too: bool) -> int:
    """Mark the smallest number of victims for a job, keep their GPUs for it, and return its tier; REFUSED = no place.

    Ties: the tightest tier, then the first place in visiting order.
    """
    r = delay.rules
    gang = delay.tasks[row]["gpus"]
    slots = delay.slot_order.shape[0]
    machines = delay.node_order.shape[0]
    fewest = NO_LIMIT
    best_tier = REFUSED
    best_place = 0
    for tier in range(ON_SLOT, ANYWHERE + 1):
        if (tier == IN_RACK and not rack_too) or (tier == ANYWHERE and not network_too):
            continue
        places = 1
        if tier == ON_SLOT:
            places = slots
        elif tier == ON_MACHINE:
            places = machines
        elif tier == IN_RACK:
            places = sim.world["racks"]
        for i in range(places):
            begin, end = range_of(sim, delay, tier, i)
            if end - begin < gang:
                continue
            count = count_victims(sim, delay, row, begin, end, fewest - 1)
            if count < fewest:
                fewest = count
                best_tier = tier
                best_place = i
    if best_tier != REFUSED:
        begin, end = range_of(sim, delay, best_tier, best_place)
        r["marks"] = 1
        count_victims(sim, delay, row, begin, end, fewest)
        r["marks"] = 0
    return best_tier
