"""Leases: GPUs are granted for a time, then offered again; a renewal is free, an end is a preemption."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from helpers import Script, begin, play, random_instance, unit_instance

from gpusched_env.errors import GpuschedError, ScheduleError
from gpusched_env.event_log import EVENT_KINDS, LEASE_END, EventLog
from gpusched_env.metrics import job_times, validate
from gpusched_env.simulator import ClusterView, Decision, Lease, Outcome, Preempt, Scheduler, Start


def story(log: EventLog) -> list[tuple[float, str, int]]:
    return [(float(e["time_s"]), EVENT_KINDS[e["kind"]], int(e["job"])) for e in log.events]


def test_a_lease_that_ends_frees_the_gpus_for_the_next_job() -> None:
    """One machine of four: job 1 has a lease of 100 of its 150 s; then job 2 runs 50 s, then job 1 its last 50."""
    instance = unit_instance([0, 10], [4, 4], [150, 50])
    script = Script({0.0: [Start(0), Lease(0, 100.0)], 100.0: [Start(1)], 150.0: [Start(0)]})
    log = play(instance, script)
    assert story(log) == [
        (0.0, "arrival", 0), (0.0, "start", 0), (10.0, "arrival", 1), (100.0, "lease-end", 0), (100.0, "preempt", 0),
        (100.0, "release", 0), (100.0, "start", 1), (150.0, "complete", 1), (150.0, "resume", 0),
        (200.0, "complete", 0),
    ]  # fmt: skip
    # At 100 s the scheduler is asked while job 0 still holds its GPUs (job 1 is refused), and again when they are free.
    assert script.called_at == [0.0, 10.0, 100.0, 100.0, 150.0]
    assert script.refusals == ["", "", "too few free GPUs", "", ""]


def test_the_end_of_a_lease_costs_what_a_preemption_costs() -> None:
    """Checkpoint 30 + restore 20: free at 130, when 2 starts; 1 resumes at 180, works from 200 and ends at 250."""
    instance = unit_instance([0, 10], [4, 4], [150, 50], checkpoint_s=30.0, restore_s=20.0)
    log = play(instance, Script({0.0: [Start(0), Lease(0, 100.0)], 130.0: [Start(1)], 180.0: [Start(0)]}))
    assert job_times(instance, log)["finish_s"].tolist() == [250.0, 180.0]


class Renewing(Scheduler):
    """Start all jobs that fit, and renew every lease at its end."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from [Lease(job, view.now_s + self.lease_s) for job in view.lease_ended.tolist()]
        for job in view.waiting.tolist():
            yield Start(job)
            yield Lease(job, view.now_s + self.lease_s)


@pytest.mark.parametrize("seed", [1, 2])
def test_renewed_leases_change_nothing(seed: int) -> None:
    instance = random_instance(seed)
    short, endless = play(instance, Renewing(37.0)), play(instance, Renewing(math.inf))
    kept = short.events[short.events["kind"] != LEASE_END]
    assert len(kept) < len(short.events)
    assert kept.tobytes() == endless.events.tobytes()


def test_all_leases_of_an_instant_end_before_the_scheduler_is_asked() -> None:
    instance = unit_instance([0, 0, 50], [2, 2, 1], [100, 100, 10])
    script = {0.0: [Start(0), Start(1), Lease(1, 50.0), Lease(0, 50.0)], 50.0: [Lease(0, 80.0)]}
    seen = []

    class Watching(Script):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            seen.append((view.now_s, view.lease_ended.tolist(), view.lease_end_s(view.running).tolist()))
            return super().decide(view)

    play(instance, Watching(script, then="pack"))
    assert seen[0] == (0.0, [], [])
    assert seen[1] == (50.0, [0, 1], [math.inf, math.inf])
    assert seen[2] == (50.0, [], [80.0])  # job 0 was renewed, job 1 was preempted


def test_a_job_that_ends_with_its_lease_completes() -> None:
    """0.1 + 0.2 > 0.3: the completion may lie a rounding error behind the end of the lease."""
    instance = unit_instance([0.1], [1], [0.2])
    log = play(instance, Script({0.1: [Start(0), Lease(0, 0.3)]}))
    assert [kind for _, kind, _ in story(log)] == ["arrival", "start", "complete"]


def test_in_rounds_a_lease_ends_at_a_round() -> None:
    instance = unit_instance([0], [1], [100], round_s=20.0)
    script = Script({0.0: [Start(0), Lease(0, 31.0)]}, then="pack")
    log = play(instance, script)
    assert (40.0, "lease-end", 0) in story(log)
    assert job_times(instance, log)["finish_s"].tolist() == [120.0]  # it waits from 40 s for the round at 60 s


def test_refusals() -> None:
    simulation = begin(unit_instance([0, 0], [1, 4], [100, 10], checkpoint_s=30.0))
    assert simulation.apply(Lease(0, 50.0)) == "the job is not running"
    assert simulation.apply(Start(0)) == ""
    assert simulation.apply(Lease(0, 0.0)) == "a lease must end in the future"
    assert simulation.apply(Lease(9, 5.0)) == "no such job in this scenario"
    with pytest.raises(GpuschedError, match=r"Lease\(job=0, until_s=nan\): give a time"):
        simulation.apply(Lease(0, math.nan))
    assert simulation.apply(Lease(0, 10.0)) == ""
    assert simulation.advance() is Outcome.DECIDE
    assert simulation.now_s == 10.0
    assert simulation.apply(Preempt(0)) == ""
    assert simulation.apply(Lease(0, 50.0)) == "the gang is being checkpointed"


def test_the_validator_refuses_a_lease_end_of_a_job_that_holds_nothing() -> None:
    instance = unit_instance([0, 10], [4, 4], [150, 50])
    log = play(instance, Script({0.0: [Start(0), Lease(0, 100.0)]}, then="pack"))
    events = log.events.copy()
    at = int(np.flatnonzero(events["kind"] == LEASE_END)[0])
    events["job"][at] = 1
    with pytest.raises(ScheduleError, match="waits for its first start"):
        validate(instance, EventLog(events, log.gpus))
