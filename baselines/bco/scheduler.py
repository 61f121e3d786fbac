"""SJF-BCO, smallest job first with balanced contention and overhead, and the baselines of its evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.baselines.bco.kernels import DRAWS, NO_PLACE, PLAN, POLICIES, WAITS, Book, next_of_book, place_at_once
from gpusched_env.baselines.bco.rehearsal import NoPlaceError, Rehearser
from gpusched_env.baselines.bco.search import GRID, MakePlan, Trial, by_bisection, by_grid
from gpusched_env.baselines.checking import AT_LEAST_1, POSITIVE, check
from gpusched_env.core.handle import Batched
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.arrays import mean, total
from gpusched_env.simulator import ClairvoyantView, ClusterView, CompiledScheduler, Simulation

READINGS: Final = ("idle", "queue")
ORDERS: Final = ("smallest", "trace")
CHARGES: Final = ("profile", "estimate")
KAPPA_RULES: Final = ("le", "lt")


@dataclass
class SjfBco(CompiledScheduler):
    """Plan all waiting jobs for the smallest makespan, by simulating candidate plans; then carry out the best plan.

    Gangs that span servers slow each other down on the network. Balancing the load of GPUs therefore conflicts with
    keeping gangs on few servers. SJF-BCO spreads small gangs over the least loaded GPUs, and keeps large gangs on the
    least loaded servers. It tries many combinations of two thresholds, theta and kappa, simulates each resulting plan
    in a copy of the run (a rehearsal), and uses the plan that ends first.

    Each job that is placed on a GPU adds a lower bound of its run time to the charge of the GPU, and theta limits this
    charge. Gangs of up to kappa GPUs take the least charged GPUs (FA-FFP). Larger gangs take the least charged GPUs of
    the least charged servers (LBSGF).

    The three baselines of the paper place jobs in order of arrival.

    Parameters
    ----------
    policy : placement of gangs: "bco" (default) = SJF-BCO, which searches theta and kappa; baselines: "ff" =
        the free GPUs with the lowest ids, "ls" = the least charged GPUs, which search theta; "rand" = random GPUs
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
    The paper plans offline: all jobs are present at time 0. If jobs arrive later, all waiting jobs are planned again,
    and the name in tables ends in ``-online``. They are also planned again when a gang fails, or a machine goes down
    or comes back; a failed gang is charged again, and rehearsals know of no failure to come (our choice). A theta that
    leaves a job too few GPUs is discarded; if all are, the plan is made without a limit. We know of no code by the
    authors; ``docs/reproduce_sjf_bco.md`` lists the points that the paper leaves open. A plan takes one rehearsal of
    all waiting jobs per combination of theta and kappa.

    References
    ----------
    M. Yu, B. Ji, H. Rajan, J. Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with
    Communication Contention", MobiHoc 2022, arXiv 2207.07817, algorithms 1 to 3; section 7 for the baselines.
    """

    knows_node_counts = False  # it chooses GPUs itself

    relies_on_decisions = True
    knows_partitions = False  # it chooses machines itself
    remembers_gpus = True

    policy: str = "bco"  # type: ignore[misc]  # that of the base class is :meth:`policy_kernel`
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
        check(
            "sjf-bco", self, policy=POLICIES, semantics=READINGS, order=ORDERS, kappa_rule=KAPPA_RULES, charge=CHARGES
        )
        check("sjf-bco", self, lambda_=AT_LEAST_1, u=AT_LEAST_1, horizon_s=POSITIVE)
        self.kappa = _number("kappa", self.kappa, ("search",))
        self.theta = _number("theta", self.theta, ("grid", "bisect"))
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

    @classmethod
    def policy_kernel(cls) -> Any:
        """Return the kernel that carries out a plan."""
        return next_of_book

    def begin(self, simulation: Simulation, alone: bool) -> Book:
        """Return an empty plan without charges."""
        self._generator = np.random.default_rng(self.seed)
        self._online = False
        self._view = simulation.view_for(self)
        gangs = simulation.instance.workload.jobs["gpus"]
        sizes = {"jobs": len(gangs), "able": 1, "gpus": self._view.cluster.gpus, "chosen": int(gangs.sum()),
                 "nodes": len(self._view.cluster.nodes)}  # fmt: skip
        book: Book = Batched(Book, 1, sizes).handle(0)
        book.able[:] = True
        book.memory["policy"], book.memory["capacity"] = POLICIES.index(self.policy), self.lambda_
        book.memory["queues"] = self.semantics == "queue"
        return book

    def assist(self, simulation: Simulation, own: Book) -> None:
        """Plan again because jobs have arrived; or draw the GPUs of the next job."""
        if self._view.simulation is not simulation:
            self._view = simulation.view_for(self)
        try:
            if own.memory["asks"] == PLAN:
                self._online |= bool(0 < own.memory["known"] < self._view.entered)
                failed = self._view.running[self._view.checkpointing]
                rows = np.sort(np.concatenate([self._view.waiting, failed]))
                if len(rows):  # else these jobs were cancelled
                    self._plan(self._view, rows, own)
                own.memory["known"] = self._view.entered
                own.memory["changes"] = simulation.arrays.world["next_closing"]
            else:
                self._draw(simulation, own, int(own.memory["at"]), int(own.memory["asks"]))
                own.memory["drawn"] = 1
        except NoPlaceError as error:
            raise NoPlaceError(f"{self.name}: {error}") from None

    def _plan(self, view: ClusterView, waiting: np.ndarray, own: Book) -> None:
        """Plan the waiting jobs; theta and kappa are searched by rehearsal, unless the parameters fix both."""
        m = own.memory
        order = waiting[np.argsort(view.gpus[waiting], kind="stable")] if self.order == "smallest" else waiting
        gangs, charges_s, count = view.gpus[order].astype(np.int64), self._charges_s(view, order), len(order)
        own.gangs[:count], own.charges_s[:count], own.ends[:count] = gangs, charges_s, np.cumsum(gangs)
        if (able := view.able_gpus(order)) is not None:
            own.replace("able", np.ascontiguousarray(able))
        charged_s = own.started_s.copy()

        def make(theta_s: float, small: float) -> Book:
            own.order[:count], own.charged_s[:], own.started_s[:] = order, charged_s, charged_s
            m["theta_s"], m["small"], m["count"], m["left"] = theta_s, small, count, count
            m["known"] = m["changes"] = np.iinfo(np.int64).max  # rehearsals make no new plan
            m["at"] = m["binding"] = m["drawn"] = 0
            if m["queues"]:
                self._place_all(view.simulation, own)
            return own

        if isinstance(view, ClairvoyantView) and self._searches:
            found = self._search(Rehearser(view.simulation, own), make, gangs, charged_s, charges_s)
            make(found.theta_s, found.small)
        else:
            assert not isinstance(self.theta, str)
            make(self.theta, self._splits(gangs)[0])

    def _place_all(self, simulation: Simulation, book: Book) -> None:
        """Assign GPUs to all jobs of a plan, whether or not the GPUs are free."""
        chosen = simulation.arrays.chosen
        for at in range(book.memory["count"]):
            self._draw(simulation, book, at, place_at_once(simulation.arrays, book, at))
            gpus = chosen[: book.gangs[at]]
            book.places[book.ends[at] - book.gangs[at] : book.ends[at]] = gpus
            book.charged_s[gpus] += book.charges_s[at]

    def _draw(self, simulation: Simulation, book: Book, at: int, found: int) -> None:
        """Draw the GPUs of a job from the candidates if ``place_gang`` has returned DRAWS."""
        gang = int(book.gangs[at])
        if found in (NO_PLACE, WAITS):
            raise NoPlaceError(
                f"theta = {book.memory['theta_s']:g} s leaves no place for a gang of {gang} GPUs: give a larger one"
            )
        if found == DRAWS:
            chosen = simulation.arrays.chosen
            chosen[:gang] = self._generator.choice(chosen[: book.memory["candidates"]], gang, replace=False)

    def _search(
        self, rehearser: Rehearser, make: MakePlan, gangs: np.ndarray, charged_s: np.ndarray, charges_s: np.ndarray
    ) -> Trial:
        splits = self._splits(gangs)
        if self.theta == "bisect":
            enough_s = charged_s.max() + charges_s.sum()
            most_s = self.horizon_s if math.isfinite(self.horizon_s) else enough_s
            found = by_bisection(rehearser, make, math.ceil(most_s), splits, self.horizon_s)
        else:
            load_s = max(total(gangs * charges_s) / len(charged_s), float(charges_s.max()))
            grid_s = mean(charged_s) + GRID * load_s
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
