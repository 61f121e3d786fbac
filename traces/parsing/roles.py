"""Roles of the columns of a user's own CSV, which the user maps or which are guessed by common names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpusched_env.errors import TraceError, unknown_name
from gpusched_env.support.files import toml_beside

# Unit -> seconds. The name of a column (run_ms) or of a role in a mapping (duration_ms=run_time) may end in a unit.
UNITS_S: Final = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
UNIT_WORDS: Final = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}
_ENDINGS: Final = {
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
}


@dataclass(frozen=True)
class Role:
    """A role of a column: its meaning, common names (lower case, without a unit), and whether it has a unit of time."""

    meaning: str
    names: tuple[str, ...]
    timed: bool = False


def _read() -> dict[str, Role]:
    rows = toml_beside(__file__)
    return {
        role: Role(row["meaning"], tuple(row["names"].split()), row.get("timed", False)) for role, row in rows.items()
    }


ROLES: Final = _read()


class PlacedRole(str):
    """A key of a mapping that a file holds; ``where`` = file, line and field, for errors."""

    where: str = ""


NEEDED: Final = ("arrival", "gpus")  # a CSV also needs the duration, or start and end


@dataclass(frozen=True)
class Found:
    """The column of a role, the unit of its numbers ("" = none), and whether it was guessed by its name."""

    column: str
    unit: str = ""
    guessed: bool = False


def assign_roles(path: str, header: Sequence[str], mapping: Mapping[str, str]) -> dict[str, Found]:
    """Find the column of every role in a header: as mapped, then guessed among the other columns.

    A role of ``mapping`` may end in a unit (``duration_ms``); an empty column means that no column has the role.
    """
    found = _mapped(path, header, mapping)
    taken = {one.column for one in found.values()}
    rest = [column for column in header if column not in taken]
    candidates = {role: guess_role(role, rest) for role in ROLES if role not in found}
    if {"start", "end"} & {role for role, one in found.items() if one.column}:
        candidates.pop("duration", None)
    elif found.get("duration", Found("")).column:
        candidates = {role: several for role, several in candidates.items() if role not in ("start", "end")}
    for role, several in candidates.items():
        if len(several) > 1:
            names = " and ".join(repr(one.column) for one in several)
            choices = " or ".join(f"--map {role}={one.column}" for one in several)
            neither = "" if role in NEEDED else f", or --map {role}= to read neither"
            raise TraceError(
                f"{path}, line 1: the columns {names} could all be the {role} ({ROLES[role].meaning}): write "
                f"{choices}{neither}"
            )
        if several:
            found[role] = several[0]
    found = {role: one for role, one in found.items() if one.column}
    _check_needed(path, header, found)
    return found


def _mapped(path: str, header: Sequence[str], mapping: Mapping[str, str]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for key, column in mapping.items():
        role, unit = split_role(key)
        if role in found:
            raise TraceError(f"map: {role} is given twice; keep one")
        where = f"{key.where}: {path}, line 1" if isinstance(key, PlacedRole) else f"{path}, line 1, map {key}={column}"
        if column and column not in header:
            raise TraceError(f"{where}: {unknown_name('column', column, header)}; correct it")
        ending = _split_unit(column)[1]
        if ROLES[role].timed and not unit and ending not in ("", "s"):
            remedy = f"write --map {role}_{ending}={column}, or --map {role}_s={column} for seconds"
            if isinstance(key, PlacedRole):
                remedy = f"write {role}_{ending}, or {role}_s for seconds"
            raise TraceError(f"{where}: is {column!r} in {UNIT_WORDS[ending]}? {remedy}")
        found[role] = Found(column, (unit or "s") if ROLES[role].timed else "")
    return found


def split_role(key: str) -> tuple[str, str]:
    """Split a key of a mapping, such as ``duration`` or ``duration_ms``, into the role and the unit ("" = none)."""
    role, _, unit = key.rpartition("_")
    if role in ROLES and ROLES[role].timed and unit in UNITS_S:
        return role, unit
    if key not in ROLES:
        raise TraceError(
            f"map: {unknown_name('role', key, ROLES)}; correct it (times may end in a unit: "
            f"{', '.join(f'_{u}' for u in UNITS_S)})"
        )
    return key, ""


def guess_role(role: str, header: Sequence[str]) -> list[Found]:
    """Return the columns whose names are common names of the role."""
    one, found = ROLES[role], []
    for column in header:
        stem, unit = _split_unit(column)
        if stem in one.names and (one.timed or not unit):
            found.append(Found(column, (unit or "s") if one.timed else "", guessed=True))
    return found


def _split_unit(column: str) -> tuple[str, str]:
    """Split ``run_time_ms`` or ``run time (ms)`` into ``runtime`` and ``ms``; the unit is "" if the name has none."""
    words = re.findall(r"[^\W_]+", column.lower())
    unit = _ENDINGS.get(words[-1], "") if len(words) > 1 else ""
    return "".join(words[:-1] if unit else words), unit


def _check_needed(path: str, header: Sequence[str], found: Mapping[str, Found]) -> None:
    """Refuse a header in which a needed role has no column, or which gives the run time in two ways."""
    lacking = [role for role in NEEDED if role not in found]
    ends = {"start", "end"} & set(found)
    if ends and "duration" not in found:
        lacking += sorted({"start", "end"} - ends)
    elif "duration" not in found:
        lacking.append("duration")
    elif len(ends) == 2:
        start, end, duration = (found[role].column for role in ("start", "end", "duration"))
        raise TraceError(
            f"{path}, line 1: the run time could be {duration!r}, or the time from {start!r} to {end!r}: write --map "
            f"duration={duration}, or --map start={start},end={end}"
        )
    if not lacking:
        return
    role = lacking[0]
    remedy = f"write --map {role}=COLUMN"
    if role == "duration":
        remedy += ", or --map start=COLUMN,end=COLUMN"
    if len(header) == 1 and re.search(r"[;|\t]", header[0]):
        remedy = "columns must be separated by commas: write the file so"
    raise TraceError(
        f"{path}, line 1: no column looks like the {role} ({ROLES[role].meaning}); found {', '.join(header)[:200]}; "
        f"{remedy}"
    )
