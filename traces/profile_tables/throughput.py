"""Pollux's model of the iteration time of data-parallel training, and the measurements to which it is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.problem.performance import overlapped

MEASUREMENT_DTYPE: Final = np.dtype(
    [
        ("machines", "<i4"),  # number of machines over which the gang is spread, >= 1
        ("gpus", "<i4"),  # [GPU] gang size
        ("batch", "<f8"),  # [samples] on each GPU, > 0
        ("iteration_s", "<f8"),  # [s] of one iteration, > sync_s
        ("sync_s", "<f8"),  # [s] from the end of the gradient computation until all gradients are reduced, >= 0
    ]
)
SECONDS: Final = (1e-9, 1e9)  # [s] shortest gradient time and longest iteration time of a valid measurement
KINDS: Final = ("one GPU", "one machine", "across machines")


@dataclass(frozen=True)
class Throughput:
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

    def gradient_s(self, batch: float | np.ndarray) -> np.ndarray:
        """Return the time to compute the gradients of ``batch`` samples on each GPU [s]."""
        return np.asarray(self.alpha_grad + self.beta_grad * np.asarray(batch, float))

    def sync_s(self, gpus: int | np.ndarray, machines: int | np.ndarray) -> np.ndarray:
        """Return the time to synchronise a gang on an idle network [s]; 0 for one GPU."""
        more = np.maximum(np.asarray(gpus) - 2, 0)
        local, node = self.alpha_local + self.beta_local * more, self.alpha_node + self.beta_node * more
        return np.where(np.asarray(machines) > 1, node, np.where(np.asarray(gpus) > 1, local, 0.0))

    def iteration_s(
        self, gpus: int | np.ndarray, machines: int | np.ndarray, batch: float | np.ndarray, passes: int = 1
    ) -> np.ndarray:
        """Return the time of an iteration of ``passes`` of ``batch`` samples per GPU [s]; the last one overlaps."""
        gradient = self.gradient_s(batch)
        last = overlapped(gradient, self.sync_s(gpus, machines), np.asarray(self.gamma))
        return (passes - 1) * gradient + last

    def relative_errors(self, rows: np.ndarray) -> np.ndarray:
        """Return abs(modelled / measured iteration time - 1) of MEASUREMENT_DTYPE rows; float64 [R]."""
        return np.abs(self.iteration_s(rows["gpus"], rows["machines"], rows["batch"]) / rows["iteration_s"] - 1)


def is_measurement(rows: np.ndarray) -> np.ndarray:
    """Return which of the MEASUREMENT_DTYPE rows [R] are valid, so that a model can be fitted to them; bool [R]."""
    good = (rows["gpus"] >= rows["machines"]) & (rows["machines"] >= 1) & (rows["batch"] > 0)
    good &= (rows["sync_s"] >= 0) & (rows["iteration_s"] - rows["sync_s"] >= SECONDS[0])
    return good & (rows["iteration_s"] <= SECONDS[1])


def kinds(rows: np.ndarray) -> np.ndarray:
    """Return the index into KINDS of MEASUREMENT_DTYPE rows; int64 [R]."""
    return np.where(rows["gpus"] == 1, 0, np.where(rows["machines"] == 1, 1, 2))
