"""What several files of Slurm say of the same nodes and partitions, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.slurm_files.gres import NO_GRES, GpuCounts, GresConf, gpus_of
from gpusched_env.traces.slurm_files.hostlists import MOST_NAMES, names_in
from gpusched_env.traces.slurm_files.lines import Pairs

DEFAULT: Final = "DEFAULT"  # name of a node, partition or switch whose line sets the defaults of later lines


@dataclass
class NodeFacts:
    """What the files say of one node; see SlurmNode. ``gpus`` is None if no file tells them."""

    gpus: GpuCounts | None = None
    state: str = ""
    features: tuple[str, ...] = ()
    weight: int = 1


@dataclass
class PartitionFacts:
    """The keys of a partition in lower case, and the names of its nodes that a table of sinfo lists."""

    place: Place
    pairs: Pairs = field(default_factory=dict)
    listed: dict[str, None] = field(default_factory=dict)


class Facts:
    """What the files say. The order of nodes and partitions is that in which they are first named."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.configured: dict[str, Place] = {}  # nodes of slurm.conf -> their lines
        self.partitions: dict[str, PartitionFacts] = {}
        self.sets: dict[str, Pairs] = {}
        self.switches: dict[str, str] = {}  # node -> leaf switch or block
        self.gres = GresConf()
        self.settings: dict[str, tuple[Place, str]] = {}

    def named(self, place: Place, field: str, names: Iterable[str]) -> list[NodeFacts]:
        """Return the facts of these nodes, which may be new."""
        found = [self.nodes.setdefault(name, NodeFacts()) for name in names]
        if len(self.nodes) > MOST_NAMES:
            place.refuse(field, len(self.nodes), f"more than {MOST_NAMES:,} nodes in all; correct it")
        return found

    def add_nodes(self, place: Place, pairs: Pairs, *, configured: bool) -> None:
        """Add what a line of slurm.conf (``configured``) or a record of scontrol says of its nodes."""
        names = names_in(place, "NodeName", pairs["nodename"])
        for name in names if configured else ():
            earlier = self.configured.setdefault(name, place)
            if earlier is not place:
                place.refuse("NodeName", name, f"this node occurs twice, first in line {earlier.number}; remove one")
        gpus = gpus_of(place, "Gres", pairs["gres"]) if "gres" in pairs else None
        if gpus is None and not configured:
            gpus = gpus_of(place, "CfgTRES", pairs.get("cfgtres", "")) or None
        features = pairs.get("feature", pairs.get("features", pairs.get("availablefeatures", "")))
        weight = place.whole("Weight", pairs.get("weight", "1"), "weight")
        for node in self.named(place, "NodeName", names):
            self._tell(node, gpus, pairs.get("state", ""), features)
            node.weight = weight if "weight" in pairs else node.weight

    def _tell(self, node: NodeFacts, gpus: GpuCounts | None, state: str, features: str) -> None:
        """Add facts: the first file that tells the GPUs counts, and the last one that tells the state."""
        if gpus is not None and node.gpus is None:
            node.gpus = gpus
        node.state = state.partition(" ")[0] or node.state
        if features.lower() not in NO_GRES:
            node.features = node.features or tuple(features.split(","))

    def add_row(self, place: Place, row: Pairs) -> None:
        """Add a row of a table of sinfo, with its columns in lower case as keys."""
        names = names_in(place, "NODELIST", row["nodelist"])
        gpus = gpus_of(place, "GRES", row["gres"]) if "gres" in row else None
        for node in self.named(place, "NODELIST", names):
            self._tell(node, gpus, row.get("state", ""), row.get("avail_features", ""))
        title = row.get("partition", "")
        name = title.removesuffix("*")
        if not name:
            return
        told = {"partitionname": name, "default": "YES" if title.endswith("*") else "NO"}
        told |= {"maxtime": row["timelimit"]} if "timelimit" in row else {}
        told |= {"state": row["avail"]} if "avail" in row else {}
        partition = self.partitions.setdefault(name, PartitionFacts(place, told))
        partition.listed |= dict.fromkeys(names)

    def add_partition(self, place: Place, pairs: Pairs) -> None:
        """Add the keys of a partition; names may be separated by commas, as in PartitionName=a,b."""
        for name in pairs["partitionname"].split(","):
            partition = self.partitions.setdefault(name, PartitionFacts(place))
            partition.place = place
            partition.pairs |= pairs | {"partitionname": name}

    def nodes_of(self, partition: PartitionFacts) -> tuple[str, ...]:
        """Return the names of the nodes of a partition."""
        told = partition.pairs.get("nodes", "")
        if told.lower() in NO_GRES:
            return tuple(partition.listed)
        return self._expanded(partition.place, told, self.sets)

    def _expanded(self, place: Place, text: str, sets: dict[str, Pairs]) -> tuple[str, ...]:
        """Return the nodes of a list that may name ALL and sets of nodes; a set is not looked for in a set."""
        names: dict[str, None] = {}
        for name in names_in(place, "Nodes", text):
            if name.upper() == "ALL":
                names |= dict.fromkeys(self.nodes)
            elif name in sets:
                one = sets[name]
                names |= dict.fromkeys(self._expanded(place, one.get("nodes", ""), {}))
                if "feature" in one:
                    names |= {node: None for node, told in self.nodes.items() if one["feature"] in told.features}
            else:
                names[name] = None
        return tuple(names)
