"""Sia: sizes and GPU types of elastic jobs by an integer program in each round."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.checking import AT_LEAST_0, Range, check
from gpusched_env.baselines.elastic.reallocation import Counts, held_counts, movable, reallocate, supply
from gpusched_env.baselines.elastic.sia.placing import place
from gpusched_env.baselines.elastic.sia.program import DIGITS, WAITS, Program, costs
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.cluster import MACHINE, NETWORK
from gpusched_env.simulator import ClusterView, Decision, Scheduler

LARGEST: Final = 64  # [GPU]


class Kind(NamedTuple):
    """Nodes of one GPU type with equal numbers of GPUs."""

    gpu_type: int
    capacity: int  # [GPU] of a node
    nodes: np.ndarray  # int64, indices of the nodes

    @property
    def configurations(self) -> list[int]:
        """1, 2, 4, ... GPUs of a node, then whole nodes [GPU]."""
        parts = [1 << k for k in range(self.capacity.bit_length()) if 1 << k < self.capacity]
        return parts + [self.capacity * count for count in range(1, len(self.nodes) + 1)]


class Choice(NamedTuple):
    """A configuration that a job may have, and its value."""

    value: float  # goodput relative to the worst configuration of the job
    kind: int
    gpus: int


@dataclass
class Sia(Scheduler):
    """Choose a GPU type and a number of GPUs for each job, by an integer program over all jobs.

    A configuration is a kind of nodes with 1, 2, 4, ... GPUs of one node, or with whole nodes. The value of a
    configuration is its goodput relative to the worst configuration of the job, and its cost is value ** power. The
    program minimises the sum of the costs; a job that waits costs ``wait_cost``. All values but that of the present
    configuration are multiplied by (age - restarts x penalty) / (age + penalty), so that jobs restart rarely.

    Parameters
    ----------
    power : fairness power, < 0; default -0.5
    wait_cost : cost of a job that waits; default 1.1
    penalty_s : time of a restart that the values assume [s]; None = the resize cost of the scenario

    Notes
    -----
    A job that has never run may only have its smallest size; then it may at most double the largest number of GPUs that
    it has had. Its goodputs are true on GPU types on which it has run. On other types, they are those of the first such
    type, times the ratio of the rates at the smallest size, which a job measures on one GPU of each type in advance. A
    job inside a restart keeps its configuration. Of equal programs, earlier jobs have the first configuration: the
    present one, then by kind of nodes and number of GPUs (choice). Placement: ``placing.py``.

    Deviations from the authors' code: known types have true speeds, where Sia fits a model while jobs run; the ratio is
    that of goodputs, not of throughputs at the largest batch; one penalty for all jobs; jobs keep their GPUs where
    possible, because a move takes a restart here. Jobs with pipeline and data parallelism are left out. The program is
    solved exactly by a table over the free GPUs, so that no solver breaks ties, and by HiGHS only on clusters for which
    the table is too large; see ``program.py``. A decision point takes O(n x configurations x states).

    References
    ----------
    S. Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023,
    section 3; siasosp23/artifacts, ``sia-simulator/sia.py``.
    """

    knows_node_counts = False  # it chooses GPUs itself

    power: float = -0.5
    wait_cost: float = 1.1
    penalty_s: float | None = None
    name = "sia"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("sia", self, power=Range(-math.inf, -math.ulp(0.0), "a number < 0"))
        wait_cost = Range(math.nextafter(1.0, 2.0), 1e6, "> 1, the cost of the worst size, and at most 1e6")
        check("sia", self, wait_cost=wait_cost, **({} if self.penalty_s is None else {"penalty_s": AT_LEAST_0}))

    knows_partitions = False  # it chooses machines itself

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run; find the kinds of nodes."""
        nodes = view.cluster.nodes
        pairs = sorted(set(zip(nodes["gpu_type"].tolist(), nodes["gpus"].tolist(), strict=True)))
        self._kinds = [
            Kind(t, gpus, np.flatnonzero((nodes["gpu_type"] == t) & (nodes["gpus"] == gpus))) for t, gpus in pairs
        ]
        self._kind_of_node = np.zeros(len(nodes), np.int64)
        for k, kind in enumerate(self._kinds):
            self._kind_of_node[kind.nodes] = k
        self._tried: dict[int, int] = {}  # job -> largest number of GPUs that it has had
        self._restarts: dict[int, int] = {}
        self._known: dict[int, list[int]] = {}  # job -> GPU types on which it has run, in this order

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Solve the program and carry its solution out."""
        rows = movable(view)
        if not len(rows):
            return
        held = held_counts(view)
        plan = self.placed(view, self.sizes(view, rows, held), held)
        yield from reallocate(view, plan)
        types = view.cluster.nodes["gpu_type"]
        for job, counts in held_counts(view).items():
            if job not in held or (held[job] != counts).any():
                self._restarts[job] = self._restarts.get(job, -1) + 1
                self._tried[job] = max(self._tried.get(job, 0), int(counts.sum()))
                known = self._known.setdefault(job, [])
                known += [t for t in np.unique(types[counts > 0]).tolist() if t not in known]

    def sizes(self, view: ClusterView, rows: np.ndarray, held: Counts) -> dict[int, tuple[int, int]]:
        """Return job -> (kind, GPUs) of the jobs ``rows`` in the solution of the program, without jobs that wait."""
        present = {job: self._configuration(held[job]) for job in rows.tolist() if job in held}
        restarting = view.progress_since_s(rows) > view.now_s
        fixed = {job: present[job] for job in rows[restarting].tolist() if job in present}
        left = np.bincount(self._kind_of_node, supply(view), len(self._kinds)).astype(np.int32)
        for kind, gpus in fixed.values():
            left[kind] -= gpus
        free = [job for job in rows.tolist() if job not in fixed]
        program, choices = self.program(view, free, present, left)
        chosen = program.solve()
        found = {job: choices[c] for job, c in zip(free, chosen, strict=True) if c != WAITS}
        return fixed | {job: (choice.kind, choice.gpus) for job, choice in found.items()}

    def program(
        self, view: ClusterView, jobs: list[int], present: dict[int, tuple[int, int]], gpus: np.ndarray
    ) -> tuple[Program, list[Choice]]:
        """Build the integer program of jobs, and the list of their choices."""
        each = [self._choices(view, job, present.get(job)) for job in jobs]
        choices = [choice for some in each for choice in some]
        cost = costs(np.array([choice.value for choice in choices]), self.power) - round(self.wait_cost * DIGITS)
        job = np.repeat(np.arange(len(jobs)), [len(some) for some in each])
        useful = np.flatnonzero(cost < 0)
        kept = [choices[c] for c in useful]
        first = np.searchsorted(job[useful], np.arange(len(jobs) + 1)).astype(np.int32)
        kind, size = (np.array([choice[column] for choice in kept], np.int32) for column in (1, 2))
        return Program(first, cost[useful].astype(np.int32), kind, size, gpus), kept

    def _choices(self, view: ClusterView, job: int, present: tuple[int, int] | None) -> list[Choice]:
        """Return the configurations that a job may have, the present one first."""
        sizes = view.sizes(job).tolist()
        rates = view.placed_rates(job)  # [sizes, tiers, types]
        known = self._known.get(job, [])
        most = min(max(2 * self._tried.get(job, 0), sizes[0]), max(LARGEST, sizes[0])) if known else sizes[0]
        found: list[Choice] = []
        for k, kind in enumerate(self._kinds):
            total = kind.capacity * len(kind.nodes)
            able = sorted({sizes[0], *(n for n in kind.configurations if n in sizes)})  # a rigid job has one
            for gpus in able:
                if gpus > min(most, total):
                    continue
                at, tier = sizes.index(gpus), MACHINE if gpus <= kind.capacity else NETWORK
                value = self._rate(rates, known, at, tier, kind.gpu_type)
                if value > 0.0:
                    found.append(Choice(value, k, gpus))
        if not found:
            raise SchedulerError(
                f"sia: job {view.job_id[job]} needs {sizes[0]} GPUs, but every kind of nodes on which it runs has "
                "fewer, and Sia mixes no kinds; leave such jobs out (max_gpus), or use another scheduler"
            )
        least = min(choice.value for choice in found)
        factor = self._factor(view, job) if present is not None else 1.0
        values = [
            choice._replace(value=choice.value / least * (1.0 if choice[1:] == present else factor)) for choice in found
        ]
        return sorted(values, key=lambda choice: choice[1:] != present)

    def _rate(self, rates: np.ndarray, known: list[int], at: int, tier: int, gpu_type: int) -> float:
        """Return the goodput that Sia assumes; 0 = the job cannot run."""
        true = float(rates[at, tier, gpu_type])
        if not known or true == 0.0:
            return 1.0 if true > 0.0 else 0.0
        if gpu_type in known or rates[0, MACHINE, known[0]] == 0.0:
            return true
        return float(rates[at, tier, known[0]] * rates[0, MACHINE, gpu_type] / rates[0, MACHINE, known[0]])

    def _factor(self, view: ClusterView, job: int) -> float:
        """Return the factor on the goodputs of configurations that need a restart."""
        penalty_s = view.semantics.resize_cost_s if self.penalty_s is None else self.penalty_s
        age_s = view.now_s - float(view.arrival_s[job])
        if age_s < penalty_s or age_s == 0.0:
            return 1.0
        return max(age_s - penalty_s * max(self._restarts.get(job, 0), 0), 0.0) / (age_s + penalty_s)

    def _configuration(self, counts: np.ndarray) -> tuple[int, int]:
        """Return the kind and the number of GPUs that a job holds."""
        return int(self._kind_of_node[int(np.argmax(counts))]), int(counts.sum())

    def placed(self, view: ClusterView, sizes: dict[int, tuple[int, int]], held: Counts) -> Counts:
        """Place the jobs, kind by kind."""
        free, plan = supply(view), {}
        for k, kind in enumerate(self._kinds):
            wanted = [(job, gpus) for job, (own, gpus) in sizes.items() if own == k]
            here = {job: held[job][kind.nodes] for job, _ in wanted if job in held and held[job][kind.nodes].any()}
            for job, counts in place(free[kind.nodes], kind.capacity, wanted, here).items():
                plan[job] = np.zeros(len(free), np.int64)
                plan[job][kind.nodes] = counts
        return plan
