"""Kernels that write the observation arrays ``links`` (by tier or by link) and ``flows``."""

from __future__ import annotations

from typing import Final

from gpusched_env.cluster import MACHINE, SLOT, TIERS
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.settling import alone_s, beside_company
from gpusched_env.core.queries import link_load
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.envs.env_arrays import EnvArrays

_TIERS: Final = len(TIERS)


@helper
def observed_tier(tier: int) -> int:
    """Return the tier as observations show it: a slot counts as its machine."""
    return MACHINE if tier == SLOT else tier


@kernel
def add_to_tier(sim: Run, env: EnvArrays, number: int) -> None:
    """Add a gang to the sums of its tier: GPUs, gangs, losses."""
    r = sim.replicas[number]
    t = observed_tier(r["tier"])
    ideal_s = env.classes[r["job_class"]]["ideal_iteration_s"]
    env.tier_sums[t, 0] += r["gpus"]
    env.tier_sums[t, 1] += 1.0
    env.tier_sums[t, 2] += max(1.0 - ideal_s / beside_company(sim, number), 0.0)  # copies can be faster than ideal


@kernel
def write_tiers(sim: Run, env: EnvArrays, same_time: bool) -> None:
    """Write the rows of columns.TIER_LINKS.

    ``same_time`` as for :func:`jobs.write_queue`. If it is True and only one gang has started, that gang is added.
    """
    w = sim.world
    sums = env.tier_sums
    came, left = w["starts"] - env.seen["starts"], w["returns"] - env.seen["returns"]
    if same_time and w["sharing"] == 0 and came <= 1 and left == 0:
        if came == 1:
            add_to_tier(sim, env, sim.running[w["running"] - 1])
    else:
        for t in range(_TIERS):
            for c in range(sums.shape[1]):
                sums[t, c] = 0.0
        for i in range(w["running"]):
            add_to_tier(sim, env, sim.running[i])
    env.seen["starts"] = w["starts"]
    env.seen["returns"] = w["returns"]
    for t in range(_TIERS):
        gpus, gangs, loss = sums[t, 0], sums[t, 1], sums[t, 2]
        env.out_links[t, 0] = gpus / (w["gpus"] * w["gpu_jobs"])
        env.out_links[t, 1] = gangs / (1.0 + gangs)
        env.out_links[t, 2] = loss / gangs if gangs > 0.0 else 0.0


@kernel
def write_links(sim: Run, env: EnvArrays) -> None:
    """Write the rows of columns.LINKS; the rows beyond the links of the instance stay 0."""
    out = env.out_links
    for number in range(out.shape[0]):
        share = env.shown_links[number]["capacity"]
        if share == 0.0:
            break
        link = sim.links[number]
        bound = 0
        use = link["first_use"]
        while use >= 0:
            if sim.replicas[sim.uses[use]["replica"]]["bottleneck"] == number:
                bound += 1
            use = sim.uses[use]["next_of_link"]
        out[number, 0] = min(link_load(sim, number) / link["capacity"], 1.0)
        out[number, 1] = link["flows"] / (1.0 + link["flows"])
        out[number, 2] = bound / (1.0 + bound)
        if link["capacity"] != link["built_Bps"]:
            share *= link["capacity"] / link["built_Bps"]
        out[number, 3] = share
        out[number, 4] = env.shown_links[number]["tier"]


@kernel
def write_flows(sim: Run, env: EnvArrays) -> None:
    """Write the rows of columns.FLOWS; a gang that is being checkpointed sends nothing."""
    out = env.out_flows
    for v in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[v, c] = 0.0
        if env.victims[v] < 0:
            continue
        number = sim.jobs[env.victims[v]]["replica"]
        r = sim.replicas[number]
        out[v, 2] = 1.0 - 1.0 / r["machines"]
        if r["phase"] == CHECKPOINTING:
            continue
        out[v, 0] = max(1.0 - alone_s(sim, number) / r["settled_s"], 0.0)
        out[v, 1] = max(1.0 - r["compute_s"] / r["settled_s"], 0.0)
        link = r["bottleneck"]
        if link >= 0:
            flows = sim.links[link]["flows"]
            out[v, 3] = min(link_load(sim, link) / sim.links[link]["capacity"], 1.0)
            out[v, 4] = flows / (1.0 + flows)
            out[v, 5] = env.shown_links[link]["tier"]
