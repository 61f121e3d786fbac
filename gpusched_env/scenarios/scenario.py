"""A scenario is data that determines everything about an experiment except the scheduler."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.network import Network, compiled_links, network_as_dict, network_identity
from gpusched_env.problem.cluster import Cluster, NodeGroup, refuse_too_many
from gpusched_env.problem.energy import Energy
from gpusched_env.problem.failures import Failures
from gpusched_env.problem.instance import Instance, Room, Semantics
from gpusched_env.problem.partitions import Partitions
from gpusched_env.problem.performance import ClassTable
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios.measured_on import with_iterations
from gpusched_env.scenarios.problems import Parts, Problems, check_common, seeds_of_problem
from gpusched_env.scenarios.seeds import Seeds
from gpusched_env.scenarios.variation import Variation
from gpusched_env.scenarios.workload_spec import DEFAULT_JOBS, WorkloadSpec
from gpusched_env.sharing import Sharing
from gpusched_env.traces import ReadReport

ONE_PROBLEM: Final = "choose one problem first: scenario.problem(seed), or by name, such as family-v1:problem=0"
_DRAWN_TOGETHER: Final = 256  # seeds that are drawn together in search of one whose problem lies in a part
_TRIES: Final = 4_096  # such draws at most
RESULTS_VERSION: Final = "2"  # must be raised whenever an unchanged scenario gives different results


@dataclass(frozen=True)
class Scenario:
    """An experiment without its scheduler: cluster, network, workload, semantics and seeds.

    A scenario with a variation has another cluster, network, mix of jobs and cost of preemption for each seed. The
    scenario of one seed is :meth:`problem`.

    Parameters
    ----------
    name : name in reports; the names of registered scenarios end in ``-v`` and a version
    description : description in one sentence
    groups : node groups of the cluster; if the scenario varies, those of its largest cluster, or empty
    workload : source of the jobs
    network : network between the GPUs
    semantics : rules of the simulation
    seeds : seeds for training, validation and reports
    tracked_window : half-open range ``(first, end)`` of the arrival ranks of the jobs that are measured, which can
        leave out the times in which the cluster fills and drains. None = all jobs are measured
    sharing : rules by which jobs share GPUs; None = no sharing
    variation : distribution from which the problem of each seed is drawn; None = all seeds have the same problem
    room : sizes for which observations have room, so that an agent can play scenarios of several sizes; rows that a
        problem lacks are 0. None = the sizes of the scenario, or of its largest problem
    tenants : tree of tenants, and the attribute that assigns jobs to them; None = jobs have no tenants
    partitions : partitions and reservations; None = every job may use every node
    energy : what GPUs draw, what that costs, and the power cap; None = no energy is computed
    failures : how nodes fail; each seed draws its own outages. None = nodes never fail

    Raises
    ------
    ClusterError : more GPUs than a cluster may have
    ScenarioError : no node group, a tracked window that is empty or reaches beyond the jobs of an episode, or a value
        that the variation draws
    """

    name: str
    description: str
    groups: tuple[NodeGroup, ...]
    workload: WorkloadSpec
    network: Network = field(default_factory=Network)
    semantics: Semantics = field(default_factory=Semantics)
    seeds: Seeds = field(default_factory=Seeds)
    tracked_window: tuple[int, int] | None = None
    sharing: Sharing | None = None
    variation: Variation | None = None
    room: Room | None = None
    tenants: Tenants | None = None
    partitions: Partitions | None = None
    energy: Energy | None = None
    failures: Failures | None = None

    def __post_init__(self) -> None:
        """Check the fields that do not check themselves, and their combinations."""
        object.__setattr__(self, "groups", tuple(self.groups))
        if self.variation is not None:
            largest = self.variation.largest()
            if self.groups not in ((), largest):
                raise ScenarioError(f"groups: the variation draws the cluster; {ONE_PROBLEM}")
            object.__setattr__(self, "groups", largest)
            check_common(self.workload, self.network, self.semantics)
        if not self.groups:
            raise ScenarioError("groups is empty: give at least one node group")
        refuse_too_many(self.groups)
        if self.tracked_window is None:
            return
        first, end = self.tracked_window
        jobs = self.workload.jobs or (DEFAULT_JOBS if self.workload.synthetic else None)
        if not 0 <= first < end or (jobs is not None and end > jobs):
            raise ScenarioError(
                f"tracked_window is ({first}, {end}): give 0 <= first < end <= number of jobs ({jobs or 'of the log'})"
            )

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster that the node groups form."""
        return Cluster(self.groups)

    @cached_property
    def observed(self) -> Room:
        """Sizes for which observations have room: those of the largest problem, or of the field ``room``."""
        _, links, _ = compiled_links(self.network, self.cluster)
        own = Room(len(self.cluster.nodes), len(links), len(self.cluster.gpu_types))
        return own if self.room is None else self.room.holding(own)

    @cached_property
    def _class_table(self) -> ClassTable:
        return ClassTable(self.cluster, self.network)

    @cached_property
    def _measured_table(self) -> ClassTable | None:
        return self.workload.measured and self.workload.measured.table(self._class_table)

    @cached_property
    def _log(self) -> tuple[Workload, ReadReport] | None:
        return None if self.workload.synthetic else self.workload.read()

    @property
    def log(self) -> Workload | None:
        """The jobs of the log that the cuts of the workload keep; None if jobs come from a generator."""
        return None if self._log is None else self._log[0]

    @property
    def trace_report(self) -> ReadReport | None:
        """Report on the rows of the log that were read, kept and dropped; None if jobs come from a generator."""
        return None if self._log is None else self._log[1]

    @cached_property
    def _problems(self) -> Problems | None:
        if self.variation is None:
            return None
        return Problems(self.variation, self.workload, self.network, self.semantics)

    def _parts(self, seed: int) -> Parts:
        if self._problems is None:
            return Parts(self._class_table, self.workload, self.semantics)
        return self._problems.parts(seed)

    def problem(self, seed: int) -> Self:
        """Return the scenario of one seed, which does not vary: ``instance(seed)`` of both is the same problem.

        Its observations have room for all problems. Its report seed is ``seed``. Other seeds draw other jobs for the
        same cluster, network and mix of jobs. A scenario that does not vary is its own problem.
        """
        if self.variation is None:
            return self
        seed = check_seed(seed)
        table, workload, semantics = self._parts(seed)
        return self.replace(
            name=f"{self.name}:problem={seed}", groups=table.cluster.groups, workload=workload, network=table.network,
            semantics=semantics, seeds=seeds_of_problem(seed), variation=None, room=self.observed,
        )  # fmt: skip

    def part(self, ranges: Mapping[str, Any]) -> Variation | None:
        """Return a part of the variation, with fewer choices or smaller ranges; None = the whole, if none are given."""
        if not ranges:
            return None
        if self.variation is None:
            raise ScenarioError(f"scenario {self.name!r} does not vary: it has no {', '.join(ranges)} to choose")
        return self.variation.narrowed(ranges)

    def train_seed(self, rng: np.random.Generator, part: Variation | None = None) -> int:
        """Draw a training seed whose problem lies in a part of the variation; None = any."""
        first, end = self.seeds.train
        if part is None or self.variation is None:
            return int(rng.integers(first, end))
        for _ in range(_TRIES):
            seeds = rng.integers(first, end, size=_DRAWN_TOGETHER)
            fitting = self.variation.fits(seeds, part)
            if fitting.any():
                return int(seeds[fitting.argmax()])
        raise ScenarioError(
            f"scenario {self.name!r}: none of {_TRIES * _DRAWN_TOGETHER:,} training seeds has such a problem; give "
            "wider ranges"
        )

    def instance(self, seed: int, log: Workload | None = None) -> Instance:
        """Draw the problem of a seed.

        The result does not depend on the machine, the process or the order of calls. A log is read once for each
        scenario object. The jobs of a log do not depend on the seed, but their models do.

        ``log`` : value of :attr:`log`, if the caller has read the log already.

        Raises
        ------
        ScenarioError : a seed that is not a whole number >= 0
        TraceError, WorkloadError : the log cannot be read, or a job does not fit the cluster
        """
        seed = check_seed(seed)
        if log is None and self._log is not None:
            log = self._log[0]
        table, spec, semantics = self._parts(seed)
        cluster = table.cluster  # of the table: two threads may each have made both
        workload = spec.draw(seed, log, cluster.gpus, cluster.gpu_types)
        if self.tenants is not None:
            workload = self.tenants.assign(workload, seed)
        if self.tracked_window is not None and self.tracked_window[1] > len(workload):
            raise ScenarioError(f"tracked_window is {self.tracked_window} but the workload has {len(workload)} jobs")
        if (there := self._measured_table) is not None:
            rules = (self.tenants, self.partitions) if there.cluster is cluster else ()
            workload = with_iterations(workload, there, *rules)
        room = self.room if self.variation is None else self.observed
        instance = Instance(
            cluster, workload, table.network, semantics, self.sharing, table, room, self.tenants, self.partitions,
            self.tracked_window, energy=self.energy,
        )  # fmt: skip
        return instance if self.failures is None else self.failures.apply(instance, seed)

    def replace(self, **changes: Any) -> Self:
        """Return a copy of the scenario with some fields changed."""
        known = {item.name for item in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                raise ScenarioError(f"scenario {self.name!r} has no field {name!r}; fields: {', '.join(sorted(known))}")
        if "variation" in changes and changes["variation"] is not None:
            changes = {"groups": ()} | changes  # another variation has another largest cluster
        return dataclasses.replace(self, **changes)

    def with_cluster(self, cluster: Cluster) -> Self:
        """Return the same scenario with another cluster."""
        return self.replace(groups=cluster.groups)

    def with_workload(self, source: str, **changes: Any) -> Self:
        """Return the same scenario with the jobs of ``source``, such as ``philly:PATH`` or ``synthetic:helios-venus``.

        The workload keeps the rule of ``profiles``. All other fields of the workload get their defaults unless
        ``changes`` gives them, so the whole log is used, with its own arrival times. The new scenario has no tracked
        window.
        """
        spec = WorkloadSpec(source, **{"profiles": self.workload.profiles, **changes})
        return self.replace(workload=spec, tracked_window=None)

    def with_failures(self, failures: Failures | str | None) -> Self:
        """Return the same scenario with other failures of nodes, or those of a preset, such as ``rsc-1``."""
        return self.replace(failures=Failures.preset(failures) if isinstance(failures, str) else failures)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; :func:`gpusched_env.scenarios.scenario_from_dict` builds the scenario from it."""
        data = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        data["workload"] = self.workload.as_dict()
        data["network"] = network_as_dict(self.network)
        data["seeds"] = dataclasses.asdict(self.seeds)
        data["groups"] = [group.as_dict() for group in self.groups]
        data["semantics"] = self.semantics.as_dict()
        del data["sharing"]  # written only if jobs may share GPUs; without it, fingerprints do not depend on the field
        if self.sharing is not None:
            data["sharing"] = self.sharing.as_dict()
        for name in ("variation", "room", "tenants", "partitions", "energy", "failures"):
            del data[name]  # written only if they are given, for the same reason
        if self.failures is not None:
            data["failures"] = self.failures.as_dict()
        if self.partitions is not None:
            data["partitions"] = self.partitions.as_dict()
        if self.energy is not None:
            data["energy"] = self.energy.as_dict()
        if self.tenants is not None:
            data["tenants"] = self.tenants.as_dict()
        if self.room is not None:
            data["room"] = dataclasses.asdict(self.room)
        if self.variation is not None:
            data["variation"] = self.variation.as_dict()
            del data["groups"]
        plain: dict[str, Any] = json.loads(json.dumps(data))  # tuples become lists, as in a file
        return plain

    def fingerprint(self) -> str:
        """Return the SHA-256 over all data on which results depend.

        It includes the contents of files, but not their paths, and not the name and description of the scenario.
        """
        data = self.as_dict()
        del data["name"], data["description"]
        data["workload"] |= self.workload.identities()
        data["network"] = network_identity(self.network)
        if self.sharing is not None:
            data["sharing"] = self.sharing.identity()
        if self.energy is not None:
            data["energy"] = self.energy.identity()
        if self.failures is not None:
            data["failures"] = self.failures.identity()
        data["results_version"] = RESULTS_VERSION
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        """Leave caches out of a pickle, because a worker process reads the log itself."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}


def check_seed(seed: int) -> int:
    """Return the seed as an int; raise ScenarioError if it is not a whole number of at least 0."""
    try:
        value = int(seed)
        if value == seed and value >= 0 and not isinstance(seed, bool):
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    raise ScenarioError(f"seed is {seed!r}: it must be a whole number >= 0")
