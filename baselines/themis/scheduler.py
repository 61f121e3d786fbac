"""Themis-lite: leases of GPUs to the jobs that are furthest behind a fair share of the cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import EstimatingScheduler
from gpusched_env.baselines.themis import kernels
from gpusched_env.baselines.themis.auction import partial_allocation
from gpusched_env.baselines.themis.shares import max_min_shares
from gpusched_env.core.handle import Batched
from gpusched_env.core.placement.rules import shares_by
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.simulator import ClusterView, CompiledScheduler, Simulation, rule_number

# Least share of a lease that a winner of the auction keeps; a lease must not be empty.
_LEAST_SHARE: Final = 0.05


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
    auction : True = the jobs with the largest rho first bid for the GPUs (partial allocation); default False = all jobs
        are served in order of rho
    fairness_knob : parameter f of the auction, 0 to 1, default 0.8; only the fraction 1 - f of the jobs bids, those
        with the largest rho
    maxmin : True = order jobs by fair share of time / time received. The fair shares are those that minimise the
        largest rho (Gavel and other papers model Themis in this way); default False = order jobs by rho
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    docs/themis.md defines rho. Each gang has its own lease. All waiting jobs and all jobs whose lease has ended are
    sorted by rho, largest first. In this order, each job gets its whole gang until the cluster is full. A job that is
    chosen again keeps its GPUs at no cost; one whose lease has ended and that is not chosen is preempted.

    This version is "lite": one job is one app, and a gang gets all of its GPUs or none. So a bid has two entries, rho
    with the gang now and rho after another lease of waiting, and a winner that may keep only the fraction c of its
    allocation keeps its whole gang for the fraction c of the lease, but at least for 1/20 of it. A decision point takes
    O(n log n) for n jobs in the system if some job could get GPUs, and O(n) otherwise, as leases are then renewed
    without sorting. The auction takes O(bidders^2 x GPUs).

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020, section 3 (finish-time fairness),
    and its partial allocation auction; D. Narayanan et al., OSDI 2020, section 4.2 (``maxmin``).
    """

    policy = kernels.next_of_offer

    lease_s: float = 1200.0
    placement: str = "pack"
    auction: bool = False
    fairness_knob: float = 0.8
    maxmin: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        if not self.lease_s > 0:
            raise SchedulerError(f"themis-lite: lease_s is {self.lease_s}: give a number of seconds > 0")
        if not 0 <= self.fairness_knob <= 1:
            raise SchedulerError(f"themis-lite: fairness_knob is {self.fairness_knob}: give a number of 0 to 1")

        if self.auction and self.maxmin:
            raise SchedulerError("themis-lite: give auction or maxmin, not both")
        if self.auction and math.isinf(self.lease_s):  # the value of a bid is the cost of waiting for another lease
            raise SchedulerError("themis-lite: auction=true needs a finite lease_s")

    @property
    def name(self) -> str:
        """Name in tables: ``themis-lite``, followed by ``-pa`` (partial allocation) or ``-maxmin`` if this is on."""
        return "themis-lite" + "-pa" * self.auction + "-maxmin" * self.maxmin

    def begin(self, simulation: Simulation, alone: bool) -> kernels.Offer:
        """Forget all jobs and leases."""
        self._view = simulation.view_for(self)
        EstimatingScheduler.reset(self, self._view)
        jobs, seats = len(simulation.instance.workload), len(simulation.arrays.replicas)
        self._table = Batched(kernels.Offer, 1, {"jobs": jobs, "walked": jobs + seats}).handle(0)
        memory, copies = self._table.memory, simulation.instance.semantics.max_copies
        self._table.rules[:] = rule_number(self.placement)
        # An auction ranks all jobs. With GPU sharing or copies, a job may hold more or fewer GPUs than it asks for.
        memory["asks_all"] = self.auction or shares_by(self.placement) > 0 or copies > 1
        memory["by_rho"], memory["by_python"] = not self.maxmin, self.auction or self.maxmin
        memory["claimed"], memory["lease_s"] = not self.clairvoyant, self.lease_s
        return self._table

    def assist(self, simulation: Simulation, own: kernels.Offer) -> None:
        """Estimate the run times of new jobs; or rank the jobs by an auction, or by their fair shares."""
        self._table = own
        if self._view.simulation is not simulation:
            self._view = simulation.view_for(self)
        if own.memory["asks"] == kernels.ESTIMATE:
            self._estimate(self._view, own)
        else:
            self._rank(self._view, own)

    def _estimate(self, view: ClusterView, own: kernels.Offer) -> None:
        """Estimate the run times of the jobs that have arrived."""
        rows = np.arange(own.memory["estimated"], view.arrived)
        own.whole_s[rows] = self.ideal_s(view, rows)  # of claims, :func:`kernels.measure` sees to overruns
        own.noise[rows] = self._noise(rows)
        own.memory["estimated"] = view.arrived

    def _rank(self, view: ClusterView, own: kernels.Offer) -> None:
        """Rank the jobs that may get GPUs; running leases come first in ``order``, and gangs in a checkpoint last."""
        begin = int(own.memory["leased"])
        ranked = own.order[begin : begin + own.memory["ranked"]]
        if self.maxmin:
            ranked[:] = self._by_share(view, np.sort(ranked))
        else:
            ended = own.ended[: own.memory["ended"]]
            ranked[:], shares = self._auction(view, ranked.copy(), view.free_gpus + int(view.gpus[ended].sum()))
            own.shares[: len(shares)] = np.maximum(shares, _LEAST_SHARE)

    def _by_share(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Sort by fair share / time received; jobs that never ran come first."""
        present = np.concatenate([view.waiting, view.running])
        self._measure(view, present)
        waited_s = view.now_s - view.arrival_s[present]
        due = np.zeros(view.arrived)
        due[present] = max_min_shares(
            waited_s, self._table.left_s[present], self._table.fair_s[present], view.gpus[present], view.cluster.gpus
        )
        had_s = view.service_s(rows)
        ratio = np.divide(due[rows], had_s, out=np.full(len(rows), np.inf), where=had_s > 0)
        return rows[np.lexsort((-rounded_keys(due[rows]), -rounded_keys(ratio)))]

    def fairness(self, view: ClusterView, rows: np.ndarray, later_s: float = 0.0) -> np.ndarray:
        """float64: rho of each of the jobs ``rows`` if it got its gang on the best placement in ``later_s`` seconds."""
        self._measure(view, rows, later_s)
        return self._table.rho[rows]

    def _measure(self, view: ClusterView, rows: np.ndarray, later_s: float = 0.0) -> None:
        self._table.scratch[: len(rows)] = rows
        kernels.measure_each(view.simulation.arrays, self._table, len(rows), later_s)

    def _auction(self, view: ClusterView, ranked: np.ndarray, gpus: int) -> tuple[np.ndarray, np.ndarray]:
        """Let the jobs with the largest rho bid."""
        shares = np.ones(view.arrived)
        bidders = ranked[: max(1, round((1.0 - self.fairness_knob) * len(ranked)))]
        bidders = bidders[view.gpus[bidders] <= gpus]
        now, later = 1.0 / self.fairness(view, bidders), 1.0 / self.fairness(view, bidders, self.lease_s)
        bids = [np.full(gang + 1, np.nan) for gang in view.gpus[bidders].tolist()]
        for bid, with_gang, without in zip(bids, now, later, strict=True):
            bid[0], bid[-1] = without, with_gang
        allocation, kept = partial_allocation(bids, gpus)
        shares[bidders] = kept
        winners = bidders[np.array(allocation, np.int64) > 0]
        return np.concatenate([winners, ranked[~np.isin(ranked, winners)]]), shares
