"""Efficiency of data-parallel training from a model's layers, with the links of Dally's simulator.

The result approximates one training pass in ASTRA-sim 1.0 by a closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.errors import WorkloadError

if TYPE_CHECKING:
    from studies.published_tables import Table

FULLY_CONNECTED, RING, SWITCH = "fully-connected", "ring", "switch"


@dataclass(frozen=True)
class DimensionLinks:
    """The links of one dimension of ASTRA-sim: "fully-connected", "ring" or "switch", where a message crosses two."""

    kind: str
    bandwidth_GBps: float
    latency_ns: float

    def multiplier(self, units: int) -> int:
        """Return the number of links that a ring collective over ``units`` units uses at the same time."""
        if self.kind == SWITCH:
            return units
        if self.kind == RING:
            return 4 if units == 2 else units + units % 2
        return units // (units - 1)

    def all_reduce_ns(self, units: int, size_bytes: float) -> float:
        """Return the time of a ring all-reduce of ``size_bytes`` over ``units`` > 1 units [ns]."""
        hops = 2 if self.kind == SWITCH else 1
        rate = self.bandwidth_GBps * self.multiplier(units)  # [byte/ns]
        return 2.0 * ((units - 1) / units * size_bytes / rate + (units - 1) * hops * self.latency_ns)


Links = tuple[DimensionLinks, DimensionLinks, DimensionLinks, DimensionLinks]  # gpu, slot, machine, rack


def all_reduce_ns(links: Links, shape: Sequence[int], size_bytes: float) -> float:
    """Return the time of an all-reduce over all dimensions, from the innermost to the outermost [ns].

    ``shape`` is the number of units in the dimensions gpu, slot, machine and rack; 1 = it is not spanned.
    """
    total = 0.0
    for dimension, units in zip(links, shape, strict=True):
        if units > 1:
            total += dimension.all_reduce_ns(units, size_bytes)
            size_bytes /= units
    return total


_NVSWITCH = (DimensionLinks(FULLY_CONNECTED, 600.0, 0.0), DimensionLinks(RING, 600.0, 500.0))
_RINGS = (DimensionLinks(RING, 50.0, 0.0), DimensionLinks(RING, 25.0, 0.0))
_RACK, _NETWORK = DimensionLinks(RING, 200.0, 5_000.0), DimensionLinks(SWITCH, 400.0, 50_000.0)


def _congested(rack_GBps: float, rack_ns: float) -> Links:
    """Return the links of an earlier revision of Dally's simulator, with 10 GB/s and 50 ms between racks."""
    return (*_NVSWITCH, DimensionLinks(RING, rack_GBps, rack_ns), DimensionLinks(SWITCH, 10.0, 50e6))


# Sources: aakash-sharma/cluster-sim, commit 4cd660e, network files 4g_2s-nvswitch and 4g_2s, and class ConfigUtils. The
# congested links come from earlier revisions of this class. It is unknown which links were used for the figures of the
# paper.
DIMENSION_LINKS: Final[dict[str, Links]] = {
    "nvswitch": (*_NVSWITCH, _RACK, _NETWORK),
    "rings": (*_RINGS, _RACK, _NETWORK),
    "congested-25": _congested(25.0, 5e6),
    "congested-50": _congested(50.0, 500.0),
    "congested-100": _congested(100.0, 500.0),
}


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
        """Make layers from a table that :func:`studies.published_tables.read_layers` returned.

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
