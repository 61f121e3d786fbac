"""Kernels that play a run on after its step limit, without the agent, so that a return is that of a whole schedule."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.events import DECIDE, LOG_FULL, STALLED, advance, has_room, lease, start, stuck
from gpusched_env.core.handle import kernel
from gpusched_env.core.network.settling import settle
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.mask_and_observation import write_mask_and_observation
from gpusched_env.envs.slots import ANY_JOB
from gpusched_env.envs.tenant_limits import exceeds_limits

# Values of EPISODE_DTYPE's ``playing_out``: what comes next, also after a full log has been drained.
STARTS: Final = 1
EVENTS: Final = 2
MOST_LOGS: Final = 20  # that one call throws away: then it returns, so that Python can stop a long step


@kernel(lazy=True)
def renew_leases(sim: Run, lease_s: float) -> None:
    """Renew for ``lease_s`` the leases that have ended."""
    for i in range(sim.world["running"]):
        r = sim.replicas[sim.running[i]]
        if r["lease_over"] > 0:
            lease(sim, r["job"], sim.world["clock_s"] + lease_s)


@kernel(lazy=True)
def start_in_order(sim: Run, env: EnvArrays) -> bool:
    """Start waiting jobs by arrival until one finds no place, which blocks those behind it; False = the log is full.

    So does a job that would exceed a limit of its tenant, if the mask forbids that.

    A job starts by the first enabled placement rule. While nothing runs, it starts by the first one that finds a place:
    check_rules has found one for every gang.
    """
    w = sim.world
    rule = 0
    while w["waiting"] > 0 and rule < len(env.rules):
        row = sim.waiting[w["first_waiting"]]
        if env.config["limits"] > 0 and exceeds_limits(sim, env, row):
            break
        if not has_room(sim):
            return False
        refusal = start(sim, row, env.rules[rule], 0, False, 0)
        if refusal == APPLIED:
            rule = 0
            if env.config["lease_s"] < np.inf:
                lease(sim, row, w["clock_s"] + env.config["lease_s"])
        elif w["running"] == 0:
            rule += 1
        else:
            break
    return True


@kernel(lazy=True)
def play_out(sim: Run, env: EnvArrays) -> int:
    """Play the rest of a run without the agent, and write mask and observation; return the last outcome of advance.

    First in, first out, without preemption; leases are renewed for ever. LOG_FULL: drain the log, then call again.
    STALLED: jobs are left that can never finish.
    """
    w = sim.world
    episode = env.episode
    outcome = DECIDE
    while outcome == DECIDE:
        if episode["playing_out"] == STARTS:
            if not start_in_order(sim, env):
                return LOG_FULL
            if w["leases_over"] > 0:
                renew_leases(sim, env.config["lease_s"])
            settle(sim)
            # Rounds would go on for ever. Rates that are not committed yet may still set a gang going.
            if w["time_limit_s"] == np.inf and w["uncommitted"] == 0 and stuck(sim):
                outcome = STALLED
                break
            episode["playing_out"] = EVENTS
        outcome = advance(sim)
        if outcome == LOG_FULL:
            return LOG_FULL
        episode["playing_out"] = STARTS
    write_mask_and_observation(sim, env, outcome, ANY_JOB)
    return outcome


@kernel
def discard_log(sim: Run) -> None:
    """Empty the log buffers without keeping their events."""
    w = sim.world
    w["gpus_before"] += w["event_gpus"]
    w["events"] = 0
    w["event_gpus"] = 0


@kernel(lazy=True)
def play_to_end(sim: Run, env: EnvArrays) -> int:
    """Play a run out as :func:`play_out` does, and throw away full logs that are not kept."""
    outcome = play_out(sim, env)
    for _ in range(MOST_LOGS):
        if outcome != LOG_FULL or env.episode["keeps_log"] > 0:
            break
        discard_log(sim)
        outcome = play_out(sim, env)
    return outcome
