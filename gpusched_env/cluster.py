"""The machines: nodes in racks, GPUs in nodes and, where it matters, in slots of a node; one GPU type a node."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ClusterError

# How far a gang's GPUs are apart. The order is the order of preference.
TIERS: Final = ("machine", "rack", "network")
MACHINE, RACK, NETWORK = range(len(TIERS))
# A slot is a part of a machine, so it comes before all others in preference; its number is the last one, so that logs
# of clusters without slots mean what they always meant.
SLOT: Final = len(TIERS)
TIERS_WITH_SLOTS: Final = (*TIERS, "slot")
OUTWARDS: Final = (SLOT, MACHINE, RACK, NETWORK)  # from the innermost tier to the outermost
MOST_GPUS: Final = 1_000_000  # [GPU] of a cluster: more is a typing error or a damaged file
MOST_SLOTS: Final = 62  # of a machine: kernels keep the slots that a gang takes as the bits of an integer

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
    """``count`` equal nodes of ``gpus`` GPUs each.

    Parameters
    ----------
    count : number of nodes
    gpus : GPUs per node
    gpu_type : name of the GPU type
    nodes_per_rack : nodes of this group in a rack; None puts the whole group into one rack
    slots : equal parts into which the GPUs of a node fall, such as two groups of four that share a switch; 1 = the
        GPUs of a node are all alike, and no placement is on the tier "slot"

    Raises
    ------
    ClusterError : a field that is no whole number of at least 1, more than MOST_GPUS, more than 62 slots, or unequal
        slots
    """

    count: int
    gpus: int
    gpu_type: str = "V100"
    nodes_per_rack: int | None = None
    slots: int = 1

    def __post_init__(self) -> None:
        """Refuse groups that no machine room holds."""
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
                f"cluster.slots is {self.slots}, of nodes of {self.gpus} GPUs: give a number of at most {MOST_SLOTS} "
                "that divides the GPUs of a node"
            )

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON; slots appear only where there are several, so that older files stay as they are."""
        data = dataclasses.asdict(self)
        if self.slots == 1:
            del data["slots"]
        return data


def refuse_too_many(groups: Sequence[NodeGroup]) -> None:
    """Refuse more than MOST_GPUS, before anything is laid out for them.

    Raises
    ------
    ClusterError : with the number
    """
    gpus = sum(group.count * group.gpus for group in groups)
    if gpus > MOST_GPUS:
        raise ClusterError(f"cluster has {gpus:,} GPUs: give at most {MOST_GPUS:,} in all")


