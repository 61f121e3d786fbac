"""The next start of a sharing index: a walk along the waiting jobs, smallest key first."""

from __future__ import annotations

from typing import Final

from gpusched_env.agents.sharing_index.partners import SHORTEST_S, judge_partners
from gpusched_env.agents.sharing_index.state import SharingState
from gpusched_env.baselines.listed.lines import sort_rows
from gpusched_env.core.events import seconds_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.shared import EVERYWHERE, find_shared, share_within
from gpusched_env.core.sharing.choices import BENEFIT, SEARCH
from gpusched_env.core.state import Run
from gpusched_env.portable.elementary import log

NOBODY: Final = -1


@kernel
def order_jobs(sim: Run, plan: SharingState) -> None:
    """Sort the waiting jobs by their keys; ties: the lower row. The walk begins at the first one."""
    m = plan.memory
    m["listed"] = sim.world["waiting"]
    m["at"] = 0
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


@kernel
def next_start(sim: Run, plan: SharingState) -> int:
    """Return the next job of the walk that starts now; NOBODY = the walk is over.

    The job gets the GPUs in ``chosen`` and the sub-batch ``option``. The caller starts it before it asks again.
    """
    m = plan.memory
    while m["at"] < m["listed"]:
        row = plan.order[m["at"]]
        m["at"] += 1
        if find_gpus(sim, plan, row) > 0:
            return row
    return NOBODY
