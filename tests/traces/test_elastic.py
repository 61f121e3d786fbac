"""Speeds of elastic jobs: goodput on worked numbers, and the rules that make jobs elastic."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import WorkloadSpec, get_scenario
from gpusched_env.simulator import ClusterView, Simulation
from gpusched_env.traces.elastic import elastic_jobs
from gpusched_env.traces.elastic_applications import LEAST_BATCH, limits_of
from gpusched_env.traces.profile_tables import load_fitted
from gpusched_env.traces.profile_tables.goodput import Limits, best_batches, efficiency, gain
from gpusched_env.traces.profile_tables.throughput import Throughput

# alpha and beta of the gradient, one machine, several machines; gamma
THETA = Throughput(0.02, 0.0005, 0.03, 0.002, 0.1, 0.01, 2.0)
CIFAR = Limits(128, 4096, 32, 512)


@pytest.mark.parametrize(
    ("machines", "gpus", "batch", "passes", "samples_per_s"),
    [(1, 1, 128, 1, 1523.81), (1, 4, 128, 1, 5649.96), (2, 8, 128, 1, 5666.55), (2, 8, 128, 2, 7736.78)],
)
def test_throughput_on_worked_numbers(machines: int, gpus: int, batch: int, passes: int, samples_per_s: float) -> None:
    """The numbers were computed with the functions of Pollux's authors."""
    found = gpus * batch * passes / float(THETA.iteration_s(gpus, machines, batch, passes))
    assert found == pytest.approx(samples_per_s, abs=0.005)


