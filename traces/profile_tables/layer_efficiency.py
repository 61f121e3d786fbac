"""Compute the efficiency of data-parallel training from a model's layers.

The result approximates one training pass in ASTRA-sim 1.0 by a closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.dimension_links import Links, all_reduce_ns
from gpusched_env.traces.tables import Table


@dataclass(frozen=True)
class Layers:
    """The layers of a model, from first to last: compute times, gradients, and times of updates [ns] [byte]."""

    forward_ns: np.ndarray
    input_gradient_ns: np.ndarray
    weight_gradient_ns: np.ndarray
    gradient_bytes: np.ndarray
    update_ns: np.ndarray

    def __post_init__(self) -> None:
        """Check that the model has layers."""
        if not len(self.forward_ns):
            raise WorkloadError("layers: the model has none; give at least one layer")

    @classmethod
    def of_table(cls, table: Table, scale: float = 1.0) -> Layers:
        """Make layers from a table that :func:`gpusched_env.traces.read_layers` returned.

        Compute times are multiplied by ``scale``. As in Dally's simulator, the products are rounded down to whole
        nanoseconds, and the times of updates are not multiplied.
        """
        names = ("forward_ns", "input_gradient_ns", "weight_gradient_ns")
        forward, inputs, weights = (np.floor(table[name].astype(float) * scale) for name in names)
        return cls(forward, inputs, weights, table["gradient_bytes"].astype(float), table["update_ns"].astype(float))

    @property
    def compute_ns(self) -> float:
        """Compute time of one pass [ns]; the input gradient of the first layer is not computed."""
        return float(self.forward_ns.sum() + self.weight_gradient_ns.sum() + self.input_gradient_ns[1:].sum())

    def efficiency(self, links: Links, shape: Sequence[int]) -> float:
        """Return compute time / total time of one pass, 0 to 1, for a gang of a given shape.

        Gradients are all-reduced layer by layer, the last layer first. The all-reduce of a layer begins as soon as its
        gradients are computed and the previous all-reduce has ended. Computation continues during an all-reduce.
        """
        now = float(self.forward_ns.sum())
        sent = finished = 0.0
        for layer in range(len(self.forward_ns) - 1, -1, -1):
            now += float(self.weight_gradient_ns[layer])
            sent = max(sent, now) + all_reduce_ns(links, shape, float(self.gradient_bytes[layer]))
            finished = max(finished, sent + float(self.update_ns[layer]))
            if layer > 0:
                now += float(self.input_gradient_ns[layer])
        return self.compute_ns / max(now, finished)
