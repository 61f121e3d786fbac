"""A card: the runs of one paper's experiments, and what is read off them."""

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
    from gpusched_env.instance import Instance
    from gpusched_env.reproduce.results import Results
    from gpusched_env.simulator import Until

    Measure = Callable[[Instance, EventLog, str], dict[str, float]]


@dataclass(frozen=True)
class Run:
    """One scheduler on one draw of a problem.

    Parameters
    ----------
    problem : a scenario, or anything else that draws instances
    scheduler : a spec for :func:`gpusched_env.baselines.make_scheduler`
    seed : of the draw
    labels : what the card's tables and figures tell runs apart by
    measure : a function of a module that measures, from instance, log and scheduler, what only this run is played for;
        beside the card's own measure
    """

    problem: Problem
    scheduler: str
    seed: int
    labels: Mapping[str, Any]
    measure: Measure | None = None


@dataclass(frozen=True)
class Finding:
    """A statement about the results, whether these runs bear it out, and their numbers.

    Parameters
    ----------
    claim : a sentence; findings of one claim stand in one row
    setting : under which it was looked at
    """

    claim: str
    setting: str
    holds: bool
    numbers: str


class Card(ABC):
    """One paper's experiments. To add one: a subclass and a line in CARDS."""

    title: str
    measure_version: str = "1"  # raise it whenever measure gives other numbers: kept runs are then played anew

    until: Until | None = None  # the only jobs that are measured: runs end with them; None = all are

    @abstractmethod
    def runs(self, quick: bool) -> list[Run]:
        """Everything that is to be run; ``quick`` = a part that takes under a minute on two cores."""

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Measure what :func:`gpusched_env.metrics.summarise` does not."""
        return {}

    @abstractmethod
    def tables(self, results: Results) -> Sequence[Table]:
        """Give the paper's figures beside ours; parts that a quick run leaves out may be missing."""

    @abstractmethod
    def findings(self, results: Results) -> Sequence[Finding]:
        """Say which trends hold."""

    @abstractmethod
    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw figures like the paper's, as PNG, and say where they are."""


CARDS: Final = {
    "dally": "gpusched_env.reproduce.dally:DallyCard",
    "dally-tuner": "gpusched_env.reproduce.dally_tuner:DallyTunerCard",
    "gavel": "gpusched_env.reproduce.gavel:GavelCard",
    "hadar": "gpusched_env.reproduce.hadar:HadarCard",
    "sjf-bco": "gpusched_env.reproduce.sjf_bco:SjfBcoCard",
    "sjf-bsbf": "gpusched_env.reproduce.sjf_bsbf:SjfBsbfCard",
}


def load_card(name: str) -> Card:
    """Give a card by its name.

    Raises
    ------
    GpuschedError : an unknown name
    """
    if name not in CARDS:
        raise GpuschedError(unknown_name("reproduction", name, CARDS))
    module, _, cls = CARDS[name].partition(":")
    card = getattr(importlib.import_module(module), cls)()
    assert isinstance(card, Card)
    return card
