"""Slurm's configuration, and what its commands print, with pseudonyms; what no reader needs is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import UNLIMITED, UNTOLD
from gpusched_env.traces.pseudonyms.names import Pseudonyms
from gpusched_env.traces.slurm_files.facts import DEFAULT
from gpusched_env.traces.slurm_files.gres import NO_GRES
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.kinds import table_rows
from gpusched_env.traces.slurm_files.lines import Pairs, logical_lines, pairs_of, shown_records

# Keys whose values are kept: numbers, words of Slurm, partitions and QOS
KEPT: Final = frozenset(
    {
        *("cpus", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "realmemory", "weight"),
        *("partitionname", "default", "maxtime", "defaulttime", "prioritytier", "priority", "priorityjobfactor"),
        *("preemptmode", "gracetime", "maxnodes", "minnodes", "tresbillingweights", "allowqos", "denyqos", "qos"),
        *(
            "oversubscribe",
            "alternate",
            "cputot",
            "cpualloc",
            "totalnodes",
            "totalcpus",
            "cfgtres",
            "alloctres",
            "tres",
        ),
        *("linkspeed", "blocksizes", "name", "type", "count", "autodetect"),
        *("accountingstoragetres", "schedulertype", "schedulerparameters", "selecttype", "selecttypeparameters"),
        *("prioritytype", "priorityflags", "priorityfavorsmall", "prioritymaxage", "prioritydecayhalflife"),
        *("prioritycalcperiod", "priorityusageresetperiod", "priorityweightage", "priorityweightassoc"),
        *("priorityweightfairshare", "priorityweightjobsize", "priorityweightpartition", "priorityweightqos"),
        *("priorityweighttres", "preempttype", "preemptparameters", "maxarraysize", "grestypes"),
    }
)
RESOURCES: Final = frozenset({"cfgtres", "alloctres", "tres", "tresbillingweights", "accountingstoragetres"}) | {
    "priorityweighttres",
    "grestypes",
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
COLUMNS: Final = ("partition", "avail", "timelimit", "nodes", "state", "statecompact", "statelong")  # of sinfo, kept
_PLAIN: Final = re.compile(r"[0-9TZ:. +-]*", re.ASCII)  # numbers, times and lengths of time
_GPU: Final = re.compile(r"(?:gres[:/])?gpu(?:[:=(]|$)", re.I)
_RESOURCE: Final = re.compile(
    r"\s*(?:cpu|mem|node|billing|energy|pages|vmem|gpu|gres/(?:gpu|mps|shard)(?::[^=]*)?)\s*"
    r"(?:=\s*[0-9.-]*[kmgtpe]?[nc]?\s*)?",
    re.I,
)  # a number with the unit of an amount, such as 4Gn, follows


class Rewriter:
    """Lines of Slurm's files with pseudonyms.

    Attributes
    ----------
    lost : names of keys and columns that were left out
    """

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.lost: dict[str, None] = {}
        self.sets: set[str] = set()

    def lines(self, kind: str, path: Path) -> Iterator[str]:
        """Yield the lines of a file of this kind, one of KINDS of the readers.

        Raises
        ------
        TraceError : a malformed line
        """
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
            told = (row[name] if name in COLUMNS else self._value(place, name, row[name]) for name in header)
            yield "|".join(told) + "\n"

    def _line(self, place: Place, pairs: Pairs) -> str:
        """Return a line of pairs; "" = none of them is kept."""
        told = []
        for key, value in pairs.items():
            if key in KEPT or key in LISTS or key in ("gres", "state") or key in FILES:
                text = self._value(place, key, value)
                told.append(f'{key}="{text}"' if re.search(r"\s", text) else f"{key}={text}")
            else:
                self.lost[key] = None
        return " ".join(told) + "\n" if told else ""

    def _value(self, place: Place, key: str, value: str) -> str:
        if key in LISTS:
            return self._list(place, key, value)
        if key == "gres":
            return gpu_entries(value)
        if key == "state":
            return value.partition(" ")[0]
        if key in FILES:  # only their number counts
            last = len(names_in(place, "File", value)) - 1
            return "/dev/nvidia0" if last < 1 else f"/dev/nvidia[0-{last}]"
        if key in RESOURCES:
            return known_resources(value)
        return value

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


def gpu_entries(text: str) -> str:
    """Return the entries of Gres that are GPUs; other resources may have names of the site."""
    if text.lower() in NO_GRES:
        return text
    return ",".join(entry for entry in re.split(r",(?![^()]*\))", text) if _GPU.match(entry.strip())) or "(null)"


def plain(place: Place, field: str, text: str) -> str:
    """Return a number, a time, a length of time, or Slurm's word for an unknown one.

    Raises
    ------
    TraceError : another text
    """
    if not (_PLAIN.fullmatch(text) or text in UNTOLD or text.upper() in UNLIMITED):
        place.refuse(field, text, "a text of another form, which could be a name; correct or remove the row")
    return text


def known_resources(text: str) -> str:
    """Return the entries, with numbers, of resources that every site has; licences, for example, are left out."""
    return ",".join(entry.strip() for entry in text.split(",") if _RESOURCE.fullmatch(entry))
