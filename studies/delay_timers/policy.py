"""The PPO policy for delay timers: one small network shared by the demand classes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

WIDTH: Final = 32


class ClassExtractor(BaseFeaturesExtractor):
    """Concatenate the columns of each class with those of the cluster: [B, D * inputs], class by class."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        classes, cluster = observation_space["classes"].shape, observation_space["cluster"].shape
        assert classes is not None
        assert cluster is not None
        self.count, self.inputs = classes[0], classes[1] + cluster[0]
        super().__init__(observation_space, self.count * self.inputs)

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Join the columns of a batch."""
        classes, cluster = observations["classes"], observations["cluster"]
        return torch.cat([classes, cluster.unsqueeze(1).expand(-1, self.count, -1)], dim=2).flatten(1)


class SharedHead(nn.Module):
    """The same layers for each class: [B, D * inputs] to [B, D * outputs], or pooled to the mean [B, outputs]."""

    def __init__(self, classes: int, inputs: int, outputs: int, pooled: bool) -> None:
        super().__init__()
        self.classes, self.pooled = classes, pooled
        self.layers = nn.Sequential(
            nn.Linear(inputs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, outputs)
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Apply the layers to a batch."""
        values: torch.Tensor = self.layers(features.view(len(features), self.classes, -1))
        return values.mean(1) if self.pooled else values.flatten(1)


class TimerPolicy(MultiInputActorCriticPolicy):
    """PPO policy for :class:`~gpusched_env.delay_timers.env.DelayTimersEnv`.

    Parameters
    ----------
    action : initial action, the same pair of numbers for every class
    """

    def __init__(self, *args: Any, action: tuple[float, float] = (0.0, 0.0), **kwargs: Any) -> None:
        self._action = action
        super().__init__(*args, **(kwargs | {"net_arch": [], "features_extractor_class": ClassExtractor}))

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        extractor = self.features_extractor
        assert isinstance(extractor, ClassExtractor)
        self.action_net = SharedHead(extractor.count, extractor.inputs, 2, pooled=False)
        self.value_net = SharedHead(extractor.count, extractor.inputs, 1, pooled=True)  # type: ignore[assignment]
        last = self.action_net.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.copy_(torch.tensor(self._action))
        self.optimizer = self.optimizer_class(self.parameters(), **(self.optimizer_kwargs | {"lr": lr_schedule(1)}))

    def weights(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Layers of the action network, as :class:`~gpusched_env.agents.timer_network.TimerNetwork` has them."""
        assert isinstance(self.action_net, SharedHead)
        return [
            (layer.weight.detach().numpy().T.astype(np.float64), layer.bias.detach().numpy().astype(np.float64))
            for layer in self.action_net.layers
            if isinstance(layer, nn.Linear)
        ]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        for fixed in ("net_arch", "features_extractor_class"):
            data.pop(fixed, None)
        return data | {"action": self._action}
