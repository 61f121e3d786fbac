"""The machines: nodes in racks, GPUs in nodes, one GPU type a node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.errors import ClusterError

# How far a gang's GPUs are apart. The order is the order of preference.
TIERS: Final = ("machine", "rack", "network")
MACHINE, RACK, NETWORK = range(len(TIERS))

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
    """

    count: int
    gpus: int
    gpu_type: str = "V100"
    nodes_per_rack: int | None = None

    def __post_init__(self) -> None:
        """Refuse groups that no machine room holds."""
        for field in ("count", "gpus", "nodes_per_rack"):
            value = getattr(self, field)
            if value is None and field == "nodes_per_rack":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ClusterError(f"cluster.{field} is {value!r}: it must be a whole number of at least 1")
        if not isinstance(self.gpu_type, str) or not self.gpu_type:
            raise ClusterError(f"cluster.gpu_type is {self.gpu_type!r}: it must be a name such as 'V100'")


class Cluster:
    """A cluster compiled to arrays.

    Parameters
    ----------
    groups : node groups, in node order; racks never hold nodes of two groups

    Attributes
    ----------
    nodes : NODE_DTYPE [N]
    racks : RACK_DTYPE [K]
    gpu_types : names of the GPU types, in order of first use

    Raises
    ------
    ClusterError : no group, or a group with an impossible field
    """

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        if not groups:
            raise ClusterError("cluster.groups is empty: give at least one node group")
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
        """Read ``NODESxGPUS``, with ``/NODES_PER_RACK`` or ``@GPU_TYPE`` if wanted; commas between kinds of nodes.

        Examples: ``310x8/31``, or ``16x4@T4,4x8/2@A100``. Without a GPU type they are V100.
        """
        groups = []
        for part in text.split(","):
            match = re.fullmatch(r"(\d+)x(\d+)(?:/(\d+))?(?:@([^@/]+))?", part.strip())
            if match is None:
                raise ClusterError(
                    f"cluster {text!r}: write NODESxGPUS, NODESxGPUS/NODES_PER_RACK or NODESxGPUS@GPU_TYPE, and "
                    "several kinds of nodes with commas; for example 16x8/4, or 16x4@T4,4x8@A100"
                )
            nodes, gpus, per_rack, gpu_type = match.groups()
            groups.append(NodeGroup(int(nodes), int(gpus), gpu_type or "V100", int(per_rack) if per_rack else None))
        return cls(groups)

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return int(self.nodes["gpus"].sum())

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
        return tier.astype(np.int32)

    def describe(self) -> str:
        """Say in one line what stands in the room."""
        parts = [f"{g.count} nodes x {g.gpus} {g.gpu_type}" for g in self.groups]
        return f"{self.gpus} GPUs: {', '.join(parts)} in {len(self.racks)} racks"
