"""Held jobs: their open dependencies, and the heap of those whose entry into the queue is known."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.problem.dependencies import AFTER, AFTER_ANY, AFTER_OK

# What happens to a job on which others depend.
STARTED, SUCCEEDED, FAILED, CANCELLED = range(4)
OPEN, SATISFIED, NEVER = range(3)  # what it means for a dependency


@helper
def entry(sim: Run, number: int) -> int:
    """Return the row of the job that entered the queue as number ``number``, counted from 0."""
    return sim.entries[number] if sim.world["holds"] else number


@kernel(lazy=True)
def hold_back(sim: Run, row: int) -> bool:
    """Hold a job that is submitted now, unless it may enter the queue at once; return whether it is held."""
    held = sim.holds[row]
    if held["open"] == 0 and held["eligible_s"] <= sim.world["clock_s"]:
        return False
    held["submitted"] = 1
    if held["open"] == 0 or held["cancelled"]:
        push(sim, row)
    return True


@kernel
def meaning(kind: int, what: int) -> int:
    """Return what an event of a job means for a dependency on it: OPEN, SATISFIED or NEVER (sbatch --dependency)."""
    if kind == AFTER:
        return SATISFIED if what in (STARTED, CANCELLED) else OPEN
    if what == STARTED:
        return OPEN
    good = kind == AFTER_ANY or (kind == AFTER_OK) == (what == SUCCEEDED)
    return SATISFIED if good else NEVER


@kernel(lazy=True)
def tell_dependents(sim: Run, row: int, what: int) -> None:
    """Tell the jobs that depend on a job what has happened to it: STARTED, SUCCEEDED, FAILED or CANCELLED."""
    now_s = sim.world["clock_s"]
    first = sim.holds[row]["first"]
    for i in range(first, first + sim.holds[row]["dependents"]):
        edge = sim.dependents[i]
        held = sim.holds[edge["row"]]
        means = meaning(edge["kind"], what)
        if means == OPEN or held["cancelled"]:
            continue
        if means == NEVER:
            held["cancelled"] = 1
            held["eligible_s"] = max(now_s, sim.jobs[edge["row"]]["arrival_s"])
        else:
            held["open"] -= 1
            held["eligible_s"] = max(held["eligible_s"], now_s + edge["delay_s"])
        if held["submitted"] and (held["open"] == 0 or held["cancelled"]):
            push(sim, edge["row"])


@kernel
def before(sim: Run, one: int, other: int) -> bool:
    """Return whether job ``one`` leaves the heap before job ``other``: by time, then by row."""
    one_s = sim.holds[one]["eligible_s"]
    other_s = sim.holds[other]["eligible_s"]
    return one < other if one_s == other_s else one_s < other_s


@kernel
def push(sim: Run, row: int) -> None:
    """Insert a held job into the heap."""
    w = sim.world
    at = w["eligible"]
    w["eligible"] += 1
    while at > 0 and before(sim, row, sim.eligible[(at - 1) // 2]):
        sim.eligible[at] = sim.eligible[(at - 1) // 2]
        at = (at - 1) // 2
    sim.eligible[at] = row
    w["eligible_s"] = sim.holds[sim.eligible[0]]["eligible_s"]


@kernel(lazy=True)
def pop(sim: Run) -> int:
    """Remove the first job from the heap; return its row."""
    w = sim.world
    first = sim.eligible[0]
    w["eligible"] -= 1
    count = w["eligible"]
    row = sim.eligible[count]
    at = 0
    child = 1
    while child < count:
        if child + 1 < count and before(sim, sim.eligible[child + 1], sim.eligible[child]):
            child += 1
        if before(sim, row, sim.eligible[child]):
            break
        sim.eligible[at] = sim.eligible[child]
        at = child
        child = 2 * at + 1
    sim.eligible[at] = row
    w["eligible_s"] = sim.holds[sim.eligible[0]]["eligible_s"] if count > 0 else np.inf
    return first
