"""The protocol of a scheduler."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from gpusched_env.instance import SchedulerInfo
from gpusched_env.simulator.decisions import Decision
from gpusched_env.simulator.view import ClusterView

if TYPE_CHECKING:
    from gpusched_env.simulator.simulation import Outcome, Simulation


class Player(Protocol):
    """Plays a run in a compiled loop."""

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Play to the end, or until ``until_s``; ``tell`` is called now and then, to show progress."""


class Scheduler(ABC):
    """Base class of all schedulers: implement :meth:`decide`, nothing else is needed.

    ``decide`` is called at each decision point: once after all events of an instant (arrivals, completions, releases
    of GPUs, timers), or, if the scenario has rounds, at each round. Each decision is applied as soon as it is yielded,
    and the view is then up to date. An infeasible decision is refused with a reason and changes nothing.

    Examples
    --------
    >>> class SmallestFirst(Scheduler):
    ...     def decide(self, view):
    ...         for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
    ...             yield Start(job, "pack")
    """

    clairvoyant: bool = False
    """True = the scheduler reads true run times; it then gets a ClairvoyantView and its results say so."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        return type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters stored with every result; the fields, if the scheduler is a dataclass."""
        if not dataclasses.is_dataclass(self):
            return {}
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}

    @property
    def info(self) -> SchedulerInfo:
        """Name, parameters and clairvoyance, for results."""
        return SchedulerInfo(self.name, self.parameters, self.clairvoyant)

    def player(self, simulation: Simulation) -> Player | None:
        """Return a compiled loop with exactly the decisions of :meth:`decide`; None = there is none."""
        return None

    def reset(self, view: ClusterView) -> None:  # noqa: B027 - optional
        """Discard all state; called when a new run begins, before its first event."""

    @abstractmethod
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Yield decisions for this decision point."""
