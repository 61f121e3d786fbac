"""Pollux's search on worked numbers, AFS-P, the elastic Tiresias, and rigid jobs under elastic schedulers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers import play, random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.elastic.pollux.scheduler import OFFSET, cost_terms
from gpusched_env.baselines.elastic.pollux.search import SEARCH_DTYPE, Search, assess, repair
from gpusched_env.core.handle import Batched
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import RESIZE, START
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.sizes import Sizes
from gpusched_env.simulator import simulate
from gpusched_env.traces.elastic import amdahl, make_elastic
from tests.baselines.test_elastic import NAMES, with_rates

LINEAR = [1.0, 2.0, 3.0, 4.0]


def task(states: list[list[int]], speed_up: list[float], avoids: bool = True, power: float = -1.0) -> Search:
    """A search over two nodes of four GPUs; each job has the same speed-up on every placement with GPUs."""
    jobs = len(states)
    control = np.zeros((), SEARCH_DTYPE)
    control["jobs"], control["nodes"], control["population"], control["random"] = jobs, 2, 1, 1
    control["avoids"] = avoids
    table = np.repeat(np.array(speed_up)[:, None, None], 9, axis=2).repeat(2, axis=1)
    found: Search = Batched(
        Search,
        1,
        {"states": 1, "jobs": jobs, "nodes": 2},
        search=control,
        capacity=np.full(2, 4, np.int32),
        present=np.array(states, np.int32),
        most=np.full(jobs, 8, np.int32),
        speed_up=table,
        term=cost_terms(np.stack([table, 0.81818 * table], axis=1), power),
        states=np.array([states], np.int32),
    ).handle(0)
    return found


def test_fitness_on_worked_numbers() -> None:
    """Two nodes, eight GPUs: speed-ups .5 and 1.5 scale to .125 and .375; harmonic mean with the offset .188749."""
    found = task([[4, 0], [0, 4]], [0.5 * 2 / 8, 1.5 * 2 / 8])
    assess(found, 0)
    assert 1 / found.cost[0] == pytest.approx(0.188749, abs=1e-6)
    found.present[0] = (0, 0)  # the first job's row has changed
    assess(found, 0)
    assert 1 / found.cost[0] == pytest.approx(2 / (1 / (0.125 * 0.81818 + OFFSET) + 1 / (0.375 + OFFSET)))


@pytest.mark.parametrize(("power", "mean"), [(-2.0, 0.168957), (-1.0, 0.188749), (0.0, 0.217660), (1.0, 0.251)])
def test_the_cost_orders_allocations_by_their_power_mean(power: float, mean: float) -> None:
    """Power means of .126 and .376; an allocation of two equal speed-ups with this mean, less a bit, is worse."""
    found = task([[4, 0], [0, 4]], [0.125, 0.375], power=power)
    assess(found, 0)
    for factor in (0.999, 1.001):
        other = task([[4, 0], [0, 4]], [factor * mean - OFFSET] * 2, power=power)
        assess(other, 0)
        assert (other.cost[0] < found.cost[0]) == (factor > 1)


def test_a_node_hosts_one_spread_gang_unless_avoidance_is_off() -> None:
    both = [[2, 2], [2, 2]]
    found = task(both, [1.0, 1.0])
    repair(found, 0)
    assert found.states[0].tolist() == [[2, 2], [0, 0]]
    found = task(both, [1.0, 1.0], avoids=False)
    repair(found, 0)
    assert found.states[0].tolist() == both


def test_pollux_explores_where_true_speeds_stop_it() -> None:
    """On two nodes of two GPUs, three GPUs are slower than two, but four are faster: only exploring gets there."""
    workload = with_rates([LINEAR], [4000.0], "2x2").workload
    rates = {1: 1.0, 2: 2.0, 3: 1.9, 4: 1.9}
    rows = workload.profiles.measured.copy()
    spread = rows.copy()
    rows["compute_s"] = [1.0 / gpus for gpus in rows["gpus"]]
    spread["compute_s"] = [1.0 / rates[gpus] for gpus in rows["gpus"]]
    spread["tier"] = 1
    profiles = dataclasses.replace(workload.profiles, measured=np.concatenate([rows, spread[rows["gpus"] > 1]]))
    jobs = dataclasses.replace(workload, profiles=profiles)
    instance = Instance(Cluster.parse("2x2"), jobs, None, Semantics(60.0, 0.0, 0.0))
    sizes = {
        spec: [int(count) for count in simulate(instance, make_scheduler(spec)).events["gpu_count"] if count]
        for spec in ("pollux", "pollux:explores=true")
    }
    assert max(sizes["pollux"]) == 2
    assert max(sizes["pollux:explores=true"]) == 4


def first_sizes(spec: str, arrival: list[float], work: list[float], cluster: str) -> list[tuple[float, int, int]]:
    instance = with_rates([LINEAR] * len(work), work, cluster, arrival)
    log = play(instance, spec)
    kept = log.events[log.events["gpu_count"] > 0]
    return list(zip(kept["time_s"].tolist(), kept["job"].tolist(), kept["gpu_count"].tolist(), strict=True))


def test_afs_p_favours_jobs_without_service() -> None:
    """Job 0 has all four GPUs until job 1 arrives; with linear speeds, then the comparison of gains decides.

    Job 1 has no GPU and no service. It is first granted one (it never is the shorter one by end, but its gain is 1).
    """
    seen = first_sizes("afs-p", [0.0, 10.0], [100.0, 100.0], "1x4")
    assert seen[0] == (0.0, 0, 4)
    at_arrival = {job: gpus for time_s, job, gpus in seen if time_s == 10.0}
    assert at_arrival[1] >= 1
    assert sum(at_arrival.values()) == 4
    assert not make_scheduler("afs-p").clairvoyant
    assert make_scheduler("afs").clairvoyant


def test_elastic_tiresias_shrinks_served_jobs_for_newcomers() -> None:
    """Four GPUs, one requested each. Job 0 has them all, and is demoted after 2.5 s (10 GPU s); job 1 comes at 5 s.

    Then both have one GPU, and the two that are left go to job 1, which is in the first queue.
    """
    seen = first_sizes("tiresias-elastic:threshold=10", [0.0, 5.0], [100.0, 100.0], "1x4")
    assert seen[:3] == [(0.0, 0, 4), (5.0, 0, 1), (5.0, 1, 3)]
    seen = first_sizes("tiresias-elastic:threshold=1e6", [0.0, 5.0], [100.0, 100.0], "1x4")
    assert seen[:3] == [(0.0, 0, 4), (5.0, 0, 3), (5.0, 1, 1)]
    with pytest.raises(SchedulerError, match="threshold"):
        make_scheduler("tiresias-elastic:threshold=0")


def specs() -> list[str]:
    return ["pollux:population=6,generations=4" if name == "pollux" else name for name in NAMES]


@pytest.mark.parametrize("spec", specs())
@settings(max_examples=10, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_rigid_jobs_keep_their_size_among_elastic_ones(spec: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = random_workload(rng, int(rng.integers(2, 12)), 6, ("V100",), 60.0)
    elastic = make_elastic(workload, amdahl(0.1), 1, 8)
    assert elastic.sizes is not None
    rigid = rng.random(len(workload)) < 0.5
    group = np.where(rigid, -1, elastic.sizes.group).astype(np.int32)
    mixed = dataclasses.replace(elastic, sizes=Sizes(group, elastic.sizes.options))
    instance = Instance(Cluster.parse("4x4/2"), mixed, None, Semantics(0.0, 0.0, 10.0))
    log = play(instance, spec)
    fixed = instance.workload.sizes.group == -1
    gangs = instance.workload.jobs["gpus"]
    placed = log.events[log.events["gpu_count"] > 0]
    own = fixed[placed["job"]]
    assert (placed["gpu_count"][own] == gangs[placed["job"]][own]).all()
    if spec in ("optimus", "afs", "afs-p", "max-min", "tiresias-elastic"):  # Pollux also moves gangs
        assert not fixed[log.events["job"][log.events["kind"] == RESIZE]].any()


@pytest.mark.parametrize("spec", specs())
@settings(max_examples=10, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_ranges_of_one_size_give_the_log_of_rigid_jobs(spec: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = random_workload(rng, int(rng.integers(2, 12)), 6, ("V100",), 60.0)
    jobs = workload.jobs
    kinds = sorted(set(zip(jobs["gpus"].tolist(), jobs["profile"].tolist(), strict=True)))
    group = [kinds.index(kind) for kind in zip(jobs["gpus"].tolist(), jobs["profile"].tolist(), strict=True)]
    ranges = dataclasses.replace(workload, sizes=Sizes.of_groups(group, [[kind] for kind in kinds]))
    logs = [
        simulate(Instance(Cluster.parse("4x4/2"), each, None, Semantics(0.0, 5.0, 10.0)), make_scheduler(spec))
        for each in (workload, ranges)
    ]
    assert logs[0].digest() == logs[1].digest()
    assert (logs[0].events["kind"] == START).sum() == len(workload)
