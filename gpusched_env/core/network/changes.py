"""Links that become slower or faster during a run. The rates of the gangs whose rings cross these links change."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.flows import begin_flow, end_flow, touch_link
from gpusched_env.core.shapes import placed
from gpusched_env.core.state import ACTIVE, Run


@helper
def next_change_s(sim: Run) -> float:
    """Return the time of the next change of links [s]; inf = never."""
    w = sim.world
    return sim.links[w["next_change"]]["change_s"] if w["next_change"] < w["changes"] else np.inf


@kernel(lazy=True)
def change_links(sim: Run) -> None:
    """Apply the next change to all links of its tier, and recompute the rings that cross these links."""
    w = sim.world
    tier = sim.links[w["next_change"]]["change_tier"]
    slowdown = sim.links[w["next_change"]]["change_slowdown"]
    w["next_change"] += 1
    for link in range(sim.links.shape[0]):
        if sim.links[link]["tier"] == tier:
            sim.links[link]["capacity"] = sim.links[link]["built_Bps"] / slowdown
            touch_link(sim, link)
    for i in range(w["running"]):
        number = sim.running[i]
        if sim.replicas[number]["phase"] == ACTIVE and crosses(sim, number, tier):
            lay_again(sim, number)


@kernel
def crosses(sim: Run, number: int, tier: int) -> bool:
    """Return whether a gang's ring crosses a link of a tier."""
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        if sim.links[sim.uses[use]["link"]]["tier"] == tier:
            return True
        use = sim.uses[use]["next_of_replica"]
    return False


@kernel
def lay_again(sim: Run, number: int) -> None:
    """Recompute the ring of a gang with the present links; the gang runs at its old rate until time moves."""
    r = sim.replicas[number]
    seat = r["first_gpu"]
    count = 0
    while seat >= 0:
        sim.chosen[count] = seat % sim.world["gpus"]
        count += 1
        seat = sim.gpu_next[seat]
    kind = sim.jobs[r["job"]]["job_class"]
    _, _, slowest = placed(sim, kind, 0, count)
    iteration_s = r["iteration_s"]
    told_s = r["told_s"]
    end_flow(sim, number)
    begin_flow(sim, number, slowest)
    r["iteration_s"] = iteration_s
    r["told_s"] = told_s
