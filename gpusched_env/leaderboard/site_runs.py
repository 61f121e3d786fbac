"""What a site shows of the runs of one seed: each is replayed once, checked, and written as data for the viewer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import EntryError
from gpusched_env.instance import Instance
from gpusched_env.leaderboard.entry import Entry, Run
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.leaderboard.tracks import TrackProblem
from gpusched_env.leaderboard.verifying import verify_run
from gpusched_env.reports.curves import completion_times
from gpusched_env.reports.run_data import run_data

# Characters that could end a script element, or a line of a script, stand as escapes.
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Claim:
    """A run that an entry claims."""

    key: str  # of the entry, in names of files
    label: str  # of the entry, for people
    entry: Entry
    run: Run


@dataclass(frozen=True)
class Replayed:
    """What came of a claim; ``refusal`` says why it is not true, and is empty if it is."""

    key: str
    seed: int
    refusal: str
    jct_s: np.ndarray  # float64 [tracked jobs], NaN = unfinished


class DrawnOnce(TrackProblem):
    """The problem of one seed, for all entries: it is drawn once."""

    def instance(self, seed: int) -> Instance:
        """Draw, unless this seed was the last one."""
        drawn: tuple[int, Instance] | None = self.__dict__.get("_drawn")
        if drawn is None or drawn[0] != seed:
            drawn = self.__dict__["_drawn"] = (seed, super().instance(seed))
        return drawn[1]


def play_seed(track: TrackProblem, seed: int, claims: Sequence[Claim], folder: Path, seconds: float) -> list[Replayed]:
    """Replay all runs of one seed, and write the viewer's data of those that are as claimed.

    Parameters
    ----------
    track : a track that can be played here
    claims : runs of this seed
    folder : of the data of the seed; it is made
    seconds : of CPU time that the replay of a run may take
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{folder.parent.name}/{folder.name}"
    problem = DrawnOnce(track.track, track.scenario)
    replayed, lines = [], {}
    for claim in claims:
        try:
            log = verify_run(claim.entry, claim.run, problem, Budget(seconds), keep_log=True).log
        except EntryError as error:
            replayed.append(Replayed(claim.key, seed, str(error), np.zeros(0)))
            continue
        assert log is not None
        instance = problem.instance(seed)
        data = run_data(instance, log, claim.label)
        lines[claim.key] = data["lines"]
        write_data(folder / f"{claim.key}.js", f"{name}/{claim.key}", data)
        replayed.append(Replayed(claim.key, seed, "", completion_times(instance, log, problem.tracked_window)))
    write_data(folder / "lines.js", f"{name}/lines", lines)
    return replayed


def write_data(path: Path, name: str, data: Any) -> None:
    """Write data as a script that puts them under their name: a page may load scripts from a disk, but no data."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    path.write_text(f'window.gpusched.data["{name}"]={text};\n', encoding="utf-8")
