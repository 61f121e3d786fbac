"""The observation array ``links`` where the network is priced by tiers."""

from __future__ import annotations

from typing import Final

from gpusched_env.cluster import TIERS
from gpusched_env.core.handle import kernel
from gpusched_env.core.network.settling import beside_company
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.columns import COUNT, SEATS_OF_CLUSTER, SHARE, Column, indices
from gpusched_env.envs.observation.jobs import observed_tier
from gpusched_env.envs.observation.registry import ALWAYS, Shown, observation_array

TIER_LINKS_COLUMNS: Final = (
    Column("gpus", f"GPUs held by gangs of this tier / {SEATS_OF_CLUSTER}", SHARE),
    Column("gangs", "gangs whose placement is of this tier", COUNT),
    Column("loss", "mean over these gangs of (1 - ideal iteration time / iteration time), at least 0", SHARE),
)
TIER_LINKS: Final = indices(TIER_LINKS_COLUMNS)
_TIERS: Final = len(TIERS)


@kernel
def add_to_tier(sim: Run, env: EnvArrays, number: int) -> None:
    """Add a gang to the sums of its tier: GPUs, gangs, losses."""
    r = sim.replicas[number]
    t = observed_tier(r["tier"])
    ideal_s = env.classes[r["job_class"]]["ideal_iteration_s"]
    env.tier_sums[t, TIER_LINKS.gpus] += r["gpus"]
    env.tier_sums[t, TIER_LINKS.gangs] += 1.0
    env.tier_sums[t, TIER_LINKS.loss] += max(
        1.0 - ideal_s / beside_company(sim, number), 0.0
    )  # copies can be faster than ideal


@observation_array("links", TIER_LINKS_COLUMNS, "tiers", ALWAYS, "one row per tier: machine, rack, network")
@kernel
def write_tiers(sim: Run, env: EnvArrays, out: Shown) -> None:
    """If no time has passed and only one gang has started, that gang is added to the sums."""
    w = sim.world
    sums = env.tier_sums
    came, left = w["starts"] - env.seen["starts"], w["returns"] - env.seen["returns"]
    if env.changed["same_time"] and w["sharing"] == 0 and came <= 1 and left == 0:
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
        gpus, gangs, loss = sums[t, TIER_LINKS.gpus], sums[t, TIER_LINKS.gangs], sums[t, TIER_LINKS.loss]
        out.values[t, TIER_LINKS.gpus] = gpus / (w["gpus"] * w["gpu_jobs"])
        out.values[t, TIER_LINKS.gangs] = gangs / (1.0 + gangs)
        out.values[t, TIER_LINKS.loss] = loss / gangs if gangs > 0.0 else 0.0
