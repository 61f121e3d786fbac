"""Kernels that fill the slots, mark the feasible actions and write the observation."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import DECIDE, DONE, TIME_LIMIT
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.settling import settle
from gpusched_env.core.placement.placing import goes_anywhere_now, look_for
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.state import Run
from gpusched_env.envs.actions import mark_slot_actions
from gpusched_env.envs.elastic_actions import mark_resizes, mark_start_sizes
from gpusched_env.envs.env_arrays import CLASS_DTYPE, SHOWN_LINK_DTYPE, EnvArrays
from gpusched_env.envs.observation.registry import shown_at, write_array
from gpusched_env.envs.sharing_actions import mark_partners, mark_sizes
from gpusched_env.envs.slots import ANY_JOB, fill_partners, fill_queue, fill_running
from gpusched_env.envs.tenant_limits import count_tenants, forbid_beyond_limits
from gpusched_env.network import LINK_TIERS
from gpusched_env.problem.cluster import NETWORK, RACK
from gpusched_env.problem.instance import Instance


@helper
def mark_by_count(sim: Run, env: EnvArrays, filled: int, before: int) -> int:
    """Mark the feasible starts if every rule accepts any free GPUs; return their number.

    ``filled`` slots hold a job now, ``before`` slots held one at the last call: beyond these the mask is 0 already.
    """
    choices = 0
    rules = len(env.rules)
    for k in range(filled):
        feasible = 1 if sim.jobs[env.queue[k]]["gpus"] <= sim.world["free_gpus"] else 0
        choices += feasible * rules
        for p in range(rules):
            env.mask[k * rules + p] = feasible
    for i in range(filled * rules, before * rules):
        env.mask[i] = 0
    return choices


@kernel(lazy=True)
def mark_starts(sim: Run, env: EnvArrays) -> int:
    """Fill the partner slots and mark the feasible starts; return their number."""
    fill_partners(sim, env, env.config["running_order"])
    sharing = sim.world["sharing"] > 0
    supply = sim.world["free_gpus"]
    columns = env.config["options"]
    at = 0
    choices = 0
    for k in range(len(env.queue)):
        row = env.queue[k]
        if row < 0:  # all later slots are empty too
            break
        gang = sim.jobs[row]["gpus"]
        kind = sim.jobs[row]["job_class"]
        if len(env.gang_sizes) > 0:
            choices += mark_start_sizes(sim, env, row, at)
            at += len(env.rules) * columns
            continue
        for p in range(len(env.rules)):
            rule = env.rules[p]
            option = -1
            found = 0
            if sim.rules[rule]["shares"] > 0 and sim.world["gpu_jobs"] > 1:
                found, option = find_shared(sim, row, sim.rules[rule]["shares"])
            elif gang <= supply:
                surely = not sharing and goes_anywhere_now(sim, kind, rule)
                found = gang if surely else look_for(sim, kind, gang, rule)
            if sharing:
                choices += mark_sizes(sim, env, row, found, option, at)
            else:
                feasible = 1 if found > 0 else 0  # a sum of int8 would overflow in plain Python
                env.mask[at] = feasible
                choices += feasible
            at += columns
        if len(env.partners) > 0:
            choices += mark_partners(sim, env, k, at)
            at += len(env.partners) * columns
    for i in range(at, len(env.queue) * (len(env.rules) + len(env.partners)) * columns):
        env.mask[i] = 0
    return choices


@helper
def mark_others(sim: Run, env: EnvArrays, choices: int, over: bool) -> bool:
    """Mark the feasible preemptions and waits; return whether there is a choice beside a single wait.

    ``choices`` is the number of feasible actions that start or resize jobs. If the episode is over, the plain wait is
    the only feasible action.
    """
    w = sim.world
    at = env.config["first_preemption"]
    if over:
        for i in range(len(env.mask)):
            env.mask[i] = 0
        env.mask[at + len(env.victims)] = 1
        return False
    useful = w["waiting"] > 0 or env.config["migration"] > 0
    for v in range(len(env.victims)):
        feasible = env.first_gangs[v] & 1 if useful and env.victims[v] >= 0 else 0  # lowest bit: slots.entry_of
        env.mask[at] = feasible
        choices += feasible
        at += 1
    # If nothing runs, no job will arrive and no timer is set, no event ends a wait, unless all jobs have left.
    next_s = min(w["timer_s"], w["closing_s"], w["eligible_s"])
    may_wait = w["running"] > 0 or w["next_arrival"] < w["jobs"] or next_s < np.inf or w["finished"] == w["jobs"]
    env.mask[at] = 1 if may_wait else 0
    for i in range(at + 1, at + 1 + len(env.delays)):
        env.mask[i] = 1
    if len(env.slot_actions) > 0:
        choices += mark_slot_actions(sim, env)
    return choices > 0 or len(env.delays) > 0


@helper
def copy_observation(env: EnvArrays) -> None:
    """Copy mask and observation to the current row of the arrays of copies."""
    row = env.episode["row"]
    for i in range(len(env.block)):
        env.copies[row, i] = env.block[i]
    for i in range(len(env.mask)):
        env.copies_of_mask[row, i] = env.mask[i]


@kernel
def write_mask_and_observation(sim: Run, env: EnvArrays, outcome: int, changed: int) -> bool:
    """Fill slots and mask and write the observation; return True.

    If a single wait is the only feasible action and forced waits are skipped, write no observation and return False.
    ``outcome`` is that of advance. ``changed`` is the job that an action has started, resized or preempted; ANY_JOB =
    time has passed. Mask and observation are copied to a row of the arrays of copies, if there are any.
    """
    w = sim.world
    settle(sim)
    before = env.ranked["queue_slots"]
    fill_queue(sim, env, env.config["queue_order"])
    filled = env.ranked["queue_slots"]
    fill_running(sim, env, env.config["running_order"], changed)
    plain = w["sharing"] == 0 and w["gpu_jobs"] == 1 and w["types"] == 1 and len(env.partners) == 0
    plain = plain and w["node_sets"] == 0 and w["parted"] == 0
    elastic = len(env.gang_sizes) > 0
    by_count = env.config["anywhere"] > 0 and plain and not elastic
    choices = mark_by_count(sim, env, filled, before) if by_count else mark_starts(sim, env)
    if elastic:
        choices += mark_resizes(sim, env)
    shows_tenants = len(env.tenants) > 0
    if shows_tenants:
        count_tenants(sim, env)
        if env.config["limits"] > 0:
            choices = forbid_beyond_limits(sim, env)
    over = outcome in (DONE, TIME_LIMIT) or env.episode["playing_out"] > 0
    choice = mark_others(sim, env, choices, over)
    may_wait = not over and env.mask[env.config["first_preemption"] + len(env.victims)] != 0
    if outcome == DECIDE and not choice and env.config["skip_forced_waits"] > 0 and may_wait:
        return False
    env.changed["same_time"] = changed != ANY_JOB
    env.changed["job"] = changed
    for i in range(len(env.array_numbers)):
        write_array(env.array_numbers[i], sim, env, shown_at(env.array_addresses[i]))
    if env.copies.shape[0] > 0:
        copy_observation(env)
    return True


def class_table(instance: Instance) -> np.ndarray:
    """CLASS_DTYPE [C]: the constants of each job class that the observation needs."""
    fastest = instance.iteration_s.min(axis=2)
    ideal = instance.ideal_iteration_s
    table = np.zeros(len(instance.classes), CLASS_DTYPE)
    table["ideal_iteration_s"] = ideal
    table["rack_loss"] = np.maximum(1.0 - ideal / fastest[:, RACK], 0.0)
    table["network_loss"] = np.maximum(1.0 - ideal / fastest[:, NETWORK], 0.0)
    table["skew"] = instance.workload.profiles.rows["skew"][instance.classes[:, 0]]
    return table


def link_table(instance: Instance) -> np.ndarray:
    """SHOWN_LINK_DTYPE [L]: the constants of each link that the observation needs; [1] of zeros without links."""
    links = instance.links
    table = np.zeros(max(len(links), 1), SHOWN_LINK_DTYPE)
    if len(links):
        table["capacity"] = links["capacity"] / links["capacity"].max()
        table["tier"] = (links["tier"] + 2) / (len(LINK_TIERS) + 1)  # tiers are numbered from -1, the bus
    return table
