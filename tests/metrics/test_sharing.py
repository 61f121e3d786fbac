"""Metrics of jobs that share GPUs, by hand, and corrupted logs that the validator must refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from helpers import begin, mixed_profiles, unit_instance
from sharing_play import with_tables

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import COMPLETE, RATE, START, EventLog
from gpusched_env.metrics import gang_gpus, held_gpus, job_times, lower_bounds, segments, summarise, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Outcome, Preempt, Simulation, Start

XI = 1.5


def instance(memory: float = 0.4) -> Instance:
    """Three jobs on four GPUs; half of the batch takes 60 % of the compute; two of the jobs share GPUs 1 and 2."""
    plain = unit_instance([0, 10, 20], [3, 2, 1], [100, 20, 50], "1x4", checkpoint_s=5.0, restore_s=3.0)
    shared = Instance(plain.cluster, plain.workload, plain.network, plain.semantics, Sharing(2, XI))
    classes = len(shared.classes)
    return with_tables(
        shared,
        sub_steps=np.tile([1, 2], (classes, 1)),
        compute_share=np.tile([1.0, 0.6], (classes, 1)),
        memory=np.tile([memory, memory / 2], (classes, 1))[:, :, None],
    )


@cache
def valid() -> tuple[Instance, EventLog]:
    """A on 0-2; B in two sub-steps on 1-2 from 10 s on; C on 3; A is preempted at 20 s and resumed when B has ended."""
    chosen = instance()
    simulation = begin(chosen)
    simulation.apply(Start(0, gpus=(0, 1, 2)))
    simulation.advance()
    assert simulation.apply(Start(1, gpus=(1, 2), share=True, sub_steps=2)) == ""
    simulation.advance()
    assert simulation.apply(Start(2, gpus=(3,))) == ""
    assert simulation.apply(Preempt(0)) == ""
    while simulation.advance() is Outcome.DECIDE:
        simulation.apply(Start(0, gpus=(0, 1, 2)))
    return chosen, simulation.log()


def test_job_times_of_shared_gpus_by_hand() -> None:
    """A alone 10 s, beside B 10 s; B:
    20 iterations of 1.2 s, 1.5 times as long beside A, which holds its GPUs until 25 s.
    """
    chosen, log = valid()
    validate(chosen, log)
    times = job_times(chosen, log)
    slow_s = 25.0 - 10.0
    finish_b = 25.0 + (20 - slow_s / (1.2 * XI)) * 1.2
    left_a = 100 - 10 - 10 / XI
    assert times["finish_s"] == pytest.approx([finish_b + 3 + left_a, finish_b, 70.0], rel=1e-12)
    assert times["queueing_s"] == pytest.approx([finish_b - 25, 0, 0], rel=1e-12)
    assert times["overhead_s"] == pytest.approx([8, 0, 0], rel=1e-12)
    assert times["jct_s"] == pytest.approx(times["queueing_s"] + times["service_s"] + times["overhead_s"], rel=1e-12)
    assert times["communication_s"] == pytest.approx([0, 0, 0], abs=1e-9)
    assert segments(chosen, log)["sub_steps"].tolist() == [1, 1, 2, 1]


def test_a_shared_gpu_is_held_once() -> None:
    chosen, log = valid()
    held, gangs = held_gpus(chosen, log), gang_gpus(chosen, log)
    assert held.at(np.array([5.0, 15.0, 22.0, 26.0])).tolist() == [3, 3, 4, 3]
    assert gangs.at(np.array([5.0, 15.0, 22.0, 26.0])).tolist() == [3, 5, 6, 3]
    end = float(log.events["time_s"][-1])
    assert summarise(chosen, log)["utilisation"] == pytest.approx(float(held.integral(end)) / (4 * end), rel=1e-12)
    half = summarise(chosen, log, end_s=15.0)["utilisation"]
    assert half == pytest.approx(3 / 4, rel=1e-12)


def edited(change: Callable[[np.ndarray, np.ndarray], np.ndarray | None]) -> EventLog:
    log = valid()[1]
    events, gpus = log.events.copy(), log.gpus.copy()
    result = change(events, gpus)
    return EventLog(events if result is None else result, gpus)


def nth(events: np.ndarray, kind: int, number: int) -> int:
    return int(np.flatnonzero(events["kind"] == kind)[number])


def slower(events: np.ndarray, gpus: np.ndarray) -> None:
    events["value"][nth(events, RATE, 1)] *= 1 + 1e-6


def untold(events: np.ndarray, gpus: np.ndarray) -> np.ndarray:
    first_of_b = np.flatnonzero((events["kind"] == RATE) & (events["job"] == 1))
    return np.delete(events, first_of_b[1])  # it continues alone at 25 s


def linked(events: np.ndarray, gpus: np.ndarray) -> None:
    events["gpu_at"][nth(events, RATE, 0)] = 0


def steps_of(kind: int, number: int, value: int) -> Callable[[np.ndarray, np.ndarray], None]:
    def change(events: np.ndarray, gpus: np.ndarray) -> None:
        events["sub_steps"][nth(events, kind, number)] = value

    return change


def twice(events: np.ndarray, gpus: np.ndarray) -> None:
    gpus[3:5] = 1


CORRUPTIONS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray | None], str]] = {
    "a wrong rate": (slower, "an iteration takes 1.5 s"),
    "a rate that is not told": (untold, "no rate says so"),
    "a rate by a link": (linked, "no such link"),
    "unknown sub-steps": (steps_of(START, 1, 3), "that many sub-steps"),
    "no sub-steps": (steps_of(START, 1, 0), "that many sub-steps"),
    "other sub-steps": (steps_of(START, 1, 1), "an iteration takes"),
    "sub-steps of an end": (steps_of(COMPLETE, 0, 2), "sub_steps must be 1"),
    "a GPU twice": (twice, "occurs twice"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_is_caught(name: str) -> None:
    change, reason = CORRUPTIONS[name]
    with pytest.raises(ScheduleError, match=reason) as caught:
        validate(valid()[0], edited(change))
    assert "event" in str(caught.value)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (dict(limit=1), "GPU 1 is held by job 0"),
        (dict(memory=1.0), "GPU 1 would need 1.5 times its memory beside job 0"),
        (dict(forbidden=True), "must not share GPU 1 with that of job 0"),
    ],
)
def test_a_log_that_breaks_other_rules_of_sharing_is_refused(rules: dict, reason: str) -> None:
    """The log under other rules: fewer jobs allowed on a GPU, more memory needed, or a forbidden pair of models."""
    chosen = instance(rules.get("memory", 0.4))
    if "limit" in rules:
        chosen.sharing = Sharing(rules["limit"], XI)
    if rules.get("forbidden"):
        chosen.sharing_tables.interference[...] = np.inf
    with pytest.raises(ScheduleError, match=reason):
        validate(chosen, valid()[1])


def test_a_co_located_job_slows_compute_and_communication_alike() -> None:
    """Model a on two machines communicates; beside another job its share of communication is the same as alone."""
    jobs = Workload.from_columns([0.0, 0.0], [2, 2], [100.0, 300.0], profiles=mixed_profiles(), profile=[0, 1])
    chosen = Instance(Cluster.parse("2x1"), jobs, Network(), None, Sharing(2, 1.25))
    shares = []
    for together in (False, True):
        simulation = begin(chosen)
        simulation.apply(Start(0, gpus=(0, 1)))
        if together:
            simulation.apply(Start(1, gpus=(0, 1), share=True))
        while simulation.advance() is Outcome.DECIDE and simulation.finished < 1:
            pass
        first = job_times(chosen, simulation.log(), simulation.now_s)[0]
        shares.append(first["communication_s"] / first["service_s"])
    assert 0.05 < shares[0] < 1
    assert shares[1] == pytest.approx(shares[0], rel=1e-9)


def test_bounds_count_the_capacity_of_shared_gpus() -> None:
    """Two equal jobs without interference: both take their time alone, half of what one exclusive GPU would need."""
    plain = unit_instance([0, 0], [1, 1], [10, 10], "1x1")
    parts = plain.cluster, plain.workload, plain.network, plain.semantics
    assert lower_bounds(plain) == {"mean_jct_s": 15.0, "makespan_s": 20.0}
    assert lower_bounds(Instance(*parts, Sharing(2, 1.0))) == {"mean_jct_s": 10.0, "makespan_s": 10.0}
    assert lower_bounds(Instance(*parts, Sharing(2, 1.6))) == {"mean_jct_s": 13.0, "makespan_s": 16.0}
    assert lower_bounds(Instance(*parts, Sharing(2, 2.0))) == lower_bounds(plain)
    assert lower_bounds(Instance(*parts, Sharing(1, 1.0))) == lower_bounds(plain)
    full = with_tables(Instance(*parts, Sharing(2, 1.0)), memory=np.full((1, 1, 1), 0.6))
    assert lower_bounds(full) == lower_bounds(plain)
    apart = with_tables(Instance(*parts, Sharing(2, 1.0)), interference=np.full((1, 1, 1), np.inf))
    assert lower_bounds(apart) == lower_bounds(plain)


@pytest.mark.parametrize("limit", [2, 3])
def test_bounds_hold_where_jobs_run_side_by_side(limit: int) -> None:
    """As many equal jobs as may share a GPU, all at once: the bound on makespan is met exactly."""
    plain = unit_instance([0] * limit, [1] * limit, [10] * limit, "1x1")
    chosen = Instance(plain.cluster, plain.workload, plain.network, plain.semantics, Sharing(limit, 1.25))
    simulation = Simulation(chosen)
    while simulation.advance() is Outcome.DECIDE:
        for job in range(limit):
            simulation.apply(Start(job, gpus=(0,), share=True))
    numbers = summarise(chosen, simulation.log())
    assert numbers["makespan_s"] == pytest.approx(12.5, rel=1e-12)
    assert lower_bounds(chosen)["makespan_s"] == pytest.approx(12.5, rel=1e-12)
    assert numbers["utilisation"] == pytest.approx(1.0, rel=1e-12)
    assert lower_bounds(chosen)["mean_jct_s"] <= numbers["mean_jct_s"]
