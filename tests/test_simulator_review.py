"""Mistakes that a review found, each in its smallest form."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from helpers import begin, play, unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.cluster import Cluster, NodeGroup
from gpusched_env.core.state import allocate
from gpusched_env.envs.encoder import Encoder, Windows
from gpusched_env.envs.scheduler_player import play_scheduler, wide_open
from gpusched_env.envs.step import RESUME
from gpusched_env.errors import GpuschedError, SchedulerError, WorkloadError
from gpusched_env.instance import Instance, Semantics
from gpusched_env.metrics import summarise, validate
from gpusched_env.network import Network
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.simulator import (
    ClusterView,
    Decision,
    Preempt,
    Scheduler,
    Simulation,
    Start,
    Wait,
    rule_number,
    simulate,
)
from gpusched_env.workload import Profiles, Workload


def finishes(instance: Instance, scheduler: Scheduler) -> list[float]:
    log = simulate(instance, scheduler)
    validate(instance, log)
    done = log.events[log.events["kind"] == 5]
    return done["time_s"][np.argsort(done["job"])].tolist()


class Ranked(Scheduler):
    """Who holds GPUs is decided by a fixed rank; row 2 must be consolidated."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        rows = np.sort(np.concatenate([view.running, view.waiting]))
        rank = np.array([0, 3, 1, 2])
        order = rows[np.argsort(rank[rows], kind="stable")]
        return view.preemptive_schedule(order, np.where(order == 2, rule_number("consolidate"), rule_number("pack")))


def test_nobody_takes_the_place_that_a_checkpoint_is_clearing_for_a_better_gang() -> None:
    """Two nodes of four. Row 1 must make room for row 2 (a whole machine); row 3 (one GPU) fits best beside row 1."""
    instance = unit_instance(
        [0, 0, 10, 10], [2, 3, 4, 1], [5000, 3000, 300, 3000], "2x4", checkpoint_s=30, restore_s=30
    )
    log = play(instance, Ranked())
    start = {e["job"]: e["time_s"] for e in log.events if e["kind"] == 1}
    assert start == {0: 0.0, 1: 0.0, 2: 40.0, 3: 40.0}


def test_easy_does_not_delay_its_head_by_a_slow_placement() -> None:
    row = dict(batch=1, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=1.0)
    profiles = Profiles.from_rows(
        [row | {"name": "quiet", "gradient_bytes": 0.0}, row | {"name": "loud", "gradient_bytes": 6e9}]
    )
    workload = Workload.from_columns(
        [0, 0, 1, 2], [3, 3, 8, 2], [100, 100, 50, 90], profiles=profiles, profile=[0, 0, 0, 1]
    )
    instance = Instance(Cluster.parse("2x4/1"), workload, Network(), Semantics(checkpoint_s=0, restore_s=0))
    assert finishes(instance, make_scheduler("fifo-easy"))[2] == 150.0


@pytest.mark.parametrize("knob", [1 - 1e-5, 8.0])
def test_tiresias_is_not_woken_over_and_over_while_a_gang_restores(knob: float) -> None:
    instance = unit_instance([0, 100], [4, 4], [3000, 3000], "1x4", checkpoint_s=30, restore_s=30)
    scheduler = make_scheduler("tiresias", thresholds=(400.0,), knob=knob)
    calls = 0
    decide = scheduler.decide

    def counted(view: ClusterView) -> Iterable[Decision]:
        nonlocal calls
        calls += 1
        return decide(view)

    scheduler.decide = counted  # type: ignore[method-assign]
    log = simulate(instance, scheduler)
    assert calls <= 2 * len(log.events)


class Later(Scheduler):
    """Start the only job after a pause."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.now_s < 10:
            yield Wait(10.0)
        else:
            yield from view.list_schedule(view.waiting)


class Mover(Scheduler):
    """Preempt the only job at 5 s, though nobody waits, and start it elsewhere."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.now_s < 5:
            yield from view.list_schedule(view.waiting)
            yield Wait(5.0)
        elif len(view.running) and view.now_s == 5:
            yield Preempt(int(view.running[0]))
            yield from view.list_schedule(view.waiting, "random")


def one_job_scenario(**rules: float) -> Scenario:
    spec = WorkloadSpec("synthetic:batch", {"durations": "constant", "mean_duration_s": 10.0}, profiles="unit", jobs=1)
    return Scenario("one", "", (NodeGroup(2, 2),), spec, semantics=Semantics(checkpoint_s=0, restore_s=0, **rules))


@pytest.mark.parametrize(("scheduler", "end"), [(Later, 20.0), (Mover, 10.0)])
def test_timers_and_migration_play_alike_directly_and_through_the_environment(scheduler: type, end: float) -> None:
    scenario = one_job_scenario()
    direct = simulate(scenario.instance(0), scheduler(), seed=0)
    assert direct.events[-1]["time_s"] == end
    env = wide_open(scenario, 0, rules=("pack", "random"))
    assert play_scheduler(env, scheduler(), 0).digest() == direct.digest()


