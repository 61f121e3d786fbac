"""Schedulers that are asked which actions of an environment they would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from gpusched_env.agents.episodes import Episodes
from gpusched_env.baselines import make_scheduler
from gpusched_env.core.placement.rules import shares_by
from gpusched_env.envs.actions import SLOT_ACTIONS, Action, number_of
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import PREEMPT, RESIZE
from gpusched_env.simulator import Decision, Lease, Preempt, Refuse, Resize, Start, simulate

MOST_LOST: Final = 40  # a scheduler decides at most so many times as often by itself as it teaches


class Teachers:
    """A scheduler for each of some episodes, which need not be played as it would play them.

    Its decisions are not carried out while it is asked, so it must decide anew at every decision point, as most do.
    """

    def __init__(self, spec: str, episodes: Episodes, windows: Windows) -> None:
        if make_scheduler(spec).relies_on_decisions:
            raise SchedulerError(
                f"{spec} cannot be a teacher: it relies on its decisions being carried out. Imitate a dataset that it "
                "has played (python -m tools datasets, then --dataset NAME), or choose a scheduler that decides anew "
                "at every decision point, such as srtf or tiresias"
            )
        self._episodes, self._windows = episodes, windows
        self._schedulers = [make_scheduler(spec) for _ in episodes.simulations]
        self._views = [
            simulation.view_for(scheduler)
            for simulation, scheduler in zip(episodes.simulations, self._schedulers, strict=True)
        ]
        for scheduler, view in zip(self._schedulers, self._views, strict=True):
            scheduler.reset(view)

    def right(self, rows: Sequence[int] | np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which actions these schedulers would take now, bool [rows, actions], and which first, int64 [rows].

        A scheduler may make several decisions at one decision point. All of them are right.
        """
        right, first = np.zeros_like(masks), np.empty(len(rows), np.int64)
        for i, b in enumerate(rows):
            decisions = self._schedulers[b].decide(self._views[b])
            actions = right_actions(decisions, self._windows, masks[i], *self._episodes.slots(b))
            right[i, actions], first[i] = True, actions[0]
        return right, first


def check_teacher(spec: str, environment: ClusterEnv, seeds: Sequence[int]) -> None:
    """Refuse a scheduler whose preemptions or resizes the actions of an environment would not teach.

    It plays some episodes by itself, and others in which it is asked only where the environment asks, and its decisions
    become actions. What it then hardly ever does, it does at other times, such as rounds, or in no window.
    """
    episodes = Episodes(environment, seeds, keep_logs=True)
    teachers = Teachers(spec, episodes, environment.windows)
    while len(rows := episodes.waiting()):
        _, masks = episodes.seen(rows)
        episodes.play(rows, teachers.right(rows, masks)[1])
    taught = [simulation.log() for simulation in episodes.simulations]
    own = [
        simulate(instance, make_scheduler(spec), seed=seed)
        for instance, seed in zip(episodes.instances, seeds, strict=True)
    ]
    for kind, words in ((PREEMPT, "preempts running jobs"), (RESIZE, "resizes running jobs")):
        alone, asked = (sum(int((log.events["kind"] == kind).sum()) for log in logs) for logs in (own, taught))
        if alone > MOST_LOST * max(asked, 1):
            raise SchedulerError(
                f"{spec} cannot be a teacher here: in {len(seeds)} episodes it {words} {alone} times, but {asked} "
                "times where the environment asks, at arrivals and completions. It may decide in rounds of its own, or "
                "about jobs that queue_window and running_window do not show. Choose srtf, tiresias-g or another"
            )


def right_actions(
    decisions: Iterable[Decision], windows: Windows, mask: np.ndarray, queue: np.ndarray, running: np.ndarray
) -> list[int]:
    """Return the feasible actions that stand for a scheduler's decisions; if there are none, the action of waiting.

    A start on GPUs that the scheduler names itself, or by a rule that the agent does not have, stands for every start
    of that job. Where actions choose sizes, it stands for those on the size nearest to the scheduler's, the smaller
    one on ties. Decisions about jobs in no slot, leases and bounded waits have no action. None of the decisions is
    carried out, so a scheduler that repeats one is asked no further.
    """
    found: list[int] = []
    seen: set[tuple[type, int]] = set()
    for decision in decisions:
        if isinstance(decision, Start | Resize | Preempt):
            if (key := (type(decision), int(decision.job))) in seen:  # it expects that the decision was carried out
                break
            seen.add(key)
        found += actions_of(decision, windows, queue, running)
    return [action for action in found if mask[action]] or [windows.wait_action]


def actions_of(decision: Decision, windows: Windows, queue: np.ndarray, running: np.ndarray) -> list[int]:
    """Return the actions that stand for a decision, feasible or not, as :func:`right_actions` describes.

    On free GPUs, a start that names no sub-steps is the one at the whole batch.
    """
    if isinstance(decision, Resize) or (isinstance(decision, Start) and windows.sizes):
        return _sized_actions_of(decision, windows, queue, running)
    if isinstance(decision, Start):
        starts, sizes = windows.slot_starts, max(windows.sub_batches, 1)
        places = range(starts)
        if decision.gpus is None and decision.rule in windows.rules:
            first = windows.rules.index(decision.rule) * sizes
            whole = decision.sub_steps is None and not shares_by(decision.rule)
            places = range(first, first + (1 if whole else sizes))
        return [starts * k + place for k in np.flatnonzero(queue == decision.job).tolist() for place in places]
    if isinstance(decision, Preempt):
        return [windows.first_preemption + v for v in np.flatnonzero(running == decision.job).tolist()]
    for name in windows.more_actions:
        if isinstance(decision, Refuse | Lease) and SLOT_ACTIONS[name].decision is type(decision):
            slots = queue if SLOT_ACTIONS[name].slots == "queue" else running
            return [number_of(windows, Action(name, k)) for k in np.flatnonzero(slots == decision.job).tolist()]
    return []


def _sized_actions_of(decision: Start | Resize, windows: Windows, queue: np.ndarray, running: np.ndarray) -> list[int]:
    """Return the actions for a start or a resize where actions choose sizes; without a size, those on every size."""
    first, step, slots = 0, windows.slot_starts, queue
    if isinstance(decision, Resize):
        first, step, slots = windows.first_resize, windows.slot_resizes, running
    wanted = decision.size if decision.gpus is None else len(decision.gpus)
    distances = [0 if wanted is None else abs(size - wanted) for size in windows.sizes]
    nearest = min(distances, default=0)
    sizes = [s for s, distance in enumerate(distances) if distance == nearest][: None if wanted is None else 1]
    named = decision.gpus is None and decision.rule in windows.rules
    rules = [windows.rules.index(decision.rule)] if named else range(len(windows.rules))
    return [
        first + step * k + rule * len(windows.sizes) + size
        for k in np.flatnonzero(slots == decision.job).tolist()
        for rule in rules
        for size in sizes
    ]
