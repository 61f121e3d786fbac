"""A problem instance: a cluster, a drawn workload, a network and the simulation rules, compiled to arrays."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.network import Network, compiled_links, network_identity
from gpusched_env.network.pairwise import ratio_matrix
from gpusched_env.problem.cluster import MOST_GPUS, TIERS, Cluster
from gpusched_env.problem.dependencies import holds_of
from gpusched_env.problem.energy import Energy
from gpusched_env.problem.node_counts import NodeCounts, node_counts, rooms
from gpusched_env.problem.outages import OUTAGE_DTYPE, SHORTEST_INTERVAL_S, Outages, Recovery, recovery_of
from gpusched_env.problem.partitions import AskedTypes, NodeSets, Partitions, closing_times, node_sets
from gpusched_env.problem.performance import ClassTable, ideal_iteration_seconds, job_classes, refuse_unable
from gpusched_env.problem.qos import QosTable, qos_table
from gpusched_env.problem.shapes import ShapePaces, shape_paces
from gpusched_env.problem.sizes import size_table
from gpusched_env.problem.tenants import Tenants, TenantTree, tree_of
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, START_LATENCY, TENANT, Workload
from gpusched_env.sharing import Sharing, SharingTables, sharing_tables
from gpusched_env.support.plain_data import set_fields
from gpusched_env.support.units import LATEST_S, MOST_ITERATIONS, SHORTEST_S

__all__ = ["Instance", "Semantics"]

TIE_ORDERS: Final = ("arrival-id", "arrival-smallest")
MOST_STEPS: Final = 1e7  # of a job: a gang that starts adds up the lengths of its steps one by one
SHORTEST_ROUND_S: Final = 1e-3  # [s] each round calls the scheduler, so a run of shorter rounds would never end
ENDLESS: Final = ("time_limit_s", "checkpoint_interval_s")  # fields that may be inf
QUEUE_DISCIPLINES: Final = ("scheduler", "strict", "skip")

# Costs of one preemption: duration of the checkpoint and of the restore [s]. The gang holds its GPUs during both. First
# those of published simulators, then by what a restart begins anew; they differ by more between systems and models.
PREEMPTION_COSTS: Final = {
    "zero": (0.0, 0.0),  # simulator published by the authors of Tiresias
    "tiresias62": (31.0, 31.0),  # 62 s on average (Tiresias, NSDI 2019, section 5.2.4, quoted in Lucid's simulator)
    "pollux30": (0.0, 30.0),  # 30 s per re-scale (Pollux, OSDI 2021, simulator)
    "warm": (0.0, 2.0),  # the process stays alive: 0.7 to 4.2 s (ElasticFlow's testbed, figure 12b)
    "process": (0.0, 29.8),  # mean of eight models, 8 to 61 s (fitted to run times on Muri's testbed)
    "container": (0.0, 40.8),  # that, and 11 s, the median for a container in Acme Kalos
}


@dataclass(frozen=True)
class Semantics:
    """Rules of the simulation. Results depend on these rules more than on most policies, so fingerprints include them.

    Parameters
    ----------
    round_s : length of a round [s], at least SHORTEST_ROUND_S; schedulers decide only at multiples of this time.
        0 = no rounds; schedulers decide at every event
    checkpoint_s : duration of a checkpoint [s]; a preempted gang holds its GPUs during the checkpoint, without progress
    slot_s : length of a time slot [s]. In each slot only whole iterations count, and a gang completes only at a
        multiple of this time (SJF-BCO, eq. 9). 0 = no time slots; work is continuous
    least_busy_lambda : parameter lambda of the placement rule ``least-busy-servers``. The rule considers only the least
        busy servers: the smallest number of them whose GPUs are at least lambda times the gang size (SJF-BCO, LBSGF)
    start_s : time for which a gang holds its GPUs before its first progress [s]
    max_copies : maximum number of copies of a gang that may train its job at the same time, each on its own GPUs. The
        copies divide the iterations in proportion to their speeds (HadarE)
    merge_s : time that a gang of several copies needs to average their parameters, added when it gets its GPUs [s]
    restore_s : time for which a resumed gang holds its GPUs before it makes progress [s]
    queue : queue discipline of the schedulers that start an ordered queue without preemption (``fifo``, ``sjf``,
        ``ssf``, ``yarn-cs``). "scheduler" = the discipline published for the scheduler; "strict" = stop at the first
        waiting job that does not fit (head-of-line blocking); "skip" = skip jobs that do not fit and start the others
    step_iterations : K > 0 rounds the work of every job up to a multiple of K iterations (Dally's simulator,
        ``iteration_granularity``); 0 = work is not rounded
    tie_order : order of jobs that tie. "arrival-id" = by arrival, then id; "arrival-smallest" = by arrival, then gang
        size, then id
    resize_s : time for which a gang holds its GPUs without progress after the decision Resize [s]. None = as long as a
        checkpoint and a restore, checkpoint_s + restore_s
    pace_until_lease : rate of a gang after a co-located job has left. True = the gang keeps its slowed rate until its
        next lease, or until another job joins it (in Gavel, rates hold for a round); False = it runs faster at once
    reshard_s : time without progress, besides, of a gang that goes on with another tensor, context, expert or pipeline
        parallelism than it had (``Profiles.plans``), because its checkpoint must be divided anew [s]
    kill_at_limit : True = a job is killed when it has run for its time limit (``Instance.limit_s``); False = it runs on
    restart_all_s : None (default) = a gang that keeps its GPUs runs on. Else all gangs restart after a decision point
        if a job has arrived, left, started, stopped or (Tiresias with ``demoted=tail``) changed its queue since they
        did so last: each is preempted, and resumes on its GPUs. It makes no progress for this time [s], which includes
        the checkpoint, nor before its last start is over. Gangs on drained nodes run on without a restart. Muri's
        controller does so even if the same gangs go on: with this rule the starts on its testbed are predicted within
        1 %. If only starts and stops counted, they would be 8 % (SRTF) and 21 % (Tiresias) too few
    step_ratio : measured time of an iteration / time in the profile or log; the work of all jobs is multiplied by
        it, and so is every run time that a scheduler knows: no order by size changes. Claims of users stay as they are
    checkpoint_interval_s : time of progress between two checkpoints of a running gang [s]; inf = only a preemption or a
        resize saves its work, and a crash loses all since the last start
    checkpoint_cost_s : time without progress at each of these checkpoints [s]
    detection_s : time for which a gang still holds its GPUs after a node of it has crashed [s]
    recovery_s : time for which a gang that resumes after a failure holds its GPUs before it makes progress [s]; None =
        restore_s
    time_limit_s : time at which the run is cut [s]; inf = the run ends when every job has finished
    """

    round_s: float = 0.0
    checkpoint_s: float = 30.0
    restore_s: float = 30.0
    queue: str = "scheduler"
    tie_order: str = "arrival-id"
    time_limit_s: float = math.inf
    slot_s: float = 0.0
    least_busy_lambda: float = 1.0
    step_iterations: int = 0
    start_s: float = 0.0
    max_copies: int = 1
    merge_s: float = 0.0
    pace_until_lease: bool = False
    resize_s: float | None = None
    kill_at_limit: bool = False
    restart_all_s: float | None = None
    reshard_s: float = 0.0
    step_ratio: float = 1.0
    checkpoint_interval_s: float = math.inf
    checkpoint_cost_s: float = 0.0
    detection_s: float = 0.0
    recovery_s: float | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        times = ["round_s", "reshard_s", "checkpoint_s", "restore_s", "start_s", "merge_s", "time_limit_s", "slot_s"]
        times += ["checkpoint_interval_s", "checkpoint_cost_s", "detection_s"]
        times += [name for name in ("resize_s", "restart_all_s", "recovery_s") if getattr(self, name) is not None]
        for name in times:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ScenarioError(f"semantics.{name} is {value!r}: it must be a number of seconds >= 0")
            if value > LATEST_S and not (name in ENDLESS and value == math.inf):
                raise ScenarioError(f"semantics.{name} is {value!r}: it must be at most {LATEST_S:g} seconds")
            object.__setattr__(self, name, float(value))
        if self.checkpoint_interval_s < SHORTEST_INTERVAL_S:
            raise ScenarioError(
                f"semantics.checkpoint_interval_s is {self.checkpoint_interval_s!r}: give at least "
                f"{SHORTEST_INTERVAL_S:g} seconds, or leave it out: then only preemptions save work"
            )
        if 0 < self.round_s < SHORTEST_ROUND_S:
            raise ScenarioError(
                f"semantics.round_s is {self.round_s!r}: give 0, or at least {SHORTEST_ROUND_S:g} seconds"
            )
        for name, least in (("least_busy_lambda", 1.0), ("step_ratio", 1e-6)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e6:
                raise ScenarioError(f"semantics.{name} is {value!r}: it must be a number from {least:g} to 1e6")
            object.__setattr__(self, name, float(value))
        steps = self.step_iterations
        if isinstance(steps, bool) or not isinstance(steps, int) or not 0 <= steps <= 2**53:  # exact as a float
            raise ScenarioError(
                f"semantics.step_iterations is {steps!r}: it must be a whole number of iterations from 0 to 2^53"
            )
        copies = self.max_copies
        if isinstance(copies, bool) or not isinstance(copies, int) or not 1 <= copies <= MOST_GPUS:
            raise ScenarioError(f"semantics.max_copies is {copies!r}: it must be a whole number from 1 to {MOST_GPUS}")
        for name in ("pace_until_lease", "kill_at_limit"):
            if not isinstance(getattr(self, name), bool):
                raise ScenarioError(f"semantics.{name} is {getattr(self, name)!r}: it must be true or false")
        if self.restart_all_s is not None and self.checkpoint_s > 0:
            raise ScenarioError(
                f"semantics.restart_all_s: it includes the checkpoint; set checkpoint_s ({self.checkpoint_s:g}) to 0"
            )
        if self.time_limit_s == 0:
            raise ScenarioError("semantics.time_limit_s is 0: nothing can happen; leave it out to run to the end")
        if self.tie_order not in TIE_ORDERS:
            raise ScenarioError(f"semantics.tie_order: {unknown_name('tie order', self.tie_order, TIE_ORDERS)}")
        if self.queue not in QUEUE_DISCIPLINES:
            raise ScenarioError(f"semantics.queue: {unknown_name('queue discipline', self.queue, QUEUE_DISCIPLINES)}")

    @property
    def recovery_cost_s(self) -> float:
        """Time for which a gang that resumes after a failure makes no progress [s]."""
        return self.restore_s if self.recovery_s is None else self.recovery_s

    @property
    def resize_cost_s(self) -> float:
        """Time for which a gang holds its GPUs without progress after a resize [s]."""
        return self.checkpoint_s + self.restore_s if self.resize_s is None else self.resize_s

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without later rules that have their defaults; an infinite time limit is None."""
        data = set_fields(self, "round_s", "checkpoint_s", "restore_s", "queue", "tie_order", "time_limit_s")
        data["time_limit_s"] = None if math.isinf(self.time_limit_s) else self.time_limit_s
        return data


