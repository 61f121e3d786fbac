"""All gangs restart when something has happened (Muri's controller); all work takes ``step_ratio`` times as long."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import pytest
from helpers import (
    Script,
    check_counts,
    finish,
    plain_python_digests,
    play,
    play_both,
    random_instance,
    small_scenario,
    unit_instance,
)
from muri_controller import Controller
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError, ScheduleError
from gpusched_env.evaluation.link_loads import link_loads
from gpusched_env.event_log import EVENT_KINDS, LEASE_END, PREEMPT, RELEASE, RESUME
from gpusched_env.metrics import job_times, lower_bounds, validate
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partitions, Reservation
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario, scenario_from_dict
from gpusched_env.simulator import (
    ClusterView,
    Decision,
    Lease,
    Outcome,
    Preempt,
    Scheduler,
    Simulation,
    Start,
    simulate,
)
from gpusched_env.simulator.past import begin as begin_at
from gpusched_env.simulator.past import first_difference, moves_of
from tests.simulator.test_elastic import draw_elastic, draw_sized, work_of

TAIL = "tiresias:thresholds=200/500,demote_on=held,demoted=tail"
SPECS = ("srtf", "srsf", "fifo", "las:round_s=120", "tiresias", "fifo-easy", "themis", TAIL)


def rounds(seed: int, jobs: int = 40, restart_s: float = 7.5) -> Instance:
    return random_instance(
        seed, jobs, round_s=120.0, checkpoint_s=0.0, restore_s=20.0, start_s=5.0, restart_all_s=restart_s
    )


class Renewing(Scheduler):
    """Start all jobs that fit, and renew every lease at its end."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from [Lease(job, view.now_s + 37.0) for job in view.lease_ended.tolist()]
        for job in view.waiting.tolist():
            yield Start(job)
            yield Lease(job, view.now_s + 37.0)


def digests() -> list[str]:
    return [simulate(rounds(3, 12), make_scheduler(spec)).digest() for spec in ("srtf", TAIL, "themis")]


def test_two_jobs_in_rounds_by_hand() -> None:
    """Rounds of 100 s, start 5, restart 10. Job 0 (250 s) works from 5 to 100. Job 1 (50 s) arrives at 30, starts at
    100 and ends at 155: both boundaries restart job 0, which works from 110 to 200, from 210, and has 65 s left: 275.
    """
    instance = unit_instance([0, 30], [1, 1], [250, 50], "1x2", round_s=100.0, start_s=5.0, restart_all_s=10.0)
    log = play_both(instance, "srtf")
    times = job_times(instance, log)
    assert times["finish_s"].tolist() == [275.0, 155.0]
    assert times["preemptions"].tolist() == [2, 0]
    assert times["service_s"].tolist() == [250.0, 50.0]  # attained service counts no restart
    assert times["overhead_s"].tolist() == [25.0, 5.0]
    told = [(float(e["time_s"]), EVENT_KINDS[e["kind"]], int(e["job"])) for e in log.events]
    assert told[3:8] == [
        (100.0, "start", 1), (100.0, "preempt", 0), (100.0, "release", 0), (100.0, "resume", 0), (155.0, "complete", 1),
    ]  # fmt: skip


def test_an_arrival_that_must_wait_restarts_all_and_a_quiet_round_restarts_none() -> None:
    """Job 0 holds both GPUs for 1,000 s. Job 1 arrives at 30: one restart, at 100, whether or not it can start."""
    instance = unit_instance([0, 30], [2, 2], [1000, 2000], "1x2", round_s=100.0, restart_all_s=10.0)
    log = play_both(instance, "srtf")
    assert job_times(instance, log)["preemptions"].tolist() == [1, 0]
    assert finish(instance, "srtf")[0] == 1010.0


def test_without_rounds_every_event_restarts_all() -> None:
    """Job 0 (100 s) is restarted when job 1 comes (10), when job 1 ends (30): it stands still for 2 x 3 s."""
    assert finish(unit_instance([0, 10], [1, 1], [100, 20], "1x2", restart_all_s=3.0), "fifo") == [106.0, 30.0]


def test_a_restart_shortens_no_start() -> None:
    """A start takes 100 s. Job 1 comes at 1 and restarts job 0, which is ready at 100 all the same. Its end, at 110,
    restarts job 1, which has 1 s left then.
    """
    instance = unit_instance([0, 1], [1, 1], [10, 10], "1x4", start_s=100.0, restart_all_s=3.0)
    log = play_both(instance, "fifo")
    validate(instance, log)
    assert job_times(instance, log)["preemptions"].tolist() == [1, 1]
    assert job_times(instance, log)["finish_s"].tolist() == [110.0, 114.0]


