"""Adapter of the vector environment to ``VecEnv`` of stable-baselines3, with action masks for sb3-contrib.

environments = ClusterVecEnv(gymnasium.make_vec("gpusched/Cluster-v0", num_envs=64, autoreset_mode="SameStep"))
MaskablePPO("MultiInputPolicy", environments).learn(1_000_000)
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from gpusched_env.envs.cluster_vector_env import ClusterVectorEnv
from gpusched_env.envs.options import check_reset_options
from gpusched_env.errors import GpuschedError

__all__ = ["ClusterVecEnv"]


class ClusterVecEnv(VecEnv):
    """A :class:`ClusterVectorEnv` as a ``VecEnv``; it replaces ``DummyVecEnv`` and ``Monitor``.

    Each info holds ``dt``, the elapsed simulated time [s], and ``refusals``. Where an episode ends, the info also holds
    what stable-baselines3 expects: ``episode``, ``terminal_observation`` and ``TimeLimit.truncated``, and with
    ``keep_logs`` also ``metrics`` and ``digest``.
    ``get_attr`` returns the attribute of the whole batch for each environment; ``env_method`` returns each
    environment's part of the result.

    Parameters
    ----------
    environments : with autoreset mode "SameStep", which stable-baselines3 expects, and ``copy=True``, since
        stable-baselines3 stores an observation after the next step
    """

    def __init__(self, environments: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        inner = environments.unwrapped
        if not isinstance(inner, ClusterVectorEnv):
            raise GpuschedError(f"ClusterVecEnv adapts ClusterVectorEnv, not {type(inner).__name__}")
        if inner.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            raise GpuschedError('ClusterVecEnv: make the environments with autoreset_mode="SameStep"')
        if not inner.copies:
            raise GpuschedError("ClusterVecEnv: make the environments with copy=True; stored observations would change")
        self.environments = inner
        self._chosen: np.ndarray = np.zeros(inner.num_envs, np.int64)
        self._made_s = time.perf_counter()
        super().__init__(inner.num_envs, inner.single_observation_space, inner.single_action_space)

    def reset(self) -> dict[str, np.ndarray]:
        """Begin an episode in every environment; seeds set by ``seed`` are used once."""
        for options in self._options:
            check_reset_options(options)
        seeds = None if all(seed is None for seed in self._seeds) else self._seeds
        observations, infos = self.environments.reset(seed=seeds)
        self.reset_infos = [{"seed": int(seed)} for seed in infos["seed"]]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for :meth:`step_wait`."""
        self._chosen = actions

    def step_wait(self) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play the actions."""
        observations, rewards, terminated, truncated, infos = self.environments.step(self._chosen)
        over = terminated | truncated
        steps = zip(infos["dt"].tolist(), infos["refusals"].tolist(), strict=True)
        told: list[dict[str, Any]] = [{"dt": dt, "refusals": refusals} for dt, refusals in steps]
        for b in np.flatnonzero(over).tolist():
            final = infos["final_info"]  # ``infos`` itself tells of the reset
            told[b] = {
                "dt": final["dt"][b].item(),
                "refusals": final["refusals"][b].item(),
                "episode": {
                    "r": final["episode_return"][b].item(),
                    "l": final["episode_length"][b].item(),
                    "t": time.perf_counter() - self._made_s,  # as Monitor: since the environment was made
                },
                "terminal_observation": infos["final_obs"][b],
                "TimeLimit.truncated": bool(truncated[b] and not terminated[b]),
                **{name: final[name][b] for name in ("digest",) if name in final},
            }
            if "metrics" in final:
                told[b]["metrics"] = {n: v[b] for n, v in final["metrics"].items() if not n.startswith("_")}
            self.reset_infos[b] = {"seed": int(infos["seed"][b])}
        return observations, rewards.astype(np.float32), over, told

    def close(self) -> None:
        """End the threads."""
        self.environments.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the batch, once per environment."""
        value = getattr(self.environments, attr_name)
        return [value] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise an error: the environments of a batch share their attributes."""
        raise GpuschedError(f"set_attr({attr_name!r}): the environments of a batch share their attributes")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Return each environment's part of the result of a batch method, such as ``action_masks``."""
        answers = getattr(self.environments, method_name)(*method_args, **method_kwargs)
        return [answers[b] for b in self._rows(indices)]

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None) -> list[bool]:
        """Return True for ``Monitor`` only: episodes are monitored, and there are no other wrappers."""
        from stable_baselines3.common.monitor import Monitor

        return [wrapper_class is Monitor] * len(self._rows(indices))

    def _rows(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))
