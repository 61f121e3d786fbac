"""Efficiency of data-parallel training from a model's layers: a closed form of one training pass in ASTRA-sim 1.0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.dimension_links import Links, all_reduce_ns
from gpusched_env.traces.tables import Table


@dataclass(frozen=True)
class Layers:
    """Layers of a model, first to last; all arrays have the same length.

    Attributes
    ----------
    forward_ns, input_gradient_ns, weight_gradient_ns : compute times of a layer [ns]
    gradient_bytes : bytes of its weight gradients, all-reduced once per pass
    update_ns : time of the update that follows its all-reduce [ns]
    """

    forward_ns: np.ndarray
    input_gradient_ns: np.ndarray
    weight_gradient_ns: np.ndarray
    gradient_bytes: np.ndarray
    update_ns: np.ndarray

    def __post_init__(self) -> None:
        """Refuse a model without layers."""
        if not len(self.forward_ns):
            raise WorkloadError("layers: the model has none; give at least one layer")

    @classmethod
    def of_table(cls, table: Table, scale: float = 1.0) -> Layers:
        """Make layers from a table of :func:`gpusched_env.traces.read_layers`; multiply compute times by ``scale``.

        As in Dally's simulator, scaled times are rounded down to whole nanoseconds, and updates are not scaled.
        """
        names = ("forward_ns", "input_gradient_ns", "weight_gradient_ns")
        forward, inputs, weights = (np.floor(table[name].astype(float) * scale) for name in names)
        return cls(forward, inputs, weights, table["gradient_bytes"].astype(float), table["update_ns"].astype(float))

    @property
    def compute_ns(self) -> float:
        """Compute time of one pass; the first layer has no input gradient [ns]."""
        return float(self.forward_ns.sum() + self.weight_gradient_ns.sum() + self.input_gradient_ns[1:].sum())

    def efficiency(self, links: Links, shape: Sequence[int]) -> float:
        """Compute time / time of the whole pass, 0 to 1, of a gang of a shape.

        Gradients are sent layer by layer, the last layer first. A layer's gradients are sent as soon as they are
        computed and the previous transfer has ended; computation continues meanwhile.

        Parameters
        ----------
        links : links of the dimensions gpu, slot, machine and rack
        shape : GPUs in each dimension; 1 = absent
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
