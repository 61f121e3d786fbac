"""RLlib on batches: a module with action masks, and a PPO configuration whose environment runners step whole batches.

algorithm = ppo_config("gpusched/Cluster-v0", scenario="tiny-v1").build_algo()
algorithm.train()

RLlib pins its own version of Gymnasium: install the extra ``rllib`` into an environment of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from gpusched_env.errors import GpuschedError

WIDTH = 128  # default length of both hidden layers
MASK = "action_mask"


class MaskedModule(TorchRLModule, ValueFunctionAPI):
    """A policy that gives infeasible actions no probability, and a value function: two hidden layers each.

    The observation is a flat Dict with ``action_mask`` (``mask_in_observation=True``); its other arrays are joined into
    one vector. ``model_config={"width": 256}`` sets the length of the hidden layers.
    """

    def setup(self) -> None:
        """Make both networks.

        Raises
        ------
        GpuschedError : the observation has no action mask
        """
        shown, actions = self.observation_space, self.action_space
        if not isinstance(shown, spaces.Dict) or MASK not in shown.spaces:
            raise GpuschedError("MaskedModule: make the environment with mask_in_observation=True")
        assert isinstance(actions, spaces.Discrete)
        assert isinstance(self.model_config, dict)
        self._names = [name for name in shown.spaces if name != MASK]
        inputs = sum(spaces.flatdim(shown[name]) for name in self._names)
        width = self.model_config.get("width", WIDTH)
        self.policy = _layers(inputs, width, int(actions.n))
        self.values = _layers(inputs, width, 1)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, torch.Tensor]:
        """Return the logits, [B, actions]; those of infeasible actions are the smallest float."""
        logits = self.policy(self._inputs(batch))
        # finite, since the last observation of an episode may have no feasible action
        return {
            Columns.ACTION_DIST_INPUTS: logits.masked_fill(batch[Columns.OBS][MASK] == 0, torch.finfo(logits.dtype).min)
        }

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Return the values of observations, [B]."""
        values: torch.Tensor = self.values(self._inputs(batch))
        return values.squeeze(-1)

    def _inputs(self, batch: dict[str, Any]) -> torch.Tensor:
        return torch.cat([batch[Columns.OBS][name].flatten(1) for name in self._names], dim=1)


def ppo_config(environment: str = "gpusched/Cluster-v0", num_envs: int = 64, **options: Any) -> PPOConfig:
    """Return a configuration of PPO with action masks; every environment runner steps one batch in compiled code.

    By default the algorithm samples in its own process. ``config.env_runners(num_env_runners=4)`` makes four processes
    with a batch each; give ``threads=1`` then. All other settings of the configuration are RLlib's.

    Parameters
    ----------
    environment : id of an environment of ``ClusterEnv``
    num_envs : number of environments in each batch
    options : arguments of the environment, such as ``scenario``
    """
    return (
        PPOConfig()  # type: ignore[no-untyped-call]
        # The module prefix registers our environments in every process of Ray.
        .environment(f"gpusched_env:{environment}", env_config=options | {"mask_in_observation": True})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs, gym_env_vectorize_mode="vector_entry_point")
        .rl_module(rl_module_spec=RLModuleSpec(module_class=MaskedModule))
    )


def _layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)
    )
