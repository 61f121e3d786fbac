"""The metrics against the simulator: two independent accounts of the same runs must agree."""

from __future__ import annotations

import numpy as np
import pytest
from metrics_reference import random_instance

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.metrics import end_of_run, job_times, jobs_in_system, lower_bounds, summarise, validate
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Simulation

RULES = {
    "exact": {},
    "free-preemption": {"checkpoint_s": 0.0, "restore_s": 0.0},
    "rounds": {"round_s": 60.0},
    "odd-rounds-and-limit": {"round_s": 37.3, "time_limit_s": 3_000.0},
    "limit-and-slow-restore": {"time_limit_s": 2_500.0, "restore_s": 100.0},
    "strict": {"queue": "strict"},
}


def on_two_gpu_types(instance: Instance) -> Instance:
    """The same jobs on a cluster of two GPU types; nodes of one type are racks of one node."""
    rows = [{name: row[name] for name in row.dtype.names} for row in instance.workload.profiles.rows]
    for row, compute in zip(rows, ((0.25, 0.6), (0.5, 0.5), (0.3, 0.1)), strict=True):
        row["compute_s"] = compute
    workload = Workload(instance.workload.jobs, Profiles.from_rows(rows, ("A", "B")))
    cluster = Cluster([NodeGroup(2, 4, "A"), NodeGroup(2, 4, "B", 1)])
    return Instance(cluster, workload, instance.network, instance.semantics)


@pytest.mark.parametrize("types", [1, 2])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_metrics_and_simulator_agree(name: str, rules: str, types: int) -> None:
    instance = random_instance(5, jobs=60, **RULES[rules])
    if types == 2:
        instance = on_two_gpu_types(instance)
    simulation = Simulation(instance)
    simulation.run(make_scheduler(name))
    log, world = simulation.log(), simulation.arrays.world
    validate(instance, log)

    end = end_of_run(instance, log)
    numbers, times, bounds = summarise(instance, log), job_times(instance, log), lower_bounds(instance)
    assert simulation.finished == numbers["finished"]
    assert jobs_in_system(log).integral(end) == pytest.approx(world["job_seconds"], rel=1e-9)
    assert times["gpu_seconds"].sum() == pytest.approx(world["busy_gpu_seconds"], rel=1e-9)
    assert times["preemptions"].sum() == world["preemptions"]
    if numbers["finished"]:
        assert numbers["rho_mean"] * numbers["finished"] == pytest.approx(world["fairness_sum"], rel=1e-9)
    arrived = times["arrival_s"] <= end
    life = np.where(np.isnan(times["jct_s"]), end - times["arrival_s"], times["jct_s"])
    parts = times["queueing_s"] + times["service_s"] + times["overhead_s"]
    np.testing.assert_allclose(parts[arrived], life[arrived], rtol=1e-9, atol=1e-6)
    if numbers["finished"] == numbers["jobs"]:
        assert bounds["mean_jct_s"] <= numbers["mean_jct_s"] * (1 + 1e-9)
        assert bounds["makespan_s"] <= numbers["makespan_s"] * (1 + 1e-9)
