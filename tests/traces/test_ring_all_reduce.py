"""The ring-all-reduce mix: the paper's counts and ranges, and an iteration time that adds up."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import WorkloadSpec
from gpusched_env.traces import generate_workload

NAME = "ring-all-reduce"


def drawn(seed: int = 1, jobs: int = 160, **parameters: object) -> Workload:
    return generate_workload(NAME, seed, jobs, **parameters)  # type: ignore[arg-type]


def test_sizes_are_exactly_those_of_the_paper() -> None:
    for seed in range(5):
        sizes, counts = np.unique(drawn(seed).jobs["gpus"], return_counts=True)
        assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}
    assert drawn().jobs["gpus"].sum() == 644
    assert drawn(1).jobs["gpus"].tolist() != drawn(2).jobs["gpus"].tolist()  # the order is drawn


def test_ranges_are_those_of_the_paper() -> None:
    jobs = np.concatenate([drawn(seed).jobs for seed in range(50)])
    assert (jobs["arrival_s"] == 0).all()
    iterations = jobs["iterations"]
    assert (iterations == np.rint(iterations)).all()
    assert 1_000 <= iterations.min() < 1_010
    assert 5_990 < iterations.max() <= 6_000
    assert iterations.mean() == pytest.approx(3_500, rel=0.02)
    assert jobs["estimate_s"] == pytest.approx(0.05 * iterations)  # 50 to 300 slots, of one second here


@pytest.mark.parametrize(("extra", "sigma"), [(0.15, 0.0245), (0.60, 0.2083)])
def test_iteration_times_add_up(extra: float, sigma: float) -> None:
    """On one server the drawn time, between servers sigma more or less; eight contenders cost half of ``extra``."""
    workload = drawn(extra=extra)
    cluster = Cluster.parse("20x32")
    idle = Instance(cluster, workload, Network(latency_s=(0.0, 0.0, 0.0)))
    tau = idle.ideal_iteration_s
    assert 0.01 <= tau.min() < 0.012
    assert 0.04 < tau.max() <= 0.0425
    profile = idle.classes[:, 0]
    gpus = idle.classes[:, 1]
    gradient = workload.profiles.rows["gradient_bytes"][profile]
    exchange = 2 * (gpus - 1) / gpus * gradient / 12e9
    assert exchange[gpus > 1] == pytest.approx((sigma * tau)[gpus > 1], rel=2e-3)
    assert (exchange[gpus == 1] == 0).all()
    slow_down = 4 + 0.2 * 3  # of the k = 0.5 x 8 effective contenders
    assert ((slow_down - 1) * exchange)[gpus > 1] == pytest.approx((0.5 * extra / (1 - extra) * tau)[gpus > 1])
    assert idle.iteration_s[:, 1, 0] == pytest.approx(tau + exchange * (1 - 12 / 120))


def test_every_job_has_its_own_profile() -> None:
    workload = drawn()
    assert len(workload.profiles.rows) == 160
    assert sorted(workload.jobs["profile"]) == list(range(160))
    spec = WorkloadSpec(f"synthetic:{NAME}", jobs=160)  # for every rule of profiles except unit
    assert spec.draw(1, None, 300, ("V100",)).profiles.rows["name"][7] == "job-7"


def test_other_numbers_of_jobs_keep_the_shares() -> None:
    for jobs in (1, 7, 159, 161, 320, 1_000):
        sizes, counts = np.unique(drawn(jobs=jobs).jobs["gpus"], return_counts=True)
        exact = dict(zip((1, 2, 4, 8, 16, 32), jobs * np.array([80, 14, 26, 30, 8, 2]) / 160, strict=True))
        assert counts.sum() == jobs
        assert all(abs(count - exact[size]) < 1 for size, count in zip(sizes.tolist(), counts.tolist(), strict=True))
    small = generate_workload(NAME, 1, 158, max_gpus=16)
    assert np.unique(small.jobs["gpus"], return_counts=True)[1].tolist() == [80, 14, 26, 30, 8]


def test_parameters() -> None:
    changed = drawn(demand={"2": 1, "4": 1})
    assert np.unique(changed.jobs["gpus"], return_counts=True)[1].tolist() == [80, 80]
    assert (drawn(extra=0.0).profiles.rows["gradient_bytes"] == 0).all()
