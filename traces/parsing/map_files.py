"""A mapping of the columns of a user's own CSV as a TOML file, and the guess of such a file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.support.files import visible
from gpusched_env.traces.parsing.roles import NEEDED, ROLES, Found, PlacedRole, guess_role, split_role
from gpusched_env.traces.parsing.streams import csv_header, csv_rows

SUFFIX: Final = ".toml"
SHOWN: Final = 40  # [characters] of a value that a comment shows
FORM: Final = 'write ROLE = "COLUMN", such as arrival = "submit_time"'


def read_map(path: Path) -> dict[str, str]:
    """Read a mapping: lines ``ROLE = "COLUMN"`` of TOML. The roles are checked, the columns when the CSV is read."""
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
        found = tomllib.loads(text + "\n")  # so that errors tell a line
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror or error}); check the path of the mapping"
        ) from error
    except (ValueError, RecursionError) as error:
        line = re.search(r" \(at line (\d+),[^)]*\)", str(error))
        place = f"{path}, line {line[1]}" if line else str(path)
        raise TraceError(f"{place}: not valid TOML: {error}; {FORM}") from error
    roles: dict[str, str] = {}
    first: dict[str, str] = {}
    for key, column in found.items():
        placed = PlacedRole(key)
        placed.where = f"{path}, line {_line_of(key, text)}, field {visible(key)!r}"
        if not isinstance(column, str):
            raise TraceError(f"{placed.where}: {visible(repr(column))[:60]} is no column; {FORM}")
        try:
            role = split_role(key)[0]
        except TraceError as error:
            raise TraceError(f"{placed.where}: {str(error).removeprefix('map: ')}") from error
        if role in first:
            raise TraceError(f"{placed.where}: {role} is given twice, first as {first[role]}; keep one")
        first[role] = key
        roles[placed] = column
    return roles


def _line_of(key: str, text: str) -> int:
    start = re.compile(rf"""\s*\[*["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((i for i, line in enumerate(text.splitlines(), 1) if start.match(line)), 1)


def guessed_map(path: Path) -> str:
    """Return the text of a mapping for a CSV, as :func:`read_map` reads it: what its header tells, and what it lacks.

    A role that one column may have is a line. All other roles are comments: those that several columns may have, with
    each of them, and those that none has. If the run time is given in two ways, start and end are comments.
    """
    header = csv_header(path)
    try:
        row = next(islice((texts for _, texts in csv_rows(path, header)), 1), [""] * len(header))
    except TraceError:  # a malformed first row, or a column twice; the reader names it
        row = [""] * len(header)
    values = dict(zip(header, row, strict=False))
    return "".join(f"{line}\n" for line in _lines(path, header, values))


def _lines(path: Path, header: tuple[str, ...], values: Mapping[str, str]) -> Iterator[str]:
    yield f'# Columns of {visible(path.name)} and their roles, for --map. Correct this file: ROLE = "COLUMN".'
    yield "# A role of times may end in a unit: duration_ms, duration_s, duration_min, duration_h."
    yield '# Without a line, a role is guessed by the names of the columns; with "", no column has it.'
    candidates = {role: guess_role(role, header) for role in ROLES}
    timed = bool(candidates["start"]) and bool(candidates["end"])
    for role, found in candidates.items():
        yield ""
        needed = role in NEEDED or (role == "duration" and not timed)
        yield f"# {role}{' (needed)' if needed else ''}: {ROLES[role].meaning}"
        if len(found) == 1 and not (candidates["duration"] and role in ("start", "end")):
            yield _line(role, found[0], values)
            continue
        if len(found) > 1:
            yield "# several columns could have this role: keep one of these lines"
        for one in found:
            yield f"# {_line(role, one, values)}"
        if not found:
            yield f'# {role} = ""'
    used = {one.column for found in candidates.values() for one in found}
    rest = [column for column in header if column not in used]
    if rest:
        yield ""
        yield "# Columns without a role, and their values in the first row:"
        yield from (f"#   {_quoted(column)}: {_shown(values.get(column, ''))}" for column in rest)


def _line(role: str, found: Found, values: Mapping[str, str]) -> str:
    key = f"{role}_{found.unit}" if found.unit not in ("", "s") else role
    value = values.get(found.column, "")
    return f"{key} = {_quoted(found.column)}" + (f"  # such as {_shown(value)}" if value.strip() else "")


def _quoted(text: str) -> str:
    """Return a text as a string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(text: str) -> str:
    return visible(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")
