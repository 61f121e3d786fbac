"""``least_run_s``: a gang may be preempted only when it has held its GPUs for so long, or at the end of a lease."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import small_scenario

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.policy_scheduler import PolicyScheduler
from gpusched_env.envs.scheduler_player import wide_open
from gpusched_env.envs.windows import Windows
from gpusched_env.event_log import PREEMPT, RELEASE, RESUME, START
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import Scenario, WorkloadSpec, get_scenario
from gpusched_env.simulator import simulate

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


@pytest.mark.parametrize("least_run_s", [None, 0.0, 1_500.0])
def test_no_random_agent_preempts_earlier(least_run_s: float | None) -> None:
    env = ClusterEnv(small_scenario(40), least_run_s=least_run_s, running_window=16, rules=("spread",))
    rng = np.random.default_rng(1)
    _, info = env.reset(seed=1)
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        over = terminated or truncated
    events, since, held = env.event_log().events, {}, []
    for event in events:
        if event["kind"] in (START, RESUME):
            since[int(event["job"])] = event["time_s"]
        elif event["kind"] == PREEMPT:
            held.append(event["time_s"] - since[int(event["job"])])
    semantics = env.scenario.semantics
    default_s = max(60.0, 10.0 * (semantics.checkpoint_s + semantics.restore_s))
    least = default_s if least_run_s is None else least_run_s
    assert len(held) > 20
    assert least <= min(held) * (1 + 1e-12)
    assert min(held) <= 2 * least + 60.0, "a longer limit would pass as well"


def test_random_play_ends_sooner_because_it_preempts_less() -> None:
    steps = []
    for least_run_s in (0.0, None):
        env = ClusterEnv("philly-64-v1", least_run_s=least_run_s, step_limit=100_000)
        rng = np.random.default_rng(0)
        _, info = env.reset(seed=200_000)
        steps.append(0)
        over = False
        while not over:
            _, _, over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            steps[-1] += 1
    assert steps[1] < steps[0] / 3


def test_players_of_schedulers_have_no_limit() -> None:
    assert wide_open(get_scenario("tiny-v1"), 0).windows.least_run_s == 0.0


def last_feasible(_: Any, mask: np.ndarray) -> int:
    """Preempt rather than wait."""
    return int(np.flatnonzero(mask[:-1])[-1])


def preemptions(scheduler: Any) -> int:
    log = simulate(small_scenario(30).instance(3), scheduler)
    return int((log.events["kind"] == RELEASE).sum())


def test_policies_as_schedulers_see_the_limit() -> None:
    windows = dict(running_window=4, rules=("pack",))
    few = preemptions(PolicyScheduler(last_feasible, Windows(**windows, least_run_s=20_000.0)))  # type: ignore[arg-type]
    many = preemptions(PolicyScheduler(last_feasible, Windows(**windows)))  # type: ignore[arg-type]
    assert few < many
