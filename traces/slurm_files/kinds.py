"""Read each kind of Slurm's files into the facts: configuration files, records of scontrol, tables of sinfo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import text_lines
from gpusched_env.traces.slurm_files.facts import DEFAULT, Facts
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.lines import Pairs, logical_lines, pairs_of, shown_records

HEAD: Final = 400  # lines from which the kind of a file is recognised
SINFO: Final = 'sinfo -o "%P|%a|%l|%D|%t|%N|%G"'
_KEY: Final = re.compile(r"(?:^|\s)(\w+)\s*=", re.ASCII)
_STATE: Final = ("statecompact", "statelong")  # other names of sinfo's column STATE


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
        name = pairs.get("switchname", pairs.get("blockname", ""))
        for node in names_in(place, "Nodes", pairs.get("nodes", "")) if name.upper() != DEFAULT else ():
            if facts.switches.setdefault(node, name) != name:
                place.refuse("Nodes", node, f"this node is on {facts.switches[node]} too; correct one of the two lines")


def read_shown(path: Path, facts: Facts) -> None:
    """Read the records of ``scontrol show node`` and ``scontrol show partition``."""
    for place, pairs in shown_records(path):
        if "nodename" in pairs:
            facts.add_nodes(place, pairs, configured=False)
        else:
            facts.add_partition(place, pairs)


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
    "sinfo": read_sinfo,
    "scontrol show": read_shown,
}


def kind_of(path: Path) -> str:
    """Return which of KINDS a file is, by its first lines."""
    with open_trace(path) as stream:
        told = (line for line in text_lines(path, stream) if line.strip() and not line.lstrip().startswith("#"))
        head = list(islice(told, HEAD))
    keys = {key.lower() for line in head for key in _KEY.findall(line)}
    if any(map(is_header, head[:2])):
        return "sinfo"
    if keys & {"cfgtres", "cputot", "cpualloc", "totalnodes"}:
        return "scontrol show"
    if keys & {"switchname", "blockname"}:
        return "topology.conf"
    if "partitionname" not in keys and keys & {"name", "autodetect"}:
        return "gres.conf"
    if keys:
        return "slurm.conf"
    raise TraceError(
        f"{path}: not a file of Slurm that describes a cluster; expected slurm.conf, gres.conf, topology.conf, the "
        f"output of scontrol show node, or that of {SINFO}"
    )
