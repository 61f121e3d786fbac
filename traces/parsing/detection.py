"""Recognise the format of a trace by its first line, its first JSON record, or its arrays."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace, zip_members
from gpusched_env.traces.parsing.json_records import json_objects, json_records
from gpusched_env.traces.parsing.streams import lines

SWF_NUMBERS: Final = "18 numbers or more"

# Facts (see Beginning) that must hold for a file of a format
Signature = frozenset[str]


@dataclass(frozen=True)
class Beginning:
    """Facts about the beginning of a file, such as "column job_id", "4 columns", "key jobid", and their description."""

    facts: frozenset[str]
    shown: str


def columns(*names: str, only: bool = False) -> Signature:
    """Return the signature of a CSV header with these columns; with ``only``, the header has no others."""
    return frozenset({f"column {name}" for name in names} | ({f"{len(names)} columns"} if only else set()))


def bar_columns(*names: str) -> Signature:
    """Return the signature of a header with these columns, in lower-case letters, separated by ``|``."""
    return frozenset(f"bar column {name}" for name in names)


def tab_fields(count: int) -> Signature:
    """Return the signature of a file without a header whose lines have ``count`` fields, separated by tabs."""
    return frozenset({f"{count} tab fields"})


def record(*keys: str) -> Signature:
    """Return the signature of a JSON list whose first record has these keys."""
    return frozenset(f"key {key}" for key in keys)


def kind(name: str) -> Signature:
    """Return the signature of JSON whose first object is an object of Kubernetes of this kind."""
    return frozenset({f"kind {name}"})


def arrays(*names: str) -> Signature:
    """Return the signature of a NumPy archive with these arrays."""
    return frozenset(f"array {name}" for name in names)


def recognise(path: Path, signatures: Mapping[str, Iterable[Signature]], or_csv: bool = True) -> str:
    """Return the format whose signature fits the file.

    If two signatures fit and one is a subset of the other, only the larger one counts. If none does, the error also
    proposes to read a CSV, unless ``or_csv`` is False.
    """
    beginning = _beginning(path)
    found = [(name, one) for name, several in signatures.items() for one in several if one <= beginning.facts]
    names = sorted({name for name, one in found if not any(one < other for _, other in found)})
    if len(names) == 1:
        return names[0]
    if names:
        choices = " or ".join(f"{name}:{path}" for name in names)
        raise TraceError(f"{path}: could be {' or '.join(names)}, which share this layout: write {choices}")
    own = f"; a CSV of your own: csv:{path}, with --map arrival=COLUMN,... for columns that have other names than usual"
    raise TraceError(
        f"{path}: no format fits: found {beginning.shown}; if it is a trace, write FORMAT:PATH; "
        f"formats: {', '.join(sorted(signatures))}{own if or_csv else ''}"
    )


def _beginning(path: Path) -> Beginning:
    members = [name.removesuffix(".npy") for name in zip_members(path) if name.endswith(".npy")]
    if members:
        return Beginning(arrays(*members), f"the arrays {', '.join(members)[:200]}")
    line = _first_line(path)
    if line.lstrip().startswith(("[", "{")):
        keys = _first_keys(path)
        return Beginning(
            record(*keys) | _kinds(path), f"JSON; keys of the first record: {', '.join(keys)[:200] or 'none'}"
        )
    fields, words, tabs = _csv_fields(line), line.split(), line.split("\t")
    bars = [name.strip().lower() for name in line.split("|")]
    facts = columns(*fields, only=True) | tab_fields(len(tabs)) | bar_columns(*bars)
    if len(words) >= 18 and all(map(_is_number, words[:18])):
        facts |= {SWF_NUMBERS}
    shown = f"{len(tabs)} fields, separated by tabs" if len(tabs) > 1 else f"the columns {', '.join(fields)[:200]!r}"
    return Beginning(facts, shown if "".join(tabs).isprintable() else "no text")


def _first_line(path: Path) -> str:
    """Return the first line that is neither blank nor a comment of the Standard Workload Format."""
    with open_trace(path) as stream:
        for _, raw in lines(path, stream):
            line = raw.decode(errors="backslashreplace").rstrip("\r\n")
            if line.strip() and not line.lstrip().startswith(";"):
                return line
    return ""


def _first_keys(path: Path) -> list[str]:
    """Return the keys of the first record of a JSON list; empty if the record is damaged or not an object."""
    try:
        first = next(json_records(path))[1]
    except TraceError:
        first = None
    return list(first) if isinstance(first, dict) else []


def _kinds(path: Path) -> frozenset[str]:
    """Return the fact of the kind of the first object, if the file holds objects of Kubernetes."""
    try:
        first = next(json_objects(path))[1]
    except TraceError:
        return frozenset()
    name = first.get("kind") if isinstance(first, dict) else None
    return kind(name) if isinstance(name, str) else frozenset()


def _csv_fields(line: str) -> list[str]:
    with contextlib.suppress(csv.Error):
        return [name.strip() for name in next(csv.reader([line], strict=True), [])]
    return []


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
