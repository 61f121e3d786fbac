"""``least_run_s``: a gang may be preempted only when it has held its GPUs for so long, or at the end of a lease."""

from __future__ import annotations

import pytest

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.event_log import PREEMPT
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import Scenario, WorkloadSpec

PREEMPTIBLE = 10  # column of ``running``


def two_jobs(**rules: float) -> Scenario:
    """Two jobs of 1,000 s at time 0 on one GPU."""
    spec = WorkloadSpec("synthetic:batch", {"durations": "constant", "mean_duration_s": 1e3}, profiles="unit", jobs=2)
    semantics = Semantics(**({"checkpoint_s": 0.0, "restore_s": 0.0} | rules))
    return Scenario("two", "", (NodeGroup(1, 1),), spec, semantics=semantics)


def preemptible(env: ClusterEnv) -> bool:
    """Whether the gang in the only running slot may be preempted, by mask and observation."""
    by_mask = bool(env.mask[env.windows.first_preemption])
    assert env.encoder.take()[0]["running"][0, PREEMPTIBLE] == by_mask
    return by_mask


@pytest.mark.parametrize(
    ("rules", "least_run_s", "from_s"),
    [
        ({}, None, 60.0),
        ({"checkpoint_s": 3.0, "restore_s": 4.5}, None, 75.0),
        ({"checkpoint_s": 3.0, "restore_s": 4.5}, 33.3, 33.3),
        ({}, 0.1, 0.1),
    ],
)
def test_a_gang_may_be_preempted_from_its_least_run_on(
    rules: dict[str, float], least_run_s: float | None, from_s: float
) -> None:
    delays = (from_s / 8, from_s / 2, from_s)
    env = ClusterEnv(two_jobs(**rules), running_window=1, least_run_s=least_run_s, delays_s=delays)
    wait = env.windows.wait_action
    env.reset(seed=0)
    env.step(0)
    for delay in (1, 2):
        assert not preemptible(env)
        env.step(wait + delay)
    assert env.simulation.now_s == from_s * 5 / 8
    assert not preemptible(env)
    env.step(wait + 2)
    assert preemptible(env)
    # after a restart the gang must hold its GPUs anew, to the last bit of the time
    env.step(env.windows.first_preemption)
    while env.simulation.arrays.world["running"]:
        env.step(wait)
    env.step(0)
    assert not preemptible(env)
    env.step(wait + 3)
    assert preemptible(env)


def test_at_the_end_of_a_lease_a_gang_may_be_preempted_whatever_its_age() -> None:
    env = ClusterEnv(two_jobs(), running_window=1, least_run_s=1e6, lease_s=30.0, delays_s=(10.0,))
    env.reset(seed=0)
    env.step(0)
    seen = []
    for _ in range(9):
        seen.append((env.simulation.now_s, preemptible(env)))
        env.step(env.windows.wait_action + 1)
    assert seen == [(10.0 * i, i in (3, 6)) for i in range(9)]
    while not preemptible(env):
        env.step(env.windows.wait_action)
    env.step(env.windows.first_preemption)
    assert (env.event_log().events["kind"] == PREEMPT).sum() == 1
