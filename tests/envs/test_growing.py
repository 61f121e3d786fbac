"""A batch whose arrays grow while it plays equals single environments, bit for bit, in any order of resets."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import linked_scenario

from gpusched_env.core.api import kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.checks import MOST_CLUSTERS
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import SHARE, Column
from gpusched_env.envs.observation.registry import Shown, find_array, observation_array
from gpusched_env.envs.registration import DELAY_TIMERS, ENVIRONMENTS
from gpusched_env.network import NetworkChange
from gpusched_env.scenarios import get_scenario, list_scenarios

FAMILY = "gpusched/Family-v0"
SEEDS = (5, 9, 300, 850, 636, 511, 269, 2**31 - 1)  # problems of 32 to 192 GPUs, of 1 to 3 types
ORDERS = 200
WINDOWS: dict[str, Any] = dict(id="gpusched/Cluster-v0", queue_window=6, running_window=3)


def cases() -> dict[str, dict[str, Any]]:
    """Options of every environment id, and of scenarios with partitions, holds, copies, changing links and shapes."""
    links = linked_scenario()
    slower = dataclasses.replace(links.network, changes=(NetworkChange(600.0, "rack", 4.0),))
    return {
        **{name: dict(id=name) for name in ENVIRONMENTS},
        "links": WINDOWS | dict(scenario=links, rules=("contention", "spread")),
        "changing links": WINDOWS | dict(scenario=links.replace(network=slower)),
    }


def together(
    many: Any, ones: list[gym.Env], rng: np.random.Generator, steps: int, grow: float, resets: float = 0.3
) -> int:
    """Reset and step a batch and single environments at random; return how often an episode was compared to its end.

    Before each call, with probability ``grow``, the arrays of the batch grow along random axes; with probability
    ``resets``, some environments are reset.
    """
    count, fresh = len(ones), True
    over = np.zeros(count, bool)
    masks = np.zeros((count, many.single_action_space.n), np.int8)
    ends = 0
    for _ in range(steps):
        if not fresh and rng.random() < grow:
            lengthen(many, rng)
        marked = np.ones(count, bool) if fresh else over | (rng.random(count) < 0.2)
        if fresh or over.any() or rng.random() < resets:
            fresh = False
            if not marked.any():
                continue
            seeds = rng.choice(SEEDS, count).tolist()
            told, infos = many.reset(seed=seeds, options={"reset_mask": marked})
            for b in np.flatnonzero(marked).tolist():
                shown, info = ones[b].reset(seed=seeds[b])
                masks[b], over[b] = info["action_mask"], False
                same(told, infos, b, shown, info)
            continue
        draws = [int(rng.choice(np.flatnonzero(mask))) for mask in masks]
        told, rewards, ended, cut, infos = many.step(np.array(draws))
        for b in range(count):
            shown, reward, terminated, truncated, info = ones[b].step(draws[b])
            masks[b] = info["action_mask"]
            over[b] = terminated or truncated
            assert (rewards[b], ended[b], cut[b]) == (reward, terminated, truncated)
            same(told, infos, b, shown, info)
        ends += int(over.sum())
    return ends


def same(told: Any, infos: Any, b: int, shown: Any, info: Any) -> None:
    """Check that environment ``b`` of a batch shows what a single one shows."""
    np.testing.assert_array_equal(infos["action_mask"][b], info["action_mask"])
    for name, array in shown.items():
        np.testing.assert_array_equal(told[name][b], array, err_msg=name)


def lengthen(many: Any, rng: np.random.Generator) -> None:
    """Let the arrays of a batch grow along some axes, as an instance with these lengths would."""
    runs = many._runs
    runs._grow({name: size + int(rng.integers(0, 4)) * int(rng.random() < 0.3) for name, size in runs._sizes.items()})


def pair(options: dict[str, Any], count: int) -> tuple[Any, list[gym.Env]]:
    """A batch and as many single environments."""
    many: Any = gym.make_vec(num_envs=count, autoreset_mode="Disabled", **options)
    return many, [gym.make(**options, disable_env_checker=True).unwrapped for _ in range(count)]


def test_hundreds_of_orders_of_resets_and_steps_of_the_family() -> None:
    ones = pair(dict(id=FAMILY, step_limit=4), 3)[1]
    ends = 0
    for order in range(ORDERS):
        many: Any = gym.make_vec(FAMILY, num_envs=3, autoreset_mode="Disabled", step_limit=4)
        ends += together(many, ones, np.random.default_rng(order), 6, grow=0.0)
        many.close()
    assert ends > 20


@pytest.mark.parametrize("name", cases())
def test_arrays_that_grow_change_no_running_environment(name: str) -> None:
    many, ones = pair(cases()[name], 2)
    together(many, ones, np.random.default_rng(0), 30, grow=0.4)
    many.close()


def test_every_environment_id_is_covered() -> None:
    """The delay timers, which step single environments one after the other, have a test of their own."""
    ids = {name for name in gym.registry if name.startswith("gpusched/")}
    assert ids == {*ENVIRONMENTS, DELAY_TIMERS}
    assert FAMILY in ENVIRONMENTS
    assert [name for name in list_scenarios() if get_scenario(name).variation is not None] == ["family-v1"]


def test_arrays_of_users_survive_growth_and_copies() -> None:
    if find_array("clock_bits") is None:

        @observation_array("clock_bits", [Column("share", "1", SHARE)], rows="nodes")
        @kernel
        def clock_bits(sim: Run, env: EnvArrays, out: Shown) -> None:
            for node in range(len(out.values)):
                out.values[node, 0] = (sim.free[node] + 1.0) / (sim.world["node_gpus"] + 1.0)

    many, ones = pair(dict(id=FAMILY, extras=("clock_bits",)), 3)
    assert together(many, ones, np.random.default_rng(3), 40, grow=0.3) >= 0
    many.close()


def test_delay_timers_of_a_batch_equal_single_environments() -> None:
    """Random orders of resets of some environments and steps of all; episodes end and are cut."""
    options: dict[str, Any] = dict(scenario="tiny-v1", interval_s=120.0, horizon_s=600.0)
    rng, count, ends = np.random.default_rng(0), 3, 0
    many: Any = gym.make_vec(DELAY_TIMERS, num_envs=count, autoreset_mode="Disabled", **options)
    ones = [gym.make(DELAY_TIMERS, disable_env_checker=True, **options).unwrapped for _ in range(count)]
    over = np.ones(count, bool)
    for _ in range(200):
        if over.any() or rng.random() < 0.2:
            marked = over | (rng.random(count) < 0.3)
            if not marked.any():
                continue
            seeds = rng.integers(0, 1000, count).tolist()
            told, _ = many.reset(seed=seeds, options={"reset_mask": marked})
            shown = [ones[b].reset(seed=seeds[b])[0] if marked[b] else None for b in range(count)]
            over[marked] = False
        else:
            actions = rng.uniform(-1, 1, (count, *ones[0].action_space.shape)).astype(np.float32)
            told, rewards, ended, cut, _ = many.step(actions)
            steps = [one.step(action) for one, action in zip(ones, actions, strict=True)]
            assert [(r, e, c) for _, r, e, c, _ in steps] == list(zip(rewards, ended, cut, strict=True))
            shown, over = [step[0] for step in steps], ended | cut
            ends += int(over.sum())
        for b, observation in enumerate(shown):
            for name, array in (observation or {}).items():
                np.testing.assert_array_equal(told[name][b], array, err_msg=name)
    assert ends > 20
    many.close()


def test_a_batch_remembers_few_of_the_clusters_that_it_has_drawn() -> None:
    many, ones = pair(dict(id=FAMILY, step_limit=4), 2)
    for first in range(0, 3 * MOST_CLUSTERS, 2):
        many.reset(seed=[first, first + 1])
        ones[0].reset(seed=first)
    assert 1 < len(many._runs._checked) <= MOST_CLUSTERS
    assert 1 < len(ones[0]._checked_gangs) <= MOST_CLUSTERS  # type: ignore[attr-defined]
    many.close()
