"""The validator must catch every kind of corruption: each case changes one thing in a valid log."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from metrics_reference import play, random_instance, shortest_remaining, unit_instance

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import validate
from gpusched_env.problem.instance import Instance


def valid() -> tuple[Instance, EventLog]:
    instance = random_instance(1, jobs=40, checkpoint_s=10.0, restore_s=20.0)
    return instance, play(instance, shortest_remaining, preemptive=True, seed=1)


def first(log: EventLog, kind: int, skip: int = 0) -> int:
    return int(np.flatnonzero(log.events["kind"] == kind)[skip])


def broken(change: Callable[[np.ndarray, np.ndarray], object]) -> EventLog:
    """Return a valid log after ``change(events, gpus)``, which edits in place or returns new events."""
    log = valid()[1]
    events, gpus = log.events.copy(), log.gpus.copy()
    result = change(events, gpus)
    return EventLog(result if isinstance(result, np.ndarray) else events, gpus)


def edit(kind: int, field: str, value: float, skip: int = 0) -> Callable[[np.ndarray, np.ndarray], object]:
    """Add ``value`` to a field of one event."""

    def change(events: np.ndarray, gpus: np.ndarray) -> None:
        events[field][first(EventLog(events, gpus), kind, skip)] += value

    return change


def drop(kind: int, skip: int = 0) -> Callable[[np.ndarray, np.ndarray], object]:
    return lambda events, gpus: np.delete(events, first(EventLog(events, gpus), kind, skip))


def repeat(kind: int) -> Callable[[np.ndarray, np.ndarray], object]:
    def change(events: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        at = first(EventLog(events, gpus), kind)
        return np.insert(events, at + 1, events[at])

    return change


def set_gpu(value: int) -> Callable[[np.ndarray, np.ndarray], object]:
    def change(events: np.ndarray, gpus: np.ndarray) -> None:
        gpus[0] = value

    return change


def duplicate_gpu(events: np.ndarray, gpus: np.ndarray) -> None:
    big = np.flatnonzero((events["gpu_count"] > 1) & (events["tier"] == 0))[0]
    gpus[events["gpu_at"][big]] = gpus[events["gpu_at"][big] + 1]


def steal_gpu(events: np.ndarray, gpus: np.ndarray) -> None:
    """Give a one-GPU job a GPU that another gang still holds."""
    kind = events["kind"]
    for start in np.flatnonzero(((kind == START) | (kind == RESUME)) & (events["gpu_count"] == 1)):
        earlier = np.flatnonzero((kind[:start] == START) | (kind[:start] == RESUME))
        for holder in earlier[::-1]:
            between = events[holder + 1 : start]
            if not np.isin(between["kind"][between["job"] == events["job"][holder]], (RELEASE, COMPLETE)).any():
                gpus[events["gpu_at"][start]] = gpus[events["gpu_at"][holder]]
                return
    raise AssertionError("no such pair")


def backwards(events: np.ndarray, gpus: np.ndarray) -> None:
    events["time_s"][50] = events["time_s"][49] - 1.0


def misplaced_gang(events: np.ndarray, gpus: np.ndarray) -> None:
    events["gpu_at"][first(EventLog(events, gpus), START, 3)] -= 1


def drop_tail_completion(events: np.ndarray, gpus: np.ndarray) -> np.ndarray:
    return events[:-1]


CORRUPTIONS = {
    "time goes back": (backwards, "time goes back"),
    "not a number": (edit(START, "value", np.nan), "not a finite number"),
    "unknown kind": (edit(ARRIVAL, "kind", 17), "unknown kind"),
    "unknown job": (edit(ARRIVAL, "job", 1000), "no such job"),
    "sub-steps": (edit(START, "sub_steps", 1), "sub_steps"),
    "arrival at a wrong time": (edit(ARRIVAL, "time_s", -1e-7), "does not arrive at this time"),
    "arrival twice": (repeat(ARRIVAL), "waits for its first start"),
    "start before arrival": (drop(ARRIVAL), "has not arrived"),
    "start of a running job": (repeat(START), "is running"),
    "complete twice": (repeat(COMPLETE), "has finished"),
    "progress after the finish": (edit(COMPLETE, "kind", RELEASE - COMPLETE), "is running"),
    "start that should be a resume": (edit(RESUME, "kind", START - RESUME), "waits to resume"),
    "resume of a new job": (edit(START, "kind", RESUME - START), "waits for its first start"),
    "preempt of a waiting job": (drop(RESUME), "waits to resume"),
    "preempt vanished": (drop(PREEMPT), "is running"),
    "release vanished": (drop(RELEASE), "is being checkpointed"),
    "completion vanished": (drop(COMPLETE), "GPU .* is held by job"),
    "last completion vanished": (drop_tail_completion, "never finishes"),
    "gang too small": (edit(START, "gpu_count", -1, 5), "wrong size|must be 0|gpu_at is not where"),
    "gang too large": (edit(START, "gpu_count", 1), "wrong size"),
    "gang elsewhere in the list": (misplaced_gang, "gpu_at is not where"),
    "GPU id too large": (set_gpu(16), "GPU 16 does not exist"),
    "GPU id negative": (set_gpu(-1), "GPU -1 does not exist"),
    "GPU twice in a gang": (duplicate_gpu, "occurs twice"),
    "GPU held by another": (steal_gpu, "is held by job"),
    "tier too tight": (edit(START, "tier", 1), "tier"),
    "replica changes": (edit(COMPLETE, "replica", 1), "replica"),
    "arrival with a replica": (edit(ARRIVAL, "replica", 1), "replica -1"),
    "restore skipped": (edit(RESUME, "value", -20.0), "progress must begin"),
    "restore too long": (edit(RESUME, "value", 1e-3), "progress must begin"),
    "late progress": (edit(START, "value", 1.0), "progress must begin"),
    "checkpoint too long": (edit(RELEASE, "time_s", 1e-6), "checkpoint takes|time goes back"),
    "work appears": (edit(PREEMPT, "value", 1e-3), "not conserved"),
    "work vanishes": (edit(PREEMPT, "value", -1e-3), "not conserved"),
    "finish too late": (edit(COMPLETE, "time_s", 1e-3, -1), "not conserved"),
    "value where none belongs": (edit(COMPLETE, "value", 1.0), "value must be 0"),
}


def test_the_untouched_log_is_valid() -> None:
    instance, log = valid()
    validate(instance, log)
    kinds = np.bincount(log.events["kind"], minlength=6)
    assert (kinds > 5).all(), "the log must have every kind of event for these tests to mean something"


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_is_caught(name: str) -> None:
    change, reason = CORRUPTIONS[name]
    with pytest.raises(ScheduleError, match=reason) as caught:
        validate(valid()[0], broken(change))
    assert "event" in str(caught.value)


def test_the_message_names_event_and_job() -> None:
    at = first(valid()[1], PREEMPT)
    job = valid()[1].events["job"][at]
    with pytest.raises(ScheduleError, match=rf"^event {at} \(preempt of job {job} at "):
        validate(valid()[0], broken(edit(PREEMPT, "value", 1.0)))


def test_a_change_of_any_field_is_caught() -> None:
    """Change every field of every event, one at a time."""
    instance = unit_instance([0, 2, 3], [2, 1, 2], [10, 3, 1], "2x1", checkpoint_s=1.0, restore_s=1.0)
    log = play(instance, shortest_remaining, preemptive=True)
    validate(instance, log)
    assert (log.events["kind"] == PREEMPT).any()
    for number in range(len(log.events)):
        for field in log.events.dtype.names:
            events = log.events.copy()
            events[field][number] += 1
            with pytest.raises(ScheduleError):
                validate(instance, EventLog(events, log.gpus))
    for number in np.flatnonzero(log.events["gpu_count"] == 2):  # a gang of both GPUs has no other valid placement
        for index in (0, 1):
            gpus = log.gpus.copy()
            gpus[log.events["gpu_at"][number] + index] += 1
            with pytest.raises(ScheduleError):
                validate(instance, EventLog(log.events, gpus))


def test_every_prefix_is_a_valid_incomplete_log() -> None:
    instance, log = valid()
    for count in range(len(log.events)):
        events = log.events[:count]
        part = EventLog(events, log.gpus[: events["gpu_count"].sum()])
        validate(instance, part, complete=False)
        with pytest.raises(ScheduleError, match="missing for job"):
            validate(instance, part)


def test_a_time_limit_admits_unfinished_jobs_only() -> None:
    instance = unit_instance([0, 1, 50], [2, 2, 1], [10, 100, 1], "1x2", time_limit_s=40.0)
    log = play(instance)
    validate(instance, log)
    for count in range(first(log, COMPLETE) + 1):
        events = log.events[:count]
        with pytest.raises(ScheduleError):  # an event was due before the limit
            validate(instance, EventLog(events, log.gpus[: events["gpu_count"].sum()]))
    shorter = unit_instance([0, 1, 50], [2, 2, 1], [10, 100, 1], "1x2", time_limit_s=5.0)
    with pytest.raises(ScheduleError, match="beyond the time limit"):
        validate(shorter, log)


def test_rounds_bind_decisions() -> None:
    exact = unit_instance([0, 7], [1, 1], [10, 10], "1x2")
    in_rounds = unit_instance([0, 7], [1, 1], [10, 10], "1x2", round_s=5.0)
    with pytest.raises(ScheduleError, match=r"event 3 \(start of job 1 .* not on a round"):
        validate(in_rounds, play(exact))


def test_another_instance_is_refused() -> None:
    instance, log = valid()
    with pytest.raises(ScheduleError):
        validate(random_instance(2, jobs=40, checkpoint_s=10.0, restore_s=20.0), log)
    with pytest.raises(ScheduleError, match="EVENT_DTYPE"):
        validate(instance, EventLog(log.events["time_s"], log.gpus))
