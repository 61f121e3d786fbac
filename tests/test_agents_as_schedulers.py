"""An agent as a scheduler: the same log as through the environment, and a record that replays."""

import numpy as np
import pytest

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.encoder import Windows
from gpusched_env.envs.policy_scheduler import PolicyScheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.leaderboard import record, replay
from gpusched_env.scenarios import get_scenario

OPTIONS = dict(queue_window=4, running_window=2, rules=("pack", "spread"), delays_s=(30.0,))


def last_feasible(observation, mask):
    """Choose a feasible action that depends on the observation."""
    feasible = np.flatnonzero(mask)
    return int(feasible[int(observation["queue"].sum() * 1000) % len(feasible)])


def test_an_agent_as_a_scheduler_gives_the_log_of_the_environment():
    env = ClusterEnv("tiny-v1", **OPTIONS)
    observation, _ = env.reset(seed=200_000)
    over = False
    while not over:
        action = last_feasible(observation, env.mask.astype(bool))
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    instance = get_scenario("tiny-v1").instance(200_000)
    log, decisions = record(instance, PolicyScheduler(last_feasible, Windows(**OPTIONS)), 200_000)
    assert set(decisions.kinds) >= {"S"}
    assert log.digest() == env.event_log().digest()
    assert replay(instance, 200_000, decisions).digest() == log.digest()
    env.close()


def test_windows_with_leases_are_refused():
    with pytest.raises(SchedulerError, match="lease_s"):
        PolicyScheduler(last_feasible, Windows(lease_s=60.0))
