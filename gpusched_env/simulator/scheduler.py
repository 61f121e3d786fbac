"""The protocol of a scheduler."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import SHORTEST_ROUND_S, SchedulerInfo
from gpusched_env.simulator.decisions import Decision
from gpusched_env.simulator.view import ClusterView
from gpusched_env.support.units import LATEST_S

if TYPE_CHECKING:
    from gpusched_env.simulator.simulation import Outcome, Simulation

# Largest numbers that a parameter may be: kernels store whole numbers in 32 bits, and products of numbers stay finite.
MOST_WHOLE: Final = 2**31 - 1
MOST_SEED: Final = 2**63 - 1
MOST_NUMBER: Final = 1e12


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

    needs: tuple[str, ...] = ()
    """What a problem must have so that the scheduler is itself, as named in ``gpusched_env.baselines.domains``."""

    knows_partitions: bool = True
    """False = runs with partitions or reservations refuse the scheduler, because jobs might never start.

    It chooses machines itself, whatever the partition of a job, or it expects that only its decisions preempt gangs.
    """

    knows_node_counts: bool = True
    """False = runs in which jobs demand a number of nodes refuse the scheduler, because it chooses GPUs itself."""

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
    def notes(self) -> dict[str, int]:
        """What a user should know about the run that has ended: words -> number of jobs; "given up" begins them."""
        return {}

    @property
    def info(self) -> SchedulerInfo:
        """Name, parameters and clairvoyance, to store with every result."""
        return SchedulerInfo(self.name, self.parameters, self.clairvoyant)

    def check_parameters(self) -> None:
        """Refuse numbers that no field of this kind can hold; a run does so before it begins."""
        if dataclasses.is_dataclass(self):
            given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
            check_sizes_of_numbers(type(self), given, f"scheduler {self.name!r}")
            check_no_nan(given, f"scheduler {self.name!r}")

    def player(self, simulation: Simulation) -> Player | None:
        """Return a compiled loop that makes exactly the decisions of :meth:`decide`; None = there is no such loop."""
        return None

    def reset(self, view: ClusterView) -> None:  # noqa: B027 - optional
        """Discard the state of an earlier run. The simulator calls this before the first event of every run."""

    @abstractmethod
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Yield the decisions for this decision point; a list of decisions is accepted as well."""


def check_sizes_of_numbers(cls: type, given: Mapping[str, Any], who: str) -> None:
    """Check that each number fits its field of ``cls``; the class itself checks what the number means."""
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        kind, value = str(field.type), given.get(field.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            where = f"{who}: {field.name.rstrip('_')} is {number!r}"
            if "float" not in kind and "int" in kind:
                least, most = (0, MOST_SEED) if "seed" in field.name else (-MOST_WHOLE, MOST_WHOLE)
                if not isinstance(number, int) or not least <= number <= most:
                    raise SchedulerError(f"{where}: give a whole number from {least} to {most}")
            elif "float" in kind and number != math.inf and abs(number) > MOST_NUMBER:
                raise SchedulerError(f"{where}: give a number of at most {MOST_NUMBER:g}, or inf")
            elif field.name.endswith("_s") and (0 < number < SHORTEST_ROUND_S or LATEST_S < number < math.inf):
                raise SchedulerError(f"{where}: give 0, {SHORTEST_ROUND_S:g} to {LATEST_S:g} seconds, or inf")


def check_no_nan(given: Mapping[str, Any], who: str) -> None:
    """Check that no number is NaN."""
    for name, value in given.items():
        if any(isinstance(one, float) and one != one for one in (value if isinstance(value, tuple) else (value,))):
            raise SchedulerError(f"{who}: {name.rstrip('_')} is nan: give a number")
