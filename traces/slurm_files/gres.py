"""The GPUs of a node: ``Gres`` of slurm.conf and of the commands, and the lines of gres.conf."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from gpusched_env.problem.cluster import MOST_GPUS
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import SLICE
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.lines import Pairs

# GPU type, "" = not told -> number of GPUs
GpuCounts = dict[str, int]

NO_GRES: Final = frozenset({"", "(null)", "none", "n/a"})
_SOCKETS: Final = re.compile(r"\([^()]*\)")  # gpu:h100:8(S:0-1)
_ENTRY: Final = re.compile(
    r"(?:gres[:/])?gpu(?::(?!\d+[kmgKMG]?$)([^:=]+))?(?::no_consume)?(?:[:=](\d{1,9})([kmg]?))?", re.I
)
_UNIT: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def gpus_of(place: Place, field: str, text: str) -> GpuCounts:
    """Return the GPUs of ``gpu:h100:4,gpu:a100:4``; entries of other kinds are left out."""
    found = _gpus_of(text)
    if isinstance(found, str):
        place.refuse(field, found, f"expected gpu:TYPE:NUMBER with at most {MOST_GPUS:,} GPUs; correct it")
    return dict(found)


@lru_cache(1 << 10)
def _gpus_of(text: str) -> tuple[tuple[str, int], ...] | str:
    """Return GPU types and numbers, or the entry that is malformed."""
    counts: GpuCounts = {}
    if text.lower() in NO_GRES:
        return ()
    for entry in map(str.strip, _SOCKETS.sub("", text).split(",")):
        if re.match(r"(?:gres[:/])?gpu(?:[:=]|$)", entry, re.I) is None:
            continue
        found = _ENTRY.fullmatch(entry)
        if found is None:
            return entry
        name = (found[1] or "").strip()
        counts[name] = counts.get(name, 0) + int(found[2] or 1) * _UNIT[(found[3] or "").lower()]
        if sum(counts.values()) > MOST_GPUS:
            return entry
    return tuple((name, count) for name, count in counts.items() if count)


def whole_gpus(counts: GpuCounts) -> GpuCounts:
    """Return the GPUs whose type is no slice of a GPU (MIG), such as ``1g.10gb`` or ``a100_1g.10gb``."""
    return {name: count for name, count in counts.items() if not SLICE.fullmatch(name)}


class GresConf:
    """The lines of gres.conf about GPUs, by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Counter[str]] = {}
        self.everywhere: Counter[str] = Counter()  # lines without NodeName

    def read(self, place: Place, pairs: Pairs) -> None:
        """Add one line; the number of GPUs is Count, else the number of device files, else 1."""
        if pairs.get("name", "").lower() != "gpu":
            return  # AutoDetect, or another resource
        files = pairs.get("file", pairs.get("multiplefiles", ""))
        count = len(names_in(place, "File", files)) or 1
        if "count" in pairs:
            count = sum(gpus_of(place, "Count", f"gpu:{pairs['count']}").values())
        if count > MOST_GPUS:
            place.refuse("File", files, f"more than {MOST_GPUS:,} GPUs; correct it")
        kind = pairs.get("type", "")
        if "nodename" not in pairs:
            self.everywhere[kind] += count
        for name in names_in(place, "NodeName", pairs.get("nodename", "")):
            self.nodes.setdefault(name, Counter())[kind] += count

    def of(self, node: str) -> GpuCounts:
        """Return the GPUs of a node; empty = gres.conf does not tell them."""
        return dict(self.nodes.get(node, self.everywhere))