@pytest.mark.parametrize("spec", ["fair", "drf", "capacity", "kueue", "kai", "volcano", "srtf", "fifo"])
def test_gangs_on_drained_nodes_run_on(spec: str) -> None:
    """They could not start there again. Their jobs lose nothing to what happens until the drain ends."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        arrival_s, run_s = np.sort(rng.integers(0, 60, 4)).astype(float), rng.integers(20, 90, 4).astype(float)
        workload = Workload.from_columns([0.0, *arrival_s], [4, 3, 3, 3, 3], [300.0, *run_s])
        rules = Semantics(checkpoint_s=0.0, restore_s=0.0, restart_all_s=3.0)
        drain = Partitions(reservations=(Reservation("r", 10.0, 250.0, nodes="0", drain=True),))
        instance = Instance(Cluster.parse("2x4"), workload, None, rules, partitions=drain)
        log = play_both(instance, spec)
        validate(instance, log)
        assert first_difference(instance, log, True) is None
        first = log.events[log.events["job"] == 0]
        stopped_s = first["time_s"][first["kind"] == PREEMPT]
        assert not ((stopped_s > 10.0) & (stopped_s < 250.0)).any()


def test_a_gang_that_moves_at_the_same_moment_pays_the_same() -> None:
    instance = unit_instance([0, 10], [1, 1], [100, 20], "1x3", restore_s=50.0, restart_all_s=3.0)
    script = Script({0.0: [Start(0, gpus=(0,))], 10.0: [Preempt(0), Start(0, gpus=(2,)), Start(1)]})
    assert job_times(instance, play(instance, script))["finish_s"].tolist() == [106.0, 30.0]


def test_leases_and_sizes_outlast_a_restart() -> None:
    for seed in (1, 2):
        instance = random_instance(seed, checkpoint_s=0.0, restore_s=0.0, restart_all_s=0.0)
        free = play(random_instance(seed, checkpoint_s=0.0, restore_s=0.0), Renewing())
        np.testing.assert_allclose(
            job_times(instance, play(instance, Renewing()))["finish_s"],
            job_times(instance, free)["finish_s"], rtol=1e-9,
        )  # fmt: skip
    elastic = get_scenario("pollux-64-v0:jobs=24")
    rules = dataclasses.replace(elastic.semantics, checkpoint_s=0.0, restart_all_s=12.0)
    for spec in ("afs", "optimus"):
        instance = elastic.replace(semantics=rules).instance(3)
        log = play(instance, spec)
        sizes = {(int(e["job"]), int(e["gpu_count"])) for e in log.events}
        assert any(size > instance.workload.jobs["gpus"][job] for job, size in sizes)


@pytest.mark.parametrize("spec", SPECS)
def test_all_paths_play_alike_and_the_log_is_valid(spec: str) -> None:
    """The player, ``decide``, a replay of the log's decisions; the simulator restarts nothing that they restarted."""
    instance = rounds(11)
    log = play_both(instance, spec)
    if not (log.events["kind"] == LEASE_END).any():  # a log does not tell leases
        again = begin_at(instance, moves_of(instance, log), float(log.events["time_s"][-1]))
        assert again.log().digest() == log.digest()
    assert (job_times(instance, log)["preemptions"] > 1).any()


def test_gangs_that_share_links_restart_too() -> None:
    """The validator makes the decisions of such a log again, bit by bit."""
    linked = get_scenario("leaf-spine-256-v1")
    jobs = dataclasses.replace(linked.workload, jobs=40)
    rules = Semantics(round_s=600.0, checkpoint_s=0.0, restart_all_s=20.0)
    instance = linked.replace(workload=jobs, semantics=rules, tracked_window=None).instance(1)
    log = play_both(instance, "srtf")
    assert (job_times(instance, log)["preemptions"] > 1).any()
    times_s = np.unique(log.events["time_s"])[::7]
    assert link_loads(instance, log, times_s).any()  # arrivals between rounds restart nothing when it replays


def test_random_play_of_elastic_jobs_copies_and_links_conserves_work_and_can_be_replayed() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        drawn = draw_elastic(rng)
        rules = dataclasses.replace(drawn.semantics, checkpoint_s=0.0, restart_all_s=float(rng.choice([0.0, 7.5])))
        instance = Instance(drawn.cluster, drawn.workload, drawn.network, rules)
        simulation, outcome, left = Simulation(instance, seed), Outcome.DECIDE, drawn.iterations
        for _ in range(400):
            if outcome is not Outcome.DECIDE:
                break
            outcome = simulation.advance()
            check_counts(simulation)
            assert (work_of(simulation) <= left).all(), "work grew"
            left = work_of(simulation)
            for _ in range(int(rng.integers(0, 6)) if outcome is Outcome.DECIDE else 0):
                simulation.apply(draw_sized(rng, simulation))  # type: ignore[arg-type]
        validate(instance, simulation.log(), complete=outcome is Outcome.DONE)
        assert first_difference(instance, simulation.log(), False) is None, seed


