"""The base class of the schedulers of tenants."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.baselines.queues import loop, state, waiting
from gpusched_env.core.placement.rules import rule_number, shares_by
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Simulation, Start


class QueueScheduler(Scheduler):
    """Choose the next tenant and job by kernels, which ``decide`` and the compiled loop share."""

    placement: str

    @abstractmethod
    def rules(self, view: ClusterView) -> dict[str, int | float]:
        """Return the values of the first fields of QUEUES_DTYPE, except ``rule``."""

    def _build(self, view: ClusterView) -> state.Queues:
        if shares_by(self.placement):
            raise SchedulerError(f"{self.name}: placement {self.placement!r} shares GPUs, which quotas do not count")
        rules = self.rules(view) | {"rule": rule_number(self.placement)}
        return state.build(view.simulation.instance, len(view.simulation.arrays.replicas), rules)

    def reset(self, view: ClusterView) -> None:
        """Forget what an earlier run parked."""
        self._queues = self._build(view)

    def player(self, simulation: Simulation) -> CompiledLoop | None:
        """Return the compiled loop; a subclass of a scheduler has none."""
        if not type(self).__module__.startswith("gpusched_env.baselines."):
            return None
        queues = self._build(simulation.view_for(self))
        return CompiledLoop(simulation, loop.play_queues, queues.memory, queues)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start and preempt jobs until nothing more can be done."""
        arrays, queues = view.simulation.arrays, self._queues
        waiting.recount(arrays, queues)
        waiting.begin_point(arrays, queues)
        while (action := loop.next_action(arrays, queues)) != state.NOTHING:
            job = int(queues.memory["job"])
            yield Start(job, self.placement) if action == state.START else Preempt(job)
            waiting.recount(arrays, queues)
            waiting.settle(arrays, queues)


class OrderedQueues(QueueScheduler):
    """Queues that are served in the order that the parameter ``order`` names; it is the name of the scheduler, too.

    Attributes
    ----------
    orders : name of an order -> its number in kernels
    """

    orders: ClassVar[Mapping[str, int]]
    order: str

    def __post_init__(self) -> None:
        """Check the order."""
        if self.order not in self.orders:
            raise SchedulerError(unknown_name("order", self.order, self.orders))

    @property
    def name(self) -> str:
        """Name in tables."""
        return self.order
