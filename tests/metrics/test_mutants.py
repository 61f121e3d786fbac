"""Mutants of valid logs: an event of any kind that is dropped, doubled, shifted or changed is refused."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import COMPLETE, EVENT_KINDS, LEASE_END, PREEMPT, START, EventLog
from gpusched_env.metrics import validate
from gpusched_env.problem.failures import Failures
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.simulator.past import first_difference

JOBS = 40
EACH = 6  # events of each kind of a run that are changed
RUNS = {  # (scenario, scheduler): leases, rounds, links, sharing, sizes, copies, refusals
    "leases": ("tiny-v1", "dally", {}),
    "rounds": ("tiny-v1", "las", {"round_s": 60.0, "checkpoint_s": 5.0, "restore_s": 10.0}),
    "leases in rounds": ("tiny-v1", "dally", {"round_s": 30.0}),
    "links": ("leaf-spine-256-v1", "srtf", {}),
    "links and leases": ("leaf-spine-256-v1", "dally", {}),
    "slots": ("rar-160-v0", "fifo", {}),
    "sharing": ("bsbf-sim-240-v1", "sjf-bsbf", {}),
    "sharing until leases": (
        "gavel-continuous-v1:sharing=true,rate=100,jobs=30",
        "gavel:policy=max_min_fairness_packed",
        {},
    ),
    "leases of many": ("hadar-60gpu-v1", "themis-lite", {}),
    "sizes": ("pollux-64-v0", "tiresias-elastic", {}),
    "refusals": ("slo-v0", "edf-admission", {}),
    "copies": ("hadare-lab-v0", "hadare", {}),
    "failures": ("philly-64-v1", "srtf", {"checkpoint_interval_s": 900.0, "detection_s": 60.0}),
}
# Mutants that are valid logs of other decisions: a log does not tell leases, and a job may be refused at any moment.
VALID = {("lease-end", change) for change in ("dropped", "doubled later", "later", "earlier")}
VALID |= {("refuse", "later"), ("refuse", "earlier")}


@functools.cache
def played(name: str) -> tuple[Instance, EventLog]:
    scenario, scheduler, rules = RUNS[name]
    problem = get_scenario(scenario)
    if problem.workload.jobs is None or problem.workload.jobs > 3 * JOBS:
        problem = problem.replace(workload=dataclasses.replace(problem.workload, jobs=JOBS))
    problem = problem.replace(semantics=dataclasses.replace(problem.semantics, **rules))
    if name == "failures":
        problem = problem.replace(failures=Failures(rate=8_000.0, repair_s=600.0))
    instance = problem.instance(200_000)
    log = simulate(instance, make_scheduler(scheduler))
    validate(instance, log)
    return instance, log


def rebuilt(log: EventLog, rows: list[int], times: dict[int, float]) -> EventLog:
    """Return a log of these events, in the order of their times; ``times`` has the new times of some positions."""
    events = log.events[rows]
    for position, time_s in times.items():
        events["time_s"][position] = time_s
    gangs = [log.gang(row) if log.events["gpu_count"][row] else log.gpus[:0] for row in rows]
    order = np.argsort(events["time_s"], kind="stable")
    events, gangs = events[order], [gangs[position] for position in order]
    places = events["gpu_count"] > 0
    events["gpu_at"][places] = (np.cumsum(events["gpu_count"]) - events["gpu_count"])[places]
    return EventLog(events, np.concatenate([*gangs, log.gpus[:0]]))


def mutants(log: EventLog, kind: int) -> Iterator[tuple[str, int, EventLog]]:
    """Yield (what was done, the event, the mutant) for some events of a kind."""
    rows, found = list(range(len(log.events))), np.flatnonzero(log.events["kind"] == kind)
    for event in found[np.unique(np.linspace(0, len(found) - 1, EACH).astype(int))].tolist() if len(found) else ():
        time_s = float(log.events["time_s"][event])
        yield "dropped", event, rebuilt(log, rows[:event] + rows[event + 1 :], {})
        yield "doubled", event, rebuilt(log, rows[: event + 1] + rows[event:], {})
        yield "doubled later", event, rebuilt(log, rows[: event + 1] + rows[event:], {event + 1: time_s + 0.4})
        yield "later", event, rebuilt(log, rows, {event: time_s + 0.4})
        if time_s > 0.0:
            yield "earlier", event, rebuilt(log, rows, {event: max(time_s - 0.4, 0.0)})
        for field, value in (("tier", 1), ("job", 1), ("value", 1e-3), ("replica", 1), ("gpu_at", 1), ("kind", 1)):
            events = log.events.copy()
            events[field][event] += value * (max(1.0, events[field][event]) if field == "value" else 1)
            yield f"wrong {field}", event, EventLog(events, log.gpus)


@pytest.mark.parametrize("name", RUNS)
def test_mutants_are_refused_unless_they_are_logs_of_other_decisions(name: str) -> None:
    instance, log = played(name)
    alive = []
    for kind in np.unique(log.events["kind"]).tolist():
        for change, event, mutant in mutants(log, kind):
            try:
                validate(instance, mutant)
            except ScheduleError:
                continue
            if (EVENT_KINDS[kind], change) not in VALID:
                alive.append((EVENT_KINDS[kind], change, event))
    assert not alive


def test_the_runs_have_every_kind_of_event() -> None:
    kinds = [np.bincount(played(name)[1].events["kind"], minlength=len(EVENT_KINDS)) for name in RUNS]
    assert (np.sum(kinds, axis=0) > EACH).all()


@pytest.mark.parametrize("name", [name for name in RUNS if "leases" in name or name == "copies"])
def test_a_lease_ends_only_where_one_can_end(name: str) -> None:
    """Not at the start, twice at once, or at the completion of a gang; and with rounds, at a round."""
    instance, log = played(name)
    rows, refused = list(range(len(log.events))), 0
    for event in np.flatnonzero(np.isin(log.events["kind"], (START, LEASE_END))).tolist()[:20]:
        double = rebuilt(log, rows[: event + 1] + rows[event:], {})
        double.events[event + 1] = (
            double.events["time_s"][event],
            0.0,
            -1,
            LEASE_END,
            *log.events[event][["job", "replica"]],
            0,
            -1,
            1,
        )
        with pytest.raises(ScheduleError, match=r"a lease ends later than|not on a round"):
            validate(instance, double)
        refused += 1
    for event in np.flatnonzero(log.events["kind"] == COMPLETE).tolist()[:20]:
        double = rebuilt(log, rows[: event + 1] + rows[event:], {})
        double.events["kind"][event], double.events["value"][event] = LEASE_END, 0.0
        with pytest.raises(ScheduleError, match=r"the gang completes when its lease ends|not on a round"):
            validate(instance, double)
        refused += 1
    assert refused > 5


def test_a_lease_that_is_in_the_log_is_played_again_with_and_without_renewal() -> None:
    """Decisions are made again with leases that end as the log says: some are renewed, others end in a preemption."""
    instance, log = played("links and leases")
    assert first_difference(instance, log, True) is None
    events = log.events
    ends = np.flatnonzero(events["kind"] == LEASE_END)
    stops = {(job, time_s) for job, time_s in events[["job", "time_s"]][events["kind"] == PREEMPT].tolist()}
    renewed = [(job, time_s) not in stops for job, time_s in events[["job", "time_s"]][ends].tolist()]
    assert any(renewed)
    for count in range(len(events)):  # every beginning of it is a valid beginning
        part = EventLog(events[:count], log.gpus[: events["gpu_count"][:count].sum()])
        assert first_difference(instance, part, False) is None
