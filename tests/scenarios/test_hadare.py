"""The scenarios of HadarE: nodes and jobs as described, gains over its rivals, and the environment on them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import play
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import ScenarioError
from gpusched_env.metrics import job_times
from gpusched_env.metrics.segments import productive_s, segments
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces.generators.hadare_jobs import AWS_SPEEDS, LAB_SPEEDS

SPEEDS = {"aws": AWS_SPEEDS, "lab": LAB_SPEEDS}
SEEDS = range(200_000, 200_008)


@pytest.mark.parametrize("where", SPEEDS)
@pytest.mark.parametrize("speeds", ["alike", "varied"])
def test_nodes_and_jobs(where: str, speeds: str) -> None:
    instance = get_scenario(f"hadare-{where}-v0:jobs=12,speeds={speeds}").instance(200_000)
    rates = 1.0 / instance.iteration_s[instance.job_class, 0]
    assert instance.cluster.gpus == len(instance.cluster.nodes) == instance.semantics.max_copies == len(SPEEDS[where])
    factors = rates / (10.0 * np.array(SPEEDS[where]))
    assert (factors == pytest.approx(1.0)) if speeds == "alike" else (0.8 <= factors.min() < factors.max() <= 1.25)
    assert ((instance.ideal_s >= 0.3 * 3_600) & (instance.ideal_s <= 3 * 3_600)).all()
    assert len(np.unique(instance.ideal_s)) == 12
    assert not instance.workload.jobs["arrival_s"].any()


def test_refusals() -> None:
    for text in ("jobs=0", "copies=4", "speeds=same"):
        with pytest.raises(ScenarioError, match="give "):
            get_scenario(f"hadare-aws-v0:{text}")


@cache
def played(where: str, jobs: int, scheduler: str) -> tuple[np.ndarray, np.ndarray]:
    """Total duration [s] and share of the nodes' time that is training, of each seed."""
    scenario = get_scenario(f"hadare-{where}-v0:jobs={jobs}")
    spans, shares = [], []
    for seed in SEEDS:
        instance = scenario.instance(seed)
        log = play(instance, scheduler)
        table = segments(instance, log, np.inf)
        spans.append(float(job_times(instance, log)["finish_s"].max()))
        shares.append((productive_s(table) * table["gpus"]).sum() / (instance.cluster.gpus * spans[-1]))
    return np.array(spans), np.array(shares)


@pytest.mark.parametrize("where", SPEEDS)
@pytest.mark.parametrize("jobs", [1, 5])
def test_forking_gains_the_speed_of_idle_nodes(where: str, jobs: int) -> None:
    """One job: the speeds of all nodes, less 15 of 360 s. As many jobs as nodes or more: nothing."""
    forked, shares = played(where, jobs, "hadare")
    gain = np.median(played(where, jobs, "hadare-single")[0] / forked)
    assert 0.94 <= np.median(shares) <= 0.97
    if jobs >= len(SPEEDS[where]):
        assert 0.97 <= gain <= 1.03
    else:
        scenario = get_scenario(f"hadare-{where}-v0:jobs={jobs}")
        rates = [1.0 / scenario.instance(seed).iteration_s[0, 0] for seed in SEEDS]
        limits = [rate.sum() / rate.max() * 345 / 360 for rate in rates]
        assert gain == pytest.approx(np.median(limits), rel=0.03)


def test_the_gain_over_a_scheduler_that_never_migrates() -> None:
    """A long job stuck on the slowest node decides the total duration."""
    assert np.median(played("lab", 5, "hadare-sticky")[0] / played("lab", 5, "hadare")[0]) > 2.0


@pytest.mark.parametrize("name", ["hadare", "hadare-single", "hadare-sticky", "fifo-skip:placement=fork"])
def test_the_environment_plays_the_same_log(name: str) -> None:
    scenario = get_scenario("hadare-lab-v0:jobs=4")
    rules = ("fork",) if "fork" in name else ("pack",)
    log = play_scheduler(wide_open(scenario, 3, rules=rules), make_scheduler(name), 3)
    assert log.digest() == play(scenario.instance(3), name).digest()


def test_an_agent_forks() -> None:
    """A start by the rule takes every node; the job ends when its copies together have done its work."""
    env = ClusterEnv(scenario="hadare-aws-v0:jobs=1", rules=("fastest-type", "fork"), queue_window=2)
    _, info = env.reset(seed=1)
    assert info["action_mask"][:2].tolist() == [1, 1]
    env.step(1)
    instance = env.simulation.instance
    rates = 1.0 / instance.iteration_s[0, 0]
    log = env.event_log()
    assert log.events["gpu_count"].max() == 3
    assert job_times(instance, log)["finish_s"][0] == pytest.approx(15.0 + instance.iterations[0] / rates.sum())
