"""Clusters: racks of nodes, nodes of GPUs of one type, and optionally slots that group the GPUs of a node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ClusterError
from gpusched_env.support.plain_data import set_fields

__all__ = ["Cluster", "NodeGroup"]

# Tiers of a placement: the smallest part of the cluster that contains all GPUs of a gang, in order of preference.
TIERS: Final = ("machine", "rack", "network")
MACHINE, RACK, NETWORK = range(len(TIERS))
# A slot is a part of a machine, so it is preferred to all other tiers. Its number is the last, so that the numbers of
# the other tiers are the same with and without slots.
SLOT: Final = len(TIERS)
TIERS_WITH_SLOTS: Final = (*TIERS, "slot")
OUTWARDS: Final = (SLOT, MACHINE, RACK, NETWORK)  # from the innermost tier to the outermost
MOST_GPUS: Final = 1_000_000  # [GPU] maximum size of a cluster; a larger number is a typing error or a damaged file
MOST_SLOTS: Final = 62  # maximum number of slots per machine; kernels store the slots of a gang as bits of an integer

NODE_DTYPE: Final = np.dtype(
    [
        ("rack", "<i4"),  # index of the rack, ascending over nodes
        ("first_gpu", "<i4"),  # lowest GPU id of the node; ids are contiguous
        ("gpus", "<i4"),  # [GPU]
        ("gpu_type", "<i4"),  # index into Cluster.gpu_types
    ]
)
RACK_DTYPE: Final = np.dtype(
    [
        ("first_node", "<i4"),  # nodes of a rack are contiguous
        ("nodes", "<i4"),
        ("gpus", "<i4"),  # [GPU]
    ]
)


@dataclass(frozen=True)
class NodeGroup:
    """A group of equal nodes.

    Parameters
    ----------
    count : number of nodes
    gpus : GPUs per node
    gpu_type : name of the GPU type
    nodes_per_rack : number of nodes in each rack; None = the whole group is in one rack
    slots : number of equal parts into which the GPUs of a node are divided. A node of eight GPUs with two slots has two
        groups of four GPUs, for example one group per PCIe switch. 1 = the node has no slots, and no placement is on
        the tier "slot"
    """

    count: int
    gpus: int
    gpu_type: str = "V100"
    nodes_per_rack: int | None = None
    slots: int = 1

    def __post_init__(self) -> None:
        """Check every field."""
        for field in ("count", "gpus", "nodes_per_rack", "slots"):
            value = getattr(self, field)
            if value is None and field == "nodes_per_rack":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ClusterError(f"cluster.{field} is {value!r}: it must be a whole number of at least 1")
        refuse_too_many([self])
        if not isinstance(self.gpu_type, str) or not self.gpu_type:
            raise ClusterError(f"cluster.gpu_type is {self.gpu_type!r}: it must be a name such as 'V100'")
        if self.gpus % self.slots or self.slots > MOST_SLOTS:
            raise ClusterError(
                f"cluster.slots is {self.slots} for nodes of {self.gpus} GPUs: give a number of at most {MOST_SLOTS} "
                "that divides the GPUs of a node"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; ``slots`` is left out if it is 1."""
        return set_fields(self, "gpu_type", "nodes_per_rack")


def refuse_too_many(groups: Sequence[NodeGroup]) -> None:
    """Raise an error if the groups have more than MOST_GPUS GPUs, before any memory is allocated for them."""
    gpus = sum(group.count * group.gpus for group in groups)
    if gpus > MOST_GPUS:
        raise ClusterError(f"cluster has {gpus:,} GPUs: give at most {MOST_GPUS:,} in all")