class Cluster:
    """A cluster compiled to arrays.

    Parameters
    ----------
    groups : node groups, in node order; racks never hold nodes of two groups

    Attributes
    ----------
    nodes : NODE_DTYPE [N]
    racks : RACK_DTYPE [K]
    slots : int32 [N], slots of each node
    gpu_types : names of the GPU types, in order of first use

    Raises
    ------
    ClusterError : no group, a group with an impossible field, or more than MOST_GPUS
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

    @classmethod
    def homogeneous(
        cls, nodes: int, gpus_per_node: int, nodes_per_rack: int | None = None, gpu_type: str = "V100"
    ) -> Cluster:
        """Build ``nodes`` equal nodes; ``nodes_per_rack=None`` puts them all into one rack."""
        return cls([NodeGroup(nodes, gpus_per_node, gpu_type, nodes_per_rack)])

    @classmethod
    def parse(cls, text: str) -> Cluster:
        """Read ``NODESxGPUS``, with ``sSLOTS``, ``/NODES_PER_RACK``, ``@GPU_TYPE`` if wanted; commas between kinds.

        Examples: ``310x8/31``, ``16x4@T4,4x8/2@A100``, or ``32x8s2/8`` where the eight GPUs of a node stand in two
        slots of four. Without a GPU type they are V100.
        """
        groups = []
        for part in text.split(","):
            match = re.fullmatch(r"(\d+)x(\d+)(?:s(\d+))?(?:/(\d+))?(?:@([^@/]+))?", part.strip())
            if match is None:
                raise ClusterError(
                    f"cluster {text!r}: write NODESxGPUS, NODESxGPUS/NODES_PER_RACK or NODESxGPUS@GPU_TYPE, and "
                    "several kinds of nodes with commas; for example 16x8/4, or 16x4@T4,4x8@A100; 16x8s2 has nodes of "
                    "two slots"
                )
            nodes, gpus, slots, per_rack, gpu_type = match.groups()
            racks = int(per_rack) if per_rack else None
            groups.append(NodeGroup(int(nodes), int(gpus), gpu_type or "V100", racks, int(slots or 1)))
        return cls(groups)

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return int(self.nodes["gpus"].sum())

    @property
    def slot_gpus(self) -> np.ndarray:
        """int32 [N]: GPUs in a slot of each node; all of them where the node has one slot."""
        sizes: np.ndarray = self.nodes["gpus"] // self.slots
        return sizes

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers of a placement, by their numbers."""
        return TIERS_WITH_SLOTS if (self.slots > 1).any() else TIERS

    @property
    def node_of_gpu(self) -> np.ndarray:
        """int32 [G]: node index of each GPU."""
        return np.repeat(np.arange(len(self.nodes), dtype=np.int32), self.nodes["gpus"])

    def tightest_tier(self, gang: np.ndarray | int) -> np.ndarray:
        """int32, shape of ``gang``: the tightest tier that can hold a gang of so many GPUs on the empty cluster."""
        size = np.asarray(gang)
        tier = np.where(
            size <= self.nodes["gpus"].max(), MACHINE, np.where(size <= self.racks["gpus"].max(), RACK, NETWORK)
        )
        in_slots = self.slot_gpus[self.slots > 1]
        return np.where(size <= in_slots.max(initial=0), SLOT, tier).astype(np.int32)

    def used_parts(self, gpus: np.ndarray, first: np.ndarray) -> np.ndarray:
        """int64 [3, P]: racks, machines and slots that each of P placements uses.

        Parameters
        ----------
        gpus : GPU ids of all placements, one after the other
        first : int [P], ascending: where each placement begins in ``gpus``; none is empty
        """
        placement = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(gpus))))
        parts = self._parts(gpus)
        most = MOST_SLOTS * len(self.nodes)  # more than any part's number
        counts = [np.bincount(np.unique(placement * most + part) // most, minlength=len(first)) for part in parts]
        return np.stack(counts).astype(np.int64)

    def tier_of(self, gpus: np.ndarray, first: np.ndarray) -> np.ndarray:
        """int32 [P]: tier of each placement; parameters as for :meth:`used_parts`."""
        rack, node, slot = (
            np.minimum.reduceat(part, first) == np.maximum.reduceat(part, first) for part in self._parts(gpus)
        )
        slotted = self.slots[self.node_of_gpu[gpus[first]]] > 1
        tier = np.where(slot & slotted, SLOT, np.where(node, MACHINE, np.where(rack, RACK, NETWORK)))
        return tier.astype(np.int32)

    def _parts(self, gpus: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of the rack, the machine and the slot of each GPU, unique in the cluster."""
        node = self.node_of_gpu[gpus].astype(np.int64)
        slot = (gpus - self.nodes["first_gpu"][node]) // self.slot_gpus[node]
        return self.nodes["rack"][node], node, MOST_SLOTS * node + slot

    def describe(self) -> str:
        """Say in one line what stands in the room."""
        parts = [
            f"{g.count} nodes x {g.gpus} {g.gpu_type}" + (f" in {g.slots} slots" if g.slots > 1 else "")
            for g in self.groups
        ]
        return f"{self.gpus} GPUs: {', '.join(parts)} in {len(self.racks)} racks"
