"""Schedulers that choose the sizes of elastic jobs: worked examples, and properties of their logs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest
from helpers import play, random_workload, two_types
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.baselines.elastic.afs import Afs
from gpusched_env.baselines.elastic.max_min import ElasticMaxMin
from gpusched_env.baselines.elastic.optimus import Optimus
from gpusched_env.baselines.elastic.sizes import SizingScheduler
from gpusched_env.baselines.elastic.speed_model import fit_seconds
from gpusched_env.baselines.elastic.tiresias import ElasticTiresias
from gpusched_env.event_log import RESIZE
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.sizes import Sizes
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload
from gpusched_env.simulator import ClusterView, Decision, Simulation, simulate
from gpusched_env.traces.elastic import amdahl, make_elastic

FOR_DEADLINES = ("elasticflow", "edf", "edf-admission", "chronus")
NAMES = sorted(set(list_baselines({"sizes", "deadlines"})) - set(list_baselines(())))
FREE = {"checkpoint_s": 0.0, "restore_s": 0.0}


def with_rates(
    rates: list[list[float]], work: list[float], cluster: str, arrival: list[float] | None = None
) -> Instance:
    """Jobs whose rates on 1, 2, ... GPUs are given [iterations/s], on every placement."""
    row = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
    base = Profiles.from_rows([row | {"name": str(i), "compute_s": 1 / p[0]} for i, p in enumerate(rates)])
    measured = [(i, 0, n + 1, 0, 1 / p[n], 0.0) for i, p in enumerate(rates) for n in range(len(p))]
    profiles = Profiles(base.rows, base.compute_s, base.gpu_types, np.array(measured, MEASURED_DTYPE))
    jobs = np.arange(len(rates))
    sizes = Sizes.of_groups(jobs, [[(n + 1, i) for n in range(len(p))] for i, p in enumerate(rates)])
    workload = Workload.from_columns(
        arrival or [0.0] * len(rates), [1] * len(rates), iterations=work, profiles=profiles, profile=jobs
    )
    workload = dataclasses.replace(workload, sizes=sizes)
    return Instance(Cluster.parse(cluster), workload, Network("none"), Semantics(**FREE))


def first_sizes(instance: Instance, scheduler: str) -> dict[int, int]:
    """GPUs of each job after the decisions at time 0."""
    log = play(instance, scheduler)
    starts = log.events[(log.events["gpu_count"] > 0) & (log.events["time_s"] == 0)]
    return dict(zip(starts["job"].tolist(), starts["gpu_count"].tolist(), strict=True))


def test_afs_on_a_worked_example() -> None:
    """Comparisons by hand: X first (shorter), X (1 > 0.5), Y (0.5 > 0.474 is in favour of Y), Y, Y, Y: 2 and 4 GPUs."""
    instance = with_rates([[10, 15, 17, 17, 17, 17], [10, 19, 27, 34, 40, 41]], [600, 3000], "1x6")
    assert first_sizes(instance, "afs") == {0: 2, 1: 4}


@pytest.mark.parametrize("spec", ["afs", "afs-p", "max-min", "optimus"])
def test_asked_again_before_its_decisions_are_carried_out_it_decides_the_same(spec: str) -> None:
    """A teacher is asked at every step of an agent. All GPUs are held when the second job arrives."""
    instance = with_rates([[10, 19, 27, 34]] * 2, [3000, 3000], "1x4", arrival=[0.0, 10.0])
    scheduler, simulation = make_scheduler(spec), Simulation(instance)
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    simulation.advance()
    for decision in scheduler.decide(view):
        simulation.apply(decision)
    simulation.advance()
    assert (simulation.now_s, view.free_gpus) == (10.0, 0)
    decisions = list(scheduler.decide(view))
    assert decisions
    assert list(scheduler.decide(view)) == decisions


def test_optimus_on_a_worked_example() -> None:
    """One GPU each. Gains in s: X 600/10 - 600/15 = 20, then 4.7; Y 3000/10 - 3000/19 = 142, then 47, 23, 13 (5 GPUs).

    Y, Y, Y take three GPUs (23 > 20), and the last goes to X (20 > 13).
    """
    instance = with_rates([[10, 15, 17, 17, 17, 17], [10, 19, 27, 34, 40, 41]], [600, 3000], "1x6")
    assert first_sizes(instance, "optimus") == {0: 2, 1: 4}
    instance = with_rates([[10, 15, 17, 17, 17, 17], [10, 19, 27, 34, 40, 41]], [60, 3000], "1x6")
    assert first_sizes(instance, "optimus") == {0: 1, 1: 5}


def test_optimus_grants_no_gpus_that_slow_a_job_down() -> None:
    assert first_sizes(with_rates([[10, 9, 8]], [100], "1x3"), "optimus") == {0: 1}


@given(
    terms=st.tuples(*[st.sampled_from([0.0, 0.01, 0.3, 2.0])] * 3).filter(any),
    gpus=st.sets(st.integers(1, 64), min_size=3, max_size=8),
)
def test_fitted_times_are_those_of_a_true_model(terms: tuple[float, float, float], gpus: set[int]) -> None:
    a, b, c = terms
    measured = sorted(gpus)
    found = fit_seconds(measured, [a / r + b + c * r for r in measured])
    for r in measured:
        assert found[0] / r + found[1] + found[2] * r == pytest.approx(a / r + b + c * r, rel=1e-6)


def test_fitted_times_on_worked_numbers() -> None:
    """One measurement: linear speed. Amdahl: two suffice. Rates that fall need no negative term."""
    assert fit_seconds([4], [3.0]) == pytest.approx((12.0, 0.0, 0.0))
    assert fit_seconds([1, 2], [1.0, 0.55]) == pytest.approx((0.9, 0.1, 0.0))
    assert fit_seconds([1, 2, 4], [1.0, 2.0, 4.0]) == pytest.approx((0.0, 0.0, 1.0))
    assert min(fit_seconds([1, 2, 4, 8], [1.0, 0.6, 0.2, 0.3])) >= 0.0


def test_optimus_that_fits_speeds_learns_amdahls_law_from_two_sizes() -> None:
    jobs = random_workload(np.random.default_rng(3), 20, 8, spacing_s=60.0)
    instance = Instance(Cluster.parse("2x4"), make_elastic(jobs, amdahl(0.2), 1, 8), Network("none"))
    logs = {spec: simulate(instance, make_scheduler(spec)) for spec in ("optimus", "optimus:fit=2", "optimus:fit=1")}
    assert logs["optimus:fit=2"].digest() == logs["optimus"].digest()
    assert logs["optimus:fit=1"].digest() != logs["optimus"].digest()
    validate(instance, logs["optimus:fit=1"])


def test_small_gangs_may_choose_their_nodes_first() -> None:
    """Job 0 gets two GPUs, job 1 one. The job that chooses first takes the node of two GPUs."""
    instance = with_rates([[10, 18], [10]], [600, 600], "1x2,1x1")
    nodes = {}
    for spec in ("optimus", "optimus:smallest_first=true"):
        log = simulate(instance, make_scheduler(spec))
        start = log.events[(log.events["gpu_count"] == 2) & (log.events["time_s"] == 0)][0]
        held = log.gpus[start["gpu_at"] :][:2]
        nodes[spec] = sorted(instance.cluster.node_of_gpu[held].tolist())
    assert nodes == {"optimus": [0, 0], "optimus:smallest_first=true": [0, 1]}


def test_max_min_divides_equally() -> None:
    rates = [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]
    assert first_sizes(with_rates(rates, [10, 10, 10], "1x8"), "max-min") == {0: 2, 1: 3, 2: 3}
    assert first_sizes(with_rates(rates, [10, 10, 10], "1x2"), "max-min") == {0: 1, 1: 1}


# Pollux and Sia at most double a size, and Chronus chooses none.
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("pollux", "sia", "chronus")])
def test_one_elastic_job_with_linear_speed_gets_the_whole_cluster(name: str) -> None:
    log = simulate(with_rates([[1.0, 2.0, 3.0, 4.0]], [100], "2x2"), make_scheduler(name))
    assert log.events["time_s"][-1] == 25.0


def test_jobs_shrink_for_an_arrival_and_grow_after_a_completion() -> None:
    """4 GPUs, linear. Job 0 alone to 10 s (40 done), then 2 GPUs each; job 1 ends at 20, job 0 at 20 + 40/4."""
    instance = with_rates([[1.0, 2.0, 3.0, 4.0]] * 2, [100.0, 20.0], "1x4", [0.0, 10.0])
    log = play(instance, "max-min")
    assert job_times(instance, log)["finish_s"].tolist() == [30.0, 20.0]
    assert (log.events["kind"] == RESIZE).sum() == 2


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), step=st.integers(0, 3))
@pytest.mark.parametrize("kind", [ElasticMaxMin, ElasticTiresias, Optimus, Afs])
def test_no_gpu_idles_that_some_job_could_use(kind: type[SizingScheduler], seed: int, step: int) -> None:
    """With linear speeds, every GPU helps: those that are left are too few for the next size of each job."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            yield from super().decide(view)
            for job in [*view.running.tolist(), *view.waiting.tolist()]:
                larger = view.sizes(job)[view.sizes(job) > view.held_gpus(np.array([job]))[0]]
                assert not len(larger) or larger[0] - view.held_gpus(np.array([job]))[0] > view.free_gpus

    jobs = make_elastic(
        random_workload(np.random.default_rng(seed), 12, 8), float, least=1 + step % 2, most=9, step=step
    )
    simulate(Instance(Cluster.parse("3x4"), jobs, Network("none"), Semantics(**FREE)), Watched())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_runs_are_valid_and_reproducible(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = [Cluster.parse("4x4/2"), two_types((3, 2), (2, 5), 2)][int(rng.integers(2))]
    workload = random_workload(rng, int(rng.integers(1, 15)), cluster.gpus // 2, cluster.gpu_types, 60.0)
    if rng.random() < 0.8:
        workload = make_elastic(workload, amdahl(float(rng.choice([0.0, 0.1]))), 1, None, int(rng.integers(0, 2)))
    rules = Semantics(
        round_s=float(rng.choice([0, 60])),
        checkpoint_s=float(rng.choice([0, 30])),
        restore_s=float(rng.choice([0, 30])),
    )
    instance = Instance(cluster, workload, None, rules)
    log = play(instance, name)
    assert simulate(instance, make_scheduler(name)).digest() == log.digest()


# Pollux, Sia and the schedulers for deadlines move gangs.
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("pollux", "sia", *FOR_DEADLINES)])
def test_rigid_jobs_are_never_resized(name: str) -> None:
    workload = random_workload(np.random.default_rng(1), 30, 8)
    instance = Instance(Cluster.parse("4x4/2"), workload)
    log = play(instance, name)
    assert not (log.events["kind"] == RESIZE).any()
