"""Kernels that choose running jobs to preempt for a waiting job of a higher class, or of a QOS that may do so."""

from __future__ import annotations

from gpusched_env.baselines.slurm.cells import in_grace, leaves, needed, useful_gpus
from gpusched_env.baselines.slurm.nodes import fits_main
from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.placing import goes_anywhere_now
from gpusched_env.core.placement.taking import FREE, in_parts
from gpusched_env.core.planning import lend
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
def waits_for_victims(sim: Run, plan: SlurmState, request: int) -> bool:
    """Return whether some GPUs that a job could use will be free after a checkpoint or a grace time."""
    for i in range(sim.world["running"]):
        number = sim.running[i]
        if leaves(sim, number) and freed_by(sim, plan, request, plan.runs_as[sim.replicas[number]["job"]]) > 0:
            return True
    return False


@helper
def may_preempt(plan: SlurmState, request: int, victim: int) -> bool:
    """Return whether a waiting job may preempt a running one, which are named by their requests."""
    if plan.spared[victim] != 0:
        return False
    if plan.memory["by_list"] == 1:
        return plan.preys[plan.quality[request], plan.quality[victim]] != 0
    return plan.ladder[victim] > plan.ladder[request]


@kernel
def asks_rule(sim: Run, plan: SlurmState, request: int) -> bool:
    """Return whether numbers of GPUs do not tell if a job can start, so that its placement rule must be asked."""
    m = plan.memory
    if m["divided"]:
        return sim.rules[m["rule"]]["anywhere"] == 0 or in_parts(sim, plan.kinds[request])
    return not goes_anywhere_now(sim, plan.kinds[request], m["rule"])


@kernel
def keeps_places(sim: Run, plan: SlurmState, request: int) -> bool:
    """Return whether a backfill cycle keeps the places that victims leave for a job: on nodes, or any GPUs."""
    if plan.memory["by_node"]:
        return sim.rules[plan.memory["rule"]]["anywhere"] > 0
    return not asks_rule(sim, plan, request)


@kernel
def hand_over(sim: Run, number: int, free: bool) -> None:
    """Let the GPUs of a gang seem free, or end this."""
    count = lend(sim, number, FREE if free else number)
    sim.world["free_gpus"] += count if free else -count


@kernel
def give_up(sim: Run, plan: SlurmState, request: int, at: int, asks: bool, free: bool) -> int:
    """Hand over the GPUs of ``victims[at]``, or end this, if the rule is asked; return how many the job could use."""
    if asks:
        hand_over(sim, sim.jobs[plan.row_of[plan.victims[at]]]["replica"], free)
    count = freed_by(sim, plan, request, plan.victims[at])
    return count if free else -count


@kernel
def list_candidates(sim: Run, plan: SlurmState, request: int) -> int:
    """Write the requests of the jobs that a job may preempt now to ``victims``; return their number.

    The end of the PreemptExemptTime of another one is an event.
    """
    w = sim.world
    m = plan.memory
    count = 0
    for i in range(w["running"]):
        r = sim.replicas[sim.running[i]]
        victim = plan.runs_as[r["job"]]
        ready = r["phase"] == ACTIVE and w["clock_s"] > r["start_s"] and not in_grace(sim, sim.running[i])
        if ready and may_preempt(plan, request, victim) and freed_by(sim, plan, request, victim) > 0:
            if w["clock_s"] < r["start_s"] + m["exempt_s"]:
                m["wake_s"] = min(m["wake_s"], r["start_s"] + m["exempt_s"])
            else:
                plan.victims[count] = victim
                count += 1
    return count


@kernel
def suffices(sim: Run, plan: SlurmState, request: int, need: int, asks: bool) -> bool:
    """Return whether a job that lacks ``need`` more GPUs can start with those that seem free."""
    return need <= 0 and (not asks or fits_main(sim, plan, request))


@kernel
def pick_victims(sim: Run, plan: SlurmState, request: int, need: int, asks: bool) -> int:
    """Do the work of :func:`choose_victims`, while the GPUs of the gangs that leave seem free."""
    if suffices(sim, plan, request, need, asks):
        return 0
    count = list_candidates(sim, plan, request)
    for i in range(count):
        need -= give_up(sim, plan, request, i, asks, True)
    enough = suffices(sim, plan, request, need, asks)
    for i in range(count):
        need -= give_up(sim, plan, request, i, asks, False)
    if not enough:
        return 0
    chosen = 0
    while chosen < count and not suffices(sim, plan, request, need, asks):
        best = chosen
        for i in range(chosen + 1, count):
            if goes_first(sim, plan, plan.victims[i], plan.victims[best]):
                best = i
        victim = plan.victims[best]
        plan.victims[best] = plan.victims[chosen]
        plan.victims[chosen] = victim
        need -= give_up(sim, plan, request, chosen, asks, True)
        chosen += 1
    for i in range(chosen - 1, -1, -1):
        need -= give_up(sim, plan, request, i, asks, False)
        if suffices(sim, plan, request, need, asks):
            chosen -= 1
            for j in range(i, chosen):
                plan.victims[j] = plan.victims[j + 1]
        else:
            need -= give_up(sim, plan, request, i, asks, True)
    for i in range(chosen):
        give_up(sim, plan, request, i, asks, False)
    return chosen


@kernel
def choose_victims(sim: Run, plan: SlurmState, request: int) -> int:
    """Write the requests of the jobs that are preempted for a waiting job to ``victims``; return their number.

    None if GPUs in checkpoints or grace times suffice, or if all candidates do not. Of the first ones that suffice,
    those not needed are left out, the last ones first. If numbers of GPUs do not tell, the placement rule does.
    """
    w = sim.world
    asks = asks_rule(sim, plan, request)
    if plan.memory["divided"]:
        need = needed(sim, plan, request)
    else:
        need = sim.jobs[plan.row_of[request]]["gpus"] - w["free_gpus"] - w["checkpointing_gpus"]
    for i in range(w["running"]):
        if asks and leaves(sim, sim.running[i]):
            hand_over(sim, sim.running[i], True)
        if plan.memory["divided"] == 0 and in_grace(sim, sim.running[i]):
            need -= sim.replicas[sim.running[i]]["gpus"]
    chosen = pick_victims(sim, plan, request, need, asks)
    for i in range(w["running"]):
        if asks and leaves(sim, sim.running[i]):
            hand_over(sim, sim.running[i], False)
    return chosen


@kernel(lazy=True)
def grace_end_s(sim: Run, plan: SlurmState, victim: int) -> float:
    """Return until when a victim, named by its request, runs on [s]; plans expect its GPUs after that."""
    row = plan.row_of[victim]
    end_s: float = sim.world["clock_s"] + plan.grace_s[victim]
    held_s = end_s + sim.world["checkpoint_s"] - sim.replicas[sim.jobs[row]["replica"]]["since_s"]
    plan.runs_for_s[row] = min(plan.runs_for_s[row], sim.jobs[row]["service_s"] + held_s)
    return end_s
