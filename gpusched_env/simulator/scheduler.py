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
    """A compiled loop that simulates a run together with its scheduler.

    A player whose attribute ``takes_over`` is True can also continue a run in which jobs have started
    (:func:`simulator.begin`). Without the attribute, such runs are continued by ``decide``.
    """

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Simulate to the end, or until ``until_s`` [s]; ``tell`` is called from time to time, to show progress."""


class Scheduler(ABC):
    """Base class of all schedulers. A subclass must implement only :meth:`decide`.

    The simulator calls ``decide`` at each decision point. If the scenario has rounds, each round is a decision point.
    Otherwise there is one after all simultaneous events (arrivals, completions, releases of GPUs, timers). Each
    decision is applied as soon as it is yielded, and the view then shows the new state. An infeasible decision is
    refused and changes nothing; the reason is in ``view.refusal``.

    Examples
    --------
    >>> class SmallestFirst(Scheduler):
    ...     def decide(self, view):
    ...         for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
    ...             yield Start(job, "pack")
    """

    clairvoyant: bool = False
    """True = the scheduler reads true run times. It then gets a ClairvoyantView, and its results are marked."""

    relies_on_decisions: bool = False
    """True = the scheduler remembers what it has decided, so a run must carry out all of its decisions."""

    remembers_gpus: bool = False
    """True = the scheduler remembers the GPUs that it has chosen for jobs, so a run must start them on these."""

    knows_partitions: bool = True
    """False = runs with partitions or reservations refuse the scheduler, because jobs might never start.

    It chooses machines itself, whatever the partition of a job, or it expects that only its decisions preempt gangs.
    """

    @property
    def name(self) -> str:
        """Name of the scheduler in tables."""
        return type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters to store with every result: the fields if the scheduler is a dataclass, otherwise none."""
        if not dataclasses.is_dataclass(self):
            return {}
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}

    @property
    def info(self) -> SchedulerInfo:
        """Name, parameters and clairvoyance, to store with every result."""
        return SchedulerInfo(self.name, self.parameters, self.clairvoyant)

    def player(self, simulation: Simulation) -> Player | None:
        """Return a compiled loop that makes exactly the decisions of :meth:`decide`; None = there is no such loop."""
        return None

    def reset(self, view: ClusterView) -> None:  # noqa: B027 - optional
        """Discard the state of an earlier run. The simulator calls this before the first event of every run."""

    @abstractmethod
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Yield the decisions for this decision point; a list of decisions is accepted as well."""
