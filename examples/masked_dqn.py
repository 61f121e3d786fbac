"""DQN of stable-baselines3 that obeys action masks: infeasible actions have no value, and exploration avoids them.

Make the environments with ``mask_in_observation=True``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import MultiInputPolicy, QNetwork

MASK: Final = "action_mask"
WORTHLESS: Final = -1e9  # value of an infeasible action


class MaskedQNetwork(QNetwork):
    """Values of actions; those of infeasible actions are lower than all others."""

    def forward(self, obs: Any) -> torch.Tensor:
        """Return the values, [B, actions]."""
        feasible = obs[MASK] > 0.5
        feasible |= ~feasible.any(dim=1, keepdim=True)  # after the end of an episode no action is feasible
        return super().forward(obs).masked_fill(~feasible, WORTHLESS)


class MaskedQPolicy(MultiInputPolicy):
    """Policy of :class:`MaskedDQN`."""

    def make_q_net(self) -> QNetwork:
        """Make a network that obeys masks."""
        net_args = self._update_features_extractor(self.net_args, features_extractor=None)
        return MaskedQNetwork(**net_args).to(self.device)


class MaskedDQN(DQN):
    """DQN for environments whose observation has the mask as ``action_mask``.

    The targets of learning, greedy actions and random actions all leave out infeasible actions. Parameters are those of
    ``stable_baselines3.DQN``, without the policy.
    """

    def __init__(self, env: Any, **options: Any) -> None:
        options.pop("policy", None)  # given when a saved model is loaded
        self._generator = np.random.default_rng(options.get("seed"))
        super().__init__(MaskedQPolicy, env, **options)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        """Return actions; with the probability of exploration, draw them among the feasible ones."""
        if deterministic or self._generator.random() >= self.exploration_rate:
            return self.policy.predict(observation, state, episode_start, deterministic)
        actions = self._drawn(np.atleast_2d(observation[MASK]))
        return (actions if np.ndim(observation[MASK]) > 1 else actions[0]), state

    def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> tuple[Any, Any]:
        """Return actions of training; before learning starts, draw them among the feasible ones."""
        if self.num_timesteps < learning_starts:
            assert isinstance(self._last_obs, dict)
            actions = self._drawn(self._last_obs[MASK])
            return actions, actions
        return super()._sample_action(learning_starts, action_noise, n_envs)

    def _drawn(self, masks: np.ndarray) -> np.ndarray:
        """Draw a feasible action for each row of masks."""
        return np.array([self._generator.choice(np.flatnonzero(mask)) for mask in masks])
