"""Gavel's rounds against a plain Python version of its published simulator, job by job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import gavel_simulator as published
import numpy as np
import pytest
from helpers import play
from published import TRACES, here

from gpusched_env.baselines import make_scheduler
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import read_workload
from gpusched_env.traces.profile_tables import load_measured

TRACE = "1x8@V100,4x4@P100,3x8@K80"  # of the published trace
POLICIES: dict[str, tuple[Callable[[], published.Policy], bool, bool]] = {  # policy; queue_only; fixed_order
    "fifo": (published.Fifo, True, False),
    "fifo_perf": (lambda: published.fifo_perf, True, True),
    "isolated": (lambda: published.isolated, False, False),
}
PROGRAMS: dict[str, tuple[Callable[[], published.Policy], bool, bool]] = {
    "min_total_duration": (lambda: partial(published.min_total_duration, knows_types=False), False, False),
    "min_total_duration_perf": (lambda: partial(published.min_total_duration, knows_types=True), False, True),
}
SAME_S = 1e-5  # [s] rounding over thousands of rounds


def both(workload: Workload, cluster: str, policy: str) -> tuple[np.ndarray, np.ndarray]:
    """Completion times of each job [s]: ours, and those of the published simulator."""
    machines = Cluster.parse(cluster)
    rules = get_scenario("gavel-continuous-v1").instance(0)
    problem = Instance(machines, workload, rules.network, rules.semantics)
    solver = ",bisect=true,tie_break=interior" if policy in PROGRAMS else ""
    scheduler = make_scheduler(f"gavel:policy={policy},gavel_compat=true{solver}")
    ours = job_times(problem, play(problem, scheduler))["jct_s"]
    models = load_measured("gavel").models
    names = workload.profiles.rows["name"][workload.jobs["profile"]].tolist()
    jobs = []
    for name, row in zip(names, workload.jobs, strict=True):
        rates = {kind: models[name].rates[kind].get(int(row["gpus"]), (0.0,))[0] for kind in machines.gpu_types}
        rates = {kind.lower(): 1 / (1 / rate) if rate else 0.0 for kind, rate in rates.items()}  # from seconds a step
        jobs.append(published.Job(float(row["arrival_s"]), int(row["gpus"]), float(row["iterations"]), rates))
    counts = np.bincount(machines.nodes["gpu_type"], weights=machines.nodes["gpus"]).astype(int).tolist()
    has = dict(zip(map(str.lower, machines.gpu_types), counts, strict=True))
    build, queue_only, fixed_order = (POLICIES | PROGRAMS)[policy]
    ends = published.completion_s(jobs, has, build(), queue_only, fixed_order)
    assert len(ends) == len(jobs)  # no job is dropped here
    return ours, np.array([ends[number] for number in range(len(jobs))])


@here
@pytest.mark.parametrize("policy", POLICIES)
def test_on_the_published_trace_every_job_ends_as_in_the_published_simulator(policy: str) -> None:
    """96 jobs; one is ResNet-50 with batch size 128 on two GPUs, which K80 cannot run."""
    ours, theirs = both(read_workload(f"gavel:{TRACES / 'gavel/max_min_fairness.trace'}"), TRACE, policy)
    assert ours == pytest.approx(theirs, abs=SAME_S)


@here
@pytest.mark.parametrize("policy", PROGRAMS)
def test_every_job_ends_as_published_where_the_solver_searches_for_the_makespan(policy: str) -> None:
    pytest.importorskip("ecos")
    ours, theirs = both(read_workload(f"gavel:{TRACES / 'gavel/max_min_fairness.trace'}"), TRACE, policy)
    assert ours == pytest.approx(theirs, abs=SAME_S)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("cluster", "demand"), [(TRACE, "one"), ("1x8@V100,2x4@P100,1x8@K80", "mixed")])
def test_generated_jobs_end_as_in_the_published_simulator(policy: str, cluster: str, demand: str) -> None:
    gangs = ",gangs=mixed" if demand == "mixed" else ""
    workload = get_scenario(f"gavel-continuous-v1:rate=12,jobs=60{gangs}").instance(1).workload
    ours, theirs = both(workload, cluster, policy)
    assert ours == pytest.approx(theirs, abs=SAME_S)
