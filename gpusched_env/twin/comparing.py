"""What would change: other policies, more machines or more load, played on the jobs of a twin's log."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.evaluation.processes import in_processes
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import Interval, bootstrap_ratio, held_gpus, job_times
from gpusched_env.portable import arrays
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.simulator import simulate
from gpusched_env.twin.kueue import with_quota
from gpusched_env.twin.model import EARLIER, WAIT, Problem, Twin
from gpusched_env.twin.recorded import Recorded, used
from gpusched_env.twin.scoring import groups_of, size_names

__all__ = ["compare_policies", "settings_of"]

CURRENT: Final = "current"  # name of the twin's own policy
TODAY: Final = "today"  # name of the setting without changes
RECORDED: Final = "recorded"  # name of what the log tells, beside the policies
WEEK_S: Final = 7 * 86_400.0
ROLES: Final = {"cluster_queue": "account", "virtual_cluster": "account"}  # attributes, as pseudonymise names them


@dataclass(frozen=True)
class Setting:
    """The machines (a twin) and the jobs that these can run, under which policies are compared."""

    name: str
    twin: Twin
    workload: Workload
    left_out: int = 0  # jobs of the log for which no pool has their partition and room for their gang
    log: str = ""  # source of the jobs; "" = not told
    origin: str = ""  # date of time 0, ISO 8601; "" = the log tells none


class Outcome(NamedTuple):
    """What one policy does in one setting; arrays of length J, in the order of the setting's jobs."""

    setting: str
    policy: str
    wait_s: np.ndarray  # [s] time in the system without GPUs, also after preemptions
    jct_s: np.ndarray  # [s] from arrival to completion; NaN = unfinished
    gpu_hours: float  # GPU time held, including restores and checkpoints
    useful_gpu_hours: float  # GPU time of progress; NaN = not told
    capacity_gpu_hours: float  # GPUs x time from the first to the last arrival
    busy: float  # part of that time in which GPUs were held, 0..1
    preemptions: float  # number; NaN = not told


