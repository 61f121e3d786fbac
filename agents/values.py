"""A value network as the baseline of PPO: generalised advantage estimation over steps of different lengths.

References
----------
J. Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", ICLR 2016, arXiv
1506.02438; S. Bradtke, M. Duff, "Reinforcement Learning Methods for Continuous-Time Markov Decision Problems", NIPS
1994 (discount by the time that a step takes); H. van Hasselt et al., "Learning values across many orders of magnitude",
NIPS 2016, arXiv 1602.07714 (normalised values).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from gpusched_env.agents.network import Tokens
from gpusched_env.agents.tokens import CLUSTER, Layout
from gpusched_env.portable import arrays


class Values(nn.Module):
    """Estimates the discounted sum of all later rewards.

    The network learns values of mean 0 and standard deviation 1. The mean and the standard deviation of the returns
    seen so far turn them into rewards.
    """

    def __init__(self, layout: Layout, width: int, learning_rate: float) -> None:
        super().__init__()
        self.tokens = Tokens(layout, width)
        self.value = nn.Linear(width, 1)
        self.moments: torch.Tensor
        self.register_buffer("moments", torch.zeros(3, dtype=torch.float64))  # count, sum and sum of squares of returns
        self.optimizer = torch.optim.Adam(self.parameters(), lr=learning_rate, eps=1e-5)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return normalised values, [B]."""
        values: torch.Tensor = self.value(self.tokens(inputs)[0][CLUSTER])[:, 0]
        return values

    def scale(self) -> tuple[float, float]:
        """Return mean and standard deviation of the returns seen so far; (0, 1) before the first."""
        count, total, squares = self.moments.tolist()
        if not count:
            return 0.0, 1.0
        mean = total / count
        return mean, math.sqrt(max(squares / count - mean * mean, 1e-12))

    def of(self, inputs: Mapping[str, torch.Tensor], batch: int) -> np.ndarray:
        """Return the values of N steps, float64 [N]."""
        mean, deviation = self.scale()
        steps = len(inputs[CLUSTER])
        with torch.inference_mode():
            parts = [
                self({name: array[first : first + batch] for name, array in inputs.items()})
                for first in range(0, steps, batch)
            ]
        normalised: np.ndarray = torch.cat(parts).double().cpu().numpy()
        return mean + deviation * normalised

    def fit(self, inputs: Mapping[str, torch.Tensor], returns: np.ndarray, batch: int, epochs: int) -> float:
        """Learn the returns of N steps; return the share of their variance that was explained before."""
        before = self.of(inputs, batch)
        self.moments += torch.tensor([len(returns), returns.sum(), (returns * returns).sum()]).to(self.moments)
        mean, deviation = self.scale()
        targets = torch.from_numpy((returns - mean) / deviation).float().to(self.value.weight.device)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(targets), device=targets.device), batch):
                errors = self({name: array.index_select(0, rows) for name, array in inputs.items()}) - targets[rows]
                self.optimizer.zero_grad()
                torch.autograd.backward((errors * errors).mean())
                self.optimizer.step()
        return float(1.0 - np.var(returns - before) / max(np.var(returns), 1e-12))

    def state(self) -> dict[str, Any]:
        """Return everything that :meth:`restore` needs."""
        return {"network": self.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])


def generalised_advantages(
    values: np.ndarray, rewards: np.ndarray, durations_s: np.ndarray, horizon_s: float, gae_lambda: float
) -> np.ndarray:
    """Return the advantages of the T steps of an episode that ends after the last one, float64 [T].

    With the discount d = exp(-duration / ``horizon_s``) of a step, its advantage is
    reward + d x (next value) - value + d x ``gae_lambda`` x (next advantage).
    """
    discounts = arrays.exp(-durations_s / horizon_s)
    gains = rewards + discounts * np.append(values[1:], 0.0) - values
    found = np.empty_like(gains)
    later = 0.0
    for k in range(len(gains) - 1, -1, -1):
        found[k] = later = gains[k] + discounts[k] * gae_lambda * later
    return found
