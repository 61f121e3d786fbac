"""Kernels of one step: carry out the action, play events if it waits, write the observation, compute the reward.

After the step limit they play the run on without the agent, so that a return is that of a whole schedule.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.events import (
    DECIDE,
    DONE,
    EXPLICIT,
    LOG_FULL,
    STALLED,
    TIME_LIMIT,
    TOO_LATE,
    advance,
    has_room,
    lease,
    preempt,
    start,
    stuck,
)
from gpusched_env.core.handle import handle_at, kernel
from gpusched_env.core.network.settling import settle
from gpusched_env.core.placement.beside import find_beside
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.resizing import choose_size
from gpusched_env.core.state import Run
from gpusched_env.envs.actions import act_in_slot
from gpusched_env.envs.elastic_actions import act_resize
from gpusched_env.envs.env_arrays import BatchArrays, EnvArrays
from gpusched_env.envs.mask_and_observation import write_mask_and_observation
from gpusched_env.envs.rewards import level_of
from gpusched_env.envs.sharing_actions import chosen_steps
from gpusched_env.envs.slots import ANY_JOB
from gpusched_env.envs.step_results import DT, FIRST_COMPONENT, REFUSALS, REWARD, TERMINATED, TRUNCATED
from gpusched_env.envs.tenant_limits import exceeds_limits

# Results of :func:`play` beside those of advance.
INFEASIBLE: Final = 8
NEARLY_FULL: Final = 16
# Actions beside those of the action space.
NO_ACTION: Final = -1  # only write mask and observation
RESUME: Final = -2  # advance again, after a full log has been drained
SKIP: Final = -3  # leave the environment as it is
# Bits that step_all returns, over all environments. DRAIN: a log should be drained. STOPPED: a log is full, so its
# environment has stopped. OVER: an episode is over. REFUSED: an action was infeasible, so no observation was written.
# LATE: no event is left up to the latest time of the clock.
DRAIN, STOPPED, OVER, REFUSED, LATE = 1, 2, 4, 8, 16

MOST_LOGS: Final = 20  # that one call throws away: then it returns STOPPED, so that Python can stop a long step
# Values of EPISODE_DTYPE's ``playing_out``: what comes next, also after a full log has been drained.
STARTS, EVENTS = 1, 2

run_at = handle_at(Run)
env_at = handle_at(EnvArrays)


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
    check_begin has found one for every gang.
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


@kernel(lazy=True)
def start_beside(sim: Run, env: EnvArrays, row: int, place: int, size: int) -> None:
    """Start a waiting job beside the gang in a partner slot."""
    option = size if env.config["sub_batches"] > 0 else -1
    found, option = find_beside(sim, row, env.partners[place], option)
    kind = sim.jobs[row]["job_class"]
    start(sim, row, EXPLICIT, found, True, sim.sub_batches[kind, option, 0]["sub_steps"])


@kernel
def act(sim: Run, env: EnvArrays, action: int) -> int:
    """Carry out a feasible action; return the job that it started, resized or preempted, or ANY_JOB if it waits."""
    w = sim.world
    columns = env.config["options"]
    slot_starts = (len(env.rules) + len(env.partners)) * columns
    starts = len(env.queue) * slot_starts
    if action < starts:
        row = env.queue[action // slot_starts]
        place = action % slot_starts // columns
        size = action % columns
        if place < len(env.rules):
            if len(env.gang_sizes) > 0:
                choose_size(sim, row, env.gang_sizes[size])
            steps = chosen_steps(sim, sim.jobs[row]["job_class"], env.config["sub_batches"], size)
            start(sim, row, env.rules[place], 0, False, steps)
        else:
            start_beside(sim, env, row, place - len(env.rules), size)
        if env.config["lease_s"] < np.inf:
            lease(sim, row, w["clock_s"] + env.config["lease_s"])
        return row
    victim = action - env.config["first_preemption"]
    if victim < 0:
        return act_resize(sim, env, action - starts)
    if victim < len(env.victims):
        row = env.victims[victim]
        preempt(sim, row)
        return row
    if action >= env.config["first_slot_action"]:
        return act_in_slot(sim, env, action - env.config["first_slot_action"])
    delay = victim - len(env.victims) - 1
    if delay >= 0:
        w["timer_s"] = min(w["timer_s"], w["clock_s"] + env.delays[delay])
    return ANY_JOB


@kernel
def play(sim: Run, env: EnvArrays, action: int) -> int:
    """Play one action, skip forced waits, and write mask and observation.

    The action refers to the slots as the last call filled them. NO_ACTION only writes, RESUME advances again after a
    full log. Returns an outcome of advance, LOG_FULL (drain the log, then RESUME) or INFEASIBLE (nothing has changed,
    nothing is written). NEARLY_FULL is added when the log should be drained.
    """
    w = sim.world
    before = env.episode["outcome"]  # an episode that is over stays over
    outcome = before if before in (DONE, TIME_LIMIT) else DECIDE
    changed = ANY_JOB
    waits = action == RESUME
    if action >= 0:
        if env.mask[action] == 0:
            return INFEASIBLE
        changed = act(sim, env, action)
        waits = changed == ANY_JOB
    while True:
        if waits:
            # A wait renews ended leases. After a full log the agent has not been asked about them yet.
            if env.config["lease_s"] < np.inf and w["leases_over"] > 0 and action != RESUME:
                renew_leases(sim, env.config["lease_s"])
            outcome = advance(sim)
            if outcome == LOG_FULL:
                return LOG_FULL
            action = NO_ACTION
            changed = ANY_JOB
        if write_mask_and_observation(sim, env, outcome, changed):
            break
        waits = True
    if 2 * w["events"] > len(sim.events) or 2 * w["event_gpus"] > len(sim.event_gpus):
        outcome += NEARLY_FULL
    return outcome


def has_stopped(episodes: np.ndarray) -> np.ndarray:
    """Return whether the log of each environment is full, so that it has stopped within a step, bool [B]."""
    stopped: np.ndarray = episodes["outcome"] == LOG_FULL
    return stopped


@kernel
def write_results(sim: Run, env: EnvArrays) -> int:
    """End a step: write its reward and the other columns of ``results``; return OVER if the episode is over, else 0."""
    w = sim.world
    episode = env.episode
    reward = 0.0
    for i in range(len(env.components)):
        level = level_of(env.components[i], sim)
        env.results[FIRST_COMPONENT + i] = (env.levels[i] - level) / env.scales[i]
        reward += env.weights[i] * env.results[FIRST_COMPONENT + i]
        env.levels[i] = level
    if episode["is_refused"] > 0:
        reward -= env.config["refusal_cost"]
    env.results[REWARD] = reward
    env.results[DT] = w["clock_s"] - episode["clock_s"]
    env.results[REFUSALS] = episode["refusals"]
    episode["clock_s"] = w["clock_s"]
    episode["episode_return"] += reward
    episode["steps"] += 1
    episode["stepping"] = 0
    done = episode["outcome"] == DONE
    cut = episode["outcome"] == TIME_LIMIT or episode["playing_out"] > 0
    env.results[TERMINATED] = 1.0 if done else 0.0
    env.results[TRUNCATED] = 1.0 if cut else 0.0
    return OVER if done or cut else 0


@kernel
def step(sim: Run, env: EnvArrays, action: int) -> int:
    """Play an action (or NO_ACTION, RESUME), compute its reward, and return bits."""
    episode = env.episode
    keeps_log = episode["keeps_log"] > 0
    bits = 0
    if action >= 0:
        episode["stepping"] = 1
    if action != RESUME:  # a full log may have stopped the step of a refused action, while the run was played out
        episode["is_refused"] = 0
    over_limit = episode["stepping"] > 0 and episode["playing_out"] > 0
    outcome = LOG_FULL
    if not over_limit:
        outcome = play(sim, env, action)
        for _ in range(MOST_LOGS):
            if outcome != LOG_FULL or keeps_log:
                break
            discard_log(sim)
            outcome = play(sim, env, RESUME)
        if outcome == INFEASIBLE:  # nothing has changed: mask and observation are still right
            episode["is_refused"] = 1
            episode["refusals"] += 1
            bits |= REFUSED
            outcome = DECIDE
        elif outcome >= NEARLY_FULL:
            outcome -= NEARLY_FULL
            bits |= DRAIN
        if episode["stepping"] > 0 and episode["steps"] + 1 >= episode["step_limit"]:
            over_limit = outcome in (DECIDE, STALLED)
            episode["playing_out"] = STARTS if over_limit else 0
    if over_limit:
        outcome = play_to_end(sim, env)
        bits &= ~REFUSED  # the observation has been written again
    episode["outcome"] = outcome
    if outcome == LOG_FULL:
        return STOPPED
    if outcome == TOO_LATE:
        bits |= LATE
    if not keeps_log:  # the next step writes to the same addresses, which are still in the caches
        discard_log(sim)
        bits &= ~DRAIN
    if episode["stepping"] > 0:
        bits |= write_results(sim, env)
    elif episode["steps"] == 0:  # the first step's reward includes the time before the first decision
        episode["clock_s"] = sim.world["clock_s"]
    return bits


@kernel
def step_all(batch: BatchArrays, first: int, end: int) -> int:
    """Step environments ``first`` to ``end`` - 1, except those whose action is SKIP; return the bits of all."""
    bits = 0
    for b in range(first, end):
        if batch.actions[b] != SKIP:
            bits |= step(run_at(batch.runs[b]), env_at(batch.envs[b]), batch.actions[b])
    return bits
