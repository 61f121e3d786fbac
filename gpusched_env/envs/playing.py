"""Let any scheduler play through ``env.step``: the environment and the direct run give the same event log."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import EventLog
from gpusched_env.simulator import Decision, Preempt, Scheduler, Start, Wait


def play_scheduler(env: gym.Env[Any, Any], scheduler: Scheduler, seed: int) -> EventLog:
    """Play one episode of ``env`` with a scheduler and return its event log.

    The environment must show whatever the scheduler may want: windows as large as its queue and its cluster
    (:func:`wide_open`), the scheduler's placement rules, and every decision point.

    Raises
    ------
    SchedulerError : the environment skips waits or cannot express a decision, or the episode is truncated
    """
    base = env.unwrapped
    assert isinstance(base, ClusterEnv)
    if base.skips_forced_waits:
        raise SchedulerError("play_scheduler needs every decision point: make the environment with skip_forced_waits=False")
    env.reset(seed=seed)
    view = base.simulation.view_for(scheduler)
    scheduler.reset(view)
    over = truncated = False
    while not over:
        for decision in scheduler.decide(view):
            if isinstance(decision, Wait):
                base.wake_at(decision.until_s)
            elif (action := action_of(base, decision)) is not None:
                _, _, _, truncated, _ = env.step(action)
        if not truncated:
            _, _, over, truncated, _ = env.step(base.wait_action)
        if truncated:
            raise SchedulerError(
                f"scheduler {scheduler.name!r}: the episode was truncated at {base.simulation.now_s:g} s; "
                "raise step_limit, or check that the scheduler starts every job"
            )
    return base.event_log()


def action_of(env: ClusterEnv, decision: Decision) -> int | None:
    """Number the action of a start or preemption; None if the simulator would refuse the decision anyway.

    Raises
    ------
    SchedulerError : the job is in no slot, the rule is not enabled, or GPUs are given explicitly
    """
    if isinstance(decision, Preempt):
        slots, remedy = env.running_slots, "running_window"
        first, step = env.wait_action - len(env.running_slots), 1
    elif isinstance(decision, Start) and decision.gpus is None:
        if decision.rule not in env.rules:
            raise SchedulerError(f"{decision}: make the environment with rules that include {decision.rule!r}")
        slots, remedy = env.queue_slots, "queue_window"
        first, step = env.rules.index(decision.rule), len(env.rules)
    else:
        raise SchedulerError(f"{decision} has no action: explicit GPUs are for direct runs")
    slot = (slots == decision.job).nonzero()[0]
    if len(slot):
        return first + step * int(slot[0])
    status = env.simulation.state.jobs["replica"][0, decision.job] >= 0
    if isinstance(decision, Preempt) == bool(status):
        raise SchedulerError(f"{decision}: job {decision.job} is in no slot; raise {remedy}")
    return None


def wide_open(scenario: Any, seed: int, **changes: Any) -> ClusterEnv:
    """Make an environment in which every scheduler can express every decision on the scenario's workload of a seed."""
    instance = scenario.instance(seed)
    options: dict[str, Any] = {
        "queue_window": len(instance.workload),
        "running_window": min(instance.cluster.gpus, len(instance.workload)),
        "skip_forced_waits": False,
        "step_limit": 10_000_000,
    }
    return ClusterEnv(scenario, **(options | changes))
