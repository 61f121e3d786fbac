"""Young's and Daly's intervals against the published table, a numerical optimum, and a simulated gang."""

import dataclasses

import numpy as np
import pytest

from gpusched_env import get_scenario
from gpusched_env.errors import ScenarioError
from gpusched_env.problem.checkpoints import daly_s, effective_ratio, young_s
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.failures import Burst, Failures

H100 = Cluster.homogeneous(2_048, 8, 32)


@pytest.mark.parametrize(
    ("gpus", "rate", "between_h", "minutes", "ratio", "slow", "hourly"),
    [
        (2_048, 6.5, 14.4, 17, 0.969, 0.942, 0.952),
        (4_096, 6.5, 7.2, 12, 0.950, 0.912, 0.908),
        (16_384, 3.79, 3.09, 7.8, 0.908, 0.853, 0.800),
        (16_384, 6.5, 1.8, 5.9, 0.862, 0.793, 0.679),
    ],
)
def test_the_table_of_the_specification(gpus, rate, between_h, minutes, ratio, slow, hourly):
    """Section 6 of papers/llm.md: blocking cost 10 s or 60 s, recovery 10 min."""
    between_s = Failures(rate).between_s(np.array([gpus]), H100)
    assert between_s / 3_600 == pytest.approx(between_h, abs=0.05)
    best_s = daly_s(between_s, 10.0)
    assert best_s / 60 == pytest.approx(minutes, abs=0.5)
    assert effective_ratio(between_s, 10.0, 600.0, best_s) == pytest.approx(ratio, abs=0.0015)
    assert effective_ratio(between_s, 60.0, 600.0, daly_s(between_s, 60.0)) == pytest.approx(slow, abs=0.0015)
    assert effective_ratio(between_s, 10.0, 600.0, 3_600.0) == pytest.approx(hourly, abs=0.0015)


@pytest.mark.parametrize(("between_s", "cost_s"), [(3_600.0, 10.0), (10_000.0, 60.0), (1e6, 1.0), (600.0, 100.0)])
def test_dalys_interval_is_the_optimum(between_s, cost_s):
    tried = np.geomspace(1, 10 * between_s, 200_001)
    best = tried[effective_ratio(between_s, cost_s, 0.0, tried).argmax()]
    assert daly_s(between_s, cost_s) == pytest.approx(best, rel=0.02)
    assert young_s(between_s, cost_s) == pytest.approx(np.sqrt(2 * between_s * cost_s))
    assert daly_s(1.0, 2.0) == 1.0


def test_a_burst_counts_once_for_each_part_of_the_gang():
    burst = Failures(0.0, bursts=(Burst(1_000.0, nodes=4),))
    days = burst.between_s(np.array([8, 32, 40, 128]), Cluster.homogeneous(16, 8)) / 86_400
    assert days == pytest.approx([1, 1, 1 / 2, 1 / 4])


def test_jobs_get_the_interval_of_their_gang():
    rules = get_scenario("tiny-v1")
    with pytest.raises(ScenarioError, match="checkpoint_cost_s"):
        rules.with_failures(Failures(checkpoints="daly")).instance(0)
    with pytest.raises(ScenarioError, match="did you mean 'daly'"):
        Failures(checkpoints="dayl")
    costly = rules.replace(semantics=dataclasses.replace(rules.semantics, checkpoint_cost_s=10.0))
    instance = costly.with_failures(Failures(100.0, checkpoints="daly")).instance(0)
    between_s = Failures(100.0).between_s(instance.workload.jobs["gpus"], instance.cluster)
    assert instance.recovery.interval_s == pytest.approx(daly_s(between_s, 10.0))
