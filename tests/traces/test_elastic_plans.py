"""Jobs that train LLMs on any gang size that has a plan; what a change of the model's division costs."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScheduleError, WorkloadError
from gpusched_env.metrics import validate
from gpusched_env.network import NETWORK_PRESETS, Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Preempt, Resize, Simulation, Start, simulate
from gpusched_env.traces.elastic import elastic_jobs
from gpusched_env.traces.profile_tables.llm import Request, best_plan, llm_profiles, make_run
from tests.simulator.test_elastic import played

SMALL, LARGE = Request("llama3.1-8b", 256, (8, 16, 32, 64)), Request("llama3.1-70b", 128, (16, 32, 64, 128))


@pytest.fixture(scope="module")
def profiles() -> Profiles:
    return llm_profiles([SMALL, LARGE])


def instance_of(profiles: Profiles, jobs: list[tuple[int, int]], iterations: float = 50.0, **rules: float) -> Instance:
    """Elastic jobs (profile, GPUs) that arrive 60 s apart, on 16 servers of 8 H100."""
    workload = Workload.from_columns(
        60.0 * np.arange(len(jobs)), [gpus for _, gpus in jobs], iterations=[iterations] * len(jobs),
        profiles=profiles, profile=[profile for profile, _ in jobs],
    )  # fmt: skip
    network = Network().with_topology(NETWORK_PRESETS["h100-8x400"].topology)
    return Instance(Cluster.parse("16x8@H100"), elastic_jobs(workload, "plans"), network, Semantics(**rules))


def test_sizes_are_those_of_plans_at_the_speed_of_the_fastest(profiles: Profiles) -> None:
    instance = instance_of(profiles, [(0, 8), (1, 64)])
    sizes = instance.sizes
    for job, request, expected in ((0, SMALL, [8, 16, 32, 64]), (1, LARGE, [32, 64, 128])):  # 70B does not fit on 16
        rows = slice(int(sizes.first[job]), int(sizes.first[job] + sizes.count[job]))
        assert sizes.gpus[rows].tolist() == expected
        run = make_run(request.model, "H100", request.batch)
        for gpus, kind in zip(expected, sizes.job_class[rows].tolist(), strict=True):
            best = best_plan(run, gpus)
            assert best is not None
            assert gpus % (best.plan.tp * best.plan.pp) == 0
            # the links of the preset are those of the formula, but a ring has one bottleneck, and PP adds to DP there
            assert instance.ideal_iteration_s[kind] == pytest.approx(best.seconds, rel=0.02)


@pytest.mark.parametrize("scheduler", ["pollux", "sia", "afs", "optimus"])
def test_elastic_schedulers_play_them(profiles: Profiles, scheduler: str) -> None:
    instance = instance_of(profiles, [(0, 8), (1, 32), (0, 16), (1, 64)], iterations=100.0, reshard_s=120.0)
    log = simulate(instance, make_scheduler(scheduler))
    validate(instance, log)
    starts = log.events["gpu_count"][log.events["gpu_count"] > 0]
    assert set(starts.tolist()) <= {8, 16, 32, 64, 128}
    assert len(set(starts.tolist())) > 1


def since_s(simulation: Simulation) -> list[float]:
    """Times from which gangs progress."""
    events = simulation.log().events
    values: list[float] = events["value"][events["gpu_count"] > 0].tolist()
    return values


def test_a_change_of_the_division_costs_more_than_one_of_the_copies(profiles: Profiles) -> None:
    """Of 8B, 16 to 64 GPUs differ in copies (cp 2), 8 GPUs are cp 1; a restart on another size costs as much."""
    plans = profiles.plans[profiles.plans["profile"] == 0][["tp", "cp", "ep", "pp"]].tolist()
    assert plans[0] != plans[1] == plans[2]
    script = (0, Start(0)), (50, Resize(0, 32)), (100, Resize(0, 8)), (200, Preempt(0)), (210, Start(0, size=8))
    script += (250, Preempt(0)), (260, Start(0, size=16))
    for reshard_s in (0.0, 7.0):
        rules = dict(checkpoint_s=0.0, restore_s=3.0, resize_s=5.0, reshard_s=reshard_s)
        instance = instance_of(profiles, [(0, 16)], **rules)
        simulation = played(instance, *script)
        assert since_s(simulation) == [0, 55, 105 + reshard_s, 213, 263 + reshard_s]
        validate(instance, simulation.log())
        data = instance.semantics.as_dict()
        assert ("reshard_s" in data) == (reshard_s > 0)
    free = instance_of(profiles, [(0, 16)], **rules | {"reshard_s": 0.0})
    with pytest.raises(ScheduleError, match="progress must begin"):
        validate(free, simulation.log())


def test_jobs_without_plans_are_refused() -> None:
    with pytest.raises(WorkloadError, match="no profile has plans"):
        elastic_jobs(Workload.from_columns([0.0], [1], [1.0]), "plans")


def test_sizes_without_a_plan_have_no_speed(profiles: Profiles) -> None:
    """Neither the time of another size, nor a speed-up that nobody measured on such gangs."""
    workload = Workload.from_columns([0.0], [24], iterations=[9.0], profiles=profiles)
    with pytest.raises(WorkloadError, match="on 24 GPUs cannot run"):
        Instance(Cluster.parse("16x8@H100"), workload)
    with pytest.raises(WorkloadError, match="use rule 'plans'"):
        elastic_jobs(workload, "amdahl")