def test_a_time_limit_ends_a_played_run_as_it_ends_a_direct_one() -> None:
    scenario = one_job_scenario(time_limit_s=4.0)
    direct = simulate(scenario.instance(0), make_scheduler("fifo"))
    assert play_scheduler(wide_open(scenario, 0), make_scheduler("fifo"), 0).digest() == direct.digest()


def test_a_time_limit_ends_a_stalled_run() -> None:
    class Idle(Scheduler):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            return []

    simulation = begin(unit_instance([0], [1], [10], time_limit_s=100.0))
    simulation.run(Idle())
    assert simulation.now_s == 100.0


def test_the_windows_of_every_environment_of_a_batch_show_the_same() -> None:
    instances = [unit_instance([0, 0, 5], [1, 2, 2], [50, 70, 20], "2x2") for _ in range(3)]
    state = allocate(instances)
    seen = [Encoder(Windows(4, 2), Simulation(instances[b], arrays=state.handle(b))).play(RESUME)[0] for b in range(3)]
    for key in seen[0]:
        np.testing.assert_array_equal(seen[0][key], seen[2][key])
    assert seen[0]["queue"][:, 0].sum() == 2


def test_a_view_shows_neither_the_future_nor_anything_to_write_on() -> None:
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


def test_the_ideal_placement_exists() -> None:
    """Four fast GPUs lie on two nodes, four slow ones on one: the ideal is the better of these two."""
    cluster = Cluster([NodeGroup(2, 2, "fast"), NodeGroup(1, 4, "slow")])
    row = dict(name="m", batch=1, gradient_bytes=12e9, memory_bytes=0.0, skew=0.0, overlap=1.0)
    for slow, best in ((1.2, "slow"), (30.0, "fast")):
        profiles = Profiles.from_rows([row | {"compute_s": [1.0, slow]}], ("fast", "slow"))
        workload = Workload.from_columns([0], [4], [100.0], profiles=profiles)
        instance = Instance(cluster, workload, Network(latency_s=(0, 0, 0)))
        gpus = (4, 5, 6, 7) if best == "slow" else (0, 1, 2, 3)
        log = play(instance, Explicit(gpus))
        assert log.events[-1]["time_s"] == pytest.approx(100.0, rel=1e-12)


class Explicit(Scheduler):
    """Start job 0 on given GPUs."""

    def __init__(self, gpus: tuple[int, ...]) -> None:
        self.gpus = gpus

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if len(view.waiting):
            yield Start(0, gpus=self.gpus)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"duration_s": [5.0], "iterations": [3.0]}, "one of them finite"),
        ({"duration_s": [5.0], "estimate_s": [-1.0]}, "estimate_s is -1.0"),
        ({"duration_s": [5.0], "gpus": [1.9]}, "1.9 is not a whole number"),
    ],
)
def test_a_workload_with_impossible_columns_is_refused(columns: dict, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Workload.from_columns(**({"arrival_s": [0.0], "gpus": [1]} | columns))


def test_rounds_also_come_while_nobody_waits() -> None:
    class Counting(Scheduler):
        calls = 0

        def decide(self, view: ClusterView) -> Iterable[Decision]:
            self.calls += 1
            return view.list_schedule(view.waiting)

    scheduler = Counting()
    play(unit_instance([0], [1], [100], round_s=10.0), scheduler)
    assert scheduler.calls == 10  # at 0, 10, ..., 90; at 100 the job has finished


def test_a_makespan_ends_with_the_last_job() -> None:
    instance = unit_instance([0], [1], [10])
    assert summarise(instance, play(instance, make_scheduler("fifo")), end_s=1000.0)["makespan_s"] == 10.0


def test_a_scheduler_that_forgets_to_return_is_told() -> None:
    class Forgetful(Scheduler):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            return None  # type: ignore[return-value]

    with pytest.raises(SchedulerError, match="yield decisions or return a list"):
        play(unit_instance([0], [1], [10]), Forgetful())


def test_the_name_of_a_fifo_tells_the_discipline_that_was_played() -> None:
    scheduler = make_scheduler("fifo")
    play(unit_instance([0], [1], [10], queue="skip"), scheduler)
    assert scheduler.name == "fifo-skip"


def test_equal_run_times_tie_whatever_the_models() -> None:
    """Ties go to the earlier job; rounding of iterations x seconds an iteration must not decide them."""
    row = dict(batch=1, memory_bytes=0.0, skew=0.0, overlap=1.0, gradient_bytes=0.0)
    profiles = Profiles.from_rows([row | {"name": f"m{i}", "compute_s": 0.1 + i / 7} for i in range(40)])
    workload = Workload.from_columns(
        [0.0] * 41, [1] * 41, [1.0, *[43_200.3] * 40], profiles=profiles, profile=[0, *range(40)]
    )
    log = play(Instance(Cluster.parse("1x1"), workload), make_scheduler("sjf"))
    assert log.events["job"][log.events["kind"] == 1].tolist() == list(range(41))
