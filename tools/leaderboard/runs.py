"""Replay or play the runs of an entry, check them, and write their data for the viewer of the site."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import EntryError
from gpusched_env.evaluation.results import RunResult
from gpusched_env.leaderboard.child_process import apart
from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.entry_files import SUFFIX, parse_packed, read_packed
from gpusched_env.leaderboard.packing import pack_entry
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.leaderboard.standings import Given
from gpusched_env.leaderboard.tracks import TrackProblem
from gpusched_env.leaderboard.verifying import played_again, verify_run
from gpusched_env.reports.curves import completion_times, distribution
from gpusched_env.reports.run_data import run_data

# Escapes of the characters that could end a script element or a line of a script
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Replayed:
    """Result of replaying an entry: its results and lines by seed, or why it is refused ("" = its claims are true).

    ``checked`` : whether the scheduler that the entry names was played, and made its event logs.
    """

    key: str
    refusal: str = ""
    checked: bool = False
    runs: Sequence[RunResult] = ()
    lines: Mapping[int, Any] = field(default_factory=dict)
    distribution: Mapping[str, Any] = field(default_factory=dict)


def packed_file(site: Path, track: str, key: str) -> Path:
    """Return the path of an entry's file in the site, which others can verify; it has no text of the entry."""
    return site / "entries" / f"{track}-{key}{SUFFIX}"


def make_folders(site: Path, tracks: Iterable[str]) -> None:
    """Make the folders that :func:`replay_entry` writes to."""
    (site / "entries").mkdir()
    for name in tracks:
        (site / "data" / name).mkdir(parents=True)


def replay_apart(problem: TrackProblem, given: Given, site: Path, seconds: float) -> Replayed:
    """Call :func:`replay_entry` in a child process; it also plays the scheduler of an entry that is no baseline."""
    most_s = seconds * len(given.entry.runs)
    try:
        checked = given.baseline or played_again(given.entry, problem, seconds)
        replayed: Replayed = apart(replay_entry, (problem, given, site, seconds), most_s)
    except EntryError as error:
        _remove(site / "data" / problem.name, given.key)
        return Replayed(given.key, str(error))
    return dataclasses.replace(replayed, checked=checked)


def replay_entry(problem: TrackProblem, given: Given, site: Path, seconds: float) -> Replayed:
    """Replay all runs of an entry; if its claims are true, write the data of the viewer and a copy of the file.

    The limit is on the CPU time of a run [s]. If the folder is removed during the call, nothing more is written.
    """
    try:
        packed = pack_entry(given.entry) if given.path is None else read_packed(given.path)
        entry = parse_packed(packed)
        if entry.sha256 != given.entry.sha256:
            raise EntryError("the file changed while the site was built")
        replayed = _replay(problem, entry, given.key, site / "data" / problem.name, seconds)
    except EntryError as error:
        _remove(site / "data" / problem.name, given.key)
        return Replayed(given.key, str(error))
    packed_file(site, problem.name, given.key).write_bytes(packed)
    return replayed


def _replay(problem: TrackProblem, entry: Entry, key: str, folder: Path, seconds: float) -> Replayed:
    runs, lines, jct_s = [], {}, []
    for run in entry.runs:
        result = verify_run(entry, run, problem, Budget(seconds), keep_log=True)
        runs.append(dataclasses.replace(result, log=None))
        log = result.log
        assert log is not None
        instance = problem.instance(run.seed)
        data = run_data(instance, log, "")  # no label: the page has the entry's unique label
        (folder / str(run.seed)).mkdir(exist_ok=True)
        write_data(folder / str(run.seed) / f"{key}.js", f"{problem.name}/{run.seed}/{key}", data)
        lines[run.seed] = data["lines"]
        jct_s.append(completion_times(instance, log))
    return Replayed(key, "", False, runs, lines, distribution(np.concatenate(jct_s)))


def _remove(folder: Path, key: str) -> None:
    """Remove the data of all runs of an entry; called if one of its runs is refused."""
    for path in folder.glob(f"*/{key}.js"):
        path.unlink()


def write_lines(folder: Path, track: str, replayed: Sequence[Replayed]) -> None:
    """Write the data of the plots of a track: distributions over all seeds, and lines over time for each seed."""
    write_data(folder / "distributions.js", f"{track}/distributions", {one.key: one.distribution for one in replayed})
    for seed in replayed[0].lines:
        lines = {one.key: one.lines[seed] for one in replayed}
        write_data(folder / str(seed) / "lines.js", f"{track}/{seed}/lines", lines)


def write_data(path: Path, name: str, data: Any) -> None:
    """Write data as a script that stores them under ``name``: a page on a local disk can load scripts, but no data."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    path.write_text(f'window.gpusched.data["{name}"]={text};\n', encoding="utf-8")