def test_statistical_efficiency_on_worked_numbers() -> None:
    assert [efficiency(1.0, 8.0, batch / 128) for batch in (128, 512, 1024, 2048)] == [1.0, 0.75, 0.5625, 0.375]
    assert gain(0.0, 0.0, 4.0) == 1.0
    goodputs = [128 * gain(1.0, 8.0, m / 128) / float(THETA.iteration_s(1, 1, 128, m // 128)) for m in (128, 512)]
    assert goodputs[0] == pytest.approx(1523.81, abs=0.005)


@pytest.mark.parametrize(
    ("machines", "gpus", "batch", "goodput"), [(1, 2, 173, 2629.53), (1, 4, 132, 4238.00), (2, 8, 232, 3535.40)]
)
def test_best_batch_on_worked_numbers(machines: int, gpus: int, batch: int, goodput: float) -> None:
    (choice,) = best_batches(THETA, gpus, machines, CIFAR, [lambda total: gain(1.0, 8.0, total / 128)])
    assert (choice.batch, choice.passes) == (batch, 1)
    assert 128 / choice.seconds == pytest.approx(goodput, abs=0.005)


def test_a_gang_whose_smallest_batches_exceed_the_largest_total_has_no_batch() -> None:
    assert best_batches(THETA, 129, 2, CIFAR, [np.ones_like]) == []


def drawn(rule: str, jobs: int = 60) -> Workload:
    return WorkloadSpec("synthetic:pollux", profiles="own", jobs=jobs, elastic={"rule": rule}).draw(
        3, None, 64, ("T4",)
    )


def view_of(workload: Workload) -> ClusterView:
    """All jobs have arrived."""
    jobs = workload.jobs.copy()
    jobs["arrival_s"] = 0.0
    together = workload.unchecked_replace(jobs=jobs)
    simulation = Simulation(Instance(Cluster.parse("16x4@T4"), together, Network("none")))
    simulation.advance()
    return ClusterView(simulation)


def test_sizes_leave_every_gpu_its_smallest_batch() -> None:
    view, workload = view_of(drawn("fixed-batch")), drawn("fixed-batch")
    order = np.argsort(workload.jobs["id"])
    for row, (model, batch) in enumerate(
        zip(workload.attributes["model"][order], workload.attributes["batch_size"][order], strict=True)
    ):
        most = 1 if model == "ncf" else min(64, int(batch) // LEAST_BATCH[str(model)])
        assert view.sizes(row).tolist() == list(range(1, most + 1))


def test_a_fixed_batch_keeps_the_work_and_the_speed_of_the_requested_size() -> None:
    rigid = WorkloadSpec("synthetic:pollux", profiles="own", jobs=60).draw(3, None, 64, ("T4",))
    elastic = drawn("fixed-batch")
    assert (rigid.jobs["iterations"] == elastic.jobs["iterations"]).all()
    instances = [Instance(Cluster.parse("16x4@T4"), each, Network("none")) for each in (rigid, elastic)]
    assert (instances[0].ideal_s == instances[1].ideal_s).all()


def test_an_adaptive_batch_is_at_least_as_good_as_the_tuned_one() -> None:
    """Compared at the requested size; 5 % because the 50 candidates need not contain the tuned batch."""
    view, tuned = view_of(drawn("adaptive-batch")), view_of(drawn("fixed-batch"))
    for row in range(view.arrived):
        gpus = int(view.gpus[row])
        work = [float(v.simulation.instance.iterations[row]) for v in (view, tuned)]
        rates = [v.size_rates(row)[v.sizes(row).tolist().index(gpus)] for v in (view, tuned)]
        assert work[0] / rates[0] <= work[1] / rates[1] * 1.05


@pytest.mark.parametrize("speeds", ["fitted", "measured"])
def test_a_scaled_batch_keeps_the_batch_of_each_gpu(speeds: str) -> None:
    """ResNet-18 that asks for 4 GPUs and a batch of 512: 128 samples on each of 1 to 32 GPUs, 4,096 being the most.

    The best batch is never much worse: its 50 candidates need not contain this one.
    """
    attributes = {"model": np.array(["cifar10"]), "batch_size": np.array([512])}
    plain = Workload.from_columns([0.0], [4], duration_s=[1.0], attributes=attributes)
    views = {rule: view_of(elastic_jobs(plain, f"{rule}-batch", speeds=speeds)) for rule in ("scaled", "adaptive")}
    scaled = views["scaled"]
    assert scaled.sizes(0).tolist() == list(range(1, 33))
    best = views["adaptive"].size_rates(0)[: len(scaled.sizes(0))]
    assert (scaled.size_rates(0) <= best * 1.05).all()
    if speeds == "fitted":
        table = load_fitted("pollux")
        fit, application = table.fits["T4"]["cifar10"].throughput, table.applications["cifar10"]
        shares, worths = application.worths()
        for gpus, machines in ((1, 1), (4, 1), (8, 2)):
            step_s = float(fit.iteration_s(gpus, machines, np.array([128.0]))[0])
            worth = [float(each(np.array([128.0 * gpus]))[0]) for each in worths]
            assert scaled.size_rates(0)[gpus - 1] == pytest.approx(1 / sum(shares / worth * step_s))


def test_goodput_of_one_gpu_by_hand() -> None:
    """ResNet-18 on one GPU: one of the candidates, priced step by step."""
    table = load_fitted("pollux")
    application, fit = table.applications["cifar10"], table.fits["T4"]["cifar10"]
    limits = limits_of("cifar10")
    assert limits == (128, 4096, 32, 1024)
    view = view_of(drawn("adaptive-batch"))
    models = view.simulation.instance.workload.attributes["model"]
    row = int(np.flatnonzero(models == "cifar10")[0])
    known = sorted(application.milestones)
    ends = np.array([application.milestones[batch] for batch in known])
    needed = np.diff(ends, axis=1, prepend=0.0)
    whole = 0.0
    for part in range(needed.shape[1]):
        best = np.inf
        for i in range(50):
            total = 128 * (4096 / 128) ** (i / 49)
            passes = max(int(np.ceil(total / 1024 - 1e-8)), 2 if total > 128 + 1e-8 else 1)
            batch = int(np.ceil(total / passes - 1e-8))
            seconds = passes * (fit.throughput.alpha_grad + fit.throughput.beta_grad * batch)
            total = min(batch * passes, 4096)
            samples = np.interp(total, known, np.array(known) * needed[:, part])
            best = min(best, seconds * samples / total)  # of the whole part
        whole += best
    assert view.size_rates(row)[0] == pytest.approx(ends[0, -1] / whole, rel=1e-9)
    assert view.placed_rates(row)[1, MACHINE, 0] > view.placed_rates(row)[1, -1, 0]


@pytest.mark.parametrize(
    ("elastic", "message"),
    [
        ({"rule": "amdhal"}, "did you mean 'amdahl'"),
        ({"serial": 0.1}, "names no rule"),
        ({"rule": "amdahl", "parallel": 0.1}, "unknown parameter 'parallel'"),
        ({"rule": "amdahl", "most": 2.5}, "number of GPUs"),
        ({"rule": "adaptive-batch", "most": 8}, "unknown parameter 'most'"),
    ],
)
def test_bad_rules_are_refused(elastic: dict[str, object], message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        WorkloadSpec("synthetic:poisson", elastic=elastic)


def test_rules_of_applications_refuse_other_jobs() -> None:
    workload = Workload.from_columns([0.0], [2], duration_s=[5.0])
    for rule in ("adaptive-batch", "fixed-batch", "scaled-batch"):
        with pytest.raises(GpuschedError, match=r"has no attribute|names no models"):
            elastic_jobs(workload, rule)
    unknown = Workload.from_columns([0.0], [2], duration_s=[5.0], attributes={"model": np.array(["gpt"])})
    with pytest.raises(GpuschedError, match="amdahl"):
        elastic_jobs(unknown, "adaptive-batch")


def test_scenarios_make_jobs_elastic() -> None:
    plain = get_scenario("tiny-v1")
    assert "elastic" not in plain.workload.as_dict()
    elastic = plain.replace(workload=dataclasses.replace(plain.workload, elastic={"rule": "amdahl", "most": 4}))
    assert elastic.fingerprint() != plain.fingerprint()
    assert elastic.instance(0).sizes.elastic
    with pytest.raises(ScenarioError, match="leave out load"):
        get_scenario("pollux-64-v0:load=1,workload=x.csv")


@pytest.mark.parametrize("speeds", ["fitted", "measured"])
def test_jobs_of_one_gpu_that_request_several(speeds: str) -> None:
    """NCF: Pollux trains it on one GPU whatever it requests; with the user's batch it also has the requested size."""
    jobs = Workload.from_columns(
        arrival_s=[0.0, 1.0, 2.0],
        gpus=[8, 1, 1],
        iterations=[1000.0] * 3,
        attributes={"model": np.array(["ncf"] * 3), "batch_size": np.array([2048, 2048, 32768])},
    )
    adaptive = Instance(Cluster.parse("16x4@T4"), elastic_jobs(jobs, "adaptive-batch", speeds=speeds))
    assert adaptive.workload.jobs["gpus"].tolist() == [1, 1, 1]
    fixed = Instance(Cluster.parse("16x4@T4"), elastic_jobs(jobs, "fixed-batch", speeds=speeds))
    assert [sizes_of(fixed, job) for job in range(3)] == [[1, 8], [1], [1]]


def sizes_of(instance: Instance, job: int) -> list[int]:
    first = instance.sizes.first[job]
    kinds = instance.sizes.job_class[first : first + instance.sizes.count[job]]
    return instance.classes[kinds, 1].tolist()
