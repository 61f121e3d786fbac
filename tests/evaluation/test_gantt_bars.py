"""Bars of a Gantt chart equal the holders of each GPU over time, shared or not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import play, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.evaluation.bars import CHECKPOINTING, PARTS, RESTORING, RUNNING, bars
from gpusched_env.event_log import ARRIVAL, COMPLETE, EVENT_DTYPE, RELEASE, RESUME, START, EventLog
from gpusched_env.problem.instance import Instance

GPUS = 6
Stay = tuple[int, int, list[int]]  # start [s], end [s], GPUs
STAYS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 30), st.lists(st.integers(0, GPUS - 1), min_size=1, unique=True)),
    min_size=1,
    max_size=12,
)


def written(stays: list[Stay]) -> tuple[Instance, EventLog]:
    """A log in which each job runs once on given GPUs, shared or not."""
    instance = unit_instance(
        [0.0] * len(stays), [len(gang) for *_, gang in stays], [float(e - s) for s, e, _ in stays], f"1x{GPUS}"
    )
    events = [(0.0, 0.0, -1, ARRIVAL, job, -1, 0, -1, 1) for job in range(len(stays))]
    gpus: list[int] = []
    for job, (start, end, gang) in enumerate(stays):
        events.append((start, start, len(gpus), START, job, 0, len(gang), 0, 1))
        events.append((end, 0.0, -1, COMPLETE, job, 0, 0, -1, 1))
        gpus += gang
    return instance, EventLog(np.sort(np.array(events, EVENT_DTYPE), order="time_s", kind="stable"), np.array(gpus))


def holders(instance: Instance, log: EventLog, time_s: float) -> dict[int, set[int]]:
    """Jobs on each GPU just after a time, recounted event by event."""
    gangs: dict[int, np.ndarray] = {}
    for number, event in enumerate(log.events):
        if event["time_s"] > time_s:
            break
        if event["kind"] in (START, RESUME):
            gangs[int(event["job"])] = log.gang(number)
        elif event["kind"] in (COMPLETE, RELEASE):
            del gangs[int(event["job"])]
    return {gpu: {job for job, gang in gangs.items() if gpu in gang} for gpu in range(instance.cluster.gpus)}


def check(instance: Instance, log: EventLog, tolerance_s: float = 0.0) -> None:
    drawn = bars(instance, log).bars
    assert (drawn["end_s"] > drawn["start_s"]).all()
    times = np.unique(np.concatenate([drawn["start_s"], drawn["end_s"]]))
    for early, late in itertools.pairwise(times):
        if late - early <= tolerance_s:
            continue
        middle = (early + late) / 2
        there = drawn[(drawn["start_s"] < middle) & (middle < drawn["end_s"])]
        for gpu, jobs in holders(instance, log, middle).items():
            on = there[(there["row"] <= gpu) & (gpu < there["row"] + there["rows"])]
            assert sorted(on["job"].tolist()) == sorted(jobs)
            assert sorted(on["lane"].tolist()) == list(range(len(jobs)))
            assert (on["lanes"] == len(jobs)).all()


@settings(max_examples=60)
@given(STAYS)
def test_shared_gpus_are_split_between_their_jobs(stays: list[tuple[int, int, list[int]]]) -> None:
    check(*written([(start, start + length, gang) for start, length, gang in stays]))


@settings(max_examples=5)
@given(st.integers(0, 1_000), st.sampled_from(["srtf", "las", "tiresias"]))
def test_bars_of_runs_equal_the_holders_of_the_log(seed: int, scheduler: str) -> None:
    instance = random_instance(seed, jobs=15, checkpoint_s=20.0, restore_s=40.0)
    log = play(instance, scheduler)
    check(instance, log, tolerance_s=float(log.events["time_s"][-1]) / PARTS)


def test_phases_of_a_preempted_job() -> None:
    """A long job on all GPUs is preempted at 10 s by a short one: 5 s of checkpoint, and later 7 s of restore."""
    instance = unit_instance([0, 10], [4, 4], [100, 20], "1x4", checkpoint_s=5.0, restore_s=7.0)
    found = bars(instance, play(instance, "srtf"))
    told = [tuple(bar) for bar in found.bars[["job", "phase", "start_s", "end_s", "row", "rows"]].tolist()]
    assert told == [
        (0, RUNNING, 0.0, 10.0, 0, 4),
        (0, CHECKPOINTING, 10.0, 15.0, 0, 4),
        (1, RUNNING, 15.0, 35.0, 0, 4),
        (0, RESTORING, 35.0, 42.0, 0, 4),
        (0, RUNNING, 42.0, 132.0, 0, 4),
    ]
    assert found.preempted.tolist() == [[10.0, 0.5]]
    assert found.preemptions == 1


@pytest.mark.parametrize("most", [4, 10, 40])
def test_joined_bars_keep_the_held_gpu_time(most: int) -> None:
    rng = np.random.default_rng(0)
    stays = [(int(s), int(s + 1 + rng.integers(9)), [int(rng.integers(GPUS))]) for s in rng.integers(0, 500, 200)]
    instance, log = written(stays)
    every, few = bars(instance, log), bars(instance, log, most)
    assert len(every.bars) > 100
    assert every.left_out == len(every.crowds) == 0
    assert len(few.bars) == most
    assert few.left_out == len(every.bars) - most
    assert len(few.crowds) <= max(most // 2, GPUS)
    shown = np.concatenate([few.bars, few.crowds])
    for bar in every.bars:
        middle = (bar["start_s"] + bar["end_s"]) / 2
        cover = (shown["row"] <= bar["row"]) & (bar["row"] < shown["row"] + shown["rows"])
        assert (cover & (shown["start_s"] <= middle) & (middle <= shown["end_s"])).any()
    area = (few.bars["end_s"] - few.bars["start_s"]) * few.bars["rows"] / few.bars["lanes"]
    smaller = every.bars[~np.isin(every.bars, few.bars)]
    assert area.min() >= ((smaller["end_s"] - smaller["start_s"]) * smaller["rows"] / smaller["lanes"]).max()


def test_a_run_in_which_nothing_starts() -> None:
    instance, log = written([(0, 5, [0])])
    found = bars(instance, EventLog(log.events[:1], log.gpus[:0]))
    assert len(found.bars) == len(found.crowds) == len(found.preempted) == 0
