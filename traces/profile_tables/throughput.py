"""Models of the iteration time of data-parallel training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusched_env.problem.performance import overlapped


class IterationTime:
    """The part that all models share: gradients are linear in the batch, and overlap synchronisation by a norm."""

    alpha_grad: float
    beta_grad: float
    gamma: float

    def gradient_s(self, batch: float | np.ndarray) -> np.ndarray:
        """Return the time to compute the gradients of ``batch`` samples on each GPU [s]."""
        return np.asarray(self.alpha_grad + self.beta_grad * np.asarray(batch, float))

    def sync_s(self, gpus: int | np.ndarray, machines: int | np.ndarray) -> np.ndarray:
        """Return the time to synchronise a gang on an idle network [s]; 0 for one GPU."""
        raise NotImplementedError

    def iteration_s(
        self, gpus: int | np.ndarray, machines: int | np.ndarray, batch: float | np.ndarray, passes: int = 1
    ) -> np.ndarray:
        """Return the time of an iteration of ``passes`` of ``batch`` samples per GPU [s]; the last one overlaps."""
        gradient = self.gradient_s(batch)
        last = overlapped(gradient, self.sync_s(gpus, machines), np.asarray(self.gamma))
        return (passes - 1) * gradient + last


@dataclass(frozen=True)
class Throughput(IterationTime):
    """Iteration time as a function of gang size, machines and batch (Qiao et al., OSDI 2021, section 3.2).

    Attributes
    ----------
    alpha_grad, beta_grad : the gradients of m samples on a GPU take alpha_grad + beta_grad x m [s], [s/sample]
    alpha_local, beta_local : K > 1 GPUs in one machine synchronise in alpha_local + beta_local x (K - 2) [s]
    alpha_node, beta_node : K GPUs in several machines synchronise in alpha_node + beta_node x (K - 2) [s]
    gamma : exponent of the overlap norm, 1 (no overlap) to 10 (nearly full overlap)
    """

    alpha_grad: float
    beta_grad: float
    alpha_local: float
    beta_local: float
    alpha_node: float
    beta_node: float
    gamma: float

    def sync_s(self, gpus: int | np.ndarray, machines: int | np.ndarray) -> np.ndarray:
        """Return the time to synchronise a gang on an idle network [s]; 0 for one GPU."""
        more = np.maximum(np.asarray(gpus) - 2, 0)
        local, node = self.alpha_local + self.beta_local * more, self.alpha_node + self.beta_node * more
        return np.where(np.asarray(machines) > 1, node, np.where(np.asarray(gpus) > 1, local, 0.0))
