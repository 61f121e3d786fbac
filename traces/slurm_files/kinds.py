"""What Slurm's files say of nodes and partitions, and the reader of each kind: configuration, scontrol, sinfo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.json_records import json_members, json_objects
from gpusched_env.traces.parsing.streams import text_lines
from gpusched_env.traces.slurm_files.gres import NO_GRES, GpuCounts, GresConf, gpus_of
from gpusched_env.traces.slurm_files.hostlists import MOST_NAMES, names_in
from gpusched_env.traces.slurm_files.json_tables import NODE, PARTITION, row_of, told
from gpusched_env.traces.slurm_files.lines import INCLUDE, Pairs, logical_lines, pairs_of, shown_records

HEAD: Final = 400  # lines from which the kind of a file is recognised
SINFO: Final = 'sinfo -o "%P|%a|%l|%D|%t|%N|%G"'
_KEY: Final = re.compile(r"(?:^|\s)(\w+)\s*=", re.ASCII)
_TOPOLOGY: Final = re.compile(r"---|-\s+(?:topology|cluster_default)\s*:")
_STATE: Final = ("statecompact", "statelong")  # other names of sinfo's column STATE
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

    def add_switch(self, place: Place, name: str, nodes: str) -> None:
        """Add the nodes of a leaf switch or block, which is their rack."""
        for node in names_in(place, "Nodes", nodes) if name.upper() != DEFAULT else ():
            if self.switches.setdefault(node, name) != name:
                place.refuse("Nodes", node, f"this node is on {self.switches[node]} too; correct one of the two lines")

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


def read_configuration(path: Path, facts: Facts) -> None:
    """Read slurm.conf; lines of the node or partition DEFAULT change the defaults of the lines after them."""
    defaults: dict[str, Pairs] = {"nodename": {}, "partitionname": {}}
    partitions: set[str] = set()
    for place, line in logical_lines(path):
        pairs = pairs_of(place, line)
        kind = next(iter(pairs))
        if kind in defaults:
            if pairs[kind].upper() == DEFAULT:
                defaults[kind] |= {key: value for key, value in pairs.items() if key != kind}
                continue
            whole = defaults[kind] | pairs
            if kind == "nodename":
                facts.add_nodes(place, whole, configured=True)
                continue
            for name in whole[kind].split(","):
                if not name or name in partitions:
                    place.refuse("PartitionName", name, "no name, or one that occurs twice; correct it")
                partitions.add(name)
            facts.add_partition(place, whole)
        elif kind == "nodeset":
            facts.sets[pairs[kind]] = pairs
        elif kind == "downnodes":
            for node in facts.named(place, "DownNodes", names_in(place, "DownNodes", pairs[kind])):
                node.state = pairs.get("state", "DOWN")
        else:
            facts.settings |= {key: (place, value) for key, value in pairs.items()}


def read_gres(path: Path, facts: Facts) -> None:
    """Read gres.conf."""
    for place, line in logical_lines(path):
        facts.gres.read(place, pairs_of(place, line))


def read_topology(path: Path, facts: Facts) -> None:
    """Read topology.conf: a switch or block that names nodes is the rack of these nodes."""
    for place, line in logical_lines(path):
        pairs = pairs_of(place, line)
        facts.add_switch(place, pairs.get("switchname", pairs.get("blockname", "")), pairs.get("nodes", ""))


def read_topology_yaml(path: Path, facts: Facts) -> None:
    """Read topology.yaml: of its topologies, the first with ``cluster_default``, else the first."""
    found = list(json_objects(path))
    place, chosen = next((one for one in found if told(one[1], "cluster_default") == "True"), found[0])
    for kind, several, name in (("tree", "switches", "switch"), ("block", "blocks", "block")):
        table = chosen.get(kind) if isinstance(chosen, dict) else None
        parts = table.get(several) if isinstance(table, dict) else [] if table is None else None
        if not isinstance(parts, list):
            place.refuse(kind, table, f"expected {several} with the keys {name} and nodes; correct it")
        for part in parts:
            told_nodes = part.get("nodes") if isinstance(part, dict) else part
            if not isinstance(part, dict) or isinstance(told_nodes, list | dict) or not told(part, name):
                remedy = f"expected {name}: NAME and nodes: LIST, a text such as n[1-4]; correct it"
                place.refuse(several, part, remedy)
            facts.add_switch(place, told(part, name), told(part, "nodes"))


def read_shown(path: Path, facts: Facts) -> None:
    """Read the records of ``scontrol show node`` and ``scontrol show partition``."""
    for place, pairs in shown_records(path):
        if "nodename" in pairs:
            facts.add_nodes(place, pairs, configured=False)
        else:
            facts.add_partition(place, pairs)


def read_shown_json(path: Path, facts: Facts) -> None:
    """Read ``scontrol show node --json`` and ``scontrol show partition --json``."""
    for place, record in json_members(path, ("nodes", "partitions")):
        if not told(record, "name"):
            place.refuse("name", told(record, "name"), "expected a node or partition with a name; write the file again")
        if isinstance(record.get("nodes"), dict):
            facts.add_partition(place, {key: text for key, text in row_of(record, PARTITION).items() if text})
            continue
        row = row_of(record, NODE)
        row["state"] = "+".join(filter(None, (row["state"], row.pop("flags"))))
        facts.add_nodes(place, {key: text for key, text in row.items() if text}, configured=False)


def read_sinfo(path: Path, facts: Facts) -> None:
    """Read a table of sinfo with a header; a node is repeated for each of its partitions, and counts once."""
    for place, row in table_rows(path):
        facts.add_row(place, row)


def table_rows(path: Path) -> Iterator[tuple[Place, Pairs]]:
    """Yield the place and the fields of each row of a table of sinfo, by its columns in lower case."""
    rows = _table_lines(path)
    _, header = next(rows)
    bar = "|" if "|" in header else None
    columns = [name.strip().lower() for name in header.split(bar)]
    columns = ["state" if name in _STATE else name for name in columns]
    for place, line in rows:
        fields = [text.strip() for text in line.split(bar, -1 if bar else len(columns) - 1)]
        row = dict(zip(columns, fields, strict=False))
        if len(fields) == len(columns) - 1 and row.get("nodes") == "0" and columns[-1] == "nodelist":
            fields.append("")  # a partition without nodes
            row["nodelist"] = ""
        if len(fields) != len(columns):
            found = f"{len(fields)} fields where the header has {len(columns)}"
            place.refuse("line", line, f"{found}; correct or remove the row, or export {SINFO}")
        yield place, row


def _table_lines(path: Path) -> Iterator[tuple[Place, str]]:
    """Yield the header of a table and the lines after it; ``sinfo -l`` writes a date above the header."""
    with open_trace(path) as stream:
        begun = False
        for number, line in enumerate(text_lines(path, stream), 1):
            begun = begun or is_header(line)
            if begun and line.strip():
                yield Place(str(path), number), line.strip()


def is_header(line: str) -> bool:
    """Whether a line is the header of a table of sinfo."""
    words = {word.strip() for word in line.lower().replace("|", " ").split()}
    return "nodelist" in words and bool(words & {"partition", "state", "gres", *_STATE})


# Kind of a file -> reader, in the order in which the files of a cluster are read
KINDS: Final[dict[str, Callable[[Path, Facts], None]]] = {
    "slurm.conf": read_configuration,
    "gres.conf": read_gres,
    "topology.conf": read_topology,
    "topology.yaml": read_topology_yaml,
    "sinfo": read_sinfo,
    "scontrol show": read_shown,
    "scontrol show --json": read_shown_json,
}


def kind_of(path: Path) -> str:
    """Return which of KINDS a file is, by its first lines."""
    with open_trace(path) as stream:
        told = (line for line in text_lines(path, stream) if line.strip() and not line.lstrip().startswith("#"))
        head = list(islice(told, HEAD))
    keys = {key.lower() for line in head for key in _KEY.findall(line)}
    if head and head[0].lstrip().startswith("{"):
        return "scontrol show --json"
    if head and _TOPOLOGY.match(head[0]):
        return "topology.yaml"
    if any(map(is_header, head[:2])):
        return "sinfo"
    if keys & {"cfgtres", "cputot", "cpualloc", "totalnodes"}:
        return "scontrol show"
    if keys & {"switchname", "blockname"}:
        return "topology.conf"
    if "partitionname" not in keys and keys & {"name", "autodetect"}:
        return "gres.conf"
    if keys or any(map(INCLUDE.match, head)):
        return "slurm.conf"
    raise TraceError(
        f"{path}: not a file of Slurm that describes a cluster; expected slurm.conf, gres.conf, topology.conf, "
        f"topology.yaml, the output of scontrol show node, or that of {SINFO}"
    )
