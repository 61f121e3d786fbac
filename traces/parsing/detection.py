"""Recognise the format of a trace by its first line, its first record of JSON or YAML, or its arrays."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import first_bytes, open_trace, zip_members
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.json_records import json_members, json_objects, json_records
from gpusched_env.traces.parsing.streams import lines
from gpusched_env.traces.parsing.yaml_records import is_yaml

SWF_NUMBERS: Final = "18 numbers or more"
_SLURM: Final = re.compile(rb'\s*\{\s*"(?:jobs|meta|errors|warnings|last_update|last_backfill)"\s*:')  # with --json

# Facts (see Beginning) that must hold for a file of a format
Signature = frozenset[str]


@dataclass(frozen=True)
class Beginning:
    """Facts about the beginning of a file, such as "column job_id", "columns 4", "key jobid", and their description."""

    facts: frozenset[str]
    shown: str


def facts(what: str, *names: object) -> Signature:
    """Return the signature of a file with such facts as "tab fields 7", "key jobid", "kind Pod", "array jobs"."""
    return frozenset(f"{what} {name}" for name in names)


def columns(*names: str, only: bool = False) -> Signature:
    """Return the signature of a CSV header with these columns; with ``only``, the header has no others."""
    return facts("column", *names) | (facts("columns", len(names)) if only else frozenset())


def bar_columns(*names: str) -> Signature:
    """Return the signature of a header with these columns, in lower-case letters, separated by ``|``."""
    return facts("bar column", *names)


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
        return Beginning(facts("array", *members), f"the arrays {', '.join(members)[:200]}")
    line = _first_line(path)
    if line.lstrip().startswith(("[", "{")):
        if _SLURM.match(first_bytes(path)):
            keys = _first_keys(json_members(path, ["jobs"]))
            return Beginning(facts("key of jobs", *keys), f"JSON; keys of the first job: {', '.join(keys)[:200]}")
        keys = _first_keys(json_records(path))
        return Beginning(
            facts("key", *keys) | _kinds(path), f"JSON; keys of the first record: {', '.join(keys)[:200] or 'none'}"
        )
    with open_trace(path) as stream:
        objects = is_yaml(stream) and _kinds(path)
    if objects:
        return Beginning(objects, f"YAML; {', '.join(objects)[:200]}")
    fields, words, tabs = _csv_fields(line), line.split(), line.split("\t")
    bars = [name.strip().lower() for name in line.split("|")]
    found = columns(*fields, only=True) | facts("tab fields", len(tabs)) | bar_columns(*bars)
    if len(words) >= 18 and all(map(_is_number, words[:18])):
        found |= {SWF_NUMBERS}
    shown = f"{len(tabs)} fields, separated by tabs" if len(tabs) > 1 else f"the columns {', '.join(fields)[:200]!r}"
    return Beginning(found, shown if "".join(tabs).isprintable() else "no text")


def _first_line(path: Path) -> str:
    """Return the first line that is neither blank nor a comment of the Standard Workload Format."""
    with open_trace(path) as stream:
        for _, raw in lines(path, stream):
            line = raw.decode(errors="backslashreplace").rstrip("\r\n")
            if line.strip() and not line.lstrip().startswith(";"):
                return line
    return ""


def _first_keys(records: Iterator[tuple[Place, Any]]) -> list[str]:
    """Return the keys of the first record; empty if the record is damaged or not an object."""
    try:
        first = next(records)[1]
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
    return facts("kind", name) if isinstance(name, str) else frozenset()


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
