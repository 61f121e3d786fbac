"""What a scheduler reads from its view: schedules for a list of jobs, attributes of jobs, and nothing of the future."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest
from helpers import begin, play, unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.encoder import Encoder
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import (
    ClusterView,
    Decision,
    Outcome,
    Scheduler,
    Simulation,
    rule_number,
)


class Ranked(Scheduler):
    """A preemptive scheduler with a fixed rank of the rows; row 2 must be consolidated."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        rows = np.sort(np.concatenate([view.running, view.waiting]))
        rank = np.array([0, 3, 1, 2])
        order = rows[np.argsort(rank[rows], kind="stable")]
        return view.preemptive_schedule(order, np.where(order == 2, rule_number("consolidate"), rule_number("pack")))


def test_gpus_being_freed_for_a_better_gang_are_not_given_away() -> None:
    """Two nodes of four. Row 1 must make room for row 2 (a whole machine);
    best fit would place row 3 (one GPU) beside row 1.
    """
    instance = unit_instance(
        [0, 0, 10, 10], [2, 3, 4, 1], [5000, 3000, 300, 3000], "2x4", checkpoint_s=30, restore_s=30
    )
    log = play(instance, Ranked())
    start = {e["job"]: e["time_s"] for e in log.events if e["kind"] == 1}
    assert start == {0: 0.0, 1: 0.0, 2: 40.0, 3: 40.0}


def test_a_view_shows_no_future_and_its_arrays_are_read_only() -> None:
    simulation = begin(unit_instance([0, 50, 60], [1, 1, 1], [10, 77, 99]))
    view = simulation.view_for(make_scheduler("srtf"))
    for ask in (view.remaining_s, view.service_s, view.end_s, view.progress_since_s):  # type: ignore[attr-defined]
        with pytest.raises(GpuschedError, match=r"must lie in 0\.\.0"):
            ask(np.array([0, 1, 2]))
    with pytest.raises(GpuschedError, match="must lie in"):
        view.list_schedule(np.array([-1]))
    with pytest.raises(ValueError, match="read-only"):
        view.first_start_s[0] = -5.0
    with pytest.raises(GpuschedError, match="declare the scheduler clairvoyant"):
        Encoder.for_view(Windows(), simulation.view_for(make_scheduler("fifo")))


def test_weights_and_deadlines_of_users() -> None:
    plain = Workload.from_columns([0.0, 5.0], [1, 1], [10.0, 10.0])
    told = dataclasses.replace(plain, attributes={"slo": np.array(["1.5", "-1"]), "user": np.array(["x", "y"])})
    view = ClusterView(begin(Instance(Cluster.parse("1x4"), told)))
    assert view.told("slo", -1.0).tolist() == [1.5]  # of the jobs that have arrived
    assert view.told("priority_weight", 1.0).tolist() == [1.0]
    with pytest.raises(GpuschedError, match="unknown number that users tell 'user'"):
        view.told("user", 0.0)
    assert told.fingerprint() != plain.fingerprint()  # it may change decisions, unlike the attribute ``user``:
    assert dataclasses.replace(plain, attributes={"user": np.array(["x", "y"])}).fingerprint() == plain.fingerprint()
    words = dataclasses.replace(plain, attributes={"priority_weight": np.array(["high", "low"])})
    with pytest.raises(GpuschedError, match=r"priority_weight: could not convert string to float.*give numbers"):
        ClusterView(begin(Instance(Cluster.parse("1x4"), words))).told("priority_weight", 1.0)


def test_a_view_shows_what_jobs_told_and_nothing_of_later_jobs() -> None:
    scenario = get_scenario("philly-64-v1")
    workload = dataclasses.replace(scenario.workload, jobs=60, parameters={"users": 20})
    simulation = Simulation(dataclasses.replace(scenario, workload=workload).instance(1))
    told = simulation.instance.workload.attributes
    view = ClusterView(simulation)
    for _ in range(200):
        known = view.known
        assert {len(column) for name, column in known._asdict().items() if name != "names"} == {view.arrived}
        assert [known.names[name] for name in known.name] == told["name"][: view.arrived].tolist()
        assert set(known.names) == set(told["name"][: view.arrived].tolist())
        if simulation.advance() != Outcome.DECIDE:
            break
    assert view.arrived == 60
    assert (known.account == -1).all()
    assert np.isnan(known.limit_s).all()
