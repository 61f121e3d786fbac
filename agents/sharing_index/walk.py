"""The kernel of a sharing index: a walk along the waiting jobs, smallest key first."""

from __future__ import annotations

from gpusched_env.agents.sharing_index.partners import SHORTEST_S, judge_partners
from gpusched_env.agents.sharing_index.state import SharingState
from gpusched_env.baselines.list_policies.lines import sort_rows
from gpusched_env.core.driver import BEGINS, NOTHING, START, Choice, policy
from gpusched_env.core.events import seconds_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.shared import EVERYWHERE, find_shared, share_within
from gpusched_env.core.sharing.choices import BENEFIT, SEARCH
from gpusched_env.core.state import Run
from gpusched_env.portable.elementary import log


@kernel
def order_jobs(sim: Run, plan: SharingState) -> None:
    """Sort the waiting jobs by their keys; ties: the lower row."""
    m = plan.memory
    m["listed"] = sim.world["waiting"]
    for i in range(m["listed"]):
        row = sim.waiting[sim.world["first_waiting"] + i]
        plan.order[i] = row
        size = log(float(sim.jobs[row]["gpus"]))
        plan.keys[row] = log(max(seconds_left(sim, row), SHORTEST_S)) + m["gang"] * size
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, m["listed"])


@kernel
def find_gpus(sim: Run, plan: SharingState, row: int) -> int:
    """Write the GPUs on which a waiting job would start now to ``chosen``; return their number, 0 = it does not fit.

    They are free GPUs if there are enough, otherwise also GPUs of the partners with the best scores.
    """
    if sim.jobs[row]["gpus"] <= sim.world["free_gpus"]:
        count, option = find_shared(sim, row, SEARCH)
    elif sim.world["gpu_jobs"] > 1:
        judge_partners(sim, plan, row)
        count, option = share_within(sim, row, SEARCH | BENEFIT, EVERYWHERE)
    else:
        return 0
    plan.memory["option"] = option
    return count


@policy
@kernel
def next_start(sim: Run, choice: Choice, plan: SharingState) -> int:
    """Write the next start of the walk, on the GPUs in ``chosen``; return START, or NOTHING if the walk is over."""
    m = plan.memory
    c = choice.made
    if c["first"] == BEGINS:
        order_jobs(sim, plan)
        c["share"] = 1
    while c["at"] < m["listed"]:
        c["row"] = plan.order[c["at"]]
        c["at"] += 1
        c["gpus"] = find_gpus(sim, plan, c["row"])
        if c["gpus"] > 0:
            c["sub_steps"] = sim.sub_batches[sim.jobs[c["row"]]["job_class"], m["option"], 0]["sub_steps"]
            return START
    return NOTHING
