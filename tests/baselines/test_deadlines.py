"""Schedulers for deadlines: worked examples, the guarantee of ElasticFlow, and the optimum of small cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Network, Semantics, Workload
from gpusched_env.baselines.deadlines.chronus import Need, admitted, earliest, needed_now
from gpusched_env.baselines.deadlines.edf import missed
from gpusched_env.baselines.deadlines.elasticflow import plan_all
from gpusched_env.baselines.deadlines.plans import Clock, Free, minimum_share
from gpusched_env.baselines.deadlines.slots import Ask
from gpusched_env.event_log import COMPLETE, REFUSE, EventLog
from gpusched_env.metrics import job_times, summarise
from gpusched_env.metrics.deadlines import SLACK_S
from gpusched_env.traces.elastic import make_elastic

SLOTS = Clock(60.0, 0.0)


def ask(job: int, left: float, deadline_s: float) -> Ask:
    """Return a job of the worked examples: 1, 1.8 and 3 iterations per second on 1, 2 and 4 GPUs."""
    return Ask(job, left, deadline_s, [0, 1, 2, 4], [0.0, 1.0, 1.8, 3.0], 0, 0.0)


A, B, C, D = ask(0, 400, 240), ask(1, 300, 300), ask(2, 600, 420), ask(3, 200, 120)


def parts(plan) -> list[tuple[float, float, int]]:
    return [tuple(part) for part in plan.parts]


def test_minimum_shares_of_three_jobs() -> None:
    plans = plan_all([A, B, C], Free(0.0, 4), SLOTS)
    assert [math.ceil(plans[job].end_s - 1e-9) for job in range(3)] == [223, 300, 384]
    assert parts(plans[0]) == [(0, 240, 2)]
    assert parts(plans[1]) == [(0, 300, 1)]
    assert parts(plans[2]) == [(0, 240, 1), (240, 300, 2), (300, 420, 4)]


def test_a_fourth_job_is_refused() -> None:
    free = Free(0.0, 4)
    plans = {}
    for each in (D, A, B):
        plans[each.job] = minimum_share(each, free, SLOTS)
        free.take(plans[each.job])
    assert [math.ceil(plans[job].end_s - 1e-9) for job in (3, 0, 1)] == [112, 223, 287]
    assert parts(plans[1])[0] == (120, 300, 2)
    assert minimum_share(C, free, SLOTS) is None
    late = minimum_share(C._replace(deadline_s=480.0), free, SLOTS)  # it would end at 464
    assert math.ceil(late.end_s - 1e-9) == 464
    assert plan_all([D, A, B, C], Free(0.0, 4), SLOTS) is None


def test_earliest_deadline_first_misses_the_third_deadline() -> None:
    assert missed([A, B, C], 4, 0.0, SLOTS) == {2}
    assert missed([A, B, C._replace(deadline_s=433.0)], 4, 0.0, Clock(0.0, 0.0)) == {2}
    assert missed([A, B, C._replace(deadline_s=434.0)], 4, 0.0, Clock(0.0, 0.0)) == set()
    assert missed([A, B, C._replace(deadline_s=500.0)], 4, 0.0, SLOTS) == set()
    assert missed([A, B, C._replace(deadline_s=499.0)], 4, 0.0, SLOTS) == {2}


SPEEDS = {1: 1.0, 2: 1.8, 4: 3.0, 8: 4.5}
ALL = ("elasticflow", "edf", "edf-admission", "chronus")


def problem(
    arrival_s: list[float],
    work: list[float],
    deadline_s: list[float],
    cluster: str = "1x4",
    speeds: dict[int, float] | None = None,
) -> Instance:
    """Return elastic jobs with work and deadlines in seconds, on one GPU and after the arrival; changes are free."""
    told = {"deadline_s": np.array(deadline_s)}
    jobs = Workload.from_columns(arrival_s, [1] * len(work), duration_s=work, attributes=told)
    table = SPEEDS if speeds is None else speeds
    gpus = Cluster.parse(cluster)
    most = max(size for size in table if size <= gpus.gpus)
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(gpus, make_elastic(jobs, table.__getitem__, 1, most), Network(model="none"), rules)


def played(instance: Instance, name: str, **parameters: object) -> tuple[EventLog, np.ndarray]:
    """Play a valid run; return its log and the completion times of the jobs [s], NaN = refused."""
    log = play(instance, name, **parameters)
    return log, job_times(instance, log)["finish_s"]


def refused(log: EventLog) -> list[int]:
    return log.events["job"][log.events["kind"] == REFUSE].tolist()


def test_elasticflow_plays_the_worked_example() -> None:
    instance = problem([0, 0, 0], [400, 300, 600], [240, 300, 420])
    log, finish_s = played(instance, "elasticflow")
    assert not refused(log)
    assert (finish_s <= instance.workload.deadline_s + SLACK_S).all()
    log, finish_s = played(problem([0, 0, 0, 0], [400, 300, 600, 200], [240, 300, 420, 120]), "elasticflow")
    assert refused(log) == [0, 1, 2, 3]  # all arrivals of the event


def test_edf_plays_the_worked_example() -> None:
    instance = problem([0, 0, 0], [400, 300, 600], [240, 300, 420])
    assert played(instance, "edf", slot_s=0.0)[1] == pytest.approx([400 / 3, 700 / 3, 1300 / 3])
    assert played(instance, "edf")[1] == pytest.approx([400 / 3, 280, 500])
    assert refused(played(instance, "edf-admission")[0]) == [0, 1, 2]


def test_spare_gpus_go_to_jobs_without_deadlines() -> None:
    instance = problem([0, 0], [400, 300], [400, math.inf])
    log, finish_s = played(instance, "elasticflow")
    # The deadline takes one GPU. The other job, which has none, comes first, and then the least additional GPU time.
    assert log.lines()[2:4] == [
        "0.000000 start job 0 tier 0 gpus 0,1 from 0.000000",
        "0.000000 start job 1 tier 0 gpus 2,3 from 0.000000",
    ]
    assert np.isfinite(finish_s).all()


def cases(most_jobs: int) -> st.SearchStrategy[list[tuple[float, float, float]]]:
    """Draw jobs: arrival, work, and deadline after the arrival [s]."""
    job = st.tuples(st.integers(0, 600), st.integers(20, 900), st.integers(20, 900))
    return st.lists(job.map(lambda each: tuple(map(float, each))), min_size=1, max_size=most_jobs)


@given(cases(12), st.sampled_from([0.0, 60.0]), st.sampled_from(["1x4", "2x4"]))
@settings(max_examples=150)
def test_elasticflow_meets_every_deadline_that_it_admits(jobs, slot_s: float, cluster: str) -> None:
    instance = problem(*zip(*jobs, strict=True), cluster=cluster)
    log, finish_s = played(instance, "elasticflow", slot_s=slot_s)
    admitted = np.setdiff1d(np.arange(len(jobs)), refused(log))
    assert (finish_s[admitted] <= instance.workload.deadline_s[admitted] + SLACK_S).all()


@given(cases(8), st.sampled_from([0.0, 60.0]), st.sampled_from(["1x1", "1x4"]))
@settings(max_examples=60)
def test_no_scheduler_beats_the_optimum(jobs, slot_s: float, cluster: str) -> None:
    linear = {size: float(size) for size in (1, 2, 4)}
    instance = problem(*zip(*jobs, strict=True), cluster=cluster, speeds=linear)
    best = most_met(instance, instance.cluster.gpus)
    for name in ALL:
        log, finish_s = played(instance, name, slot_s=slot_s or 60.0 if name == "chronus" else slot_s)
        met = summarise(instance, log)["deadlines_met"] * len(jobs)
        assert met == pytest.approx((finish_s <= instance.workload.deadline_s + SLACK_S).sum())
        assert met <= best + 1e-9


def test_chronus_admits_the_most_valuable_jobs() -> None:
    needs = [Need(0, 2, 2, 2, 1.0), Need(1, 4, 1, 2, 3.0), Need(2, 2, 2, 2, 1.0), Need(3, 4, 1, 2, 1.0)]
    assert earliest(needs, 4) is None
    assert [need.job for need in admitted([], needs, 4)] == [1, 3]  # worth 4; jobs 0 and 2 are worth 2
    assert [need.job for need in admitted([], needs[::2], 4)] == [0, 2]
    assert [need.job for need in admitted(needs[:1], needs[1:], 4)] == [2]
    ties = [Need(0, 4, 1, 1, 1.0), Need(1, 4, 1, 1, 1.0)]
    assert [need.job for need in admitted([], ties, 4)] == [0]


def test_chronus_runs_gangs_now_that_the_earliest_leases_would_miss() -> None:
    needs = [Need(job, gpus, 1, 2, 1.0) for job, gpus in enumerate([1, 1, 3, 3])]
    assert earliest(needs, 4) is None  # jobs 0 and 1 take the first lease, and job 2 the second
    assert needed_now(needs, 4) == {0: 1, 2: 3}
    assert needed_now(needs[:3], 4) == {0: 1, 1: 1}


@given(cases(8), st.lists(st.sampled_from([1, 2, 4]), min_size=8, max_size=8))
@settings(max_examples=60)
def test_chronus_meets_every_deadline_that_it_admits(jobs, gpus: list[int]) -> None:
    arrival_s, work, deadline_s = zip(*jobs, strict=True)
    told = {"deadline_s": np.array(deadline_s)}
    rigid = Workload.from_columns(arrival_s, gpus[: len(jobs)], duration_s=work, attributes=told)
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    instance = Instance(Cluster.parse("1x4"), rigid, Network(model="none"), rules)
    log, finish_s = played(instance, "chronus", slot_s=60.0)
    admits = np.setdiff1d(np.arange(len(jobs)), refused(log))
    assert (finish_s[admits] <= instance.workload.deadline_s[admits] + SLACK_S).all()


def most_met(instance: Instance, speed: float) -> int:
    """Return the largest number of deadlines that one machine with the speed of all GPUs can meet, over all subsets."""
    arrival_s = instance.workload.jobs["arrival_s"].tolist()
    work = instance.workload.jobs["duration_s"].tolist()
    deadline_s = (instance.workload.deadline_s + SLACK_S).tolist()
    numbers = range(len(work))
    for count in range(len(work), 0, -1):
        for chosen in itertools.combinations(numbers, count):
            if _feasible([(deadline_s[i], arrival_s[i], work[i] / speed) for i in chosen]):
                return count
    return 0


def _feasible(jobs: list[tuple[float, float, float]]) -> bool:
    """Return whether preemptive EDF, which is optimal on one machine, meets all deadlines."""
    left = {i: work for i, (_, _, work) in enumerate(jobs)}
    now_s = 0.0
    while left:
        ready = [i for i in left if jobs[i][1] <= now_s]
        coming = [jobs[i][1] for i in left if jobs[i][1] > now_s]
        if not ready:
            now_s = min(coming)
            continue
        first = min(ready, key=lambda i: jobs[i][0])
        end_s = min([now_s + left[first], *coming])
        left[first] -= end_s - now_s
        now_s = end_s
        if left[first] <= 1e-9:
            del left[first]
            if now_s > jobs[first][0]:
                return False
    return True


@pytest.mark.parametrize("name", ["edf", "edf-admission", "elasticflow", "chronus"])
@pytest.mark.parametrize("slot", [0, 60])
def test_runs_end_if_checkpoints_cost_time(name: str, slot: int) -> None:
    """A job with an early deadline preempts another; when its checkpoint has ended, the GPUs are used at once."""
    attributes = {"deadline_s": np.array([np.inf, 1_000.0])}
    jobs = Workload.from_columns([0.0, 120.0], [4, 4], [600.0, 300.0], attributes=attributes)
    instance = Instance(Cluster.parse("1x4"), jobs, semantics=Semantics(checkpoint_s=30.0))
    spec = name if name == "chronus" else f"{name}:slot_s={slot}"
    log = play(instance, spec)
    assert (log.events["kind"] == COMPLETE).sum() == 2
    assert log.events["time_s"][-1] < 1_600.0
