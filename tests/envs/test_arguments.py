"""Errors of impossible arguments name the argument and the remedy."""

from __future__ import annotations

import inspect
import math
from typing import Any

import gymnasium as gym
import pytest
from helpers import small_scenario

from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import ScenarioError
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import get_scenario


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(scenario="philly-46-v0"), r"unknown scenario 'philly-46-v0': did you mean 'philly-64-v1'"),
        (dict(rules=()), r"rules is empty: name at least one of"),
        (dict(rules=("pak",)), r"rules: unknown placement rule 'pak': did you mean 'pack'"),
        (dict(rules=("pack", "consolidte")), r"rules: unknown placement rule 'consolidte': did you mean 'consolidate'"),
        (dict(queue_window=0), r"queue_window is 0: it must be at least 1"),
        (dict(running_window=-1), r"running_window is -1: it must be at least 0"),
        (dict(delays_s=(0.0,)), r"delays_s is \(0.0,\)"),
        (dict(delays_s=(math.nan,)), r"delays_s"),
        (dict(delays_s=(math.inf,)), r"delays_s"),
        (dict(queue_order="start"), r"queue_order: unknown order 'start'"),
        (dict(running_order="shrtest"), r"running_order: unknown order 'shrtest': did you mean 'shortest'"),
        (dict(queue_order="shortest", clairvoyant=False), r"queue_order='shortest' needs run times"),
        (dict(running_order="longest", clairvoyant=False), r"running_order='longest' needs run times"),
        (dict(reward="jtc"), r"unknown reward component 'jtc': did you mean 'jct'"),
        (dict(reward={"jct": math.nan}), r"reward\['jct'\] is nan"),
        (dict(reward={"jct": math.inf}), r"reward\['jct'\] is inf"),
        (dict(reward={}), r"reward is empty"),
        *((dict(reward=wrong), "reward") for wrong in (3, None, ["jct"], {"jct": "x"}, {"jct": None}, {"jct": True})),
        (dict(reward={3: 1.0}), "reward: 3 is no name"),
        (dict(tenant_window=-1), "tenant_window is -1"),
        (dict(tenant_window=2), "no job of this scenario has a tenant"),
        (dict(scenario="cohort-256-v0:jobs=20", tenant_window=2), "has 3 tenants"),
        (dict(scenario="cohort-256-v0:jobs=20", limits=True), "set tenant_window"),
        (dict(sizes=(1, 2)), "no job of this scenario is elastic"),
        (dict(scenario="pollux-64-v0:jobs=20", sizes=(2, 4)), "job .* has none of these sizes"),
        (dict(scenario="pollux-64-v0:jobs=20", sizes=(2, 1)), "ascending"),
        (dict(scenario="pollux-64-v0:jobs=20", sizes=(0, 1)), "at least 1"),
        (dict(scenario="bsbf-sim-240-v1", sizes=(1, 2), sub_batches=2), "do not share"),
        (dict(lease_s=0.0), r"lease_s is 0.0: give 0.001 to 1e.11 seconds"),
        (dict(lease_s=math.inf), r"lease_s is inf"),
        (dict(least_run_s=-1.0), r"least_run_s is -1.0: give 0 to 1e.11 seconds"),
        (dict(least_run_s=math.inf), r"least_run_s is inf.*running_window=0"),
        (dict(least_run_s=math.nan), r"least_run_s is nan"),
        (dict(refusal_cost=-0.1), r"refusal_cost is -0.1: give a finite number >= 0"),
        (dict(refusal_cost=math.inf), r"refusal_cost is inf"),
        (dict(refusal_cost=math.nan), r"refusal_cost is nan"),
        (dict(step_limit=0), r"step_limit is 0"),
        (dict(render_mode="window"), r"unknown render mode 'window'"),
        (dict(quue_window=3), r"unknown argument 'quue_window': did you mean 'queue_window'"),
    ],
)
def test_errors_name_argument_and_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        ClusterEnv(**({"scenario": "tiny-v1"} | options)).reset(seed=1)


@pytest.mark.parametrize(("cls", "least"), [(ClusterEnv, 26), (DelayTimersEnv, 11)])
def test_the_signature_names_every_argument_that_the_docstring_explains(cls: type, least: int) -> None:
    arguments = list(inspect.signature(cls).parameters)
    assert len(arguments) >= least
    section = inspect.cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\nRaises\n")[0]
    assert [line.partition(" : ")[0] for line in section.splitlines() if line[:1].strip()] == arguments


def test_rounds_leave_no_room_for_delays() -> None:
    scenario = get_scenario("tiny-v1").replace(semantics=Semantics(round_s=60.0))
    with pytest.raises(ScenarioError, match="plays in rounds"):
        ClusterEnv(scenario, delays_s=(5.0,))
    ClusterEnv(scenario).reset(seed=0)


def test_rules_under_which_a_gang_would_wait_for_ever_are_refused_at_reset() -> None:
    scenario = small_scenario(60, groups=(NodeGroup(8, 8, nodes_per_rack=1),))
    seed = next(s for s in range(100) if scenario.instance(s).workload.jobs["gpus"].max() > 8)
    env = ClusterEnv(scenario, rules=("rack", "yarn"))
    with pytest.raises(ScenarioError, match=r"places a gang of (16|32) GPUs"):
        env.reset(seed=seed)
    ClusterEnv(scenario, rules=("rack", "pack")).reset(seed=seed)


def test_an_environment_without_preemption_has_no_running_array() -> None:
    env = ClusterEnv("tiny-v1", running_window=0)
    observation, _ = env.reset(seed=0)
    assert set(observation) == set(env.observation_space.spaces) == {"queue", "nodes", "links", "cluster"}


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_an_impossible_seed_is_refused(seed: Any) -> None:
    with pytest.raises(gym.error.Error, match="Seed must be"):
        ClusterEnv("tiny-v1").reset(seed=seed)
