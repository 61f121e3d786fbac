"""A card: the runs that reproduce the experiments of one paper, and the tables, figures and findings of these runs."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.errors import GpuschedError, unknown_name

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.evaluation.runner import Problem
    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance
    from gpusched_env.reproduce.results import Results
    from gpusched_env.simulator import Until

    Measure = Callable[[Instance, EventLog, str], dict[str, float]]


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


@dataclass(frozen=True)
class Finding:
    """A claim about the results, whether the runs support it, and the numbers of the runs.

    Parameters
    ----------
    claim : the claim as a sentence; findings with the same claim are grouped
    setting : the conditions of the runs
    """

    claim: str
    setting: str
    holds: bool
    numbers: str


class Card(ABC):
    """One paper's experiments. To add a card, write a subclass and add a line to CARDS."""

    title: str
    measure_version: str = "1"  # raise this when ``measure`` gives other results; cached runs are then repeated

    until: Until | None = None  # the jobs to measure, after which a run stops; None = all jobs

    @abstractmethod
    def runs(self, quick: bool) -> list[Run]:
        """List all runs; ``quick`` = only a part of the runs, which takes under a minute on two cores."""

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Return metrics that :func:`gpusched_env.metrics.summarise` does not have."""
        return {}

    @abstractmethod
    def tables(self, results: Results) -> Sequence[Table]:
        """Return tables of the published values beside ours; parts that a quick run omits may be missing."""

    @abstractmethod
    def findings(self, results: Results) -> Sequence[Finding]:
        """Return the findings: each published trend, and whether our runs have it."""

    @abstractmethod
    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw figures like those of the paper as PNG files in ``folder``; return their paths."""


CARDS: Final = {
    "dally": "gpusched_env.reproduce.dally:DallyCard",
    "dally-cells": "gpusched_env.reproduce.dally_cells:DallyCellsCard",
    "dally-tuner": "gpusched_env.reproduce.dally_tuner:DallyTunerCard",
    "elasticflow": "gpusched_env.reproduce.elasticflow:ElasticFlowCard",
    "gavel": "gpusched_env.reproduce.gavel:GavelCard",
    "hadar": "gpusched_env.reproduce.hadar:HadarCard",
    "pollux": "gpusched_env.reproduce.pollux:PolluxCard",
    "sjf-bco": "gpusched_env.reproduce.sjf_bco:SjfBcoCard",
    "sjf-bsbf": "gpusched_env.reproduce.sjf_bsbf:SjfBsbfCard",
}


def load_card(name: str) -> Card:
    """Return a card by its name.

    Raises
    ------
    GpuschedError : no card has this name
    """
    if name not in CARDS:
        raise GpuschedError(unknown_name("reproduction", name, CARDS))
    module, _, cls = CARDS[name].partition(":")
    card = getattr(importlib.import_module(module), cls)()
    assert isinstance(card, Card)
    return card
