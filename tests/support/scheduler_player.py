"""Play any scheduler through ``env.step``; the event log is that of a direct run."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import widest_windows
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import EventLog
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import Lease, Preempt, Resize, Scheduler, Start, Wait


def play_scheduler(env: gym.Env[Any, Any], scheduler: Scheduler, seed: int) -> EventLog:
    """Play one episode of ``env`` with a scheduler and return its event log.

    The environment must be able to express every decision: its windows must show each job that the scheduler starts or
    preempts, its rules must include those of the scheduler, and it must skip no decision point and grant no leases of
    its own. :func:`wide_open` makes such an environment. An agent's small windows suffice for some schedulers: FIFO
    starts only the first jobs of the queue.

    Raises
    ------
    SchedulerError : the environment skips waits or grants leases, a job is in no slot, a preemption is one that the
        environment forbids, or the step limit is reached
    GpuschedError : the environment cannot express a decision for another reason
    """
    base = env.unwrapped
    assert isinstance(base, ClusterEnv)
    if base.skips_forced_waits:
        raise SchedulerError(
            "play_scheduler needs every decision point: make the environment with skip_forced_waits=False"
        )
    if base.windows.lease_s is not None:
        raise SchedulerError("play_scheduler needs lease_s=None: a scheduler grants its leases itself")
    env.reset(seed=seed)
    view = base.simulation.view_for(scheduler)
    scheduler.reset(view)
    over = False

    def step(action: int) -> bool:
        """Play an action; return whether the run is over. The step limit is an error: a direct run has none."""
        _, _, terminated, truncated, _ = env.step(action)
        if base.encoder._episode["playing_out"]:  # without the agent
            limit = base.limit(base.simulation.instance)
            raise SchedulerError(f"scheduler {scheduler.name!r}: truncated after {limit} steps; raise step_limit")
        return terminated or truncated

    while not over:
        for decision in scheduler.decide(view):
            explicit = isinstance(decision, Start | Resize) and decision.gpus is not None
            if isinstance(decision, Wait | Lease) or explicit:
                base.decide(decision)
            elif (action := base.encoder.action_of(decision)) is None:
                base.simulation.apply(decision)  # which refuses it, or changes nothing
            else:
                if isinstance(decision, Preempt) and not base.mask[action]:
                    raise SchedulerError(
                        f"{decision}: the environment forbids this preemption; set migration=True and least_run_s=0"
                    )
                over = step(action)
                base.simulation.refusal = "the action is infeasible" if base.encoder.is_refused else ""
        if not base.mask[base.windows.wait_action]:
            raise SchedulerError(
                f"scheduler {scheduler.name!r} stalls at {base.simulation.now_s:g} s: nothing runs, no job arrives, "
                f"and it starts none of the {len(view.waiting)} waiting jobs"
            )
        over = step(base.windows.wait_action)
    return base.event_log()


def wide_open(scenario: str | Scenario, seed: int, **changes: Any) -> ClusterEnv:
    """Make an environment that can express every decision of a scheduler on a scenario's workload of one seed.

    Give ``rules`` if the scheduler places jobs by other rules than "pack". If jobs are elastic, actions name all
    their sizes.
    """
    scenario = get_scenario(scenario) if isinstance(scenario, str) else scenario
    instance = scenario.instance(seed)
    options: dict[str, Any] = {
        **widest_windows(instance),
        "sizes": np.unique(instance.sizes.gpus).tolist() if instance.sizes.elastic else (),
        "skip_forced_waits": False,
        "migration": True,
        "least_run_s": 0.0,
        "step_limit": 10_000_000,
    }
    return ClusterEnv(scenario, **(options | changes))
