"""Fields of Slurm's tables and configuration: times, lengths of time, and amounts of GPUs (TRES and GRES)."""

from __future__ import annotations

import contextlib
import math
import re
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from gpusched_env.traces.parsing.clocks import LATEST_S, SECONDS, Times
from gpusched_env.traces.parsing.fields import MAX_WHOLE, Place

UNTOLD: Final = frozenset({"", "Unknown", "None", "N/A", "(null)", "INVALID"})  # texts of an unknown value
UNLIMITED: Final = frozenset({"UNLIMITED", "PARTITION_LIMIT", "NOT_SET", "INFINITE"})  # no limit of the job itself
SLICE: Final = re.compile(r"(.*[:_-])?((?:\d+c\.)?\d+g\.\d+gb(?:[.+-](?:me|gfx|all))*)", re.I)  # with a type
_NODES: Final = re.compile(r"(?:^|,)node=(\d{1,9})(?=,|$)", re.ASCII)
_SPAN: Final = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(\.\d{1,9})?", re.ASCII)


class Stamps(Times):
    """Reader of the times of one file."""

    def read(self, place: Place, field: str, text: str) -> float | None:
        """Return seconds since 1970, in UTC if the time tells its zone, else in local time; None if it is unknown."""
        if text in UNTOLD:
            return None
        value: datetime | None = None
        if len(text) >= 19 and text[4] == "-" and text[10] in "T ":
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(text)
        if value is not None:
            return self.since_1970(place, field, text, value)
        if not (text.isascii() and text.isdigit() and len(text) < 19 and float(text) <= LATEST_S):
            remedy = (
                "expected a time as YYYY-MM-DDTHH:MM:SS, or seconds since 1970; correct or remove the row, or export "
                "with SLURM_TIME_FORMAT=%s"
            )
            place.refuse(field, text, remedy)
        self.check_kind(place, field, text, SECONDS)
        return float(text)


def span_s(place: Place, field: str, text: str) -> float | None:
    """Read a length of time [s], such as ``M``, ``H:M:S`` or ``D-H:M:S.s``; None if it is unknown or not limited."""
    if text in UNTOLD or text.upper() in UNLIMITED:
        return None
    seconds = _span_s(text)
    if math.isnan(seconds):
        remedy = "expected a length of time as [DAYS-]HOURS:MINUTES:SECONDS; correct or remove the row"
        place.refuse(field, text, remedy)
    return seconds


@lru_cache(1 << 12)
def _span_s(text: str) -> float:
    found = _SPAN.fullmatch(text)
    if found is None:
        return math.nan
    days, *numbers, fraction = found.groups()
    first, second, third = (float(number or 0) for number in numbers)
    if days is not None:
        seconds = 3600 * (24 * float(days) + first) + 60 * second + third
    elif numbers[2] is not None:
        seconds = 3600 * first + 60 * second + third
    else:
        seconds = 60 * first + second
    return seconds + float(fraction or 0)


class Gpus(NamedTuple):
    """GPUs of a job or a node, by type in the order of the text; ``sliced`` = slices (MIG) or shares (shard, mps)."""

    number: int
    types: tuple[str, ...] = ()
    sliced: bool = False


def tres_gpus(place: Place, field: str, text: str) -> Gpus | None:
    """Read the GPUs of trackable resources, such as ``cpu=32,gres/gpu:h100=4,gres/gpu=4``; None if the text is empty.

    ``gres/gpu`` is the total and the typed entries are its parts, so they are never added to it. If there are only
    typed entries, their sum is the total.
    """
    if text in UNTOLD:
        return None
    found = _tres_gpus(text)
    if isinstance(found, str):
        place.refuse(field, found, "expected a whole number of GPUs, as in gres/gpu=4; correct or remove the row")
    return found


@lru_cache(1 << 12)
def _tres_gpus(text: str) -> Gpus | str:
    """Return the GPUs, or the entry that is malformed."""
    total, parts, types, shares = None, 0, [], False
    for entry in text.split(","):
        key, _, amount = entry.partition("=")
        if key in ("gres/shard", "gres/mps"):
            shares = True
        if key != "gres/gpu" and not key.startswith("gres/gpu:"):
            continue
        if not (amount.isascii() and amount.isdigit() and len(amount) <= 10 and int(amount) <= MAX_WHOLE):
            return entry
        if key == "gres/gpu":
            total = int(amount)
        else:
            parts += int(amount)
            types.append(key.partition(":")[2])
    count = parts if total is None else total
    if shares and not count:
        return Gpus(1, sliced=True)
    return Gpus(count, tuple(types), any(SLICE.fullmatch(name) for name in types)) if parts <= MAX_WHOLE else text


@lru_cache(1 << 12)
def tres_nodes(text: str) -> int:
    """Return the number of nodes of trackable resources, such as ``cpu=32,node=2``; 0 = not told."""
    found = _NODES.search(text)
    return 0 if found is None else int(found[1])
