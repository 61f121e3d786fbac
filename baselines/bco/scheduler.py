"""SJF-BCO: smallest job first with balanced contention and overhead; and the baselines of its evaluation."""

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
    """Plan all waiting jobs for the least makespan by rehearsal; then start them in that order on those GPUs.

    Gangs that span servers slow each other down on the network, so balancing load over GPUs conflicts with keeping
    gangs on few servers. SJF-BCO spreads small gangs over the least loaded GPUs and keeps large gangs on the least
    loaded servers. It tries many combinations of two thresholds, plays each resulting plan in a copy of the simulation,
    and uses the plan that ends first.

    Each GPU is charged with a lower bound of the run time of every job placed on it, and theta limits this charge.
    Gangs of up to kappa GPUs take the least charged GPUs (FA-FFP), larger ones the least charged GPUs of the least
    charged servers (LBSGF).

    * ``sjf-bco``: ``policy="bco"``. Searches theta and kappa.
    * ``bco-ff``, ``bco-ls``, ``bco-rand``: baselines of the paper, in order of arrival. First fit by GPU number and
      least charged GPUs, both with a search for theta; random GPUs without a search.

    Parameters
    ----------
    policy : placement: "bco" (default), "ff", "ls" or "rand", see above
    semantics : reading of an open point of the paper. "idle" (default) = a gang takes GPUs that no job holds, and
        blocks all gangs behind it while it waits; "queue" = every GPU has a queue, and a gang starts when it heads
        those of all its GPUs
    order : order of the jobs: "smallest" (default) = fewest GPUs first, then by arrival; "trace" = by arrival
    kappa : largest small gang [GPU]; "search" (default) = try every distinct split of the waiting gang sizes
    lambda_ : LBSGF keeps the fewest servers that together have lambda x the gang's GPUs, default 1; written ``lambda=``
        in a spec. A larger value lets large gangs wait less but spread more
    theta : largest charge of a GPU [s]. "grid" (default) = the best of ten values: the present mean charge plus 0.8 to
        6 times the mean load that the waiting jobs add to a GPU (or the largest single charge, if that is more);
        "bisect" = bisection in whole seconds, as published
    kappa_rule : "le" (default) = a gang is small up to kappa GPUs, as the text of the paper says; "lt" = below kappa
    charge : "profile" (default) = run time on one server; "estimate" = the workload's estimate / ``u``
    u : the most by which an estimate exceeds the run time, as a factor >= 1, default 5
    horizon_s : T of the paper [s]: a plan that ends later is discarded, and it is the upper end of the bisection.
        Default inf = no limit, and the sum of all charges as upper end
    seed : seed of "rand", default 0

    Notes
    -----
    The paper plans offline: all jobs are present at time 0. If jobs arrive later, all waiting jobs are planned again,
    while running jobs stay and charges are kept; the name then ends in ``-online``. This is our extension. Other
    deviations: a theta under which some job finds no place is discarded (the published loop would compare the makespan
    of the other jobs), and if every theta is discarded, the plan is made without a limit. "rand" does not search, so it
    needs no run times. No authors' code is known; ``docs/reproduce_sjf_bco.md`` lists what the paper leaves open. One
    plan takes (thetas x kappas) rehearsals of all waiting jobs.

    References
    ----------
    M. Yu, B. Ji, H. Rajan, J. Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with
    Communication Contention", MobiHoc 2022, arXiv 2207.07817, algorithms 1 to 3; section 7 for the baselines.
    """

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
        """Check the parameters; rehearsals and charges by profile read true run times."""
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
        """sjf-bco, bco-ff, bco-ls or bco-rand; with ``-online`` once jobs have arrived after the first plan."""
        name = "sjf-bco" if self.policy == "bco" else f"bco-{self.policy}"
        return f"{name}-online" if self._online else name

    def reset(self, view: ClusterView) -> None:
        """Forget charges and plan."""
        self._generator = np.random.default_rng(self.seed)
        self._charged_s = np.zeros(view.cluster.gpus)  # [s] charges of jobs that have started
        self._known_jobs = 0
        self._online = False

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan again if jobs have arrived; start the jobs that the plan allows to start now."""
        try:
            yield from self._decide(view)
        except NoPlaceError as error:
            raise NoPlaceError(f"{self.name}: {error}") from None

    def _decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.arrived > self._known_jobs:
            self._online = self._known_jobs > 0
            self._known_jobs = view.arrived
            self._plan = self._planned(view)
        for start in self._plan.starts(view):
            yield start
            self._charged_s[list(start.gpus or ())] += self._charge_s[start.job]

    def _planned(self, view: ClusterView) -> Plan:
        """Plan the waiting jobs; search theta and kappa by rehearsal unless both are given."""
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
        """Largest small gang of every split to try."""
        if self.policy != "bco":
            return [0.0]
        if not isinstance(self.kappa, str):
            return [self.kappa if self.kappa_rule == "le" else math.ceil(self.kappa) - 1.0]
        least = 1 if self.kappa_rule == "le" else 0  # largest small gang for kappa = 1
        return [float(size) for size in np.unique([least, *gangs])]

    def _charges_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: a lower bound of each job's run time; zeros for "rand", which never reads it."""
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
    """Read a number >= 0, which may be given as text; ``words`` are returned unchanged."""
    if value in words:
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not number >= 0:
        raise SchedulerError(f"sjf-bco: {name} is {value!r}: give a number >= 0, or {' or '.join(words)}")
    return number
