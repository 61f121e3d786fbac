"""Kernels that answer queries about a run. They change only scratch fields and caches, so the run stays the same."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import attained_service, productive_s, with_checkpoints, work_left
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.network.flows import begin_flow, end_flow
from gpusched_env.core.network.settling import beside_company, finish_time, settle, whole_iterations
from gpusched_env.core.placement.beside import find_beside
from gpusched_env.core.placement.placing import fits, look_for
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.shapes import placed
from gpusched_env.core.sharing.seats import slowdown_by_company
from gpusched_env.core.state import ACTIVE, WAITING, Run


class Asked(Handle):
    """A query about jobs or links, and its answers."""

    rows = array(np.int32, "rows")
    answers = array(np.float64, "questions", "answers")


@kernel
def progress(sim: Run, asked: Asked, count: int) -> None:
    """Write the iterations left, and the seconds with progress [s], of the jobs ``rows`` to ``answers``."""
    for i in range(count):
        row = asked.rows[i]
        asked.answers[0, i] = work_left(sim, row)
        asked.answers[1, i] = sim.jobs[row]["service_s"] + productive_s(sim, sim.jobs[row]["replica"])


@kernel
def attained(sim: Run, asked: Asked, count: int) -> None:
    """Write the attained service of the jobs ``rows`` to ``answers`` [GPU s]."""
    for i in range(count):
        asked.answers[0, i] = attained_service(sim, asked.rows[i])


@kernel
def can_place(sim: Run, row: int, rule: int) -> bool:
    """Return whether a placement rule finds GPUs for a waiting job now."""
    if row < 0 or row >= sim.world["jobs"] or sim.jobs[row]["status"] != WAITING:
        return False
    gang = sim.jobs[row]["gpus"]
    kind = sim.jobs[row]["job_class"]
    if sim.rules[rule]["shares"] > 0 and sim.world["gpu_jobs"] > 1:
        found, _ = find_shared(sim, row, sim.rules[rule]["shares"])
        return found > 0
    return fits(sim, kind, gang, rule)


@kernel
def find_place(sim: Run, row: int, rule: int) -> int:
    """Write the GPUs that a rule would give a waiting job now to ``chosen``; return their number, 0 = none."""
    if row < 0 or row >= sim.world["jobs"] or sim.jobs[row]["status"] != WAITING:
        return 0
    gang = sim.jobs[row]["gpus"]
    kind = sim.jobs[row]["job_class"]
    if sim.rules[rule]["shares"] > 0 and sim.world["gpu_jobs"] > 1:
        found, _ = find_shared(sim, row, sim.rules[rule]["shares"])
        return found
    found = look_for(sim, kind, gang, rule)
    return gang if found > gang and sim.jobs[row]["sizes"] > 1 else found


@kernel
def find_place_beside(sim: Run, row: int, partner: int, option: int) -> int:
    """Write the GPUs on which a waiting job would join a running one to ``chosen``.

    Returns the number of these GPUs + (index of the sub-batch << 32).
    """
    count, found = find_beside(sim, row, partner, option)
    return count | found << 32


@kernel
def link_load(sim: Run, link: int) -> float:
    """Return the load of a link, per direction, at the settled rates [byte/s]."""
    load = 0.0
    use = sim.links[link]["first_use"]
    while use >= 0:
        load += sim.uses[use]["weight"] * sim.replicas[sim.uses[use]["replica"]]["rate_Bps"]
        use = sim.uses[use]["next_of_link"]
    return load


@kernel
def meet_company(sim: Run) -> None:
    """Update the slowdowns of gangs whose co-located gangs have changed; these marks stay until time moves."""
    for i in range(sim.world["running"] if sim.world["sharing"] else 0):
        number = sim.running[i]
        if sim.replicas[number]["company_changed"]:
            sim.replicas[number]["slowdown"] = slowdown_by_company(sim, number)


@kernel
def slowdown_there(sim: Run, row: int) -> float:
    """Return the factor by which the gangs on the chosen GPUs would slow down a waiting job; 1 = no slowdown."""
    worst = 1.0
    if sim.world["sharing"]:
        kind = sim.jobs[row]["job_class"]
        for i in range(sim.jobs[row]["gpus"]):
            gpu = sim.chosen[i]
            gpu_type = sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
            for layer in range(sim.world["gpu_jobs"]):
                other = sim.holder[gpu + layer * sim.world["gpus"]]
                if other >= 0:
                    beside = sim.jobs[sim.replicas[other]["job"]]["job_class"]
                    worst = max(worst, sim.interference[kind, beside, gpu_type])
    return worst


@kernel
def what_if(sim: Run, row: int) -> float:
    """Return the time of one iteration of a waiting job if it started on the chosen GPUs now [s].

    The job is assumed to process its whole batch in one step. inf = it must not share a GPU with a gang that is there.
    """
    w = sim.world
    company = slowdown_there(sim, row)
    if w["contention"] == 0:
        _, pace, slowest = placed(sim, sim.jobs[row]["job_class"], 0, sim.jobs[row]["gpus"])
        return sim.paces[sim.jobs[row]["job_class"], pace, slowest]["iteration_s"] * company
    settle(sim)
    uncommitted = w["uncommitted"]
    number = sim.running[w["running"]]  # an idle row
    r = sim.replicas[number]
    r["job"] = row
    kind = sim.jobs[row]["job_class"]
    r["gpus"] = sim.jobs[row]["gpus"]
    r["gang"] = sim.jobs[row]["gpus"]
    r["job_class"] = kind
    tier, _, slowest = placed(sim, kind, 0, r["gpus"])
    r["tier"] = tier
    whole = sim.sub_batches[kind, 0, slowest]
    r["compute_share"] = whole["compute_share"]
    earlier_s = (whole["sub_steps"] - 1) * whole["compute_share"] * sim.paces[kind, tier, slowest]["compute_s"]
    begin_flow(sim, number, slowest)
    settle(sim)
    seconds = r["settled_s"] + earlier_s
    end_flow(sim, number)
    settle(sim)
    w["uncommitted"] = uncommitted
    return seconds * company


@kernel
def settle_now(sim: Run) -> None:
    """Settle the rates after a decision, so that they can be read before time moves."""
    settle(sim)
    meet_company(sim)


@kernel
def link_loads(sim: Run, asked: Asked) -> None:
    """Write the load of every link, per direction, at the settled rates [byte/s] to ``answers``."""
    settle(sim)
    for link in range(asked.answers.shape[1]):
        asked.answers[0, link] = link_load(sim, link)


@kernel
def end_s(sim: Run, row: int) -> float:
    """Return the time at which a running job finishes at the settled rates [s]; inf = it makes no progress."""
    number = sim.jobs[row]["replica"]
    if number < 0 or sim.replicas[number]["phase"] != ACTIVE:
        return np.inf
    r = sim.replicas[number]
    pace = whole_iterations(sim, with_checkpoints(sim, row, beside_company(sim, number)))
    if pace == r["iteration_s"]:
        return r["until_s"]
    since_s = max(r["since_s"], sim.world["clock_s"])  # a decision or a completion at this time has changed the rate
    end = finish_time(sim, since_s, work_left(sim, row), pace)
    job = sim.jobs[row]
    if job["limit_s"] < np.inf:
        left_s = job["limit_s"] - job["service_s"] - productive_s(sim, number)
        end = min(end, since_s + max(left_s, 0.0))
    return end


@kernel
def end_times(sim: Run, asked: Asked, count: int) -> None:
    """Write the time at which each running job of ``rows`` finishes at the settled rates [s] to ``answers``."""
    if sim.world["contention"] > 0:
        settle(sim)
    meet_company(sim)
    for i in range(count):
        asked.answers[0, i] = end_s(sim, asked.rows[i])
