"""Results of runs as data, with one record per scheduler and seed, and the JSON and CSV files of results."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import EventLog
from gpusched_env.problem.instance import SchedulerInfo
from gpusched_env.support.files import write_whole

FORMAT: Final = "gpusched-results-1"


@dataclass(frozen=True)
class RunResult:
    """Result of one scheduler on one seed of a scenario.

    Attributes
    ----------
    scenario, fingerprint : name and SHA-256 of the scenario
    seed : seed of the run
    scheduler : name, parameters and clairvoyance of the scheduler
    metrics : name of each of :data:`gpusched_env.metrics.COLUMNS` -> value; NaN = undefined
    bounds : name of a metric -> lower bound; not all metrics have one
    digest : SHA-256 of the event log
    window : arrival ranks of the tracked jobs; None = all jobs
    spec : spec of the scheduler as typed; of a Python object the spec that builds an equal one, None if none does
    wall_s : wall-clock time of the simulation [s]; not written to files
    log : the event log; None if it was not kept; not written to files
    caveats : what was dropped of a log, noted about it or ignored, in words -> number of rows or jobs
    name : label of the scheduler that its user gave, as in NAME=SPEC; None = none
    outside : what the scheduler needs to be itself and the problem lacks, in words such as "GPU sharing"

    Notes
    -----
    Equality of results ignores ``spec`` and ``name``, because two specs can mean the same run, ``wall_s``, because it
    varies, and ``log``, because ``digest`` identifies it.
    """

    scenario: str
    fingerprint: str
    seed: int
    scheduler: SchedulerInfo
    metrics: dict[str, float]
    bounds: dict[str, float]
    digest: str
    window: tuple[int, int] | None = None
    spec: str | None = field(default=None, compare=False)
    wall_s: float = field(default=math.nan, compare=False)
    log: EventLog | None = field(default=None, compare=False, repr=False)
    caveats: dict[str, int] = field(default_factory=dict)
    name: str | None = field(default=None, compare=False)
    outside: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name that tables, figures and files print: the user's, or else the spec."""
        return self.name or self.spec or self.scheduler.name

    @property
    def complete(self) -> bool:
        """Whether every tracked job finished."""
        return self.metrics["finished"] >= self.metrics["jobs"]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, which is the same for equal runs on every machine; NaN becomes None."""
        return {
            "scenario": self.scenario,
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "label": self.label,
            "spec": self.spec,
            "scheduler": plain(dataclasses.asdict(self.scheduler)),
            "window": None if self.window is None else list(self.window),
            "metrics": {name: None if math.isnan(value) else value for name, value in self.metrics.items()},
            "bounds": dict(self.bounds),
            "digest": self.digest,
        } | {name: kept for name, kept in (("caveats", dict(self.caveats)), ("outside", list(self.outside))) if kept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunResult:
        """Build a result from the data of :meth:`as_dict`."""
        try:
            return cls(
                scenario=str(data["scenario"]),
                fingerprint=str(data["fingerprint"]),
                seed=int(data["seed"]),
                scheduler=SchedulerInfo(**data["scheduler"]),
                metrics={name: math.nan if value is None else float(value) for name, value in data["metrics"].items()},
                bounds={name: float(value) for name, value in data["bounds"].items()},
                digest=str(data["digest"]),
                spec=None if data.get("spec") is None else str(data["spec"]),
                window=None if data["window"] is None else (int(data["window"][0]), int(data["window"][1])),
                caveats={str(words): int(count) for words, count in data.get("caveats", {}).items()},
                name=_own_name(data),
                outside=tuple(str(words) for words in data.get("outside", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise GpuschedError(f"not a result: {type(error).__name__}: {error}") from error

    @property
    def told(self) -> list[str]:
        """The caveats in lines."""
        return [f"{words}: {count:,}" for words, count in self.caveats.items()]

    def against_bound(self, name: str = "mean_jct_s") -> float:
        """Return the ratio of a metric to its lower bound; the ratio is at least 1.

        The result is NaN if some tracked job is unfinished, because the bound is over all tracked jobs.
        """
        return self.metrics[name] / self.bounds[name] if self.complete else math.nan


class Results(list[RunResult]):
    """Results of several runs, as a list."""

    def to_frame(self) -> Any:
        """Return a table of pandas with one row per run and the columns of :func:`write_csv`; times are in seconds."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as error:
            raise GpuschedError("to_frame needs pandas: pip install pandas; write_csv writes without it") from error
        return pandas.DataFrame(csv_rows(self))


def write_json(results: Iterable[RunResult], path: str | Path, **more: Any) -> None:
    """Write results as JSON that :func:`read_json` reads; times are in seconds, and equal runs give equal bytes.

    ``more`` : further fields of the file
    """
    data = {"format": FORMAT, **more, "results": [result.as_dict() for result in results]}
    _write(path, json.dumps(data, indent=1, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Results:
    """Read results that :func:`write_json` wrote."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GpuschedError(f"{path}: cannot read results ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise GpuschedError(f"{path}: not a result file: expected format {FORMAT!r}")
    try:
        return Results(RunResult.from_dict(item) for item in data["results"])
    except (GpuschedError, KeyError, TypeError) as error:
        raise GpuschedError(f"{path}: {error}") from error


def write_csv(results: Sequence[RunResult], path: str | Path, **more: str) -> None:
    """Write results as CSV with one line per result; times are in seconds.

    The columns are scenario, seed, scheduler (its label), the metrics, the bounds as ``bound_NAME``, caveats and
    ``outside``. ``more`` : further columns, the same in each line
    """
    _write(path, csv_of(csv_rows(results, **more)))


def csv_rows(results: Sequence[RunResult], **more: str) -> list[dict[str, Any]]:
    """Return the lines of :func:`write_csv` as dictionaries."""
    rows = []
    for result in results:
        data = result.as_dict()
        rows.append(
            {
                "scenario": result.scenario,
                "seed": result.seed,
                "scheduler": result.label,
                "spec": result.spec,
                "parameters": json.dumps(data["scheduler"]["parameters"], sort_keys=True),
                "clairvoyant": result.scheduler.clairvoyant,
                "first_job": result.window and result.window[0],
                "last_job": result.window and result.window[1],
                **data["metrics"],
                **{f"bound_{name}": value for name, value in data["bounds"].items()},
                "digest": result.digest,
                "fingerprint": result.fingerprint,
                "caveats": "; ".join(result.told),
                "outside": "; ".join(result.outside),
            }
            | more
        )
    return rows


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV; the columns are the keys of all rows, in the order in which they occur."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def plain(value: Any) -> Any:
    """Convert a parameter to JSON data: collections become lists; infinity, NaN and other objects texts."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (value if isinstance(value, list | tuple) else sorted(value, key=str))]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _own_name(data: Mapping[str, Any]) -> str | None:
    """Return the label of a result's data if it is a name that a user gave; older files have none."""
    label = data.get("label")
    return None if label in (None, data.get("spec") or data["scheduler"]["name"]) else str(label)


def _write(path: str | Path, text: str) -> None:
    """Write a file atomically."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, text)
