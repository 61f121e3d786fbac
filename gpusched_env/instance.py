"""An instance: a cluster, a drawn workload, a network and the rules of play, compiled to arrays for the simulator."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MOST_GPUS, TIERS, Cluster
from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.network import Network, compiled_links, contention_ratios, network_identity
from gpusched_env.performance import ClassTable, ideal_iteration_seconds, job_classes, refuse_unable
from gpusched_env.shape_paces import ShapePaces, shape_paces
from gpusched_env.sharing import Sharing, SharingTables, sharing_tables
from gpusched_env.workload import Workload

TIE_ORDERS: Final = ("arrival-id", "arrival-smallest")
# Rules that fingerprints omit at their default value, and that value.
LATER_RULES: Final = {
    "slot_s": 0.0,
    "least_busy_lambda": 1.0,
    "step_iterations": 0,
    "start_s": 0.0,
    "max_copies": 1,
    "merge_s": 0.0,
    "pace_until_lease": False,
}
SHORTEST_ROUND_S: Final = 1e-3  # [s] each round calls the scheduler, so shorter rounds would take for ever
QUEUE_DISCIPLINES: Final = ("scheduler", "strict", "skip")

# Costs of one preemption in published simulators: seconds of checkpoint (the GPUs are still held) and of restore.
# Costs that depend on gang size or model (Lucid, Muri) are not in this table.
PREEMPTION_COSTS: Final = {
    "zero": (0.0, 0.0),  # Tiresias' own simulator
    "tiresias62": (31.0, 31.0),  # 62 s on average (Tiresias, NSDI 2019, section 5.2.4, quoted in Lucid's simulator)
    "pollux30": (0.0, 30.0),  # 30 s per re-scale (Pollux, OSDI 2021, simulator)
}


@dataclass(frozen=True)
class Semantics:
    """Rules of play. They change results more than most policies do, so every fingerprint includes them.

    Parameters
    ----------
    round_s : length of a round [s], at least SHORTEST_ROUND_S: schedulers decide only at multiples of it. 0 = no
        rounds: schedulers decide at every event
    checkpoint_s : time for which a preempted gang still holds its GPUs, without progress [s]
    slot_s : length of a slot [s]: in each slot, only whole iterations count, and a gang stops only at a multiple of it
        (SJF-BCO, eq. 9). 0 = no slots: work is continuous
    least_busy_lambda : the placement rule least-busy-servers chooses among the least busy servers, as few as have this
        many times the GPUs of the gang (SJF-BCO, LBSGF)
    start_s : time for which a gang holds its GPUs before its first progress [s]
    max_copies : number of copies of a gang that may train its job at the same time, each on its own GPUs; copies share
        the iterations in proportion to their speeds (HadarE)
    merge_s : time that a gang of several copies takes to average their parameters, when it gets its GPUs [s]
    restore_s : time for which a resumed gang holds its GPUs before it makes progress [s]
    queue : discipline of schedulers that start an ordered queue without preemption (fifo, sjf, ssf, yarn-cs):
        "scheduler" = as published; "strict" = stop at the first waiting job that does not fit (head-of-line blocking);
        "skip" = skip it and start whatever fits
    step_iterations : K > 0 rounds the work of every job up to a multiple of K iterations (Dally's simulator,
        ``iteration_granularity``); 0 = work is continuous
    tie_order : order of jobs that tie: "arrival-id", or "arrival-smallest" (arrival, gang size, id)
    pace_until_lease : True = after a co-located job leaves, a gang keeps its slowed rate until its next lease or until
        another job joins it (Gavel: rates hold for a round); False = it runs faster at once
    time_limit_s : time at which the run is cut [s]; inf = run until every job has finished

    Raises
    ------
    ScenarioError : a negative or NaN time, a value out of range, or an unknown name
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

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("round_s", "checkpoint_s", "restore_s", "start_s", "merge_s", "time_limit_s", "slot_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
                raise ScenarioError(f"semantics.{name} is {value!r}: it must be a number of seconds >= 0")
            object.__setattr__(self, name, float(value))
        for name in ("round_s", "checkpoint_s", "restore_s", "start_s", "merge_s", "slot_s"):
            if math.isinf(getattr(self, name)):
                raise ScenarioError(f"semantics.{name} is infinite: it must be a finite number of seconds")
        if 0 < self.round_s < SHORTEST_ROUND_S:
            raise ScenarioError(
                f"semantics.round_s is {self.round_s!r}: give 0, or at least {SHORTEST_ROUND_S:g} seconds"
            )
        if not 1.0 <= self.least_busy_lambda < math.inf:
            raise ScenarioError(
                f"semantics.least_busy_lambda is {self.least_busy_lambda!r}: it must be a number of at least 1"
            )
        steps = self.step_iterations
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise ScenarioError(f"semantics.step_iterations is {steps!r}: it must be a whole number of iterations >= 0")
        copies = self.max_copies
        if isinstance(copies, bool) or not isinstance(copies, int) or not 1 <= copies <= MOST_GPUS:
            raise ScenarioError(f"semantics.max_copies is {copies!r}: it must be a whole number from 1 to {MOST_GPUS}")
        if not isinstance(self.pace_until_lease, bool):
            raise ScenarioError(f"semantics.pace_until_lease is {self.pace_until_lease!r}: it must be true or false")
        if self.time_limit_s == 0:
            raise ScenarioError("semantics.time_limit_s is 0: nothing can happen; leave it out to run to the end")
        if self.tie_order not in TIE_ORDERS:
            raise ScenarioError(f"semantics.tie_order: {unknown_name('tie order', self.tie_order, TIE_ORDERS)}")
        if self.queue not in QUEUE_DISCIPLINES:
            raise ScenarioError(f"semantics.queue: {unknown_name('queue discipline', self.queue, QUEUE_DISCIPLINES)}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; an infinite time limit becomes None.

        A rule of LATER_RULES is left out at its default value, so that fingerprints do not depend on it.
        """
        data = dataclasses.asdict(self)
        for name, plain in LATER_RULES.items():
            if data[name] == plain:
                del data[name]
        data["time_limit_s"] = None if math.isinf(self.time_limit_s) else self.time_limit_s
        return data


def whole_steps(iterations: np.ndarray, step: int) -> np.ndarray:
    """float64 [J]: iterations rounded up to multiples of ``step``.

    Work that is computed from seconds has rounding errors, so an excess of 1e-12 (relative) is ignored.
    """
    steps: np.ndarray = np.ceil(iterations / step * (1.0 - 1e-12)) * step
    return steps


class Instance:
    """A problem instance that the simulator can play.

    Parameters
    ----------
    cluster, workload, network, semantics : the four parts of a drawn scenario
    sharing : rules by which jobs share GPUs; None = one job per GPU
    table : times of job classes of earlier instances on the same cluster and network, which need not be computed again

    Attributes
    ----------
    workload : the given workload with its jobs sorted by the tie order, so that jobs tie in the order of their rows
    job_class : int32 [J], class of each job
    classes : int64 [C, 2], profile and gang size of each class
    passes : int64 [C], passes in which a GPU processes its batch when it is not shared
    topology : the links between the machines; None if the network is priced by tiers
    links : LINK_ROW_DTYPE, the links as rows of the simulator
    first_row : first row in ``links`` of each link of the topology
    iteration_s : float64 [C, tiers, GPU types], seconds of one iteration on an idle network; inf = cannot run there
    compute_s, communication_s : float64 [C, tiers, GPU types], seconds of compute and of communication in an iteration
    measured : bool [C, tiers, GPU types], whether these times were measured
    shapes : times by the shape of a placement; None unless the network's model is "dimensions". Arrays by tier then
        hold the fastest shape of each tier
    ratios : float64 [P, P], rate of a profile beside another / its rate alone; None unless contention is a table
    iterations : float64 [J], work of each job
    ideal_iteration_s : float64 [C], seconds of one iteration on the best placement that the empty cluster offers
    ideal_s : float64 [J], run time on that placement

    Raises
    ------
    WorkloadError : a gang larger than the cluster, profiles that lack one of the cluster's GPU types, a job that can
        run on no placement, or an iteration longer than a slot
    ScenarioError : copies of gangs together with a topology or with sharing; a table of another cluster or network
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        network: Network | None = None,
        semantics: Semantics | None = None,
        sharing: Sharing | None = None,
        table: ClassTable | None = None,
    ) -> None:
        self.cluster = cluster
        self.network = network or Network()
        self.semantics = semantics or Semantics()
        self.sharing = sharing
        jobs = workload.jobs
        if jobs["gpus"].max() > cluster.gpus:
            bad = jobs[int(np.argmax(jobs["gpus"]))]
            raise WorkloadError(
                f"workload {workload.name!r}, job {bad['id']}: demands {bad['gpus']} GPUs but the cluster has "
                f"{cluster.gpus}: enlarge the cluster or drop such jobs (max_gpus in the scenario's workload)"
            )
        keys = [jobs["id"], jobs["arrival_s"]]
        if self.semantics.tie_order == "arrival-smallest":
            keys.insert(1, jobs["gpus"])
        self.workload = workload.reordered(np.lexsort(keys))
        jobs = self.workload.jobs
        self.classes, self.job_class = job_classes(self.workload)
        self.passes = workload.profiles.passes[self.classes[:, 0]]
        if self.semantics.max_copies > 1 and self.network.topology is not None:
            raise ScenarioError(
                "semantics.max_copies: a topology cannot price copies of a gang; use a network priced by tiers, or "
                "max_copies = 1"
            )
        self.topology, self.links, self.first_row = compiled_links(self.network, cluster)
        self.ratios = contention_ratios(self.network.contention, workload.profiles)
        self.shapes: ShapePaces | None = None
        if self.network.model == "dimensions":
            paces, self.shapes = shape_paces(self.classes, self.workload, cluster)
            self.ideal_iteration_s = ideal_iteration_seconds(self.classes[:, 1], paces.iteration_s, cluster)
        else:
            table = table or ClassTable(cluster, self.network)
            if table.cluster is not cluster or table.network != self.network:
                raise ScenarioError("table: it is of another cluster or network")
            paces, self.ideal_iteration_s = table.times(self.classes, self.workload, self.topology)
        self.iteration_s, self.compute_s, self.communication_s, self.measured = paces
        self.sharing_tables: SharingTables | None = None
        if sharing is not None:
            if self.semantics.max_copies > 1:
                raise ScenarioError("sharing: copies of a gang cannot share GPUs; set semantics.max_copies to 1")
            self.sharing_tables = sharing_tables(sharing, self.classes, self.workload, cluster.gpu_types)
        refuse_unable(self.ideal_iteration_s, self.classes, self.workload, cluster)
        ideal_iteration = self.ideal_iteration_s[self.job_class]
        if 0 < self.semantics.slot_s < ideal_iteration.max():
            bad = int(np.argmax(ideal_iteration))
            raise WorkloadError(
                f"workload {workload.name!r}, job {jobs['id'][bad]}: an iteration takes {ideal_iteration[bad]:g} s, "
                f"and a slot {self.semantics.slot_s:g} s, so that no whole iteration fits; make slot_s larger"
            )
        by_iterations = np.isfinite(jobs["iterations"])
        self.iterations = np.where(by_iterations, jobs["iterations"], jobs["duration_s"] / ideal_iteration)
        if self.semantics.step_iterations:
            self.iterations = whole_steps(self.iterations, self.semantics.step_iterations)
            by_iterations = np.ones(len(jobs), bool)
        self.ideal_s = np.where(by_iterations, self.iterations * ideal_iteration, jobs["duration_s"])

    @property
    def gpu_jobs(self) -> int:
        """Number of jobs that may hold a GPU at the same time."""
        return 1 if self.sharing is None else self.sharing.limit

    @property
    def tells_rates(self) -> bool:
        """Whether rates depend on the other running gangs, so that the event log holds ``rate`` events."""
        return self.topology is not None or self.sharing is not None

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that determines a run, except the scheduler."""
        digest = hashlib.sha256(self.workload.fingerprint().encode())
        for array in (self.cluster.nodes, self.cluster.racks, self.iteration_s):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(json.dumps([self.cluster.gpu_types, self.semantics.as_dict()], sort_keys=True).encode())
        if len(self.cluster.tiers) > len(TIERS):
            digest.update(self.cluster.slots.tobytes())
        if self.shapes is not None:
            for array in (self.shapes.keys, self.shapes.iteration_s):
                digest.update(np.ascontiguousarray(array).tobytes())
        if self.sharing_tables is not None:
            for array in (np.array([self.gpu_jobs]), *self.sharing_tables):
                digest.update(np.ascontiguousarray(array).tobytes())
        if self.topology is not None:
            for array in (self.links, self.topology.route_at, self.topology.route_link, self.topology.route_share):
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(json.dumps(network_identity(self.network), sort_keys=True).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class SchedulerInfo:
    """Name and parameters of a scheduler, stored with every result."""

    name: str
    parameters: dict[str, Any]
    clairvoyant: bool
