"""What a scheduler sees: the requests of jobs and the state of the cluster, but not the true run times of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.core import planning, queries
from gpusched_env.core.placement.rules import check_numbers, rule_name, rule_number, shares_by
from gpusched_env.core.placement.taking import FREE, RESERVED
from gpusched_env.core.sharing.choices import BENEFIT, MEASURED, PLACEMENTS, SEARCH
from gpusched_env.core.sharing.seats import MEMORY_SLACK
from gpusched_env.core.state import ACTIVE, FINISHED, FUTURE, REFUSED, Run
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.prediction.known import Known
from gpusched_env.problem.cluster import MACHINE, Cluster
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.outages import OUTAGE_DTYPE
from gpusched_env.problem.performance import type_rates
from gpusched_env.problem.tenants import TenantTree
from gpusched_env.problem.workload import REQUESTED
from gpusched_env.simulator.decisions import Decision, Preempt, Start
from gpusched_env.simulator.network_view import NetworkView, known_rows

if TYPE_CHECKING:
    from gpusched_env.simulator.simulation import Simulation


class ClusterView:
    """Read-only view of a running simulation.

    A job is identified by its row. Rows ascend in the tie order of the scenario (by default: arrival, then id), and
    only the rows of jobs that have been submitted are visible. A property that is an array over jobs has one entry for
    each of them, held and finished jobs included.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._requests: dict[str, np.ndarray] = {}  # cache of the columns of the workload
        self._type_rates: np.ndarray | None = None
        self._asked = queries.Asked(rows=np.empty(0, np.int32), answers=np.empty((2, 0)))
        self._list = _empty_walk(0)

    # State is looked up each time, because in a copy of this object a stored view would refer to the original array.
    @property
    def _world(self) -> np.void:
        return self._arrays.world

    @property
    def _arrays(self) -> Run:
        return self._simulation.arrays

    @property
    def _job_state(self) -> np.ndarray:
        return self._arrays.jobs

    @property
    def simulation(self) -> Simulation:
        """The run itself, for policies that are kernels. Such a policy must not read more than this view shows."""
        return self._simulation

    # --- the cluster

    @property
    def network(self) -> NetworkView:
        """The links of the network, their loads, and the time of an iteration on a possible placement."""
        return NetworkView(self._simulation)

    @property
    def cluster(self) -> Cluster:
        """The racks, nodes and GPUs of the cluster."""
        return self._simulation.instance.cluster

    @property
    def semantics(self) -> Semantics:
        """Rules of the simulation: rounds, preemption costs, queue discipline."""
        return self._simulation.instance.semantics

    @property
    def now_s(self) -> float:
        """Simulated time [s]."""
        return float(self._world["clock_s"])

    @property
    def free_gpus(self) -> int:
        """Number of free GPUs."""
        return int(self._world["free_gpus"])

    @property
    def changes(self) -> int:
        """Number of beginnings and ends of reservations and outages, and of failures of gangs, so far."""
        return int(self._world["next_closing"] + self._world["fails"])

    @property
    def free_by_node(self) -> np.ndarray:
        """int32 [N]: free GPUs of each node."""
        return self._arrays.free[: len(self.cluster.nodes)].copy()

    @property
    def is_free(self) -> np.ndarray:
        """Boolean [G]: whether each GPU is free."""
        free: np.ndarray = self._arrays.holder[: self._world["gpus"]] == FREE
        return free

    @property
    def holders(self) -> np.ndarray:
        """int32 [G]: row of the job that holds each GPU; if several jobs do, the first of ``residents``; -1 = free."""
        held = self._arrays.holder[: self._world["gpus"]]
        return np.where(held >= 0, self._arrays.replicas["job"][held], -1)

    @property
    def residents(self) -> np.ndarray:
        """int32 [limit, G]: rows of the jobs that hold each GPU, followed by -1.

        ``limit`` is the maximum number of jobs per GPU.
        """
        limit, gpus = int(self._world["gpu_jobs"]), int(self._world["gpus"])
        held = self._arrays.holder[: limit * gpus].reshape(limit, gpus)
        return np.where(held >= 0, self._arrays.replicas["job"][held], -1)

    @property
    def crashes(self) -> np.ndarray:
        """OUTAGE_DTYPE: the crashes of nodes so far, by time, then by node; ``end_s`` is inf while a node is down."""
        outages = self._simulation.instance.outages
        rows = np.empty(0, OUTAGE_DTYPE) if outages is None else outages.rows
        past = rows[: np.searchsorted(rows["start_s"], self.now_s, side="right")].copy()
        past["end_s"][past["end_s"] > self.now_s] = np.inf
        return past

    # --- jobs, by row

    @property
    def arrived(self) -> int:
        """Number of jobs that have been submitted; their rows are 0, ..., ``arrived`` - 1. Held jobs are among them."""
        return int(self._world["next_arrival"])

    @property
    def entered(self) -> int:
        """Number of jobs that have entered the queue so far: those that have been submitted, and are not held."""
        return int(self._world["entered"])

    @property
    def held(self) -> np.ndarray:
        """int64: rows of the jobs that are held until their earliest start, or until other jobs start or end."""
        return np.flatnonzero(self._job_state["status"][: self.arrived] == FUTURE)

    @property
    def waiting(self) -> np.ndarray:
        """int32: rows of the waiting jobs, ascending; a copy, which decisions do not change."""
        return waiting_rows(self._arrays).copy()

    @property
    def running(self) -> np.ndarray:
        """int32: rows of the jobs that hold GPUs, in the order of their starts; gangs in a checkpoint are included."""
        replicas = self._arrays.running[: self._world["running"]]
        return self._arrays.replicas["job"][replicas]

    @property
    def checkpointing(self) -> np.ndarray:
        """Boolean, one per entry of ``running``: whether the gang is in a checkpoint, after which it frees its GPUs."""
        replicas = self._arrays.running[: self._world["running"]]
        return self._arrays.replicas["phase"][replicas] != ACTIVE

    @property
    def lease_ended(self) -> np.ndarray:
        """int32: rows of the jobs whose lease ends now; each is preempted unless it gets a new :class:`Lease`."""
        replicas = self._arrays.running[: self._world["running"]]
        over = self._arrays.replicas["lease_over"][replicas] == 1
        return self._arrays.replicas["job"][replicas[over]]

    @property
    def finished_count(self) -> int:
        """Number of jobs that have left the system: finished, or refused."""
        return int(self._world["finished"])

    @property
    def finished(self) -> np.ndarray:
        """int64: rows of the finished jobs, ascending."""
        return np.flatnonzero(self._job_state["status"][: self.arrived] == FINISHED)

    def _column(self, name: str) -> np.ndarray:
        return self._of_all(name)[: self.arrived]

    def _of_all(self, name: str) -> np.ndarray:
        """Return a contiguous column of the requests of all jobs; created on demand, as compiled loops need none."""
        if name not in self._requests:
            workload = self._simulation.instance.workload
            jobs, profiles = workload.jobs, workload.profiles.rows
            column = profiles["skew"][jobs["profile"]] if name == "skew" else jobs[name].copy()
            column.flags.writeable = False
            self._requests[name] = column
        return self._requests[name]

    @property
    def job_id(self) -> np.ndarray:
        """int64: id of each job in the workload."""
        return self._column("id")

    @property
    def gpus(self) -> np.ndarray:
        """int32 [GPU]: gang size that each job requests."""
        return self._column("gpus")

    @property
    def arrival_s(self) -> np.ndarray:
        """float64 [s]: time at which each job entered the queue; of a held job: its submission."""
        return self._state_column("arrival_s") if self._world["holds"] else self._column("arrival_s")

    @property
    def estimate_s(self) -> np.ndarray:
        """float64 [s]: run time of each job that its user estimates; NaN = no estimate."""
        return self._column("estimate_s")

    @property
    def known(self) -> Known:
        """What each job told when it was submitted: user, account, name, queue, requested run time."""
        return self._all_known.up_to(self.arrived)

    @cached_property
    def _all_known(self) -> Known:
        return Known.of(self._simulation.instance.workload)

    @property
    def skew(self) -> np.ndarray:
        """float64: bytes of the largest tensor / bytes of all tensors of each job's model (Tiresias, NSDI 2019)."""
        return self._column("skew")

    def told(self, name: str, untold: float) -> np.ndarray:
        """float64: an attribute of each job that users submit with the job.

        Parameters
        ----------
        name : name of the attribute, one of REQUESTED: ``priority_weight``, ``slo``, ``priority_class``,
            ``deadline_s``, ``value`` or ``begin_s``
        untold : value of all jobs if the workload does not have this attribute
        """
        if name not in REQUESTED:
            raise GpuschedError(unknown_name("number that users tell", name, REQUESTED))
        workload = self._simulation.instance.workload
        if name not in workload.attributes:
            return np.full(self.arrived, untold)
        if name not in self._requests:
            column = workload.told(name)
            column.flags.writeable = False
            self._requests[name] = column
        return self._column(name)

    @property
    def deadline_s(self) -> np.ndarray:
        """float64 [s]: time by which each job should finish; inf = best effort."""
        deadlines = self._simulation.instance.workload.deadline_s
        return np.full(self.arrived, np.inf) if deadlines is None else deadlines[: self.arrived]

    @property
    def tenants(self) -> TenantTree:
        """The tree of tenants with their weights, quotas and limits; it has one leaf if the workload names none."""
        return self._simulation.instance.tenancy[0]

    @property
    def tenant(self) -> np.ndarray:
        """int32: row of each job's leaf in :attr:`tenants`."""
        return self._simulation.instance.tenancy[1][: self.arrived]

    @property
    def job_class(self) -> np.ndarray:
        """int32: class of each job; jobs of one class have the same model and the same gang size."""
        return self._simulation.instance.job_class[: self.arrived]

    def type_rates(self, rows: np.ndarray) -> np.ndarray:
        """float64 [n, T]: profiled iterations per second of each of the jobs ``rows`` on GPUs of each type.

        The rate is that of a gang on GPUs of one type, on the tightest tier that can hold the gang, on an idle network.
        0 = the job cannot run on this type, or the cluster has too few GPUs of it.
        """
        if self._type_rates is None:
            instance = self._simulation.instance
            gangs = instance.classes[:, 1]
            self._type_rates = type_rates(gangs, instance.iteration_s, instance.cluster, instance.node_rooms)
        return self._type_rates[self._simulation.instance.job_class[self._known(rows)]]

    def refused(self, rows: np.ndarray) -> np.ndarray:
        """Boolean: whether each of the jobs ``rows`` was refused (:class:`~gpusched_env.simulator.Refuse`)."""
        found: np.ndarray = self._job_state["status"][self._known(rows)] == REFUSED
        return found

    @cached_property
    def _able(self) -> np.ndarray | None:
        """Boolean [C, T]: whether each GPU type can run jobs of each class; None = every type can run every class."""
        able = np.isfinite(self._simulation.instance.iteration_s[:, MACHINE])
        return None if able.all() else able

    # --- sizes of elastic jobs

    def _size_rows(self, job: int) -> slice:
        """Return the rows of a job in the table of sizes."""
        table = self._simulation.instance.sizes
        first = table.first[self._known([job])[0]]
        return slice(first, first + table.count[job])

    def sizes(self, job: int) -> np.ndarray:
        """int32 [GPU]: the numbers of GPUs on which a job can run, ascending; a rigid job has one."""
        return self._simulation.instance.sizes.gpus[self._size_rows(job)]

    def size_classes(self, job: int) -> np.ndarray:
        """int32: class of a job at each of its :meth:`sizes`, a row of ``ClairvoyantView.rates_per_s``."""
        return self._simulation.instance.sizes.job_class[self._size_rows(job)]

    def size_rates(self, job: int) -> np.ndarray:
        """float64: iterations per second of a job at each of its :meth:`sizes`, on the fastest placement of that size.

        The fastest placement is that in the empty cluster, on an idle network. An iteration is the same progress at
        every size.
        """
        return 1.0 / self._simulation.instance.ideal_iteration_s[self.size_classes(job)]

    def placed_rates(self, job: int) -> np.ndarray:
        """float64 [sizes, tiers, T]: iterations per second of a job at each of its sizes, by tier and GPU type."""
        return 1.0 / self._simulation.instance.iteration_s[self.size_classes(job)]

    def placed_communication_s(self, job: int) -> np.ndarray:
        """float64 [sizes, tiers, T] [s]: communication in an iteration of a job at each size, on an idle network."""
        return self._simulation.instance.communication_s[self.size_classes(job)]

    def held_gpus(self, rows: np.ndarray) -> np.ndarray:
        """int32 [GPU]: number of GPUs that each of the jobs ``rows`` holds now; 0 = it waits or has finished."""
        numbers = self._job_state["replica"][self._known(rows)]
        held: np.ndarray = np.where(numbers >= 0, self._arrays.replicas["gpus"][numbers], 0)
        return held

    def able_gpus(self, rows: np.ndarray) -> np.ndarray | None:
        """Boolean [n, G]: whether the type of each GPU can run each of the jobs ``rows``, and its node is open to it.

        None = every GPU can run every job.
        """
        able, is_open = self._able, self.open_nodes(rows)
        if able is None and is_open is None:
            return None
        instance = self._simulation.instance
        of_gpu = instance.cluster.node_of_gpu
        found = np.ones((len(rows), len(of_gpu)), bool)
        if able is not None:
            found &= able[instance.job_class[self._known(rows)]][:, instance.cluster.nodes["gpu_type"][of_gpu]]
        if is_open is not None:
            found &= is_open[:, of_gpu]
        return found

    def open_nodes(self, rows: np.ndarray) -> np.ndarray | None:
        """Boolean [n, N]: whether each of the jobs ``rows`` may use each node now: its partition, and reservations.

        None = every job may use every node at all times.
        """
        instance = self._simulation.instance
        if instance.node_sets is None:
            return None
        closed = self._arrays.closed[: len(instance.node_sets.belongs), : len(instance.cluster.nodes)]
        found: np.ndarray = closed[instance.node_sets.of_job[self._known(rows)]] == 0
        return found

    def closes_s(self, job: int) -> np.ndarray:
        """float64 [N] [s]: when the next planned reservation makes a job leave each node; inf = none."""
        sets, found = self._simulation.instance.node_sets, np.full(len(self.cluster.nodes), np.inf)
        if sets is not None:
            times = sets.closes_s(self.semantics)
            known = sets.planned & ~sets.drains & sets.barred[:, sets.of_job[job]] & (times > self.now_s)
            for number in np.flatnonzero(known):
                np.minimum(found, times[number], out=found, where=sets.reserved[number])
        return found

    @property
    def limit_s(self) -> np.ndarray:
        """float64 [s]: time limit of each job: its own, else that of its partition; inf = none."""
        return self._simulation.instance.limit_s[: self.arrived]

    def slowdowns(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """float64 [n, T]: slowdown xi of job ``rows[i]`` when it shares a GPU of each type with job ``others[i]``.

        inf = the two jobs must not share a GPU of this type, or their whole batches together exceed its memory.
        """
        instance = self._simulation.instance
        kinds, beside = instance.job_class[self._known(rows)], instance.job_class[self._known(others)]
        tables = instance.sharing_tables
        if tables is None or instance.gpu_jobs < 2:
            return np.full((len(kinds), len(instance.cluster.gpu_types)), np.inf)
        apart = np.isinf(tables.interference[beside, kinds])
        crowded = tables.memory[kinds, 0] + tables.memory[beside, 0] > 1.0 + MEMORY_SLACK
        return np.where(apart | crowded, np.inf, tables.interference[kinds, beside])

    def _state_column(self, name: str) -> np.ndarray:
        column = self._job_state[name][: self.arrived]
        column.flags.writeable = False
        return column

    @property
    def first_start_s(self) -> np.ndarray:
        """float64 [s]: time at which each job first started; inf = the job has not started yet."""
        return self._state_column("first_start_s")

    @property
    def last_stop_s(self) -> np.ndarray:
        """float64 [s]: time at which each job last freed its GPUs; the time of arrival if it never has."""
        return self._state_column("last_stop_s")

    def service_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: time during which each of the jobs ``rows`` has made progress so far."""
        return self._progress(rows)[1]

    def attained_gpu_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [GPU s]: attained service of each of the jobs ``rows``: gang size x :meth:`service_s`.

        For an elastic job, it is the sum over the sizes that the job has had.
        """
        if self._world["elastic"]:
            asked, count = self._asked_of(rows), len(rows)
            queries.attained(self._arrays, asked, count)
            return asked.answers[0, :count].copy()
        return self.service_s(rows) * self._of_all("gpus")[rows]

    def progress_since_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: time from which the present progress of each of the jobs ``rows`` counts.

        During a restore, this is the end of the restore. inf = the job holds no GPUs, or is in a checkpoint.
        """
        return self._of_active(rows, "since_s")

    def lease_end_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: end of the lease of each of the jobs ``rows``; inf = the job has no lease."""
        return self._of_active(rows, "lease_s")

    def _of_active(self, rows: np.ndarray, name: str) -> np.ndarray:
        numbers, replicas = self._job_state["replica"][self._known(rows)], self._arrays.replicas
        return np.where((numbers >= 0) & (replicas["phase"][numbers] == ACTIVE), replicas[name][numbers], np.inf)

    def _known(self, rows: np.ndarray | Sequence[int]) -> np.ndarray:
        return known_rows(self._simulation, rows)

    def _progress(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked, count = self._asked_of(rows), len(rows)
        queries.progress(self._arrays, asked, count)
        return asked.answers[0, :count].copy(), asked.answers[1, :count].copy()

    def _asked_of(self, rows: np.ndarray) -> queries.Asked:
        """Write ``rows`` into the query handle. The handle is reused, as creating one takes longer than the query."""
        if len(rows) > len(self._asked.rows):
            length = 2 * len(rows)
            self._asked = queries.Asked(rows=np.empty(length, np.int32), answers=np.empty((2, length)))
        self._asked.rows[: len(rows)] = self._known(rows)
        return self._asked

    # --- queries

    @property
    def refusal(self) -> str:
        """Reason for which the latest decision was refused; empty if the decision was applied."""
        return self._simulation.refusal

    def can_place(self, job: int, rule: str = "pack") -> bool:
        """Return whether the placement rule ``rule`` finds GPUs for the waiting job ``job`` now."""
        return bool(queries.can_place(self._arrays, job, rule_number(rule)))

    def where(self, job: int, rule: str = "pack", among: np.ndarray | None = None) -> tuple[int, ...]:
        """Return the ids of the GPUs that ``rule`` would give the waiting job ``job`` now; empty if it finds none.

        ``among`` : Boolean [G], GPUs that the rule may use; None = all
        """
        hidden = np.empty(0, np.int64) if among is None else np.flatnonzero(self.is_free & ~among)
        self._hide(hidden, RESERVED, -1)
        try:
            count = queries.find_place(self._arrays, job, rule_number(rule))
        finally:
            self._hide(hidden, FREE, 1)
        return tuple(self._arrays.chosen[:count].tolist())

    def _hide(self, gpus: np.ndarray, mark: int, step: int) -> None:
        """Mark free GPUs, and count them out or in."""
        sim, cluster = self._arrays, self.cluster
        nodes = cluster.node_of_gpu[gpus]
        sim.holder[gpus] = mark
        np.add.at(sim.free, nodes, step)
        np.add.at(sim.free, len(cluster.nodes) + cluster.nodes["rack"][nodes], step)
        self._world["free_gpus"] += step * len(gpus)

    def list_schedule(
        self, order: np.ndarray, rules: str | np.ndarray = "pack", strict: bool = False
    ) -> Iterable[Decision]:
        """Return decisions that start the waiting jobs ``order``, in this order, as far as the jobs fit.

        If ``rules`` is the name of a rule that shares GPUs, each decision depends on those before it. The caller must
        then apply each decision before it asks for the next one, as ``yield from`` does.

        Parameters
        ----------
        order : rows of waiting jobs, highest priority first
        rules : name of one placement rule for all jobs, or int32 rule numbers (RULE_NUMBER), one per entry of ``order``
        strict : True = stop at the first job that does not fit; False = skip that job
        """
        if not len(order):
            return []
        if isinstance(rules, str) and shares_by(rules) and self._world["gpu_jobs"] > 1:
            return self._shared(order, shares_by(rules), strict)
        walk = self._walk(order, rules)
        count = planning.plan_starts(self._arrays, walk, len(order), strict)
        return [Start(int(walk.order[i]), rule_name(walk.rules[i])) for i in walk.verdicts[:count]]

    def _shared(self, order: np.ndarray, choices: int, strict: bool) -> Iterator[Decision]:
        """Yield decisions that start the jobs of ``order`` one after the other, on shared GPUs if necessary."""
        walk = self._walk(order, "pack").copy()  # the caller may reuse the handle between two of these decisions
        at = 0
        while True:
            at = planning.first_shared(self._arrays, walk, len(order), at, choices, strict)
            if at == len(order):
                return
            job = int(walk.order[at])
            gpus = tuple(self._arrays.chosen[: self._arrays.jobs["gpus"][job]].tolist())
            kind = self._simulation.instance.job_class[job]
            steps = int(self._arrays.sub_batches["sub_steps"][kind, walk.verdicts[at], 0])
            yield Start(job, gpus=gpus, share=True, sub_steps=steps)
            at += 1

    def preemptive_schedule(self, order: np.ndarray, rules: str | np.ndarray = "pack") -> list[Decision]:
        """Return decisions after which the jobs at the beginning of ``order`` hold the GPUs (Tiresias, NSDI 2019).

        The method goes through ``order`` with all GPUs of the cluster as its budget. It selects each job whose number
        of GPUs fits into the rest of the budget. Selected running jobs keep their GPUs, other running jobs are
        preempted, and selected waiting jobs are started. If a selected waiting job finds no placement, its part of the
        budget goes to later jobs.

        Parameters
        ----------
        order : rows of all waiting and running jobs, highest priority first
        rules : as in :meth:`list_schedule`
        """
        if not len(order):
            return []
        walk, count = self._walk(order, rules), len(order)
        planning.plan_preemptive(self._arrays, walk, count)
        order, verdict = walk.order[:count], walk.verdicts[:count]
        left_out = order[verdict == planning.SKIPPED]
        numbers = self._job_state["replica"][left_out]
        victims = left_out[(numbers >= 0) & (self._arrays.replicas["phase"][numbers] == ACTIVE)]
        newcomers = np.flatnonzero(verdict == planning.NEWCOMER).tolist()
        decisions: list[Decision] = [Preempt(job) for job in victims.tolist()]
        decisions.extend(Start(int(order[i]), rule_name(walk.rules[i])) for i in newcomers)
        return decisions

    def _walk(self, order: np.ndarray, rules: str | np.ndarray) -> planning.Walk:
        """Write ``order`` and its placement rules into the handle for planning kernels; the handle is reused."""
        count = len(order)
        if count > len(self._list.order):
            self._list = _empty_walk(2 * count)
        walk = self._list
        if not isinstance(rules, str):
            check_numbers(np.asarray(rules))
        walk.order[:count] = self._known(order)
        walk.rules[:count] = rule_number(rules) if isinstance(rules, str) else rules
        return walk


def _empty_walk(length: int) -> planning.Walk:
    order, rules, verdicts = (np.zeros(length, np.int32) for _ in range(3))
    return planning.Walk(order=order, rules=rules, verdicts=verdicts)


class ClairvoyantView(ClusterView):
    """A view that also shows the true run times of jobs. Only schedulers that declare ``clairvoyant`` get it."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        instance = simulation.instance
        self._ideal_s = instance.ideal_s
        self._iterations = instance.iterations

    @cached_property
    def _one_machine_s(self) -> np.ndarray:
        instance = self._simulation.instance
        seconds: np.ndarray = instance.iterations * instance.iteration_s[:, MACHINE].min(axis=1)[instance.job_class]
        return seconds

    @cached_property
    def _ring_bytes(self) -> np.ndarray:
        workload = self._simulation.instance.workload
        gang, gradient = workload.jobs["gpus"], workload.profiles.rows["gradient_bytes"]
        ring_bytes: np.ndarray = 2.0 * (gang - 1) / gang * gradient[workload.jobs["profile"]]
        return ring_bytes

    @property
    def ideal_s(self) -> np.ndarray:
        """float64 [s]: run time of each job on its ideal placement, the fastest one in the empty cluster."""
        return self._ideal_s[: self.arrived]

    @property
    def jobs_to_come(self) -> int:
        """Number of jobs that have not arrived yet."""
        return len(self._ideal_s) - self.arrived

    def iterations(self, rows: np.ndarray) -> np.ndarray:
        """float64: total number of iterations of each of the jobs ``rows``."""
        return self._iterations[self._known(rows)]

    def iterations_left(self, rows: np.ndarray) -> np.ndarray:
        """float64: number of iterations that each of the jobs ``rows`` has left."""
        return self._progress(rows)[0]

    @property
    def rates_per_s(self) -> np.ndarray:
        """float64 [C, tiers, T]: iterations per second of each ``job_class``, by tier and GPU type; 0 = cannot run.

        The rate is that of a whole gang on GPUs of one type, on an idle network. A gang on GPUs of several types has
        the lowest of their rates.
        """
        return 1.0 / self._simulation.instance.iteration_s

    def remaining_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: time in which each of the jobs ``rows`` would finish on its ideal placement."""
        # Computed as a fraction of ideal_s. Jobs with equal run times then tie, whatever their numbers of iterations.
        return self._progress(rows)[0] / self._iterations[rows] * self._ideal_s[rows]

    def one_machine_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: run time of each of the jobs ``rows`` with all its GPUs on one machine of the fastest type."""
        return self._one_machine_s[self._known(rows)]

    def remaining_bytes(self, rows: np.ndarray) -> np.ndarray:
        """float64 [byte]: bytes that each of the jobs ``rows`` still has to send over each edge of its ring."""
        return self._progress(rows)[0] * self._ring_bytes[rows]

    def shared_schedule(
        self,
        order: np.ndarray,
        benefit: bool = True,
        search: bool = True,
        measured: bool = False,
        placement: str = "consolidate",
        strict: bool = False,
    ) -> Iterator[Decision]:
        """Yield decisions that start the waiting jobs ``order`` on free or shared GPUs (docs/sjf_bsbf.md).

        Each decision depends on those before it. The caller must apply each decision before it asks for the next one,
        as ``yield from`` does.

        Parameters
        ----------
        order : rows of waiting jobs, highest priority first
        benefit : True = share GPUs only with a job for which sharing reduces the mean JCT of the pair, jobs with which
            the reduction is largest first; False = take the first GPUs with enough memory
        search : True = choose the sub-batch with which sharing helps, or with which the job fits into the memory;
            False = the sub-batch is the whole batch
        measured : True = estimate the remaining time of running jobs from their present time of an iteration; False =
            from their time of an iteration alone on their GPUs
        placement : "consolidate" = best fit on free GPUs; "bsbf" = machines with the fewest gangs first; "bsbfs" = one
            machine if possible, alone or shared, and otherwise like "bsbf"
        strict : True = stop at the first job that does not fit; False = skip that job
        """
        if placement not in PLACEMENTS:
            raise GpuschedError(unknown_name("placement", placement, PLACEMENTS))
        choices = benefit * BENEFIT | search * SEARCH | measured * MEASURED | PLACEMENTS[placement]
        return self._shared(order, choices, strict)

    def end_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: time at which each of the running jobs ``rows`` finishes at present rates; inf = no progress."""
        asked, count = self._asked_of(rows), len(rows)
        queries.end_times(self._arrays, asked, count)
        return asked.answers[0, :count].copy()
