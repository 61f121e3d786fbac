"""Hadar (reconstruction): gangs on several GPU types, granted by an online primal-dual method in rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import AT_LEAST_0, FINITE, Range, check
from gpusched_env.baselines.gang_plans import GangPlan, unfinished
from gpusched_env.baselines.hadar.elastic import grant_sizes
from gpusched_env.baselines.hadar.prices import (
    ASKING_DTYPE,
    UTILITIES,
    Paces,
    price_range,
    price_table,
    set_utility,
    utility_at,
)
from gpusched_env.baselines.hadar.search import Round
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.problem.cluster import MACHINE, SLOT
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler, Wait

ORDERS: Final = ("density", "arrival")
MOST_SEARCHED: Final = 16  # jobs of an exact search, whose states double with each


@dataclass
class Hadar(Scheduler):
    """Compute a price for the GPUs of each node in every round; grant a job GPUs if its utility exceeds their price.

    The GPUs of one gang may be of different types. Otherwise GPUs could be idle because a gang does not fit on one
    type. The utility of a job depends on the time at which it ends. The price of a node's GPUs rises with the number of
    GPUs that are already granted there. A job gets the placement with the largest payoff, which is its utility minus
    the price, if this payoff is positive.

    Parameters
    ----------
    utility : value of a job as a function of its end time. This parameter affects results more than any other.
        "effective_throughput_normalised" (default) = ideal run time / JCT; "effective_throughput_raw" = iterations /
        JCT; "inverse_remaining" = 1 / (end - now), which serves short jobs first
    round_s : length of a round [s], default 360; the next round begins early if no job runs any more
    order : order in which jobs are granted GPUs. "density" (default) = by utility at the earliest possible end / gang
        size, descending; "arrival" = by arrival
    dp_max : maximum number of jobs for the exact search, default 12, at most 16. With at most so many jobs, the set of
        jobs with the largest total payoff is granted; with more jobs, GPUs are granted greedily in the given order
    mixed : True (default) = a gang may use several GPU types, and runs at the rate of the slowest; False = one type
    work_conserving : True (default) = GPUs that no job is granted for their price are given, in the same order, to jobs
        that fit
    spread_guard : a gang is not placed on several nodes if its rate there is less than this fraction of its rate on the
        empty cluster, default 0.5; 0 = no such rule
    guard_patience_s : time after which a waiting job is exempt from ``spread_guard`` [s], default 3,600
    elastic : True = a job of several sizes buys the size with the largest payoff, too, always greedily. The price range
        is that of jobs on their smallest sizes. Default False = it runs on the size that it requests

    Notes
    -----
    This scheduler is a reconstruction: only the abstracts of both papers were available to us, and no code;
    ``docs/hadar.md`` says which parts come from the literature and which are our choices. If checkpoints take time,
    gangs start when their GPUs come free. Rates are those of an idle network. A greedy round takes O(Q T N W) for Q
    jobs, T GPU types, N nodes and gangs of W GPUs.

    References
    ----------
    Sultana, Pakka, Xu, Yuan, Chen, Tzeng, "Resource Heterogeneity-Aware and Utilization-Enhanced Scheduling for Deep
    Learning Clusters", 2025, arXiv 2503.10918; "Hadar: Heterogeneity-Aware Optimization-Based Online Scheduling for
    Deep Learning Cluster", IPDPS 2024. The form of the prices: OASiS, INFOCOM 2018.
    """

    utility: str = "effective_throughput_normalised"
    round_s: float = 360.0
    order: str = "density"
    dp_max: int = 12
    mixed: bool = True
    work_conserving: bool = True
    spread_guard: float = 0.5
    guard_patience_s: float = 3_600.0
    elastic: bool = False

    clairvoyant = True
    knows_partitions = False  # it chooses machines itself
    knows_node_counts = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        few = Range(0, MOST_SEARCHED, f"a number from 0 to {MOST_SEARCHED}")
        check("hadar", self, utility=UTILITIES, order=ORDERS, round_s=FINITE, dp_max=few)
        check("hadar", self, spread_guard=AT_LEAST_0, guard_patience_s=AT_LEAST_0)
        self.needs = ("sizes",) if self.elastic else ()

    @property
    def name(self) -> str:
        """Name in tables, which contains the utility because results depend on it."""
        return f"hadar-{'elastic-' * self.elastic}{UTILITIES[self.utility]}"

    def reset(self, view: ClusterView) -> None:
        """Read the machines and the rates."""
        assert isinstance(view, ClairvoyantView)
        self._plan = GangPlan()
        self._next_round_s = 0.0
        self._nodes = view.cluster.nodes
        self._rates = view.rates_per_s
        self._best_rate = np.full(len(self._rates), np.nan)  # [1/s] on the empty cluster; nan = not computed yet
        self._excused = np.empty(0, np.int64)  # rows that run on several nodes, slower than the guard allows

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan a round when one begins; otherwise start gangs that were blocked."""
        assert isinstance(view, ClairvoyantView)
        if view.now_s >= self._next_round_s or not len(view.running):
            rows = unfinished(view)
            if not len(rows):
                return
            self._next_round_s = view.now_s + self.round_s
            yield from self._begin_round(view, rows)
        else:
            yield from self._plan.start(view)
        yield Wait(self._next_round_s)

    def _begin_round(self, view: ClairvoyantView, rows: np.ndarray) -> Iterator[Decision]:
        question = self._question(view, rows)
        if self.elastic:
            grant_sizes(question, self._options(view, question.jobs), self.work_conserving)
        else:
            self._grant_gangs(question)
        jobs = question.jobs
        slow = jobs["rate"] < self.spread_guard * self._best_rate[jobs["job_class"]]
        self._excused = jobs["row"][slow & ((question.counts > 0).sum(axis=1) > 1)]
        yield from self._plan.carry_out(view, jobs["row"], question.counts, self._next_round_s)

    def _grant_gangs(self, question: Round) -> None:
        """Grant gangs of the sizes that jobs request: the best set of jobs, or greedily."""
        if len(question.jobs) > self.dp_max:
            question.greedy()
        else:
            question.exact()
        if self.work_conserving:
            question.greedy(priced=False)

    def _options(self, view: ClairvoyantView, jobs: np.ndarray) -> list[np.ndarray]:
        """Return, for each job, ASKING_DTYPE [sizes]: how it asks for each of its sizes that the cluster can run."""
        options = []
        for i, row in enumerate(jobs["row"].tolist()):
            sizes = view.sizes(row)
            each = np.repeat(jobs[i : i + 1], len(sizes))
            each["gpus"], each["job_class"] = sizes, view.size_classes(row)
            each["tier"] = self._tiers(view, sizes)
            best = np.array([self._alone(view, each[k : k + 1]) for k in range(len(each))])
            if jobs["least_rate"][i] > 0:
                each["least_rate"] = self.spread_guard * best
            options.append(each[best > 0])
        return options

    def _tiers(self, view: ClairvoyantView, gpus: np.ndarray) -> np.ndarray:
        """Return the tightest tier of each gang; prices are per node, so a slot counts as a machine."""
        tier = view.cluster.tightest_tier(gpus)
        return np.where(tier == SLOT, MACHINE, tier)

    def _question(self, view: ClairvoyantView, rows: np.ndarray) -> Round:
        """Sort the jobs and price the GPUs."""
        now_s, round_s = view.now_s, self.round_s
        jobs = np.zeros(len(rows), ASKING_DTYPE)
        jobs["row"], jobs["gpus"], jobs["job_class"] = rows, view.gpus[rows], view.job_class[rows]
        if self.elastic:
            jobs["gpus"] = [view.sizes(row)[0] for row in rows.tolist()]
            jobs["job_class"] = [view.size_classes(row)[0] for row in rows.tolist()]
        jobs["tier"] = self._tiers(view, jobs["gpus"])
        jobs["remaining"] = view.iterations_left(rows)
        rates = self._rates[jobs["job_class"], jobs["tier"]]
        fastest, slowest = rates.max(axis=1), np.where(rates > 0, rates, np.inf).min(axis=1)
        paces = Paces(jobs["remaining"] / fastest, jobs["remaining"] / slowest)
        set_utility(jobs, self.utility, view.iterations(rows), view.arrival_s[rows], fastest, now_s)
        prices = price_range(jobs, paces, view.cluster.gpus, now_s, round_s)
        self._set_least_rates(view, jobs)
        if self.order == "density":
            density = utility_at(jobs, now_s + paces.fastest_s) / jobs["gpus"]
            jobs = jobs[np.argsort(-rounded_keys(density), kind="stable")]  # ties: arrival, then id, the order of rows
        table = price_table(prices, self._nodes["gpus"])
        return Round(jobs, self._rates, self._nodes, table, now_s, round_s, self.mixed)

    def _set_least_rates(self, view: ClairvoyantView, jobs: np.ndarray) -> None:
        """Set the rate below which a job is not spread over nodes; 0 for jobs that have waited long enough."""
        _, first = np.unique(jobs["job_class"], return_index=True)
        for i in first.tolist():
            if self._alone(view, jobs[i : i + 1]) == 0.0:
                kinds = "of all GPU types together" if self.mixed else "of any one GPU type, and mixed is off"
                raise SchedulerError(
                    f"hadar: job {view.job_id[jobs['row'][i]]} needs {jobs['gpus'][i]} GPUs that run it; the cluster "
                    f"has fewer {kinds}; leave the job out, or enlarge the cluster"
                )
        waiting = np.isin(jobs["row"], view.waiting)
        patient = waiting & (view.now_s - view.last_stop_s[jobs["row"]] >= self.guard_patience_s)
        patient |= ~waiting & np.isin(jobs["row"], self._excused)
        jobs["least_rate"] = np.where(patient, 0.0, self.spread_guard * self._best_rate[jobs["job_class"]])

    def _alone(self, view: ClairvoyantView, job: np.ndarray) -> float:
        """Return :meth:`_rate_alone`, computed once for each job class."""
        job_class = int(job["job_class"][0])
        if np.isnan(self._best_rate[job_class]):
            self._best_rate[job_class] = self._rate_alone(view, job)
        return float(self._best_rate[job_class])

    def _rate_alone(self, view: ClairvoyantView, job: np.ndarray) -> float:
        """Return the rate that FIND_ALLOC finds for a job alone on the empty cluster [1/s]; 0 = it has no placement."""
        alone = job.copy()
        alone["least_rate"] = 0.0
        alone["since_s"], alone["worth"] = view.now_s, 1.0  # utility 1 / (end - now), for work that takes days
        alone["remaining"] = 1e6 * self._rates[alone["job_class"]].max()
        nothing = np.zeros((len(self._nodes), int(self._nodes["gpus"].max()) + 1))
        question = Round(alone, self._rates, self._nodes, nothing, view.now_s, self.round_s, self.mixed)
        question.greedy(priced=False)
        return float(alone["rate"][0])