def whole_steps(iterations: np.ndarray, step: int) -> np.ndarray:
    """float64 [J]: iterations rounded up to multiples of ``step``.

    Iterations that are computed from seconds have rounding errors. A number that exceeds a multiple by less than a
    relative error of 1e-12 is therefore rounded down to this multiple.
    """
    steps: np.ndarray = np.ceil(iterations / step * (1.0 - 1e-12)) * step
    return steps


@dataclass(frozen=True)
class Room:
    """Sizes for which observations have room.

    Parameters
    ----------
    nodes, links, types : numbers of nodes, links and GPU types; 0 links = the network is priced by tiers
    """

    nodes: int
    links: int
    types: int

    def __post_init__(self) -> None:
        """Check every field."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_GPUS:
                raise ScenarioError(f"room.{name} is {value!r}: it must be a whole number from 0 to {MOST_GPUS}")

    def holding(self, own: Room) -> Room:
        """Return the sizes that hold these and those of a problem; a problem without links gets none."""
        links = max(self.links, own.links) if own.links else 0
        return Room(max(self.nodes, own.nodes), links, max(self.types, own.types))


class Instance:
    """A problem instance, which the simulator can run.

    Jobs with the same profile and the same gang size form a job class. Their times of an iteration are stored once.

    Parameters
    ----------
    cluster, workload, network, semantics : the four parts of a drawn scenario
    sharing : rules by which jobs share GPUs; None = one job per GPU
    table : times of job classes of earlier instances on the same cluster and network, which need not be computed again
    room : sizes for which observations have room, if they are larger than the instance's own; None = its own
    tenants : the tree of tenants, to whose leaves the workload's attribute TENANT refers; None = one tenant for each
        name in this attribute
    partitions : partitions and reservations; None = every job may use every node
    tracked_window : arrival ranks ``first <= rank < end`` of the jobs that are measured, on which no run depends;
        None = all
    outages : crashes of nodes; None = nodes never crash
    energy : what GPUs draw, and the power cap; None = no energy is computed

    Attributes
    ----------
    capped : OUTAGE_DTYPE, when a power cap closes nodes
    workload : the given workload with its jobs sorted by the tie order; if jobs tie, the lowest row comes first
    holds : earliest starts and dependencies of the jobs; None = no job is ever held
    job_class : int32 [J], class of each job at the size that it requests
    sizes : the sizes on which each job can run on this cluster, and their classes; a rigid job has one
    classes : int64 [C, 2], profile row and gang size of each class
    node_sets : nodes that jobs may use; None = all
    ignored : what jobs ask for and do not get, in words -> number of such jobs
    qos : the qualities of service of the jobs; None = jobs have none
    needs : int64 [J, R], what each job needs of each of ``tenants.resources``
    class_set : int32 [C], row of ``node_sets.belongs`` for each class
    node_counts : what jobs demand of nodes; None = nothing
    class_counts : int32 [C], row of ``node_counts.part`` for each class
    choice_class : int32 [O], class of each pair of a job and a partition of ``node_sets.choices``; empty unless some
        job has several partitions
    passes : int64 [C], number of passes in which a GPU processes its batch when the GPU is not shared
    topology : the links between the machines; None if communication times depend only on the tier of the placement
    links : LINK_ROW_DTYPE [L], the links as rows of the simulator's link table
    first_row : first row in ``links`` of each link of the topology
    iteration_s : float64 [C, tiers, GPU types], seconds of one iteration on an idle network; inf = the class cannot run
        there
    compute_s, communication_s : float64 [C, tiers, GPU types], seconds of compute and of communication in an iteration
    measured : bool [C, tiers, GPU types], whether the times of this entry were measured
    shapes : times by the shape of a placement; None unless the network model is "dimensions". With this model, the
        arrays with an axis of tiers hold the times of the fastest shape of each tier
    room : sizes for which observations have room
    ratios : float64 [P, P], rate of a profile next to another profile / its rate alone; None unless the contention
        model is a table
    iterations : float64 [J], number of iterations of each job
    ideal_iteration_s : float64 [C], seconds of one iteration on the ideal placement, which is the fastest placement in
        the empty cluster
    ideal_s : float64 [J], run time of each job on the ideal placement

    Raises
    ------
    WorkloadError : a gang is larger than the cluster, the profiles lack a GPU type of the cluster, a job can run on no
        placement, or an iteration is longer than a time slot
    ScenarioError : copies of gangs are combined with a topology or with sharing; the table of times belongs to another
        cluster or network; or the field ``priority`` of the tenants names an attribute that the workload lacks
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        network: Network | None = None,
        semantics: Semantics | None = None,
        sharing: Sharing | None = None,
        table: ClassTable | None = None,
        room: Room | None = None,
        tenants: Tenants | None = None,
        partitions: Partitions | None = None,
        tracked_window: tuple[int, int] | None = None,
        outages: Outages | None = None,
        energy: Energy | None = None,
    ) -> None:
        self.cluster = cluster
        self.outages = outages if outages is None or len(outages) else None
        self.energy = energy
        self.capped = np.empty(0, OUTAGE_DTYPE)
        if energy is not None:
            energy.of_types(cluster)  # refuses types without watts
            self.capped = energy.closed(cluster)
        self.tracked_window = tracked_window
        self.tenants = tenants
        self.partitions = partitions
        self.network = network or Network()
        self.semantics = semantics or Semantics()
        self.sharing = sharing
        self.workload = self._in_order(workload if tenants is None else tenants.classify(workload))
        self.holds = holds_of(self.workload)
        if outages is not None:
            outages.check_nodes(len(cluster.nodes))
        self._recovery = recovery_of(self.workload, self.semantics)
        self.node_sets, self.ignored = self._node_sets()
        self.qos = self._qos()
        none = np.zeros((len(self.workload), 0), np.int64)
        self.needs = none if tenants is None else tenants.needs(self.workload)
        self.node_counts = self._node_counts()
        further, group, demands = self._groups()
        self.classes, self.job_class, of_option, of_group = job_classes(self.workload, group, further)
        self.class_set, self.class_counts = (part.astype(np.int32) for part in np.divmod(of_group, demands))
        self.choice_class = self._choice_class(of_option)
        self.passes = workload.profiles.passes[self.classes[:, 0]]
        if self.semantics.max_copies > 1 and self.network.topology is not None:
            raise ScenarioError(
                "semantics.max_copies: a topology cannot price copies of a gang; use a network priced by tiers, or "
                "max_copies = 1"
            )
        self.topology, self.links, self.first_row = compiled_links(self.network, cluster)
        own = Room(len(cluster.nodes), len(self.links), len(cluster.gpu_types))
        self.room = own if room is None else room.holding(own)
        self.ratios = ratio_matrix(self.network.contention, workload.profiles.rows["name"].tolist())
        self._set_times(table)
        self.sharing_tables: SharingTables | None = None
        if sharing is not None:
            if self.semantics.max_copies > 1:
                raise ScenarioError("sharing: copies of a gang cannot share GPUs; set semantics.max_copies to 1")
            self.sharing_tables = sharing_tables(sharing, self.classes, self.workload, cluster.gpu_types)
        asked = np.unique(self.job_class) if len(of_option) else slice(None)
        refuse_unable(self.ideal_iteration_s[asked], self.classes[asked], self.workload, cluster)
        able = np.isfinite(self.ideal_iteration_s)
        self.sizes = size_table(self.workload.sizes, self.job_class, of_option, self.classes[:, 1], able)
        self._refuse_limits_and_sizes_that_exclude_others()
        self._set_work()

    def _in_order(self, workload: Workload) -> Workload:
        """The jobs by arrival, then as ``semantics.tie_order`` says; refuses gangs larger than the cluster."""
        jobs = workload.jobs
        if jobs["gpus"].max() > self.cluster.gpus:
            bad, room = jobs[int(np.argmax(jobs["gpus"]))], self.cluster.gpus
            raise WorkloadError(
                f"workload {workload.name!r}, job {bad['id']}: demands {bad['gpus']} GPUs but the cluster has {room} "
                f"(jobs that demand more: {(jobs['gpus'] > room).sum():,}): enlarge the cluster or drop such jobs "
                f"(--max-gpus {room}, or max_gpus in the scenario's workload)"
            )
        keys = [jobs["id"], jobs["arrival_s"]]
        if self.semantics.tie_order == "arrival-smallest":
            keys.insert(1, jobs["gpus"])
        return workload.reordered(np.lexsort(keys))

    def _set_times(self, table: ClassTable | None) -> None:
        """Times of an iteration of each class on each placement, and on its best one."""
        self.shapes: ShapePaces | None = None
        if self.network.model == "dimensions":
            paces, self.shapes = shape_paces(self.classes, self.workload, self.cluster)
            self.ideal_iteration_s = ideal_iteration_seconds(self.classes[:, 1], paces.iteration_s, self.cluster)
        else:
            table = table or ClassTable(self.cluster, self.network)
            if table.cluster is not self.cluster or table.network != self.network:
                raise ScenarioError("table: it is of another cluster or network")
            paces, self.ideal_iteration_s = table.times(self.classes, self.workload, self.topology)
        self.iteration_s, self.compute_s, self.communication_s, self.measured = paces
        if self.node_rooms is not None:
            groups = np.stack([self.class_set, self.class_counts])
            for group in np.unique(groups, axis=1).T:
                alike = (group == groups.T).all(axis=1)
                self.ideal_iteration_s[alike] = ideal_iteration_seconds(
                    self.classes[alike, 1], self.iteration_s[alike], self.cluster, self.node_rooms[alike][0]
                )

    def _refuse_limits_and_sizes_that_exclude_others(self) -> None:
        if self.semantics.kill_at_limit and not self.limit_s.min() > 0:
            job = self.workload.jobs["id"][int(np.argmin(self.limit_s))]
            raise WorkloadError(
                f"workload {self.workload.name!r}, job {job}: its time limit is 0, and "
                "jobs are killed at their limits; give it a limit > 0, or none"
            )
        if self.sizes.elastic and self.semantics.kill_at_limit:
            raise ScenarioError(
                "semantics.kill_at_limit: jobs with several sizes have no time limit; give each one size"
            )
        if self.sizes.elastic and self.sharing is not None:
            raise ScenarioError(
                "workload: elastic jobs cannot share GPUs; leave out sharing, or give each job one size"
            )
        if self.sharing is not None and self.semantics.restart_all_s is not None:
            raise ScenarioError("semantics.restart_all_s: gangs that share GPUs cannot all restart; leave out sharing")

    def _set_work(self) -> None:
        """Iterations of each job, and its ideal run time: on the best placement, alone."""
        jobs = self.workload.jobs
        ideal_iteration = self.ideal_iteration_s[self.job_class]
        if self.node_sets is not None and len(self.choice_class):
            choices = self.node_sets.choices
            ideal_iteration = np.minimum.reduceat(self.ideal_iteration_s[self.choice_class], choices.first[:-1])
        if 0 < self.semantics.slot_s < ideal_iteration.max():
            bad = int(np.argmax(ideal_iteration))
            raise WorkloadError(
                f"workload {self.workload.name!r}, job {jobs['id'][bad]}: an iteration takes "
                f"{ideal_iteration[bad]:g} s, and a slot {self.semantics.slot_s:g} s, so that no whole iteration fits; "
                "make slot_s larger"
            )
        by_iterations = np.isfinite(jobs["iterations"])
        ratio = self.semantics.step_ratio
        self.iterations = ratio * np.where(by_iterations, jobs["iterations"], jobs["duration_s"] / ideal_iteration)
        if self.semantics.step_iterations:
            self.iterations = whole_steps(self.iterations, self.semantics.step_iterations)
            by_iterations = np.ones(len(jobs), bool)
        self.ideal_s = np.where(by_iterations, self.iterations * ideal_iteration, jobs["duration_s"] * ratio)
        self._refuse_work_beyond_the_clock(ideal_iteration)

    def _refuse_work_beyond_the_clock(self, ideal_iteration: np.ndarray) -> None:
        """Check that the clock resolves the times of all jobs, and that their work can be counted."""
        jobs, rules = self.workload.jobs, self.semantics
        ranges = [
            (jobs["arrival_s"], 0.0, LATEST_S, "s is its arrival_s", "subtract the first"),
            (self.ideal_s, SHORTEST_S, LATEST_S, "s is its run time", "change its work, its GPU type or its speed"),
            (self.iterations, 0.0, MOST_ITERATIONS, "iterations is its work", "change its duration or its profile"),
        ]
        if rules.slot_s:
            fits = rules.slot_s / ideal_iteration
            ranges.append(
                (fits, 0.0, MOST_ITERATIONS, "of its iterations fit into a slot", "make semantics.slot_s smaller")
            )
        if rules.step_iterations:
            steps = self.iterations / rules.step_iterations
            ranges.append((steps, 0.0, MOST_STEPS, "steps is its work", "make semantics.step_iterations larger"))
        for values, least, most, unit, remedy in ranges:
            if not least <= values.min() or not values.max() <= most:  # comparisons with NaN are false
                bad = int(np.argmin((values >= least) & (values <= most)))
                raise WorkloadError(
                    f"workload {self.workload.name!r}, job {jobs['id'][bad]}: {values[bad]:g} {unit}: "
                    f"give {least:g} to {most:g}; {remedy}"
                )

    def _node_sets(self) -> tuple[NodeSets | None, dict[str, int]]:
        """The nodes that jobs may use, None = all jobs may use all nodes; and the field ``ignored``."""
        types = AskedTypes.of(self.workload, self.cluster)
        lost = f"jobs ask for a GPU type other than {', '.join(self.cluster.gpu_types)}"
        ignored = {lost: types.ignored} if types.ignored else {}
        rules = self.partitions
        if rules is None:
            if types.nodes.all():
                return None, ignored
            rules = Partitions(by="")  # one partition of all nodes
        if self.workload.sizes is not None:
            what = "partitions: jobs with several sizes cannot be divided into partitions; give each one"
            if self.partitions is None:
                what = "workload: jobs with several sizes cannot ask for GPU types; give each one, or set ignore_types"
            raise ScenarioError(what)
        tree, leaf = self.tenancy
        names = np.array(tree.names)
        leaves = names[tree.leaves].tolist()
        return node_sets(rules, self.cluster, self.workload, types, names[leaf], leaves), ignored

    def _qos(self) -> QosTable | None:
        """The qualities of service of the jobs; None = the scenario lists none."""
        if self.tenants is None or not self.tenants.qos:
            return None
        return qos_table(self.tenants.qos, self.tenants.qos_by, self.workload, self.tenancy[1])

    def _node_counts(self) -> NodeCounts | None:
        """What the jobs demand of nodes; refuses gangs with such demands beside shared GPUs."""
        counts = node_counts(self.workload, self.cluster)
        if counts is not None and self.sharing is not None:
            raise ScenarioError(
                f"sharing: jobs that demand a number of nodes cannot share GPUs; leave out {MIN_NODES} and {MAX_NODES}"
            )
        return counts

    def _groups(self) -> tuple[np.ndarray | None, np.ndarray | None, int]:
        """The rows of jobs with several partitions, once for each but their first; and the groups of job_classes.

        The last result is the number of demands D: group = node set x D + demand. Options of elastic jobs demand none.
        """
        sets, counts, sizes = self.node_sets, self.node_counts, self.workload.sizes
        if sets is None and counts is None:
            return None, None, 1
        jobs = len(self.workload)
        options = 0 if sizes is None else len(sizes.options)
        if sets is None:
            further, of_set = None, np.zeros(jobs + options, np.int64)
        else:  # there are no options
            choices = sets.choices
            further = choices.job[choices.further] if choices.several else None
            of_set = np.append(sets.of_job, choices.node_set[choices.further]).astype(np.int64)
        if counts is None:
            return further, of_set, 1
        of_option = np.zeros(options, np.int32) if further is None else counts.of_job[further]
        return further, of_set * len(counts.part) + np.append(counts.of_job, of_option), len(counts.part)

    def _choice_class(self, of_further: np.ndarray) -> np.ndarray:
        """int32 [O]: class of each pair of a job and a partition; empty if each job has one."""
        if self.node_sets is None or not self.node_sets.choices.several:
            return np.empty(0, np.int32)
        choices, further = self.node_sets.choices, self.node_sets.choices.further
        found = self.job_class[choices.job]
        found[further] = of_further
        return found

    @cached_property
    def node_rooms(self) -> np.ndarray | None:
        """int64 [C, N] [GPU]: what a gang of each class may use of each node: its partition, and whole parts.

        None = all classes may use all of all nodes.
        """
        if self.node_sets is None and self.node_counts is None:
            return None
        if self.node_counts is None:
            room = np.tile(self.cluster.nodes["gpus"].astype(np.int64), (len(self.classes), 1))
        else:
            room = rooms(self.node_counts, self.cluster)[self.class_counts]
        return room if self.node_sets is None else np.where(self.node_sets.belongs[self.class_set], room, 0)

    @property
    def is_open(self) -> bool:
        """Whether every job can run on all GPUs of every node at all times, and nodes and gangs never fail."""
        return self.node_rooms is None and self.recovery is None and bool(np.isfinite(self.iteration_s).all())

    @property
    def recovery(self) -> Recovery | None:
        """Checkpoints of the jobs, and their failures by themselves; None = nothing fails or takes time."""
        never = self.outages is None and not len(self.capped)
        return None if never and self._recovery.changes_nothing else self._recovery

    @property
    def cap_closes_s(self) -> np.ndarray:
        """float64 [s]: time at which each row of ``capped`` closes its node: checkpoints end before the cap falls."""
        return closing_times(self.capped["start_s"], self.semantics)

    @cached_property
    def slowest_iteration_s(self) -> np.ndarray:
        """float64 [J] [s]: time of an iteration of each job on its slowest placement, on an idle network."""
        paces = self.iteration_s if self.shapes is None else self.shapes.iteration_s
        slowest: np.ndarray = np.where(np.isfinite(paces), paces, 0.0).max(axis=(1, 2))[self.job_class]
        return slowest

    @cached_property
    def limit_s(self) -> np.ndarray:
        """float64 [J] [s]: time limit of each job: ``estimate_s``, else the least of its first partition and its QOS.

        inf = none.
        """
        sets, rows = self.node_sets, np.arange(len(self.workload))
        return self.limits_in(rows, np.zeros_like(rows) if sets is None else sets.partition)

    def limits_in(self, job: np.ndarray, partition: np.ndarray) -> np.ndarray:
        """float64 [n] [s]: time limit of job ``job[i]`` in ``partition[i]``; inf = none."""
        claimed_s = self.workload.jobs["estimate_s"][job]
        if self.node_sets is None:
            limits = np.where(np.isnan(claimed_s), np.inf, claimed_s)
        else:
            limits = self.node_sets.limits_s(claimed_s, partition)
        return limits if self.qos is None else np.minimum(limits, self.qos.longest_s[job])

    @cached_property
    def start_latency_s(self) -> np.ndarray | None:
        """float64 [J] [s]: what the first start of each job takes besides ``semantics.start_s``; None = nothing."""
        told = START_LATENCY in self.workload.attributes
        return self.workload.told(START_LATENCY) if told else None

    @property
    def shortest_s(self) -> np.ndarray:
        """float64 [J] [s]: run time on the ideal placement, or the time limit if the job is killed earlier."""
        if not self.semantics.kill_at_limit:
            return self.ideal_s
        limit_s = self.limit_s
        if self.node_sets is not None and self.node_sets.choices.several:
            choices = self.node_sets.choices
            of_pair = self.limits_in(choices.job, choices.partition)
            limit_s = np.minimum.reduceat(of_pair, choices.first[:-1])
        shortest: np.ndarray = np.minimum(self.ideal_s, limit_s)
        return shortest

    def gangs(self, rows: np.ndarray, gpus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gang size and the class of job ``rows[i]`` if it holds ``gpus[i]`` GPUs; int [n] each.

        Of a rigid job, and of a job that does not have this size, they are those that it requests.
        """
        gang, job_class = self.workload.jobs["gpus"][rows], self.job_class[rows]
        if not self.sizes.elastic:
            return gang, job_class
        found = self.sizes.find(rows, gpus)
        known = found >= 0
        return np.where(known, gpus, gang), np.where(known, self.sizes.job_class[found], job_class)

    @cached_property
    def divisions(self) -> np.ndarray:
        """Int [C]: a number for the division of the model that each class has by its plan, without its copies."""
        plans = self.workload.profiles.plans_of(self.classes)[["tp", "cp", "ep", "pp"]]
        return np.unique(plans, return_inverse=True)[1]

    @cached_property
    def tenancy(self) -> tuple[TenantTree, np.ndarray]:
        """The tree of tenants, and int32 [J]: the row of each job's leaf in it.

        The jobs of a workload without tenants belong to one leaf.
        """
        leaves = self.workload.attributes.get(TENANT)
        return tree_of(self.tenants, np.full(len(self.workload), "all") if leaves is None else leaves)

    @property
    def gpu_jobs(self) -> int:
        """Maximum number of jobs that may hold the same GPU at the same time."""
        return 1 if self.sharing is None else self.sharing.limit

    @property
    def tells_rates(self) -> bool:
        """Whether the rate of a gang depends on the other running gangs; if so, the event log has ``rate`` events."""
        return self.topology is not None or self.sharing is not None

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that determines a run, except the scheduler."""
        digest = hashlib.sha256(self.workload.fingerprint().encode())

        def add(*arrays: np.ndarray) -> None:
            for array in arrays:
                digest.update(np.ascontiguousarray(array).tobytes())

        def add_text(data: Any) -> None:
            digest.update(json.dumps(data, sort_keys=True).encode())

        add(self.cluster.nodes, self.cluster.racks, self.iteration_s)
        add_text([self.cluster.gpu_types, self.semantics.as_dict()])
        if len(self.cluster.tiers) > len(TIERS):
            add(self.cluster.slots)
        if self.shapes is not None:
            add(self.shapes.keys, self.shapes.iteration_s)
        if self.sharing_tables is not None:
            add(np.array([self.gpu_jobs]), *self.sharing_tables)
        if self.topology is not None:
            add(self.links, self.topology.route_at, self.topology.route_link, self.topology.route_share)
            add_text(network_identity(self.network))
        if self.node_sets is not None:
            add(*self.node_sets[:7])
            if self.node_sets.choices.several:
                add(*self.node_sets.choices)
        if self.node_counts is not None:
            add(*self.node_counts)
        if self.partitions is not None:
            add_text(self.partitions.as_dict())
        if self.tenants is not None:
            add_text(self.tenants.as_dict())
        if self.qos is not None:
            add(self.qos.of_job, self.qos.user)
        add(self.needs)
        if self.outages is not None:
            add_text(self.outages.fingerprint())
        if len(self.capped):
            add(self.capped)
        return digest.hexdigest()


@dataclass(frozen=True)
class SchedulerInfo:
    """Name, parameters and clairvoyance of a scheduler, which are stored with every result."""

    name: str
    parameters: dict[str, Any]
    clairvoyant: bool
