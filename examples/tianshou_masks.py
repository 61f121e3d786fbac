"""Environments in the form that Tianshou reads: its Q-learning then obeys action masks.

Tianshou wants an older ``filelock``: install the extra ``tianshou`` into an environment of its own.
"""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gpusched_env.errors import GpuschedError

MASK: Final = "action_mask"


class Masked(gym.Wrapper[dict[str, np.ndarray], Any, dict[str, np.ndarray], Any]):
    """Observations with two arrays: ``obs``, all numbers of the environment, and ``mask``, the feasible actions.

    Infos hold only ``dt`` and ``refusals``: Tianshou's buffer wants equal infos of all steps.

    Parameters
    ----------
    env : an environment made with ``mask_in_observation=True``

    Raises
    ------
    GpuschedError : the observation has no action mask
    """

    def __init__(self, env: gym.Env[dict[str, np.ndarray], Any]) -> None:
        super().__init__(env)
        shown = env.observation_space
        if not isinstance(shown, spaces.Dict) or MASK not in shown.spaces:
            raise GpuschedError("Masked: make the environment with mask_in_observation=True")
        self._numbers: spaces.Dict = spaces.Dict({name: space for name, space in shown.items() if name != MASK})
        self.observation_space = spaces.Dict(
            {"obs": spaces.flatten_space(self._numbers), "mask": spaces.MultiBinary(shown[MASK].shape or 0)}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._seen(observation), _kept(info)

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], Any, bool, bool, dict[str, Any]]:
        """Play an action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._seen(observation), reward, terminated, truncated, _kept(info)

    def _seen(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return float32 [numbers] and bool [actions]."""
        flat: Any = spaces.flatten(self._numbers, {name: observation[name] for name in self._numbers})
        return {"obs": flat, "mask": observation[MASK].astype(bool)}


def _kept(info: dict[str, Any]) -> dict[str, Any]:
    return {name: info[name] for name in ("dt", "refusals")}
