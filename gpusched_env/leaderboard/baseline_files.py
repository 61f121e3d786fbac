"""Files of the package's entries, one for each track: specs, digests and scores, but no decisions.

A file is JSON Lines, so that a changed entry is one changed line: the first line is a :class:`Head`, and each further
line a :class:`Result`, sorted by spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.entry import Entry, Schema
from gpusched_env.leaderboard.tracks import Track
from gpusched_env.metrics import TENANT_COLUMNS
from gpusched_env.support.files import write_whole

SUFFIX: Final = ".jsonl"
_Line = TypeVar("_Line")
# Metrics of a result beside the scored one; playing gives all others.
SCORES: Final = ("mean_jct_s", "p99_jct_s", "preemptions_per_job", *(column.name for column in TENANT_COLUMNS))


class Problem(Schema, frozen=True):
    """The problem of a seed; the fields are those of :class:`~gpusched_env.leaderboard.entry.Run`."""

    seed: int
    instance: str
    workload: str
    bounds: dict[str, float | None]


class Head(Schema, frozen=True):
    """What the entries of a file share; the fields are those of :class:`~gpusched_env.leaderboard.entry.Entry`."""

    track: str
    fingerprint: str
    results_version: str
    problems: list[Problem]


class Result(Schema, frozen=True):
    """The results of a scheduler: for each problem its metrics (null = undefined) and the digest of its log."""

    spec: str
    version: str
    metrics: dict[str, list[float | None]]
    digests: list[str]


def baseline_file(folder: Path, track: str) -> Path:
    """Return the path of the file of a track in a folder."""
    return folder / f"{track}{SUFFIX}"


def head_of(entry: Entry) -> Head:
    """Return what an entry shares with the others of its track."""
    problems = [Problem(run.seed, run.instance, run.workload, dict(run.bounds)) for run in entry.runs]
    return Head(entry.track, entry.fingerprint, entry.results_version, problems)


def result_of(entry: Entry, track: Track) -> Result:
    """Return the results of an entry, with the metrics of SCORES."""
    names = [name for name in dict.fromkeys((track.metric, *SCORES)) if name in entry.runs[0].metrics]
    metrics = {name: [run.metrics[name] for run in entry.runs] for name in names}
    return Result(entry.player.spec, entry.version, metrics, [run.digest for run in entry.runs])


def read_results(path: Path) -> tuple[Head, dict[str, Result]]:
    """Read a file; return its first line, and spec -> result."""
    try:
        lines = path.read_bytes().splitlines() or [b""]
    except OSError as error:
        raise EntryError(f"{path}: cannot be read ({error.strerror or error})") from error
    head = _decoded(path, 1, lines[0], Head)
    results = [_decoded(path, number, line, Result) for number, line in enumerate(lines[1:], 2)]
    return head, {result.spec: result for result in results}


def _decoded(path: Path, number: int, line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EntryError(f"{path}, line {number}: {error}; delete the file and write it again") from None


def write_results(path: Path, head: Head, results: Mapping[str, Result]) -> None:
    """Write a file atomically; equal results give equal bytes."""
    lines = (head, *(results[spec] for spec in sorted(results)))
    write_whole(path, "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines))
