"""Themis-lite: leases of GPUs to the jobs that are furthest behind a fair share of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.checking import POSITIVE, check
from gpusched_env.baselines.estimates import PREDICTED, EstimatingScheduler
from gpusched_env.baselines.themis import kernels
from gpusched_env.core.handle import Batched
from gpusched_env.core.placement.rules import shares_by
from gpusched_env.simulator import CompiledScheduler, Simulation, rule_number


@dataclass
class Themis(CompiledScheduler, EstimatingScheduler):
    """Lease GPUs to the jobs with the worst finish-time fairness; offer them again when the lease ends.

    Finish-time fairness rho is the time that a job needs in the shared cluster, divided by the time that it would need
    on a private equal share of the cluster. A large rho means that the job is treated unfairly. So GPUs are leased for
    a limited time, and at the end of a lease they go to the jobs with the largest rho.

    Parameters
    ----------
    lease_s : length of a lease [s], default 1,200; > 0. With shorter leases, the schedule is fairer but has more
        preemptions
    placement : placement rule of all jobs; default best fit
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    docs/themis.md defines rho. Each gang has its own lease. All waiting jobs and all jobs whose lease has ended are
    sorted by rho, largest first. In this order, each job gets its whole gang until the cluster is full. A job that is
    chosen again keeps its GPUs at no cost; one whose lease has ended and that is not chosen is preempted.

    This version is "lite": one job is one app, a gang gets all of its GPUs or none, and there are no auctions. A
    decision point takes O(n log n) for n jobs in the system if some job could get GPUs, and O(n) otherwise, as leases
    are then renewed without sorting.

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020, section 3.
    """

    policy = kernels.next_of_offer

    lease_s: float = 1200.0
    placement: str = "pack"
    name = "themis-lite"

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check("themis-lite", self, lease_s=POSITIVE)

    def begin(self, simulation: Simulation, alone: bool) -> kernels.Offer:
        """Forget all jobs and leases."""
        self._view = simulation.view_for(self)
        jobs, seats = len(simulation.instance.workload), len(simulation.arrays.replicas)
        sizes = {"jobs": jobs, "walked": jobs + seats, "told": 0, "predicted": 0, "classes": 0, "levels": 0}
        self._table = Batched(kernels.Offer, 1, sizes).handle(0)
        for name, array in self.estimates(simulation).items():
            self._table.replace(name, array)
        memory, copies = self._table.memory, simulation.instance.semantics.max_copies
        self._table.rules[:] = rule_number(self.placement)
        # With GPU sharing or copies, a job may hold more or fewer GPUs than it asks for.
        memory["asks_all"] = shares_by(self.placement) > 0 or copies > 1
        memory["lease_s"] = self.lease_s
        return self._table

    def assist(self, simulation: Simulation, own: kernels.Offer) -> None:
        """Estimate the run times of the jobs that have arrived."""
        self._table = own
        view = self._view if self._view.simulation is simulation else simulation.view_for(self)
        rows = np.arange(own.memory["estimated"], view.arrived)
        own.whole_s[rows] = self.ideal_s(view, rows)  # :func:`kernels.rho_of` reads claims itself
        own.noise[rows] = self._noise(rows)
        own.memory["estimated"], self._view = view.arrived, view
        if own.source["estimator"] == PREDICTED:
            self.predict(simulation, own)
