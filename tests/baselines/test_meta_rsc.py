"""Meta's policy: examples by hand, and a replay second by second that is written from the text."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import play, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import PREEMPT, START
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.problem.workload import Workload

HOUR_S, DAY_S = 3_600.0, 86_400.0


def classed(
    arrival: list[float],
    gpus: list[int],
    duration: list[float],
    classes: list[int],
    cluster: str = "1x4",
    **rules: float,
) -> Instance:
    """Jobs with priority classes."""
    plain = unit_instance(arrival, gpus, duration, cluster, **rules)
    attributes = {"priority_class": np.array(classes, float)}
    workload = Workload(plain.workload.jobs, plain.workload.profiles, attributes=attributes)
    return Instance(plain.cluster, workload, plain.network, plain.semantics)


def ends(instance: Instance, spec: str = "meta-rsc") -> list[float]:
    found: list[float] = job_times(instance, play(instance, spec))["finish_s"].tolist()
    return found


def test_a_gang_is_safe_for_two_hours() -> None:
    """The job of the higher class arrives after 1 hour, and starts after 2; the other ends 1 hour later than alone."""
    instance = classed([0, HOUR_S], [4, 2], [10 * HOUR_S, HOUR_S], [0, 1])
    assert ends(instance) == [11 * HOUR_S, 3 * HOUR_S]
    assert ends(instance, "meta-rsc:exempt_s=0") == [11 * HOUR_S, 2 * HOUR_S]
    assert ends(classed([0, HOUR_S], [4, 2], [10 * HOUR_S, HOUR_S], [1, 1])) == [10 * HOUR_S, 11 * HOUR_S]


def test_a_gang_runs_for_seven_days_and_is_then_behind_those_that_wait() -> None:
    """Job 1 waits from day 1 and runs on day 7; job 2, of a lower class, is behind job 0."""
    instance = classed([0, DAY_S, DAY_S], [4, 4, 4], [10 * DAY_S, DAY_S, DAY_S], [1, 1, 0])
    assert ends(instance) == [11 * DAY_S, 8 * DAY_S, 12 * DAY_S]
    assert ends(instance, "meta-rsc:limit_s=inf") == [10 * DAY_S, 11 * DAY_S, 12 * DAY_S]


def test_victims_are_of_the_lowest_class_then_the_latest_start() -> None:
    """At 3 h, 2 GPUs are wanted. Classes 1, 0, 0, started at 0, 0 and 0.5 h: the last one goes, then the second."""
    hours = [100 * HOUR_S] * 4
    instance = classed([0, 0, HOUR_S / 2, 3 * HOUR_S], [1, 1, 2, 2], hours, [1, 0, 0, 2])
    log = play(instance, "meta-rsc:limit_s=inf")
    assert log.events["job"][log.events["kind"] == PREEMPT].tolist() == [2]
    instance = classed([0, 0, HOUR_S / 2, 3 * HOUR_S], [1, 1, 2, 3], hours, [1, 0, 0, 2])
    log = play(instance, "meta-rsc:limit_s=inf")
    assert log.events["job"][log.events["kind"] == PREEMPT].tolist() == [2, 1]


def test_gpus_of_victims_are_kept_through_their_checkpoints() -> None:
    """At 3 h, a gang of 3 preempts one of 2, and is kept the free GPU for 10 s; job 3, which would fit, waits."""
    arrival = [0, 0, 3 * HOUR_S, 3 * HOUR_S + 1]
    duration = [9 * HOUR_S, 9 * HOUR_S, 60.0, HOUR_S]
    instance = classed(arrival, [2, 1, 3, 1], duration, [0, 2, 1, 2], checkpoint_s=10.0, restore_s=0.0)
    starts = job_times(instance, play(instance, "meta-rsc"))["first_start_s"]
    assert starts.tolist() == [0, 0, 3 * HOUR_S + 10, 3 * HOUR_S + 70]


class Replay:
    """Second by second on one machine, with free preemption."""

    def __init__(self, instance: Instance, exempt: int, limit: int) -> None:
        self.jobs, self.rank = instance.workload.jobs, instance.workload.attributes["priority_class"]
        self.gpus, self.exempt, self.limit = instance.cluster.gpus, exempt, limit
        self.queued = self.jobs["arrival_s"].tolist()
        self.begun, self.done = dict[int, int](), dict[int, int]()

    def ends(self) -> list[int]:
        """Ends of all jobs."""
        left, now = self.jobs["duration_s"].astype(int), 0
        while len(self.done) < len(self.jobs):
            left[list(self.begun)] -= 1
            self.done |= {job: now for job in self.begun if left[job] == 0}
            over = [job for job, at in self.begun.items() if now == at + self.limit]
            self.begun = {job: at for job, at in self.begun.items() if job not in {*self.done, *over}}
            for job in set(over) - self.done.keys():
                self.queued[job] = now
            while self.serve(now):  # those who lost their GPUs ask again
                pass
            now += 1
        return [self.done[job] for job in range(len(self.jobs))]

    def serve(self, now: int) -> bool:
        """Serve all that wait; return whether a gang has been preempted."""
        rank, begun, preempted = self.rank, self.begun, False
        there = np.flatnonzero(self.jobs["arrival_s"] <= now).tolist()
        waits = [job for job in there if job not in begun and job not in self.done]
        for job in sorted(waits, key=lambda one: (-rank[one], self.queued[one], one)):
            free = self.gpus - sum(int(self.jobs["gpus"][one]) for one in begun)
            open_to = [
                one for one, at in begun.items() if rank[one] < rank[job] and at < now and at + self.exempt <= now
            ]
            open_to.sort(key=lambda one: (rank[one], -begun[one], -one))
            chosen = list[int]()
            while open_to and free < self.jobs["gpus"][job]:
                chosen.append(open_to.pop(0))
                free += int(self.jobs["gpus"][chosen[-1]])
            if free >= self.jobs["gpus"][job]:
                for one in chosen:
                    del begun[one]
                    preempted = True
                begun[job] = now
        return preempted


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(5, 90))
def test_runs_are_those_of_a_replay_second_by_second(seed: int, exempt: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    arrival, gpus, duration, classes = rng.integers([0, 1, 1, 0], [120, 5, 60, 3], (15, 4)).T
    arrival = np.sort(arrival)
    instance = classed(arrival.tolist(), gpus.tolist(), duration.tolist(), classes.tolist())
    assert ends(instance, f"meta-rsc:exempt_s={exempt},limit_s={limit}") == Replay(instance, exempt, limit).ends()


def test_a_server_that_crashed_three_times_gets_no_jobs_that_fit_elsewhere() -> None:
    """Best fit would take node 0, which crashed at 1, 2 and 3 s; a gang of 8 needs it all the same."""
    rows = np.array([(0, 1.0, 1.5, 0), (0, 2.0, 2.5, 0), (0, 3.0, 3.5, 0)], OUTAGE_DTYPE)
    plain = unit_instance([10, 20, 40], [4, 4, 8], [5, 15, 5], "2x4")
    instance = Instance(plain.cluster, plain.workload, plain.network, plain.semantics, outages=Outages(rows))
    log = play(instance, "meta-rsc")
    starts = np.flatnonzero(log.events["kind"] == START)
    assert [log.gang(at).min() for at in starts.tolist()] == [4, 4, 0]
    starts = np.flatnonzero(play(instance, "meta-rsc:strikes=4").events["kind"] == START)
    assert play(instance, "meta-rsc:strikes=4").gang(int(starts[0])).min() == 0
    forgiven = play(instance, "meta-rsc:window_s=18")  # at 20 s, the crash at 2 s is no longer counted
    assert forgiven.gang(int(starts[1])).min() == 0


def test_a_failed_gang_is_queued_again() -> None:
    """The node of the gang is down from 10 to 30 s; without checkpoints the gang begins again."""
    plain = unit_instance([0], [4], [20], "1x4")
    outages = Outages(np.array([(0, 10.0, 30.0, 0)], OUTAGE_DTYPE))
    assert ends(Instance(plain.cluster, plain.workload, plain.network, plain.semantics, outages=outages)) == [50]


@pytest.mark.parametrize(("text", "told"), [("exempt_s=-1", "exempt_s is -1"), ("limit_s=0", "limit_s is 0")])
def test_times_out_of_range_are_errors(text: str, told: str) -> None:
    with pytest.raises(SchedulerError, match=told):
        make_scheduler(f"meta-rsc:{text}")
