"""Slurm's configuration, and what its commands print, with pseudonyms; what no reader needs is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.pseudonyms.names import KEPT_ROLES, Pseudonyms
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import UNLIMITED, UNTOLD
from gpusched_env.traces.slurm_files.gres import NO_GRES
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.json_tables import is_json
from gpusched_env.traces.slurm_files.kinds import DEFAULT, table_rows
from gpusched_env.traces.slurm_files.lines import Pairs, logical_lines, pairs_of, shown_records
from tools.pseudonyms.words import LISTED, entries, fits

# Key whose value is kept if it has the form of its kind -> the kind, one of PATTERNS, or of a role of KEEP
KEPT: Final = {
    **dict.fromkeys(("cpus", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"), "number"),
    **dict.fromkeys(("realmemory", "weight", "prioritytier", "priority", "priorityjobfactor"), "number"),
    **dict.fromkeys(("maxnodes", "minnodes", "cputot", "cpualloc", "totalnodes", "totalcpus", "linkspeed"), "number"),
    **dict.fromkeys(("priorityweightage", "priorityweightassoc", "priorityweightfairshare"), "number"),
    **dict.fromkeys(("priorityweightjobsize", "priorityweightpartition", "priorityweightqos"), "number"),
    **dict.fromkeys(("count", "maxarraysize"), "number"),
    "blocksizes": "counts",
    **dict.fromkeys(("maxtime", "defaulttime", "gracetime", "prioritymaxage", "prioritydecayhalflife"), "span"),
    "prioritycalcperiod": "span",
    **dict.fromkeys(("default", "priorityfavorsmall"), "switch"),
    **dict.fromkeys(("schedulertype", "selecttype", "prioritytype", "preempttype"), "plugin"),
    **dict.fromkeys(("schedulerparameters", "preemptparameters"), "parameter"),
    **dict.fromkeys(("cfgtres", "alloctres", "tres", "tresbillingweights", "accountingstoragetres"), "resource"),
    **dict.fromkeys(("priorityweighttres", "grestypes"), "resource"),
    **dict.fromkeys(("partitionname", "alternate"), "partition"),
    **dict.fromkeys(("allowqos", "denyqos", "qos"), "qos"),
    "preemptmode": "preempt",
    "oversubscribe": "share",
    "name": "gpus",
    "type": "type",
    "autodetect": "detection",
    "selecttypeparameters": "select",
    "priorityflags": "flag",
    "priorityusageresetperiod": "period",
    "state": "state",
    "gres": "gpu",
}
# Key whose value is a list of names -> their role
LISTS: Final = {
    **dict.fromkeys(("nodename", "nodes", "downnodes", "nodelist"), "node"),
    **dict.fromkeys(("switchname", "switches", "blockname"), "switch"),
    **dict.fromkeys(("feature", "features", "availablefeatures", "activefeatures", "avail_features"), "feature"),
    **dict.fromkeys(("allowaccounts", "denyaccounts"), "account"),
    **dict.fromkeys(("allowgroups", "denygroups"), "group"),
    "nodeset": "nodeset",
    "clustername": "cluster",
}
WORDS: Final = frozenset({"ALL", "NONE", "(NULL)", "N/A", "", DEFAULT})  # values that name nothing
FILES: Final = ("file", "multiplefiles")
COLUMNS: Final = {  # of sinfo, kept -> kind
    "partition": "partition", "avail": "available", "timelimit": "span", "nodes": "counts",
    **dict.fromkeys(("state", "statecompact", "statelong"), "state"),
}  # fmt: skip
_PLAIN: Final = re.compile(r"[0-9TZ:. +-]*", re.ASCII)  # numbers, times and lengths of time


class Rewriter:
    """Lines of Slurm's files with pseudonyms; ``lost`` are the names of keys and columns that were left out."""

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.lost: dict[str, None] = {}
        self.sets: set[str] = set()

    def lines(self, kind: str, path: Path) -> Iterator[str]:
        """Yield the lines of a file of this kind, one of KINDS of the readers."""
        writers: dict[str, Callable[[Path], Iterator[str]]] = {
            "sinfo": self._table,
            "scontrol show": self._shown,
            "gres.conf": self._gres,
        }
        return writers.get(kind, self._configuration)(path)

    def _configuration(self, path: Path) -> Iterator[str]:
        lines = [(place, pairs_of(place, line)) for place, line in logical_lines(path)]
        self.sets = {pairs["nodeset"] for _, pairs in lines if "nodeset" in pairs}
        for place, pairs in lines:
            if line := self._line(place, pairs):
                yield line

    def _gres(self, path: Path) -> Iterator[str]:
        for place, line in logical_lines(path):
            pairs = pairs_of(place, line)
            if "autodetect" in pairs or pairs.get("name", "").lower() == "gpu":
                yield self._line(place, pairs)
            else:
                self.lost |= dict.fromkeys([f"lines of {pairs.get('name', 'other resources')!r}"[:40]])

    def _shown(self, path: Path) -> Iterator[str]:
        for place, pairs in shown_records(path):
            yield self._line(place, pairs)

    def _table(self, path: Path) -> Iterator[str]:
        header: list[str] = []
        for place, row in table_rows(path):
            if not header:
                header = [name for name in row if name in COLUMNS or name == "gres" or name in LISTS]
                self.lost |= dict.fromkeys(name for name in row if name not in header)
                yield "|".join(name.upper() for name in header) + "\n"
            told = (self._value(place, name, row[name], COLUMNS.get(name, "")) or "" for name in header)
            yield "|".join(told) + "\n"

    def _line(self, place: Place, pairs: Pairs) -> str:
        """Return a line of pairs; "" = none of them is kept."""
        told = []
        for key, value in pairs.items():
            text = self._value(place, key, value) if key in KEPT or key in LISTS or key in FILES else None
            if text is not None:
                told.append(f'{key}="{text}"' if re.search(r"\s", text) else f"{key}={text}")
            else:
                self.lost[key] = None
        return " ".join(told) + "\n" if told else ""

    def _value(self, place: Place, key: str, value: str, kind: str = "") -> str | None:
        """Return a value without names; None = it has not the form of its kind, and is left out."""
        if key in LISTS and not kind:
            return self._list(place, key, value)
        if key in FILES:  # only their number counts
            last = len(names_in(place, "File", value)) - 1
            return "/dev/nvidia0" if last < 1 else f"/dev/nvidia[0-{last}]"
        kind = kind or KEPT.get(key, "gpu")
        if kind == "gpu":
            return gpu_entries(value, self.names)
        if kind == "state":
            value = value.partition(" ")[0]
        elif kind in KEPT_ROLES:
            return self.names.keep(kind, value) if value.upper() not in WORDS else value
        if kind in LISTED and value.upper() not in WORDS:
            found = entries(kind, value)
            return ",".join(map(self.names.typed, found) if kind == "resource" else found)
        if fits(kind, value) or value.upper() in WORDS:
            return value
        self.names.drop(key)
        return None

    def _list(self, place: Place, key: str, value: str) -> str:
        """Return a list of names as pseudonyms; those of nodes, switches and sets may be written with brackets."""
        if value.upper() in WORDS:
            return value
        role = LISTS[key]
        brackets = role in ("node", "switch") and key != "blockname"
        found = names_in(place, key, value) if brackets else [one.strip() for one in value.split(",")]
        return ",".join(self._name(role, one) for one in found)

    def _name(self, role: str, one: str) -> str:
        if one.upper() in WORDS:
            return one
        return self.names.name("nodeset" if role == "node" and one in self.sets else role, one)


def gpu_entries(text: str, names: Pseudonyms) -> str:
    """Return the entries of Gres that are GPUs; other resources may have names of the site."""
    return text if text.lower() in NO_GRES else ",".join(map(names.typed, entries("gpu", text))) or "(null)"


def refuse_json(path: Path) -> None:
    """Refuse what a command prints with ``--json``."""
    if is_json(path):
        raise TraceError(f"{path}: JSON of Slurm gets no pseudonyms; give the table of text, without --json")


def plain(place: Place, field: str, text: str) -> str:
    """Return a number, a time, a length of time, or Slurm's word for an unknown one."""
    if not (_PLAIN.fullmatch(text) or text in UNTOLD or text.upper() in UNLIMITED):
        place.refuse(field, text, "a text of another form, which could be a name; correct or remove the row")
    return text


def known_resources(text: str, names: Pseudonyms) -> str:
    """Return the entries, with numbers, of resources that every site has; licences, for example, are left out."""
    return ",".join(map(names.typed, entries("resource", text)))


def told_word(names: Pseudonyms, kind: str, key: str, text: str) -> str:
    """Return a text that has the form of its kind, else "", which is counted."""
    if text in UNTOLD or fits(kind, text):
        return text
    names.drop(key)
    return ""