@pytest.mark.parametrize("spec", SPECS)
def test_the_environment_plays_alike(spec: str) -> None:
    rules = Semantics(round_s=300.0, checkpoint_s=0.0, restart_all_s=20.0)
    drawn = small_scenario(40, semantics=rules)
    direct = simulate(drawn.instance(5), make_scheduler(spec), seed=5)
    assert (
        play_scheduler(wide_open(drawn, 5, rules=("pack", "consolidate")), make_scheduler(spec), 5).digest()
        == direct.digest()
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limits", [None, (200.0, 500.0)])
def test_a_replay_of_muris_controller_gives_the_same_times(seed: int, limits: tuple[float, ...] | None) -> None:
    """The replay knows nothing of the simulator. Gangs of a whole node or more, or all of one GPU, so all rules of
    placement agree on what fits.
    """
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 3000, 40)).astype(float)
    gangs = rng.choice([1] if seed % 2 else [4, 8, 16], 40)
    run_s = rng.integers(20, 2000, 40) / 4.0
    instance = unit_instance(
        arrival.tolist(), gangs.tolist(), run_s.tolist(), "1x4" if seed % 2 else "4x4",
        round_s=64.0, start_s=8.0, restore_s=8.0, restart_all_s=8.0,
    )  # fmt: skip
    muri = Controller(1 if seed % 2 else 4, 4, 64.0, 8.0, limits)
    ends = muri.run(arrival.tolist(), gangs.tolist(), run_s.tolist())
    log = play_both(instance, "srtf" if limits is None else TAIL)
    times = job_times(instance, log)
    assert times["finish_s"].tolist() == ends
    assert (times["preemptions"] + 1).tolist() == [muri.starts[job] for job in range(40)]


def test_a_wrong_restart_is_refused() -> None:
    log = play(instance := rounds(4), "srtf")
    events = log.events.copy()
    at = int(np.flatnonzero((events["kind"][:-1] == RELEASE) & (events["kind"][1:] == RESUME))[0]) + 1
    events["value"][at] = events["time_s"][at] + 20.0  # the cost of a resumption
    with pytest.raises(ScheduleError, match="progress must begin"):
        validate(instance, dataclasses.replace(log, events=events))


def test_all_work_takes_the_ratio_longer_and_the_order_stays() -> None:
    """1.25 and all numbers are exact in binary. The keys of schedulers are scaled too, and the bounds of all runs."""
    arrival, gangs, run_s = [0.0, 0.0, 1.0], [2, 2, 1], [64.0, 32.0, 16.0]
    assert finish(unit_instance(arrival, gangs, run_s, "1x2", step_ratio=1.25), "srtf") == [140.0, 60.0, 21.0]
    scaled = unit_instance(arrival, gangs, run_s, "1x2", step_ratio=1.25)
    plain = unit_instance(arrival, gangs, [1.25 * s for s in run_s], "1x2")
    for spec in ("srtf", "tiresias", "fifo-easy"):
        assert play(scaled, spec).digest() == play(plain, spec).digest()
    assert lower_bounds(scaled) == lower_bounds(plain)
    dally = get_scenario("dally-poisson-v1:jobs=20")
    slow = dally.replace(semantics=dataclasses.replace(dally.semantics, step_iterations=0, step_ratio=2.0)).instance(3)
    np.testing.assert_allclose(slow.ideal_s, 2.0 * dally.instance(3).ideal_s, rtol=0.2)  # steps are rounded up there
    play(slow, "dally")


def test_defaults_leave_fingerprints_alone_and_errors_name_the_field() -> None:
    tiny = get_scenario("tiny-v1")
    assert not {"restart_all_s", "step_ratio"} & set(tiny.as_dict()["semantics"])
    data = tiny.as_dict()
    data["semantics"] |= {"checkpoint_s": 0.0, "restart_all_s": 12.0, "step_ratio": 1.5}
    rules = scenario_from_dict(data, "x.json").semantics
    assert (rules.restart_all_s, rules.step_ratio) == (12.0, 1.5)
    assert rules.as_dict() == data["semantics"]
    assert Semantics(checkpoint_s=0.0).as_dict() != Semantics(checkpoint_s=0.0, restart_all_s=0.0).as_dict()
    wrong = [{"restart_all_s": -1.0}, {"restart_all_s": 5.0}]
    values = (0.0, math.nan, 1e-320, 1e300, 10**400, "abc", None, [1], True)
    wrong += [{name: value} for name in ("step_ratio", "least_busy_lambda") for value in values]
    for bad in wrong:
        with pytest.raises(ScenarioError, match=f"semantics.{next(iter(bad))}"):
            Semantics(**bad)  # type: ignore[arg-type]
    shared = get_scenario("bsbf-physical-30-v1")
    with pytest.raises(ScenarioError, match=r"semantics.restart_all_s: gangs that share GPUs"):
        shared.replace(semantics=dataclasses.replace(shared.semantics, restart_all_s=1.0)).instance(0)


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.simulator.test_restart_all") == digests()
