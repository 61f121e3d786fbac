"""Hadar that chooses the sizes of elastic jobs: worked rounds, and properties of its logs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import play, random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.metrics import summarise, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces.elastic import amdahl, make_elastic
from tests.simulator.test_elastic import draw_elastic


def first_sizes(jobs: Workload, spec: str, cluster: str = "2x4") -> dict[int, int]:
    """GPUs of each job after the decisions at time 0."""
    instance = Instance(Cluster.parse(cluster), jobs, Network("none"), Semantics(checkpoint_s=0.0, restore_s=0.0))
    log = play(instance, spec)
    starts = log.events[(log.events["gpu_count"] > 0) & (log.events["time_s"] == 0)]
    return dict(zip(starts["job"].tolist(), starts["gpu_count"].tolist(), strict=True))


def test_a_job_alone_gets_the_gpus_that_make_it_faster() -> None:
    alone = Workload.from_columns([0.0], [1], duration_s=[7200.0])
    assert first_sizes(make_elastic(alone, amdahl(0.0), most=8), "hadar:elastic=true") == {0: 8}
    assert first_sizes(make_elastic(alone, lambda gpus: min(gpus, 4.0), most=8), "hadar:elastic=true") == {0: 4}
    assert first_sizes(make_elastic(alone, amdahl(0.0), most=8), "hadar") == {0: 1}


def test_gpus_are_bought_while_their_price_is_below_what_they_are_worth() -> None:
    """Without gifts, a job whose speed hardly grows buys fewer GPUs than one whose speed is linear."""
    spec = "hadar:elastic=true,work_conserving=false"
    bought = []
    for serial in (0.0, 0.3, 1.0):
        jobs = Workload.from_columns([0.0] * 4, [1] * 4, duration_s=[7200.0] * 4)
        bought.append(sum(first_sizes(make_elastic(jobs, amdahl(serial), most=8), spec, "4x4").values()))
    assert bought[0] > bought[1] > bought[2]
    gifts = make_elastic(Workload.from_columns([0.0] * 4, [1] * 4, duration_s=[7200.0] * 4), amdahl(0.3), most=8)
    assert sum(first_sizes(gifts, "hadar:elastic=true", "4x4").values()) == 16


def test_sizes_for_which_no_single_gpu_type_has_room_are_left_out_without_mixed() -> None:
    jobs = random_workload(np.random.default_rng(0), 1, 1, ("V100", "T4"))
    elastic = make_elastic(jobs, amdahl(0.0), most=8)
    instance = Instance(Cluster.parse("1x4@V100,1x4@T4"), elastic, Network("none"))
    log = simulate(instance, make_scheduler("hadar:elastic=true,mixed=false"))
    assert log.events["gpu_count"].max() == 4


@pytest.mark.parametrize("order", ["density", "arrival"])
def test_jobs_of_one_size_are_played_as_by_the_greedy_walk(order: str) -> None:
    jobs = random_workload(np.random.default_rng(11), 30, 8, ("V100", "T4"))
    instance = Instance(Cluster.parse("2x4@V100,3x4@T4"), jobs)
    specs = [f"hadar:order={order},{kind}" for kind in ("elastic=true", "dp_max=0")]
    logs = [simulate(instance, make_scheduler(spec)) for spec in specs]
    assert logs[0].digest() == logs[1].digest()


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_random_runs_are_valid_and_reproducible(seed: int) -> None:
    instance = draw_elastic(np.random.default_rng(seed))
    logs = [simulate(instance, make_scheduler("hadar:elastic=true"), seed=seed) for _ in range(2)]
    validate(instance, logs[0], complete=np.isinf(instance.semantics.time_limit_s))
    assert logs[0].digest() == logs[1].digest()


def test_choosing_sizes_pays() -> None:
    jobs = make_elastic(random_workload(np.random.default_rng(5), 60, 4, spacing_s=300.0), amdahl(0.05), most=8)
    instance = Instance(Cluster.parse("4x4"), jobs, Network("none"))
    chosen, asked = (
        summarise(instance, simulate(instance, make_scheduler(spec)))["mean_jct_s"]
        for spec in ("hadar:elastic=true", "hadar")
    )
    assert chosen < asked
