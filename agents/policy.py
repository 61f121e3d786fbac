"""The slot network as a policy of sb3-contrib's MaskablePPO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from gpusched_env.agents.network import WIDTH, SlotActions, SlotEncoder
from gpusched_env.errors import SchedulerError


class SlotExtractor(SlotEncoder):
    """The encoder as a features extractor of stable-baselines3, which hands on flat features."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__({name: space.shape or () for name, space in observation_space.items()}, nn.Tanh)
        self.features_dim = (1 + self.queue_slots + self.running_slots) * WIDTH

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Embed a batch of observations."""
        return self.features(self.inputs(observations)).flatten(1)


class FlatSlotActions(SlotActions):
    """Logits of all actions from flat features."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits of all actions."""
        return super().forward(features.view(len(features), -1, WIDTH))


class SlotValue(nn.Module):
    """Value [B, 1] from the cluster's features and the mean over the slots."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the estimated values."""
        slots = features.view(len(features), -1, WIDTH)
        value: torch.Tensor = self.head(torch.cat([slots[:, 0], slots[:, 1:].mean(1)], dim=1))
        return value


class SlotPolicy(MaskableMultiInputActorCriticPolicy):
    """MaskablePPO policy for :class:`~gpusched_env.envs.cluster_env.ClusterEnv`.

    Parameters
    ----------
    waits : number of waiting actions of the environment, 1 + W
    """

    def __init__(self, *args: Any, waits: int, **kwargs: Any) -> None:
        self._waits = waits
        kwargs.pop("rules", None)  # in older files
        super().__init__(*args, **(kwargs | {"net_arch": [], "features_extractor_class": SlotExtractor}))

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        assert isinstance(self.action_space, spaces.Discrete)
        slots = self.features_extractor
        assert isinstance(slots, SlotEncoder)
        starts = (int(self.action_space.n) - slots.running_slots - self._waits) // slots.queue_slots
        self.action_net = FlatSlotActions(slots.queue_slots, starts, self._waits)
        self.value_net = SlotValue()  # type: ignore[assignment] # declared as the Linear that it replaces
        self.optimizer = self.optimizer_class(self.parameters(), **(self.optimizer_kwargs | {"lr": lr_schedule(1)}))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        for fixed in ("net_arch", "features_extractor_class"):
            data.pop(fixed, None)
        return data | {"waits": self._waits}


class SavedMaskablePPO(nn.Module):
    """The policy of a saved MaskablePPO model, played as a :class:`~gpusched_env.agents.network.SlotNetwork`.

    Attributes
    ----------
    shapes : shape of each observation array, by name

    Raises
    ------
    SchedulerError : the file cannot be loaded
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            model = MaskablePPO.load(path, device="cpu")
        except Exception as error:
            raise SchedulerError(
                f"{path}: cannot be loaded as a MaskablePPO model ({error}); train it again with this version"
            ) from error
        self.policy = model.policy
        self.encoder = self.policy.features_extractor
        assert isinstance(model.observation_space, spaces.Dict)
        self.shapes = {name: space.shape or () for name, space in model.observation_space.items()}

    def log_probabilities(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logarithms of the probabilities of all actions, feasible or not, [B, actions]."""
        policy = self.policy
        latent = policy.mlp_extractor.forward_actor(policy.pi_features_extractor(dict(observations)))
        return torch.log_softmax(policy.action_net(latent), dim=1)
