"""Kernels that choose running jobs to preempt for a waiting job of a higher class, or of a QOS that may do so."""

from __future__ import annotations

from gpusched_env.baselines.slurm.cells import in_grace, needed, useful_gpus
from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.placing import goes_anywhere_now
from gpusched_env.core.state import ACTIVE, Run


@kernel
def goes_first(sim: Run, plan: SlurmState, one: int, other: int) -> bool:
    """Return whether a running job is preempted before another; both are named by their requests."""
    if plan.memory["youngest"] == 1:
        begun = sim.replicas[sim.jobs[plan.row_of[one]]["replica"]]["start_s"]
        also = sim.replicas[sim.jobs[plan.row_of[other]]["replica"]]["start_s"]
        if begun != also:
            return begun > also
    elif plan.ladder[one] != plan.ladder[other]:
        return plan.ladder[one] > plan.ladder[other]
    if plan.ranks[one] != plan.ranks[other]:
        return plan.ranks[one] > plan.ranks[other]
    return one < other


@kernel
def freed_by(sim: Run, plan: SlurmState, request: int, victim: int) -> int:
    """Return the GPUs of a running job that a waiting job could use [GPU]; both are named by their requests."""
    number = sim.jobs[plan.row_of[victim]]["replica"]
    return useful_gpus(sim, plan, request, number) if plan.memory["divided"] else sim.replicas[number]["gpus"]


@kernel
def graced_gpus(sim: Run) -> int:
    """Count the GPUs of the gangs that will be preempted at the end of their grace times."""
    count = 0
    for i in range(sim.world["running"]):
        if in_grace(sim, sim.running[i]):
            count += sim.replicas[sim.running[i]]["gpus"]
    return count


@helper
def may_preempt(plan: SlurmState, request: int, victim: int) -> bool:
    """Return whether a waiting job may preempt a running one, which are named by their requests."""
    if plan.spared[victim] != 0:
        return False
    if plan.memory["by_list"] == 1:
        return plan.preys[plan.quality[request], plan.quality[victim]] != 0
    return plan.ladder[victim] > plan.ladder[request]


@kernel
def choose_victims(sim: Run, plan: SlurmState, request: int) -> int:
    """Write the requests of the jobs that are preempted for a waiting job to ``victims``; return their number.

    None if GPUs in checkpoints or grace times suffice, if all candidates hold too few GPUs, or if numbers of GPUs do
    not tell whether the job can start. Of the first ones that hold enough, those not needed are left out, the last ones
    first.
    """
    w = sim.world
    m = plan.memory
    if m["divided"]:
        need = needed(sim, plan, request)
        if sim.rules[m["rule"]]["anywhere"] == 0:
            return 0
    else:
        need = sim.jobs[plan.row_of[request]]["gpus"] - w["free_gpus"] - w["checkpointing_gpus"] - graced_gpus(sim)
        if not goes_anywhere_now(sim, plan.kinds[request], m["rule"]):
            return 0
    if need <= 0:
        return 0
    count = 0
    gpus = 0
    for i in range(w["running"]):
        r = sim.replicas[sim.running[i]]
        victim = plan.runs_as[r["job"]]
        ran_s = w["clock_s"] - r["start_s"]
        ready = r["phase"] == ACTIVE and ran_s > 0.0 and ran_s >= m["exempt_s"]
        if ready and may_preempt(plan, request, victim) and not in_grace(sim, sim.running[i]):
            frees = freed_by(sim, plan, request, victim)
            if frees > 0:
                plan.victims[count] = victim
                count += 1
                gpus += frees
    if gpus < need:
        return 0
    chosen = 0
    gpus = 0
    while gpus < need:
        best = chosen
        for i in range(chosen + 1, count):
            if goes_first(sim, plan, plan.victims[i], plan.victims[best]):
                best = i
        victim = plan.victims[best]
        plan.victims[best] = plan.victims[chosen]
        plan.victims[chosen] = victim
        gpus += freed_by(sim, plan, request, victim)
        chosen += 1
    for i in range(chosen - 1, -1, -1):
        spare = freed_by(sim, plan, request, plan.victims[i])
        if gpus - spare >= need:
            gpus -= spare
            chosen -= 1
            for j in range(i, chosen):
                plan.victims[j] = plan.victims[j + 1]
    return chosen


@kernel(lazy=True)
def grace_end_s(sim: Run, plan: SlurmState, victim: int) -> float:
    """Return until when a victim, named by its request, runs on [s]; plans expect its GPUs after that."""
    row = plan.row_of[victim]
    end_s: float = sim.world["clock_s"] + plan.grace_s[victim]
    held_s = end_s + sim.world["checkpoint_s"] - sim.replicas[sim.jobs[row]["replica"]]["since_s"]
    plan.runs_for_s[row] = min(plan.runs_for_s[row], sim.jobs[row]["service_s"] + held_s)
    return end_s