class Cluster:
    """A cluster of racks, nodes and GPUs, stored as arrays, which are read-only.

    Parameters
    ----------
    groups : node groups; nodes are numbered in this order, and each rack holds nodes of one group only

    Attributes
    ----------
    nodes : NODE_DTYPE [N], one row per node
    racks : RACK_DTYPE [K], one row per rack
    slots : int32 [N], number of slots of each node
    gpu_types : names of the GPU types, in order of first use
    """

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        if not groups:
            raise ClusterError("cluster.groups is empty: give at least one node group")
        refuse_too_many(groups)
        self.groups = tuple(groups)
        self.gpu_types = tuple(dict.fromkeys(group.gpu_type for group in groups))
        self.nodes = np.zeros(sum(group.count for group in groups), NODE_DTYPE)
        node = rack = gpu = 0
        for group in groups:
            per_rack = group.nodes_per_rack or group.count
            for i in range(group.count):
                if i and i % per_rack == 0:
                    rack += 1
                self.nodes[node] = (rack, gpu, group.gpus, self.gpu_types.index(group.gpu_type))
                node += 1
                gpu += group.gpus
            rack += 1
        self.slots = np.repeat(np.array([g.slots for g in groups], np.int32), [g.count for g in groups])
        self.racks = np.zeros(rack, RACK_DTYPE)
        self.racks["first_node"] = np.searchsorted(self.nodes["rack"], np.arange(rack))
        self.racks["nodes"] = np.bincount(self.nodes["rack"])
        self.racks["gpus"] = np.bincount(self.nodes["rack"], weights=self.nodes["gpus"])
        for array in (self.nodes, self.slots, self.racks):
            array.flags.writeable = False  # properties that follow from them are computed once

    @classmethod
    def homogeneous(
        cls, nodes: int, gpus_per_node: int, nodes_per_rack: int | None = None, gpu_type: str = "V100"
    ) -> Cluster:
        """Build a cluster of equal nodes; ``nodes_per_rack=None`` puts all nodes into one rack."""
        return cls([NodeGroup(nodes, gpus_per_node, gpu_type, nodes_per_rack)])

    @classmethod
    def parse(cls, text: str) -> Cluster:
        """Parse ``NODESxGPUS[sSLOTS][/NODES_PER_RACK][@GPU_TYPE]``; commas separate several groups.

        Examples: ``310x8/31`` has racks of 31 nodes, and ``16x4@T4,4x8/2@A100`` has two groups. In ``32x8s2/8`` each
        node has two slots of four GPUs. The default GPU type is V100.
        """
        groups = []
        for part in text.split(","):
            match = re.fullmatch(r"(\d+)x(\d+)(?:s(\d+))?(?:/(\d+))?(?:@([^@/]+))?", part.strip())
            if match is None:
                raise ClusterError(
                    f"cluster {text!r}: write NODESxGPUS, NODESxGPUS/NODES_PER_RACK or NODESxGPUS@GPU_TYPE, and "
                    "commas between several kinds of nodes; for example 16x8/4, or 16x4@T4,4x8@A100; 16x8s2 has nodes "
                    "of two slots"
                )
            nodes, gpus, slots, per_rack, gpu_type = match.groups()
            racks = int(per_rack) if per_rack else None
            groups.append(NodeGroup(int(nodes), int(gpus), gpu_type or "V100", racks, int(slots or 1)))
        return cls(groups)

    @cached_property
    def gpus(self) -> int:
        """Number of GPUs of the cluster."""
        return int(self.nodes["gpus"].sum())

    @cached_property
    def slot_gpus(self) -> np.ndarray:
        """int32 [N], read-only: GPUs per slot of each node."""
        sizes: np.ndarray = self.nodes["gpus"] // self.slots
        sizes.flags.writeable = False
        return sizes

    @cached_property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers, in the order of their numbers; "slot" is included only if a node has several slots."""
        return TIERS_WITH_SLOTS if (self.slots > 1).any() else TIERS

    @cached_property
    def node_of_gpu(self) -> np.ndarray:
        """int32 [G], read-only: node index of each GPU."""
        nodes = np.repeat(np.arange(len(self.nodes), dtype=np.int32), self.nodes["gpus"])
        nodes.flags.writeable = False
        return nodes

    def tightest_tier(self, gang: np.ndarray | int) -> np.ndarray:
        """int32, same shape as ``gang``: tightest tier of the empty cluster that can hold a gang of ``gang`` GPUs."""
        size = np.asarray(gang)
        tier = np.where(
            size <= self.nodes["gpus"].max(), MACHINE, np.where(size <= self.racks["gpus"].max(), RACK, NETWORK)
        )
        in_slots = self.slot_gpus[self.slots > 1]
        return np.where(size <= in_slots.max(initial=0), SLOT, tier).astype(np.int32)

    def used_parts(self, gpus: np.ndarray, first: np.ndarray) -> np.ndarray:
        """int64 [3, P]: number of racks (row 0), machines (row 1) and slots (row 2) that each of P placements uses.

        Parameters
        ----------
        gpus : GPU ids of all placements, concatenated
        first : int [P], ascending, index in ``gpus`` at which each placement begins; no placement may be empty
        """
        placement = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(gpus))))
        parts = self._parts(gpus)
        most = MOST_SLOTS * len(self.nodes)  # larger than the number of any rack, machine or slot
        counts = [np.bincount(np.unique(placement * most + part) // most, minlength=len(first)) for part in parts]
        return np.stack(counts).astype(np.int64)

    def tier_of(self, gpus: np.ndarray, first: np.ndarray) -> np.ndarray:
        """int32 [P]: tier of each of P placements; the parameters are those of :meth:`used_parts`."""
        rack, node, slot = (
            np.minimum.reduceat(part, first) == np.maximum.reduceat(part, first) for part in self._parts(gpus)
        )
        slotted = self.slots[self.node_of_gpu[gpus[first]]] > 1
        tier = np.where(slot & slotted, SLOT, np.where(node, MACHINE, np.where(rack, RACK, NETWORK)))
        return tier.astype(np.int32)

    def _parts(self, gpus: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rack, the machine and the slot of each GPU. Slot numbers are unique within the whole cluster."""
        node = self.node_of_gpu[gpus].astype(np.int64)
        slot = (gpus - self.nodes["first_gpu"][node]) // self.slot_gpus[node]
        return self.nodes["rack"][node], node, MOST_SLOTS * node + slot

    def describe(self) -> str:
        """Return a description of the cluster in one line."""
        parts = [
            f"{g.count} nodes x {g.gpus} {g.gpu_type}" + (f" in {g.slots} slots" if g.slots > 1 else "")
            for g in self.groups
        ]
        return f"{self.gpus} GPUs: {', '.join(parts)} in {len(self.racks)} racks"
