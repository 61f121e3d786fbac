"""Schedulers that play themselves: each of their decisions is carried out before the next one is asked for.

A scheduler that remembers what it has decided can only be played in this way. Its decisions become actions of an
environment, as far as there are such actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.teachers import actions_of
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.encoder import Encoder
from gpusched_env.envs.step import NO_ACTION, RESUME
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClusterView, Lease, Preempt, Refuse, Resize, Simulation, Start, Wait


class OwnPlay:
    """The actions by which a scheduler plays each of some episodes, with the interface of ``Teachers``."""

    def __init__(self, spec: str, environment: ClusterEnv, episodes: Episodes, seeds: Sequence[int]) -> None:
        self._actions = [
            own_actions(spec, environment, instance, seed)
            for instance, seed in zip(episodes.instances, seeds, strict=True)
        ]

    def right(self, rows: Sequence[int] | np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the next action of each of these episodes, as bool [rows, actions] and as int64 [rows]."""
        taken = np.array([next(self._actions[b]) for b in rows], np.int64)
        right = np.zeros_like(masks)
        right[np.arange(len(taken)), taken] = True
        assert not (right & ~masks).any(), "an episode differs from the scheduler's own run of it"
        return right, taken


def own_actions(spec: str, environment: ClusterEnv, instance: Instance, seed: int) -> Iterator[int]:
    """Yield the actions by which a scheduler plays an episode, without the waits that the environment skips.

    The scheduler plays a simulation of its own, in which it is asked at every decision point. A start on GPUs that the
    scheduler names itself, or by a rule that the agent does not have, becomes the feasible start of that job whose GPUs
    differ least. A job in no slot is neither started nor preempted. The scheduler waits by the bounded wait whose delay
    is nearest to the earliest time of its ``Wait`` decisions. All leases are those of the environment.
    """
    scheduler = make_scheduler(spec)
    if scheduler.remembers_gpus:
        raise SchedulerError(
            f"{spec} cannot play through an environment: it remembers the GPUs that it has chosen for jobs, and "
            "no action names GPUs; choose a scheduler that reads from the view where jobs run, such as dally or srtf"
        )
    simulation = Simulation(instance, seed)
    encoder = Encoder(environment.windows, simulation, skip_forced_waits=False)
    windows, mask = environment.windows, encoder.mask
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    simulation.arrays.world["timer_s"] = np.inf
    over = encoder.step(RESUME)
    while not over:
        wake_s = np.inf
        refused: set[str] = set()
        for decision in scheduler.decide(view):
            if isinstance(decision, Wait):
                wake_s = min(wake_s, simulation.end_of(decision))
                continue
            if (action := _action(encoder, view, decision)) is not None:
                yield action
                encoder.step(action)
                continue
            if str(decision) in refused:  # it would repeat the decision for ever
                break
            refused.add(str(decision))
            if windows.lease_s is None or isinstance(decision, Start):
                continue
            if decision.job in view.lease_ended:
                # The gang keeps its GPUs. The wait at this same time would renew its lease: renewed already now, the
                # scheduler sees that the gang has a lease, and asks no more.
                simulation.apply(Lease(decision.job, simulation.now_s + windows.lease_s))
        if (timer_s := float(simulation.arrays.world["timer_s"])) < np.inf:  # set by the scheduler itself
            simulation.arrays.world["timer_s"] = np.inf
            encoder.step(NO_ACTION)
        action = _wait(windows, min(wake_s, timer_s) - simulation.now_s)
        if not mask[action]:
            raise SchedulerError(
                f"{spec} stalls at {simulation.now_s:g} s: nothing runs, no event will come, and it starts none of the "
                f"{len(view.waiting)} waiting jobs. It may rely on a decision that the windows cannot express: show "
                "more jobs (queue_window, running_window), give more rules, or give delays_s if it waits for a time"
            )
        if np.count_nonzero(mask) > 1 or not environment.skips_forced_waits:
            yield action
        over = encoder.step(action)


def _action(encoder: Encoder, view: ClusterView, decision: Start | Resize | Preempt | Lease | Refuse) -> int | None:
    """Return the feasible action that comes closest to a decision; None = there is none."""
    found = actions_of(decision, encoder.windows, encoder.queue_slots, encoder.running_slots)
    feasible = [action for action in found if encoder.mask[action]]
    if len(feasible) < 2 or not isinstance(decision, Start) or decision.gpus is None:
        return feasible[0] if feasible else None
    wanted = set(decision.gpus)

    def difference(action: int) -> int:
        start = encoder.decision_of(action)
        assert isinstance(start, Start)
        return len(wanted.symmetric_difference(start.gpus or view.where(start.job, start.rule)))

    return min(feasible, key=difference)


def _wait(windows: Windows, delay_s: float) -> int:
    """Return the action of waiting for a time; inf = for the next event."""
    if not windows.delays_s or np.isinf(delay_s):
        return windows.wait_action
    return windows.wait_action + 1 + int(np.argmin(np.abs(np.array(windows.delays_s) - delay_s)))
