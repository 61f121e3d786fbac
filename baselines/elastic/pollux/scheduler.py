"""Pollux: co-adaptive allocation by a genetic search over the GPUs that each job has on each node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import POSITIVE, Range, check
from gpusched_env.baselines.elastic.pollux.search import SEARCH_DTYPE, Search, search
from gpusched_env.baselines.elastic.reallocation import Counts, held_counts, movable, on_most_free, reallocate, supply
from gpusched_env.core.handle import Batched
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.arrays import log, power
from gpusched_env.problem.cluster import MACHINE, NETWORK
from gpusched_env.simulator import ClusterView, Decision, Scheduler

MOST: Final = 10_000  # generations, and allocations that survive each: a search of that size takes minutes

LARGEST: int = 64  # [GPU]
OFFSET: float = 1e-3  # added to each speed-up, so that a waiting job has a finite term
MOST_POWER: int = 10  # with larger exponents, the terms of waiting jobs overflow in sums
PRIOR: float = 1.1  # communication time across nodes / on one node, as Pollux's model assumes before it has measured it


@dataclass
class Pollux(Scheduler):
    """Search for the allocation with the largest power mean of speed-ups, by a genetic algorithm.

    The speed-up of a job is its rate relative to the rate on its equal share of the cluster, on one node. If an
    allocation changes the GPUs of a job, the speed-up is multiplied by (age - restarts x penalty) / (age + penalty), so
    that jobs restart rarely. A node hosts at most one gang that spans nodes, because such gangs would slow each other
    down.

    Parameters
    ----------
    generations, population : generations of a search, and the allocations that survive each of them; default 100 each
    penalty_s : time of a restart that the search assumes [s]; default 30
    seed : seed of the search
    explores : True = a job that has never run on several nodes counts as if it were as fast there as on one, as long as
        Pollux's model has no measurement across nodes; default False = its true speed there is known
    avoidance : False = a node may host several gangs that span nodes; default True
    published : True = the authors' code more closely. The search is NSGA-II: allocations also survive for a second
        objective, the sum of speed-ups / GPUs of the used nodes, and a search begins with the front of Pareto of the
        last one. A second gang of several nodes that is repaired on a node takes all later jobs from it. With
        ``explores``, a job that has run on several GPUs of one node counts as communicating 1.1 times as long across
        nodes, and a job that has not counts as if it communicated there in no time. Default False = survivors are
        chosen by fitness alone
    power : exponent p of the mean of the speed-ups, (mean of speed-up ** p) ** (1 / p). The smaller p, the more the
        slowest jobs count: 1 = arithmetic mean, 0 = geometric, default -1 = harmonic

    Notes
    -----
    A job may at most double the largest number of GPUs that it has had, because Pollux can predict its speed only near
    the sizes that it has measured. A job that has never run counts as linear. Deviations from the authors' code: jobs
    that have run know their true speeds at all sizes, where Pollux fits a model while they run; the batch follows from
    the speeds of the workload, see docs/elastic.md; equal allocations survive once; unless ``published``, survivors are
    chosen by fitness alone, without the second objective of NSGA-II; the generator of random numbers is our own. A
    search takes O(generations x population x jobs x nodes).

    References
    ----------
    A. Qiao et al., "Pollux: Co-adaptive cluster scheduling for goodput-optimized deep learning", OSDI 2021, section 4;
    petuum/adaptdl, branch osdi21-artifact, ``simulator/pollux.py`` (Apache-2.0).
    """

    knows_node_counts = False  # it chooses GPUs itself

    generations: int = 100
    population: int = 100
    penalty_s: float = 30.0
    seed: int = 0
    explores: bool = False
    avoidance: bool = True
    published: bool = False
    power: float = -1.0
    name = "pollux"

    def __post_init__(self) -> None:
        """Check the parameters."""
        if not 1 <= self.generations <= MOST or not 2 <= self.population <= MOST or self.population % 2:
            raise SchedulerError(
                f"pollux: generations must be at least 1, and population even and at least 2; both at most {MOST}"
            )
        power = Range(-MOST_POWER, MOST_POWER, f"a number from {-MOST_POWER} to {MOST_POWER}")
        check("pollux", self, penalty_s=POSITIVE, power=power)

    knows_partitions = False  # it chooses machines itself

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        self._searches, self._kept = 0, 0
        self._tried: dict[int, int] = {}  # job -> largest number of GPUs that it has had
        self._restarts: dict[int, int] = {}
        self._spread: set[int] = set()  # jobs that have run on several nodes
        self._local: set[int] = set()  # jobs that have run on several GPUs of one node
        self._states: dict[int, np.ndarray] = {}  # job -> int32 [population, N], its rows in the last population

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Search for an allocation and carry it out."""
        rows = movable(view)
        if not len(rows):
            return
        order = rows[np.lexsort((rows, np.round(view.attained_gpu_s(rows), 3)))]
        held = held_counts(view)
        plan = self._allocation(view, order.tolist(), held)
        if not plan:  # no allocation was found that gives any job its smallest size: without a start, no event may come
            first = int(order[0])
            plan = on_most_free(view, {first: int(view.sizes(first)[0])})
        yield from reallocate(view, plan)
        for job, nodes in held_counts(view).items():
            if job not in held or (held[job] != nodes).any():
                self._restarts[job] = self._restarts.get(job, -1) + 1
                self._tried[job] = max(self._tried.get(job, 0), int(nodes.sum()))
                if nodes.sum() > 1:
                    (self._spread if np.count_nonzero(nodes) > 1 else self._local).add(job)

    def _allocation(self, view: ClusterView, jobs: list[int], held: Counts) -> Counts:
        """Search, and return the best allocation; jobs that get no GPUs are left out."""
        count, capacity = self.population, supply(view).astype(np.int32)
        begun = self._kept if self._searches else 1 if self.published else count
        nodes, gpus = len(capacity), view.cluster.gpus
        none = np.zeros(nodes, np.int32)
        present = np.array([held.get(job, none) for job in jobs], np.int32)
        sizes = [view.sizes(job) for job in jobs]
        most = [self._most(job, sizes[i]) for i, job in enumerate(jobs)]
        ages = view.now_s - view.arrival_s[jobs]
        restarts = np.array([max(self._restarts.get(job, 0), 0) for job in jobs])
        kept = [
            self._states.get(job, np.broadcast_to(present[i] if not self._searches else none, (begun, nodes)))
            for i, job in enumerate(jobs)
        ]
        changed = np.maximum(ages - self.penalty_s * restarts, 0.0) / (ages + self.penalty_s)
        speed_up = self._speed_ups(view, jobs, sizes) * (nodes / gpus)
        control = np.zeros((), SEARCH_DTYPE)
        seed = np.random.SeedSequence((self.seed, self._searches)).generate_state(1)[0]
        control["jobs"], control["nodes"], control["population"], control["random"] = len(jobs), nodes, count, seed or 1
        control["survivors"], control["avoids"], control["published"] = begun, self.avoidance, self.published
        task: Search = Batched(
            Search,
            1,
            {"states": 2 * count, "jobs": len(jobs), "nodes": nodes},
            search=control,
            capacity=capacity,
            present=present,
            most=np.array(most, np.int32),
            speed_up=speed_up,
            term=cost_terms(np.stack([speed_up, speed_up * changed[:, None, None]], axis=1), self.power),
        ).handle(0)
        task.states[:begun], task.order[:] = np.stack(kept, axis=1), np.arange(2 * count)
        search(task, self.generations)
        self._searches += 1
        order = task.order[: control["survivors"]]
        survivors = task.states[order[task.front[order] == 0]]
        self._kept = len(survivors)
        self._states = {job: survivors[:, i].copy() for i, job in enumerate(jobs)}
        best = {job: _cut(survivors[0, i].astype(np.int64), sizes[i]) for i, job in enumerate(jobs)}
        return {job: counts for job, counts in best.items() if counts.any()}

    def _most(self, job: int, sizes: np.ndarray) -> int:
        """Return the largest number of GPUs that a job may have now; at least its smallest size."""
        tried = min(max(2 * self._tried.get(job, 0), int(sizes[0])), LARGEST)
        return int(sizes[sizes <= max(tried, int(sizes[0]))][-1])

    def _speed_ups(self, view: ClusterView, jobs: list[int], sizes: list[np.ndarray]) -> np.ndarray:
        """float64 [jobs, 2, GPUs + 1]: speed-ups on one node and on several, by GPUs, rounded down to a size."""
        total = view.cluster.gpus
        fair = -(-total // len(jobs))
        found = np.zeros((len(jobs), 2, total + 1))
        numbers = np.arange(total + 1)
        for i, job in enumerate(jobs):
            at = np.searchsorted(sizes[i], numbers, side="right") - 1
            share = max(int(at[fair]), 0)
            if job in self._tried:
                rates = view.placed_rates(job).max(axis=2)
                local, spread = rates[:, MACHINE], rates[:, NETWORK]
                if self.explores:
                    local, spread = self._assumed(view, job, local, spread)
                both = np.stack([local, spread]) / local[share]
            else:
                both = np.broadcast_to(sizes[i] / fair, (2, len(sizes[i])))
            found[i] = np.where(at >= 0, both[:, at], 0.0)
        return found

    def _assumed(
        self, view: ClusterView, job: int, local: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates on one node and across nodes that Pollux's model expects, given where a job has run."""
        if not self.published:
            return local, spread if job in self._spread else local
        communication_s = view.placed_communication_s(job)[:, MACHINE].min(axis=1)
        assumed = 1.0 / (1.0 / local + (PRIOR - 1.0) * communication_s)
        if job not in self._local:
            local = assumed = 1.0 / (1.0 / local - communication_s)
        return local, spread if job in self._spread else assumed


def cost_terms(speed_up: np.ndarray, exponent: float) -> np.ndarray:
    """Return terms whose mean is the smaller, the larger the power mean of the speed-ups is."""
    above = speed_up + OFFSET
    if exponent == -1.0:
        return 1.0 / above
    if exponent == 0.0:
        return -log(above)
    return power(above, exponent) * (1.0 if exponent < 0 else -1.0)


def _cut(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Take GPUs away, from the nodes with the fewest of them first, until their number is a size."""
    fitting = sizes[sizes <= counts.sum()]
    spare = int(counts.sum() - (fitting[-1] if len(fitting) else 0))
    for node in np.argsort(counts, kind="stable").tolist():
        taken = min(spare, int(counts[node]))
        counts[node] -= taken
        spare -= taken
    return counts
