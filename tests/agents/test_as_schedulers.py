"""A policy as a scheduler: the event log of the environment, whatever the windows, and a record that replays."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import linked_scenario, small_scenario, thirty_jobs

from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.column import Column
from gpusched_env.envs.observation.registry import find_array, observation_array
from gpusched_env.envs.policy_scheduler import PolicyScheduler
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import LEASE_END, RESIZE
from gpusched_env.leaderboard import record, replay
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import simulate

SEED = 200_000
NO_LIMIT = 10_000_000  # [steps]


class RandomPolicy:
    """Seeded random feasible actions; ``seen`` digests all observations and masks."""

    def __init__(self, windows: Windows) -> None:
        self.windows, self.rng, self.seen = windows, np.random.default_rng(7), hashlib.sha256()

    def __call__(self, observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
        for name, array in observation.items():
            self.seen.update(name.encode() + array.tobytes())
        self.seen.update(mask.tobytes())
        feasible = np.flatnonzero(mask)
        starts = feasible[feasible < self.windows.first_preemption]
        waits = feasible[feasible >= self.windows.wait_action]
        draw = self.rng.random()
        group = starts if len(starts) and draw < 0.5 else waits if len(waits) and draw < 0.9 else feasible
        return int(self.rng.choice(group))


def check_equal(
    scenario: Scenario, skips: bool = True, least_calls: int = 30, step_limit: int = NO_LIMIT, **options: Any
) -> np.ndarray:
    """Play in the environment and as a scheduler; check that logs and observations are equal; return the events."""
    env = ClusterEnv(scenario, skip_forced_waits=skips, step_limit=step_limit, **options)
    inside, outside = RandomPolicy(env.windows), RandomPolicy(env.windows)
    observation, info = env.reset(seed=SEED)
    over, calls = False, 0
    while not over:
        observation, _, terminated, truncated, info = env.step(inside(observation, info["action_mask"].astype(bool)))
        over, calls = terminated or truncated, calls + 1
    assert calls >= least_calls
    scheduler = PolicyScheduler(outside, env.windows, skip_forced_waits=skips, step_limit=step_limit)
    log = simulate(scenario.instance(SEED), scheduler, seed=SEED)
    assert log.digest() == env.event_log().digest()
    assert outside.seen.digest() == inside.seen.digest()
    return log.events


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_equals_its_scheduler(name: str, skips: bool) -> None:
    options = dict(gym.spec(name).kwargs)
    events = check_equal(thirty_jobs(options.pop("scenario", "philly-64-v1")), skips, **options)
    assert (events["kind"] == LEASE_END).any() == ("lease_s" in options)


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("limit", [1, 7, 20])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_equals_its_scheduler_beyond_the_step_limit(name: str, limit: int, skips: bool) -> None:
    options = dict(gym.spec(name).kwargs)
    scenario = thirty_jobs(options.pop("scenario", "philly-64-v1"))
    check_equal(scenario, skips, least_calls=limit, step_limit=limit, **options)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    """Register an observation array for the option ``extras``."""
    if find_array("half_full") is None:

        @observation_array("half_full", [Column("half", "1 if half of the slots are filled", "0 or 1")])
        def half_full(sim: Any, env: Any, out: Any) -> None:
            out.values[0, 0] = 1.0 if (env.queue >= 0).sum() * 2 >= len(env.queue) else 0.0


# A value of each field of Windows that differs from its default; a new field needs one.
OTHER: dict[str, Any] = {
    "queue_window": 3,
    "running_window": 2,
    "rules": ("spread", "random", "pack"),
    "delays_s": (60.0, 3_600.0),
    "queue_order": "shortest",
    "running_order": "start",
    "clairvoyant": False,
    "migration": True,
    "lease_s": 1_800.0,
    "least_run_s": 900.0,
    "partner_window": 3,
    "sub_batches": 2,
    "pair_benefit": False,
    "extras": ("half_full",),
    "sizes": (1, 2, 3, 8),
    "tenant_window": 3,
    "limits": True,
    "more_actions": ("refuse",),
    "predictor": "quantile",
}
SHARING = ("partner_window", "sub_batches", "pair_benefit")  # for jobs that share GPUs, which are not elastic
SCENARIOS = {"sizes": "pollux-64-v0", "tenant_window": "cohort-256-v0", "limits": "cohort-256-v0"}
TENANTS = Tenants((Tenant("a", quota=16, borrow=16, demand=1.0), Tenant("b", demand=1.0), Tenant("c", demand=1.0)))


FIELDS = [field.name for field in dataclasses.fields(Windows)]


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("name", FIELDS)
def test_every_option_plays_the_same_as_a_scheduler(name: str, skips: bool) -> None:
    options = {"pair_benefit": {"partner_window": 2}, "limits": {"tenant_window": 3}}.get(name, {})
    scenario = "bsbf-sim-240-v1" if name in SHARING else SCENARIOS.get(name, "philly-64-v1")
    check_equal(thirty_jobs(scenario), skips, **options, **{name: OTHER[name]})


@pytest.mark.parametrize("skips", [True, False])
def test_all_options_together_play_the_same_as_a_scheduler(skips: bool) -> None:
    every = {name: OTHER[name] for name in FIELDS} | {"clairvoyant": True}
    sharing = {name: value for name, value in every.items() if name != "sizes"}
    check_equal(thirty_jobs("bsbf-sim-240-v1").replace(tenants=TENANTS), skips, **sharing)
    elastic = thirty_jobs("philly-64-v1").replace(tenants=TENANTS)
    elastic = elastic.replace(workload=dataclasses.replace(elastic.workload, elastic={"rule": "amdahl"}))
    sizes = {name: value for name, value in every.items() if name not in SHARING}
    events = check_equal(elastic, skips, **sizes | {"sizes": (1, 2, 4, 8, 16, 32)})
    assert (events["kind"] == RESIZE).any()


@pytest.mark.parametrize(
    "scenario",
    [
        small_scenario(30, groups=(NodeGroup(4, 8),)),
        linked_scenario(jobs=30),
        thirty_jobs("hadare-lab-v0"),
    ],
    ids=lambda scenario: scenario.name,
)
@pytest.mark.parametrize("round_s", [0.0, 300.0])
@pytest.mark.parametrize("lease_s", [None, 600.0])
def test_rounds_leases_and_links_play_the_same_as_a_scheduler(
    scenario: Scenario, round_s: float, lease_s: float | None
) -> None:
    semantics = dataclasses.replace(scenario.semantics, round_s=round_s)
    check_equal(scenario.replace(semantics=semantics), lease_s=lease_s, running_window=3)


@pytest.mark.parametrize("migration", [False, True])
def test_only_migration_preempts_while_the_queue_is_empty(migration: bool) -> None:
    alone = 0

    class Watching(RandomPolicy):
        def __call__(self, observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
            nonlocal alone
            action = super().__call__(observation, mask)
            preempts = self.windows.first_preemption <= action < self.windows.wait_action
            alone += preempts and not observation["queue"].any()
            return action

    agent = Watching(Windows(migration=migration))
    simulate(thirty_jobs("philly-64-v1").instance(SEED), PolicyScheduler(agent, agent.windows), seed=SEED)
    assert (alone > 0) == migration


def last_feasible(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
    """Choose a feasible action that depends on the observation."""
    feasible = np.flatnonzero(mask)
    return int(feasible[int(observation["queue"].sum() * 1000) % len(feasible)])


@pytest.mark.parametrize("lease_s", [None, 120.0])
def test_the_record_of_an_agent_replays(lease_s: float | None) -> None:
    windows = Windows(queue_window=4, running_window=2, rules=("pack", "spread"), delays_s=(30.0,), lease_s=lease_s)
    instance = get_scenario("tiny-v1").instance(SEED)
    log, decisions = record(instance, PolicyScheduler(last_feasible, windows), SEED)
    assert set(decisions.kinds) >= ({"S"} if lease_s is None else {"S", "L"})
    assert replay(instance, SEED, decisions).digest() == log.digest()


def test_an_infeasible_action_changes_nothing_as_in_the_environment() -> None:
    windows = Windows(queue_window=4)

    def play(greedy: bool) -> str:
        asked = 0

        def policy(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
            nonlocal asked
            asked += 1
            return int(np.argmin(mask)) if not greedy and asked % 2 and not mask.all() else int(np.argmax(mask))

        return simulate(get_scenario("tiny-v1").instance(SEED), PolicyScheduler(policy, windows)).digest()

    assert play(True) == play(False)


def test_a_policy_that_repeats_infeasible_actions_gets_the_schedule_of_fifo() -> None:
    only_errs = PolicyScheduler(lambda observation, mask: int(np.argmin(mask)), Windows(queue_window=4))
    instance = get_scenario("tiny-v1").instance(SEED)
    assert simulate(instance, only_errs).digest() == simulate(instance, make_scheduler("fifo")).digest()


@pytest.mark.parametrize("wrong", [-1, 1.5, 10**6, float("nan"), "wait"])
def test_a_policy_that_returns_no_action_is_an_error(wrong: Any) -> None:
    nonsense = PolicyScheduler(lambda observation, mask: wrong, Windows(queue_window=4))
    with pytest.raises(GpuschedError, match="is not a whole number from 0 to"):
        simulate(get_scenario("tiny-v1").instance(SEED), nonsense)
