"""What a site shows of the runs of an entry: each is replayed once, checked, and written as data for the viewer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.entry_files import SUFFIX, parse_packed, read_packed
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.leaderboard.schedules import sha256_of_bytes
from gpusched_env.leaderboard.site_entries import Given
from gpusched_env.leaderboard.tracks import TrackProblem
from gpusched_env.leaderboard.verifying import verify_run
from gpusched_env.reports.curves import completion_times, distribution
from gpusched_env.reports.run_data import run_data

# Characters that could end a script element, or a line of a script, stand as escapes.
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Replayed:
    """What came of an entry.

    Attributes
    ----------
    key : of the entry
    refusal : why it is not shown; empty if all is as it claims
    lines : GPUs held and jobs waiting over time, by seed
    distribution : of JCT over all seeds
    """

    key: str
    refusal: str = ""
    lines: Mapping[int, Any] = field(default_factory=dict)
    distribution: Mapping[str, Any] = field(default_factory=dict)


def packed_file(site: Path, track: str, key: str) -> Path:
    """Where a site keeps the file of an entry, for others to check it; nothing in the name was chosen by anyone."""
    return site / "entries" / f"{track}-{key}{SUFFIX}"


def make_folders(site: Path, tracks: Iterable[str]) -> None:
    """Make the folders that :func:`replay_entry` writes to."""
    (site / "entries").mkdir()
    for name in tracks:
        (site / "data" / name).mkdir(parents=True)


def replay_entry(problem: TrackProblem, given: Given, site: Path, seconds: float) -> Replayed:
    """Replay all runs of an entry, and write the viewer's data and the file itself if they are as claimed.

    Parameters
    ----------
    problem : the entry's track
    site : folder that is being made, as :func:`make_folders` prepares it; once it is removed nothing more is written
    seconds : of CPU time that the replay of a run may take
    """
    try:
        packed = read_packed(given.path)
        if sha256_of_bytes(packed) != given.sha256:
            raise EntryError("the file changed while the site was built")
        replayed = _replay(problem, parse_packed(packed), given.key, site / "data" / problem.name, seconds)
    except EntryError as error:
        _remove(site / "data" / problem.name, given.key)
        return Replayed(given.key, str(error))
    packed_file(site, problem.name, given.key).write_bytes(packed)
    return replayed


def _replay(problem: TrackProblem, entry: Entry, key: str, folder: Path, seconds: float) -> Replayed:
    lines, jct_s = {}, []
    for run in entry.runs:
        log = verify_run(entry, run, problem, Budget(seconds), keep_log=True).log
        assert log is not None
        instance = problem.instance(run.seed)
        data = run_data(instance, log, "")  # the page knows how the entry is called among the others
        (folder / str(run.seed)).mkdir(exist_ok=True)
        write_data(folder / str(run.seed) / f"{key}.js", f"{problem.name}/{run.seed}/{key}", data)
        lines[run.seed] = data["lines"]
        jct_s.append(completion_times(instance, log, problem.tracked_window))
    return Replayed(key, "", lines, distribution(np.concatenate(jct_s)))


def _remove(folder: Path, key: str) -> None:
    """Take away what was written of a run before another run of the entry was refused."""
    for path in folder.glob(f"*/{key}.js"):
        path.unlink()


def write_lines(folder: Path, track: str, replayed: Sequence[Replayed]) -> None:
    """Write what the plots of a track draw: distributions over all seeds, lines over time of each."""
    write_data(folder / "distributions.js", f"{track}/distributions", {one.key: one.distribution for one in replayed})
    for seed in replayed[0].lines:
        lines = {one.key: one.lines[seed] for one in replayed}
        write_data(folder / str(seed) / "lines.js", f"{track}/{seed}/lines", lines)


def write_data(path: Path, name: str, data: Any) -> None:
    """Write data as a script that puts them under their name: a page may load scripts from a disk, but no data."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    path.write_text(f'window.gpusched.data["{name}"]={text};\n', encoding="utf-8")
