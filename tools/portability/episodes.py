"""Episodes with random actions, of one environment and of batches in every autoreset mode.

The functions yield everything that the environments return.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

import gpusched_env  # noqa: F401 - registers the environments: make_vec knows no module prefix
from tools.portability.problems import SEED

INFEASIBLE: Final = 0.05  # share of actions drawn from the whole action space, some of which are refused


def bits(value: Any) -> Iterator[Any]:
    """Flatten observations and infos into arrays and plain values, in the order of their names."""
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield name
            yield from bits(value[name])
    elif isinstance(value, np.generic):
        yield value.item()
    else:
        yield value


def told_of_one(infos: Mapping[str, Any], b: int) -> dict[str, Any]:
    """Return the info of environment ``b`` of a batch: the entries that ``infos["_name"][b]`` marks as valid."""
    own = {}
    for name in infos:
        if not name.startswith("_") and infos[f"_{name}"][b]:
            own[name] = told_of_one(infos[name], b) if isinstance(infos[name], Mapping) else infos[name][b]
    return own


def drawn_action(generator: np.random.Generator, info: Mapping[str, Any], space: gym.Space[Any]) -> Any:
    """Draw an action: mostly one that the mask allows, or any action if there is no mask."""
    if not isinstance(space, gym.spaces.Discrete):
        return (2.0 * generator.random(space.shape) - 1.0).astype(space.dtype)
    allowed = np.flatnonzero(info["action_mask"])
    if generator.random() < INFEASIBLE or not len(allowed):
        return int(generator.integers(space.n))
    return int(generator.choice(allowed))


def alone(name: str, steps: int, **options: Any) -> Iterator[Any]:
    """Play one episode of an environment, at most ``steps`` steps; yield everything that it returns."""
    env = gym.make(f"gpusched_env:{name}", **options)
    generator = np.random.default_rng(SEED)
    observation, info = env.reset(seed=SEED)
    yield from (*bits(observation), *bits(info))
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(drawn_action(generator, info, env.action_space))
        yield from (*bits(observation), float(reward), terminated, truncated, *bits(info))
        if terminated or truncated:
            break
    env.close()


def together(name: str, envs: int, steps: int, autoreset: AutoresetMode, **options: Any) -> Iterator[Any]:
    """Play a batch of environments for ``steps`` steps, episode after episode; yield everything that it returns.

    In mode DISABLED, environments whose episodes are over are reset by a mask.
    """
    batch = gym.make_vec(name, envs, "vector_entry_point", autoreset_mode=autoreset, **options)
    generator = np.random.default_rng(SEED)

    def seen() -> Iterator[Any]:
        for b in range(envs):
            yield from bits({key: array[b] for key, array in observations.items()})
            yield from bits(told_of_one(infos, b))

    observations, infos = batch.reset(seed=SEED)
    yield from seen()
    for _ in range(steps):
        own = (told_of_one(infos, b) for b in range(envs))
        actions = np.array([drawn_action(generator, info, batch.single_action_space) for info in own])
        observations, rewards, terminated, truncated, infos = batch.step(actions)
        yield from (rewards, terminated, truncated, *seen())
        over = terminated | truncated
        if autoreset is AutoresetMode.DISABLED and over.any():
            observations, infos = batch.reset(options={"reset_mask": over})
            yield from seen()
    batch.close()
