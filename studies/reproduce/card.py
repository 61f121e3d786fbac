"""A card: the runs that reproduce the experiments of one paper, and the tables, figures and findings of these runs.

A card is a file in ``cards/``; what is a program, such as a generator of problems, is a module that it names. Fields,
whose texts and expressions are those of :mod:`studies.reproduce.expressions`:

* ``title``; ``program``, a module, whose ``measure(instance, log)`` adds metrics to each run; ``until``, the jobs to
  measure; ``paper``: name, source and pages in docs/papers.md.
* ``data``: tables, such as the published numbers; ``let``: expressions of the results; ``derived``: labels that follow
  from others.
* ``runs``: grids. ``for`` = axes, with an axis ``seed``; ``labels`` = the names of the labels of a run; ``scenario``, a
  text, or ``problem``, an expression; ``scheduler``, a text; ``measure``, further metrics of this grid.
* ``tables``: ``each`` = axes of one table each; ``rows`` and ``columns`` with axes ``for``, a ``head`` and a ``cell``,
  that of a row before that of a column; ``lines`` = several rows at one place.
* ``claims``: a sentence, ``for`` = axes, a ``setting``, whether it ``holds``, whether it is a ``tie``, ``numbers``, and
  the figure of the ``paper``; ``claims`` = several with the same axes and ``let``.
* ``figures``: file -> panels and lines (:func:`studies.reproduce.drawing.draw`).
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Until
from gpusched_env.support import figures
from studies.reproduce.drawing import draw
from studies.reproduce.expressions import Scope
from studies.reproduce.findings import Finding, find, of_quick
from studies.reproduce.report import pivot
from studies.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.evaluation.runner import Problem
    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance

    Measure = Callable[[Instance, EventLog, str], dict[str, float]]

FOLDER: Final = files("studies.reproduce") / "cards"
CARDS: Final = tuple(sorted(path.name.removesuffix(".toml") for path in FOLDER.iterdir()))


@dataclass(frozen=True)
class Run:
    """One scheduler on one draw of a problem.

    Parameters
    ----------
    problem : a scenario, or another object that draws instances
    scheduler : a spec for :func:`gpusched_env.baselines.make_scheduler`
    seed : seed of the draw
    labels : names and values by which the tables and figures of the card select runs
    measure : a module-level function of (instance, log, scheduler) that returns further metrics of this run, in
        addition to those of the card
    """

    problem: Problem
    scheduler: str
    seed: int
    labels: Mapping[str, Any]
    measure: Measure | None = None


class Card:
    """One paper's experiments, as a file describes them."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self.name, self.data, self.title = name, data, str(data["title"])
        self.until = Until(**data["until"]) if "until" in data else None  # the jobs to measure; None = all jobs
        # Raised when the program's ``measure`` gives other results; cached runs are then repeated.
        self.measure_version = str(data.get("measure_version", "1"))

    @property
    def program(self) -> ModuleType | None:
        """The module that the file names."""
        return importlib.import_module(self.data["program"]) if "program" in self.data else None

    @property
    def names(self) -> dict[str, Any]:
        """Names for expressions: tables of the file, and what its program defines."""
        program = {} if self.program is None else {k: v for k, v in vars(self.program).items() if k[0] != "_"}
        return program | dict(self.data.get("data", {}))

    def scope(self, results: Results | None = None, **labels: Any) -> Scope:
        """Return a place of the card for expressions; ``results`` None = the runs are listed only."""
        place = Scope(self.names, self.data.get("derived", {}), results=results)
        return (place if results is None else place.let(self.data.get("let", {}))).at(**labels)

    def runs(self, quick: bool) -> list[Run]:
        """List all runs; ``quick`` = only a part of the runs, which takes under a minute on two cores.

        Raises
        ------
        GpuschedError : the program of the card misses a file or a package; the message says how to get it
        """
        return [run for grid in self.data["runs"] for run in self._grid(grid, quick)]

    def _grid(self, grid: Mapping[str, Any], quick: bool) -> Iterator[Run]:
        problems: dict[Any, Problem] = {}  # one object for equal problems: each is drawn, and known, once
        for place in self.scope(quick=quick).places(grid["for"]):
            key = place.text(grid["scenario"]) if "scenario" in grid else place.used(grid["problem"])
            if key not in problems:
                found = key if "scenario" in grid else place.value(grid["problem"])
                problems[key] = get_scenario(found) if isinstance(found, str) else found
            labels = place.labels_of(grid["labels"])
            measure = place.value(grid["measure"]) if "measure" in grid else None
            yield Run(problems[key], place.text(grid["scheduler"]), place.value("seed"), labels, measure)

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Return metrics that :func:`gpusched_env.metrics.summarise` does not have."""
        own: Callable[[Instance, EventLog], dict[str, float]] | None = getattr(self.program, "measure", None)
        return {} if own is None else own(instance, log)

    def tables(self, results: Results) -> Sequence[Table]:
        """Return tables of the published values beside ours; parts that were not played are missing."""
        return [table for spec in self.data.get("tables", ()) for table in pivot(spec, self.scope(results))]

    def findings(self, results: Results) -> list[Finding]:
        """Return the findings: each claim, and whether our runs have it; a quick run contradicts no full run."""
        found = [finding for spec in self.data.get("claims", ()) for finding in find(spec, self.scope(results))]
        return of_quick(self.name, found) if results.quick else found

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw the figures as files in ``folder``; return their paths."""
        paths = []
        for name, spec in self.data.get("figures", {}).items():
            for place in self.scope(results).places(spec.get("each", {})):
                figure = draw(spec, place)
                if figure is not None:
                    paths.append(folder / place.text(name))
                    figures.save(figure, paths[-1])
        return paths


def load_card(name: str) -> Card:
    """Return a card by its name.

    Raises
    ------
    GpuschedError : no card has this name
    """
    if name not in CARDS:
        raise GpuschedError(unknown_name("reproduction", name, [*CARDS, "testbeds"]))
    return Card(name, tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")))
