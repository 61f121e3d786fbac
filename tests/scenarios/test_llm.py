"""Scenarios of clusters that train LLMs: run times are those of the generator, plans those of the profiles."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import WorkloadError
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.traces import assign_profiles

NAMES = ("llm-1024-h100-v0", "llm-2304-gb200-v0")


@pytest.mark.parametrize("name", NAMES)
def test_jobs_run_as_the_generator_says_on_their_ideal_placement(name: str) -> None:
    """Each kind of job alone on the empty cluster: its run time is ``duration_s``."""
    scenario = get_scenario(name)
    drawn = scenario.instance(1)
    workload = drawn.workload
    assert drawn.ideal_s == pytest.approx(workload.jobs["duration_s"])
    kinds = np.unique(workload.jobs[["profile", "gpus"]], return_index=True)[1]
    for row in kinds.tolist():
        alone = Instance(drawn.cluster, workload.select(np.array([row])), drawn.network, drawn.semantics)
        times = job_times(alone, simulate(alone, make_scheduler("fifo:placement=rails")))
        assert times["finish_s"][0] - times["first_start_s"][0] == pytest.approx(
            workload.jobs["duration_s"][row], rel=0.02
        )  # the tier of the ideal placement has its own links


@pytest.mark.parametrize("name", NAMES)
def test_gangs_have_plans_of_their_size(name: str) -> None:
    scenario = get_scenario(name)
    instance = scenario.instance(1)
    jobs, profiles = instance.workload.jobs, instance.workload.profiles
    assert set(jobs[["profile", "gpus"]].tolist()) <= set(profiles.plans[["profile", "gpus"]].tolist())
    names = profiles.rows["name"][jobs["profile"]]
    model = instance.workload.attributes["model"]
    assert all(one in other for one, other in zip(model.tolist(), names.tolist(), strict=True))
    memory = {"H100": 80e9, "GB200": 186e9}[instance.cluster.gpu_types[0]]
    assert (profiles.rows["memory_bytes"][jobs["profile"]] <= 0.9 * memory).all()


@pytest.mark.parametrize("name", NAMES)
def test_tenants_are_the_queues_and_pretraining_has_a_quota(name: str) -> None:
    scenario = get_scenario(name)
    tree = {tenant.name: tenant.quota for tenant in scenario.tenants.tree}
    assert set(scenario.instance(2).workload.attributes["tenant"].tolist()) == set(tree)
    assert sum(tree.values()) == scenario.cluster.gpus
    assert tree["evaluation"] == 0 < tree["pretrain"]


def test_the_rule_says_what_it_needs() -> None:
    workload = Workload.from_columns([0.0], [8], [60.0])
    with pytest.raises(WorkloadError, match=r"'llm': .*no attribute 'model'.*generator llm-dev"):
        assign_profiles(workload, "llm", np.random.default_rng(0), ("H100",))


def test_scattered_gangs_are_slower() -> None:
    """A 405B gang alone: on scattered GPUs its groups share NICs and uplinks."""
    scenario = get_scenario("llm-1024-h100-v0")
    drawn = scenario.instance(1)
    row = int(np.argmax(drawn.workload.jobs["gpus"] == 256))
    alone = Instance(drawn.cluster, drawn.workload.select(np.array([row])), drawn.network, drawn.semantics)
    took = {}
    for rule in ("rails", "pack", "spread", "random"):
        took[rule] = job_times(alone, simulate(alone, make_scheduler(f"fifo:placement={rule}")))["finish_s"][0]
    assert took["rails"] <= took["pack"] * (1 + 1e-9) < took["spread"]
    assert took["rails"] < took["random"]