@dataclass(frozen=True)
class Comparison:
    """The outcomes of each policy in each setting, today's first, and pseudonyms for tenants.

    ``recorded`` is what the log tells of today; None = it tells no waits.
    """

    settings: tuple[Setting, ...]
    outcomes: tuple[Outcome, ...]
    recorded: Outcome | None = None
    names: Pseudonyms | None = None

    @property
    def reference(self) -> Outcome:
        """The twin's policy today."""
        return self.outcomes[0]

    @property
    def rows(self) -> tuple[Outcome, ...]:
        """The lines of a table: what the log tells, then all outcomes."""
        return self.outcomes if self.recorded is None else (self.recorded, *self.outcomes)

    def tenants(self) -> np.ndarray:
        """Str [J]: the tenant of each job as tables and pages name it."""
        today = self.settings[0]
        attributes = dict(today.workload.attributes)
        if self.names is not None:
            for column in (one for one in today.twin.tenant_columns if one in attributes):
                texts, at = np.unique(attributes[column].astype(str), return_inverse=True)
                role = ROLES.get(column, column)
                attributes[column] = np.array([self.names.name(role, text) for text in texts.tolist()])[at]
        return today.twin.leaves(today.workload.unchecked_replace(attributes=attributes))

    def setting(self, name: str) -> Setting:
        """Return the setting of this name."""
        return next(setting for setting in self.settings if setting.name == name)

    def ratio(self, outcome: Outcome, rows: np.ndarray | None = None) -> Interval | None:
        """Return mean wait / that of the reference, with a 95 % interval by bootstrap over weeks of arrival.

        None: the jobs of the reference do not wait.
        """
        return wait_ratio(outcome.wait_s, self.reference.wait_s, self.weeks(), rows)

    def weeks(self) -> np.ndarray:
        """int64 [J]: week in which each job arrives today."""
        return (self.settings[0].workload.jobs["arrival_s"] // WEEK_S).astype(np.int64)


def wait_ratio(
    wait_s: np.ndarray, reference_s: np.ndarray, weeks: np.ndarray, rows: np.ndarray | None = None
) -> Interval | None:
    """Return sum of waits / sum of the reference's waits of the same jobs; the interval is a bootstrap over weeks."""
    chosen = np.ones(len(wait_s), bool) if rows is None else rows
    sums = [np.bincount(weeks[chosen], values[chosen], minlength=1) for values in (wait_s, reference_s)]
    some = np.bincount(weeks[chosen], minlength=1) > 0
    if not some.any() or not sums[1].sum() > 0:
        return None
    return bootstrap_ratio(sums[0][some], sums[1][some])


def settings_of(twin: Twin, workload: Workload, add_nodes: str = "", load: float = 1.0) -> tuple[Setting, ...]:
    """Return today's setting, and a changed one if something changes.

    ``add_nodes`` is ``[POOL:]CLUSTER``, machines that a pool gets; default the pool with the most GPUs. All its
    partitions may use them; the name of a partition gives them to it alone. With Kueue, POOL is the queue or cohort
    whose quota grows. ``load`` scales arrivals.
    """
    placed = twin.pool_of(workload) >= 0
    if not placed.any():
        raise GpuschedError("twin: no job of the log fits into the machines of the twin")
    jobs = workload.select(placed)
    left_out = int((~placed).sum())
    today = Setting(TODAY, twin, jobs, left_out)
    if not 1e-3 <= load <= 1e3:
        raise GpuschedError(f"--load {load}: give 0.001 to 1000, such as 1.2 for a fifth more jobs per hour")
    if not add_nodes and load == 1.0:
        return (today,)
    words = []
    if add_nodes:
        twin = with_nodes(twin, add_nodes)
        words.append(f"+ {add_nodes}")
    if load != 1.0:
        jobs = jobs.unchecked_columns(arrival_s=jobs.jobs["arrival_s"] / load)
        words.append(f"load x {load:g}")
    return today, Setting(", ".join(words), twin, jobs, left_out)


def with_nodes(twin: Twin, text: str) -> Twin:
    """Return a twin with more machines; ``text`` is that of :func:`settings_of`."""
    name, colon, machines = text.rpartition(":")
    if twin.of_kueue:  # it has one pool, and quotas decide who uses the machines
        twin, name, colon = with_quota(twin, name, Cluster.parse(machines).gpus), "", ""
    holds = {one: number for number, pool in enumerate(twin.pools) for one in (*pool.partitions, pool.name)}
    if colon and name not in holds:
        raise GpuschedError(f"--add-nodes {text!r}: {unknown_name('pool or partition', name, holds)}")
    largest = max(range(len(twin.pools)), key=lambda number: (twin.pools[number].cluster.gpus, -number))
    number = holds[name] if colon else largest
    pools = list(twin.pools)
    own, added = pools[number], Cluster.parse(machines).groups
    first, new = len(own.cluster.nodes), len(Cluster(added).nodes)
    more = f"{first}-{first + new - 1}"
    names = own.node_names and (*own.node_names, *(f"new {i}" for i in range(1, new + 1)))
    sets = tuple(
        dataclasses.replace(one, nodes=f"{one.nodes},{more}") if one.nodes and name in ("", own.name, one.name) else one
        for one in own.sets
    )
    pools[number] = dataclasses.replace(own, groups=own.groups + added, sets=sets, node_names=names)
    return dataclasses.replace(twin, pools=tuple(pools))


def compare_policies(settings: Sequence[Setting], policies: Sequence[str], workers: int = -1) -> Comparison:
    """Play policies in all settings, in several processes.

    ``CURRENT`` is the twin's policy, which is always played.
    """
    names = list(dict.fromkeys([CURRENT, *policies]))
    for name in names[1:]:
        make_scheduler(name)
    calls = [(setting, name) for setting in settings for name in names]
    return Comparison(tuple(settings), tuple(in_processes(play_policy, calls, workers)), recorded_outcome(settings[0]))


def recorded_outcome(setting: Setting) -> Outcome | None:
    """Return what the log tells of the jobs of a setting; None = it tells no waits."""
    if WAIT not in setting.workload.attributes:
        return None
    log = Recorded.of(setting.workload)
    earlier_s = setting.workload.attributes.get(EARLIER, 0.0)
    wait_s = log.start_s - log.arrival_s - earlier_s
    gpu_hours = arrays.total(log.gpus * (log.end_s - log.start_s + earlier_s)) / 3600
    first_s, last_s = float(log.arrival_s.min()), float(log.arrival_s.max())
    capacity, busy = setting.twin.gpus * (last_s - first_s), used(log.held(), log.arrival_s, setting.twin.gpus)
    busy += arrays.total(log.gpus * earlier_s) / capacity if capacity else 0.0
    return Outcome(
        setting.name, RECORDED, wait_s, log.end_s - log.arrival_s, gpu_hours, math.nan, capacity / 3600, busy, math.nan
    )  # fmt: skip


def play_policy(setting: Setting, policy: str) -> Outcome:
    """Play one policy in one setting, pool by pool."""
    jobs = len(setting.workload)
    wait_s, jct_s = np.zeros(jobs), np.full(jobs, np.nan)
    held = useful = busy = 0.0
    preemptions = 0
    arrival = setting.workload.jobs["arrival_s"]
    first_s, last_s = float(arrival.min()), float(arrival.max())
    for problem, log in play_pools(setting, policy):
        times = job_times(problem.instance, log)
        wait_s[problem.rows], jct_s[problem.rows] = times["queueing_s"], times["jct_s"]
        held += arrays.total(times["gpu_seconds"])
        useful += arrays.total(times["service_gpu_s"])
        preemptions += int(times["preemptions"].sum())
        busy += used(held_gpus(problem.instance, log), arrival, setting.twin.gpus)
    capacity = setting.twin.gpus * (last_s - first_s)
    return Outcome(setting.name, policy, wait_s, jct_s, held / 3600, useful / 3600, capacity / 3600, busy, preemptions)


def play_pools(setting: Setting, policy: str) -> list[tuple[Problem, EventLog]]:
    """Play one policy in each pool of a setting."""
    return [
        (problem, simulate(problem.instance, make_scheduler(problem.spec if policy == CURRENT else policy)))
        for problem in setting.twin.problems(setting.workload)
    ]


def groups_of_setting(setting: Setting) -> list[tuple[str, str, np.ndarray]]:
    """List partition, size and members, bool [J], of the groups that have jobs."""
    twin, jobs = setting.twin, setting.workload
    per_node = max(group.gpus for pool in twin.pools for group in pool.groups)
    return list(groups_of(twin.groups_of(jobs), size_names(jobs.jobs["gpus"], per_node)))
