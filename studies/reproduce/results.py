"""The results of a card's runs: selection by label, and files."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import RunResult
from gpusched_env.evaluation.results import csv_of
from gpusched_env.support.files import write_whole

if TYPE_CHECKING:
    from studies.reproduce.findings import Finding

FORMAT: Final = "gpusched-reproduction-1"


class Results:
    """Runs with their labels.

    Parameters
    ----------
    labels : labels of each run, by name
    runs : result of each run, in the same order
    quick : whether they are only a part of the card's runs
    """

    def __init__(self, labels: Sequence[Mapping[str, Any]], runs: Sequence[RunResult], quick: bool = False) -> None:
        self.quick = quick
        self.labels, self.runs = [dict(item) for item in labels], list(runs)
        self.names = dict.fromkeys(name for own in self.labels for name in own)
        self._index: dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]] = {}

    def where(self, **labels: Any) -> Results:
        """Return the runs that have all these labels."""
        names = tuple(labels)
        if names not in self._index:
            self._index[names] = {}
            for i, own in enumerate(self.labels):
                if all(name in own for name in names):
                    self._index[names].setdefault(tuple(own[name] for name in names), []).append(i)
        return self._of(self._index[names].get(tuple(labels.values()), []))

    def _of(self, kept: Sequence[int]) -> Results:
        return Results([self.labels[i] for i in kept], [self.runs[i] for i in kept])

    def of_seeds_of(self, other: Results) -> Results:
        """Return the runs whose seeds ``other`` has as well, for paired comparisons."""
        seeds = set(other.seeds)
        return self._of([i for i, run in enumerate(self.runs) if run.seed in seeds])

    def values(self, metric: str, **labels: Any) -> np.ndarray:
        """float64 [runs with these labels], sorted by seed: values of a metric.

        A metric that is NaN, because the run left jobs unfinished, gives inf.
        """
        found = sorted(self.where(**labels).runs, key=lambda run: run.seed)
        return np.array([run.metrics[metric] if not math.isnan(run.metrics[metric]) else math.inf for run in found])

    def known(self, *names: str) -> list[Any]:
        """Distinct values of a label, in the order of the runs; tuples of values for several labels."""
        found = [tuple(own[name] for name in names) for own in self.labels if all(name in own for name in names)]
        return list(dict.fromkeys(values[0] if len(names) == 1 else values for values in found))

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs, ascending."""
        return sorted({run.seed for run in self.runs})

    def write_json(self, path: Path, header: Mapping[str, Any], findings: Sequence[Finding]) -> None:
        """Write all runs and findings as JSON; the same runs give the same bytes."""
        runs = [{"labels": own, **run.as_dict()} for own, run in zip(self.labels, self.runs, strict=True)]
        data = {"format": FORMAT, **header, "findings": [item.as_dict() for item in findings], "runs": runs}
        write_whole(path, json.dumps(data, indent=1, allow_nan=False) + "\n")

    def write_csv(self, path: Path) -> None:
        """Write one line per run: labels, seed, scheduler, metrics; times in seconds."""
        rows = [
            {**own, "seed": run.seed, "scheduler": run.scheduler.name, **run.as_dict()["metrics"], "digest": run.digest}
            for own, run in zip(self.labels, self.runs, strict=True)
        ]
        write_whole(path, csv_of(rows))


def write_run(path: Path, result: RunResult) -> None:
    """Write one run into the cache, atomically, with a SHA-256, so that damage does not give another result."""
    data = result.as_dict()
    write_whole(path, json.dumps({"sha256": _seal(data), "run": data}, allow_nan=False) + "\n")


def read_run(path: Path) -> RunResult | None:
    """Read one run from the cache; None if the file is missing or damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return RunResult.from_dict(data["run"]) if data["sha256"] == _seal(data["run"]) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError, GpuschedError):
        return None


def _seal(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()
