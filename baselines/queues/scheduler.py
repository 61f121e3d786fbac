"""The base class of the schedulers of tenants."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from gpusched_env.baselines.queues import state
from gpusched_env.baselines.queues.decisions import next_of_queues
from gpusched_env.core.placement.rules import rule_number, shares_by
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.problem.tenants import TenantTree
from gpusched_env.simulator import ClusterView, CompiledScheduler, Simulation


class QueueScheduler(CompiledScheduler):
    """Choose the next tenant and job."""

    policy: ClassVar = next_of_queues
    reads_log: ClassVar = True
    placement: str

    @abstractmethod
    def rules(self, view: ClusterView) -> state.Rules:
        """Return the values of the first fields of QUEUES_DTYPE, except ``rule``, and of the rules of TENANT_DTYPE."""

    def rules_of(self, view: ClusterView, tenants: TenantTree) -> Sequence[state.Rules]:
        """Return the rules of the jobs of each tenant."""
        return [self.rules(view)] * len(tenants.names)

    def begin(self, simulation: Simulation, alone: bool) -> state.Queues:
        """Return the arrays of a run in which nothing is parked."""
        if shares_by(self.placement):
            raise SchedulerError(f"{self.name}: placement {self.placement!r} shares GPUs, which quotas do not count")
        view = simulation.view_for(self)
        rules = {**self.rules(view), "rule": rule_number(self.placement)}
        own = self.rules_of(view, simulation.instance.tenancy[0])
        return state.build(simulation.instance, len(simulation.arrays.replicas), rules, own)


class OrderedQueues(QueueScheduler):
    """Queues that are served in one of ``orders`` (name -> number in kernels), which names the scheduler, too."""

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
