"""SJF-BCO, smallest job first with balanced contention and overhead, and the baselines of its evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.bco.ledger import POLICIES, Ledger, NoPlaceError
from gpusched_env.baselines.bco.plans import READINGS, Plan
from gpusched_env.baselines.bco.rehearsal import Rehearser
from gpusched_env.baselines.bco.search import GRID, MakePlan, Trial, by_bisection, by_grid
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable.arrays import mean, total
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler

ORDERS: Final = ("smallest", "trace")
CHARGES: Final = ("profile", "estimate")
KAPPA_RULES: Final = ("le", "lt")


@dataclass
class SjfBco(Scheduler):
    """Plan all waiting jobs for the smallest makespan, by simulating candidate plans; then carry out the best plan.

    Gangs that span servers slow each other down on the network. Balancing the load of GPUs therefore conflicts with
    keeping gangs on few servers. SJF-BCO spreads small gangs over the least loaded GPUs, and keeps large gangs on the
    least loaded servers. It tries many combinations of two thresholds, theta and kappa, simulates each resulting plan
    in a copy of the run (a rehearsal), and uses the plan that ends first.

    Each job that is placed on a GPU adds a lower bound of its run time to the charge of the GPU, and theta limits this
    charge. Gangs of up to kappa GPUs take the least charged GPUs (FA-FFP). Larger gangs take the least charged GPUs of
    the least charged servers (LBSGF).

    * ``sjf-bco``: ``policy="bco"``. Searches theta and kappa.
    * ``bco-ff``: ``policy="ff"``. Baseline of the paper: the free GPUs with the lowest ids; searches theta.
    * ``bco-ls``: ``policy="ls"``. Baseline of the paper: the least charged GPUs; searches theta.
    * ``bco-rand``: ``policy="rand"``. Baseline of the paper: random GPUs, without a search.

    The three baselines place jobs in order of arrival.

    Parameters
    ----------
    policy : placement of gangs, "bco" (default), "ff", "ls" or "rand", as described above
    semantics : interpretation of a point that the paper leaves open. "idle" (default) = a gang takes free GPUs only,
        and blocks all gangs behind it while it waits; "queue" = every GPU has a queue, and a gang starts when it is
        first in the queues of all its GPUs
    order : order of the jobs. "smallest" (default) = by number of GPUs, ascending, then by arrival; "trace" = by
        arrival
    kappa : maximum size of a small gang [GPU]; "search" (default) = try every distinct split of the waiting gang sizes
    lambda_ : parameter lambda, default 1; written ``lambda=`` in a spec. LBSGF considers the smallest number of servers
        whose GPUs are at least lambda times the gang size. With a larger value, large gangs wait less but spread more
    theta : maximum charge of a GPU [s]. "grid" (default) = try ten values and take the best. The values are the present
        mean charge plus 0.8 to 6 times the mean load that the waiting jobs add to a GPU (or the largest single charge,
        if it is larger). "bisect" = bisection in whole seconds, as published
    kappa_rule : "le" (default) = a gang of at most kappa GPUs is small, as in the text of the paper; "lt" = a gang of
        less than kappa GPUs is small
    charge : charge of a job. "profile" (default) = its run time on one server; "estimate" = ``estimate_s`` / ``u``
    u : factor >= 1 by which an estimate may exceed the run time, default 5
    horizon_s : T of the paper, a simulated time [s]. A plan that ends later than T is discarded, and T is the upper end
        of the bisection. Default inf = no limit; the upper end of the bisection is then the sum of all charges
    seed : seed of "rand", default 0

    Notes
    -----
    The paper plans offline: all jobs are present at time 0. The differences from the paper are:

    - If jobs arrive later, all waiting jobs are planned again. Running jobs keep their GPUs, and charges are kept. The
      name in tables then ends in ``-online``.
    - A theta that leaves a job too few GPUs is discarded. The published loop would compare the makespan of the other
      jobs.
    - If every theta is discarded, the plan is made without a limit.

    "rand" does not search, so it needs no run times. We know of no code by the authors;
    ``docs/reproduce_sjf_bco.md`` lists the points that the paper leaves open. A plan takes one rehearsal of all waiting
    jobs per combination of theta and kappa.

    References
    ----------
    M. Yu, B. Ji, H. Rajan, J. Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with
    Communication Contention", MobiHoc 2022, arXiv 2207.07817, algorithms 1 to 3; section 7 for the baselines.
    """

    relies_on_decisions = True
    knows_partitions = False  # it chooses machines itself
    remembers_gpus = True

    policy: str = "bco"
    semantics: str = "idle"
    order: str = "smallest"
    kappa: str | float = "search"
    lambda_: float = 1.0
    theta: str | float = "grid"
    kappa_rule: str = "le"
    charge: str = "profile"
    u: float = 5.0
    horizon_s: float = math.inf
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters; the scheduler is clairvoyant if it rehearses or charges by profile."""
        for name, known in (
            ("policy", POLICIES),
            ("semantics", tuple(READINGS)),
            ("order", ORDERS),
            ("kappa_rule", KAPPA_RULES),
            ("charge", CHARGES),
        ):
            if getattr(self, name) not in known:
                raise SchedulerError(f"sjf-bco: {unknown_name(name, str(getattr(self, name)), known)}")
        self.kappa = _number("kappa", self.kappa, ("search",))
        self.theta = _number("theta", self.theta, ("grid", "bisect"))
        for name, least in (("lambda_", 1.0), ("u", 1.0)):
            if not least <= getattr(self, name) < math.inf:
                raise SchedulerError(f"sjf-bco: {name.rstrip('_')} is {getattr(self, name)}: give a number >= {least}")
        if not self.horizon_s > 0:
            raise SchedulerError(f"sjf-bco: horizon_s is {self.horizon_s}: give seconds > 0, or inf")
        if self.policy == "rand":
            self.theta = math.inf
        self._searches = isinstance(self.theta, str) or (self.policy == "bco" and self.kappa == "search")
        self.clairvoyant = self._searches or (self.policy != "rand" and self.charge == "profile")
        self._online = False

    @property
    def name(self) -> str:
        """Name in tables, such as ``sjf-bco``; it ends in ``-online`` once jobs have arrived after the first plan."""
        name = "sjf-bco" if self.policy == "bco" else f"bco-{self.policy}"
        return f"{name}-online" if self._online else name

    def reset(self, view: ClusterView) -> None:
        """Discard all charges and the plan."""
        self._generator = np.random.default_rng(self.seed)
        self._charged_s = np.zeros(view.cluster.gpus)  # [s] charges of jobs that have started
        self._known_jobs = 0
        self._plan: Plan | None = None
        self._online = False

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan again if jobs have arrived; start the jobs that the plan allows to start now."""
        try:
            yield from self._decide(view)
        except NoPlaceError as error:
            raise NoPlaceError(f"{self.name}: {error}") from None

    def _decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.entered > self._known_jobs:
            self._online = self._known_jobs > 0
            self._known_jobs = view.entered
            if len(view.waiting):  # else these jobs were cancelled
                self._plan = self._planned(view)
        for start in self._plan.starts(view) if self._plan else ():
            yield start
            self._charged_s[list(start.gpus or ())] += self._charge_s[start.job]

    def _planned(self, view: ClusterView) -> Plan:
        """Plan the waiting jobs; theta and kappa are searched by rehearsal, unless the parameters fix both."""
        waiting = view.waiting
        order = waiting[np.argsort(view.gpus[waiting], kind="stable")] if self.order == "smallest" else waiting
        gangs, charges_s = view.gpus[order].astype(np.int64), self._charges_s(view, order)
        able = view.able_gpus(order)
        self._charge_s = dict(zip(order.tolist(), charges_s.tolist(), strict=True))

        def make(theta_s: float, small: float) -> Plan:
            ledger = Ledger(view.cluster, self._charged_s, self.policy, theta_s, small, self.lambda_, self._generator)
            return READINGS[self.semantics](ledger, order, gangs, charges_s, able)

        if isinstance(view, ClairvoyantView) and self._searches:
            found = self._search(view, make, gangs, charges_s)
            return make(found.theta_s, found.small)
        assert not isinstance(self.theta, str)
        return make(self.theta, self._splits(gangs)[0])

    def _search(self, view: ClairvoyantView, make: MakePlan, gangs: np.ndarray, charges_s: np.ndarray) -> Trial:
        splits, rehearser = self._splits(gangs), Rehearser(view)
        if self.theta == "bisect":
            enough_s = self._charged_s.max() + charges_s.sum()
            most_s = self.horizon_s if math.isfinite(self.horizon_s) else enough_s
            found = by_bisection(rehearser, make, math.ceil(most_s), splits, self.horizon_s)
        else:
            load_s = max(total(gangs * charges_s) / len(self._charged_s), float(charges_s.max()))
            grid_s = mean(self._charged_s) + GRID * load_s
            thetas_s = grid_s.tolist() if isinstance(self.theta, str) else [self.theta]
            found = by_grid(rehearser, make, thetas_s, splits, self.horizon_s)
        if found.end_s < self.horizon_s:
            return found
        if not isinstance(self.theta, str):
            late = "" if math.isinf(self.horizon_s) else f", or ends after horizon_s = {self.horizon_s:g} s"
            raise NoPlaceError(f"theta = {self.theta:g} s leaves some job no place{late}: give a larger one")
        return by_grid(rehearser, make, [math.inf], splits, math.inf)

    def _splits(self, gangs: np.ndarray) -> list[float]:
        """Return the maximum size of a small gang for every split to try."""
        if self.policy != "bco":
            return [0.0]
        if not isinstance(self.kappa, str):
            return [self.kappa if self.kappa_rule == "le" else math.ceil(self.kappa) - 1.0]
        least = 1 if self.kappa_rule == "le" else 0  # largest small gang for kappa = 1
        return [float(size) for size in np.unique([least, *gangs])]

    def _charges_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: a lower bound of the run time of each job; 0 for "rand", which does not read it."""
        if self.policy == "rand":
            return np.zeros(len(rows))
        if self.charge == "profile":
            assert isinstance(view, ClairvoyantView)
            return view.one_machine_s(rows)
        claims_s = view.estimate_s[rows]
        if np.isnan(claims_s).any():
            job = view.job_id[rows[int(np.argmax(np.isnan(claims_s)))]]
            raise SchedulerError(f"{self.name}: job {job} has no estimate_s; use charge=profile")
        return claims_s / self.u


def _number(name: str, value: str | float, words: tuple[str, ...]) -> str | float:
    """Return ``value`` as a number >= 0, also if it is text; a value of ``words`` is returned unchanged."""
    if value in words:
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not number >= 0:
        raise SchedulerError(f"sjf-bco: {name} is {value!r}: give a number >= 0, or {' or '.join(words)}")
    return number
