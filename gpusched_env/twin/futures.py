"""Sampled futures of a snapshot: when each queued job starts in each of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.baselines.slurm.past_usage import PastUsage
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.problem.dependencies import BEGIN, DEPENDENCY
from gpusched_env.problem.tenants import PRIORITY
from gpusched_env.problem.workload import GPU_TYPES, MAX_NODES, MIN_NODES, Workload
from gpusched_env.simulator import Move, Outcome, Simulation, Start, begin
from gpusched_env.twin.history import DAY_S, Asked, Choices, History, alike, batches, drawn_arrivals
from gpusched_env.twin.model import CLUSTER_QUEUE, PARTITION, WAIT, Problem
from gpusched_env.twin.placing import gpus_of_running
from gpusched_env.twin.policies import with_parameters
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.settings import Setting, closing
from gpusched_env.twin.snapshot import PresentJob, Snapshot
from gpusched_env.twin.usage import by_shares, past_usage

Array = np.ndarray
GROUPS: Final = 20  # sets of future arrivals; each is shared by every GROUPS-th future
NAMES: Final = {  # field -> attribute
    "user": "user", "account": "account", "partition": PARTITION, "qos": "qos", "queue": CLUSTER_QUEUE,
    "gpu_types": GPU_TYPES,
}  # fmt: skip
ARRIVES: Final = 1 << 40  # id of the first future arrival
FAR_S: Final = 366 * DAY_S  # [s] after the horizon, nodes that are closed now open; no policy plans so far ahead
STOP_S: Final = DAY_S / 12  # [s] a future is cut at a multiple of this time if all queued jobs have started


@dataclass(frozen=True)
class Options:
    """How the futures are drawn.

    ``horizon_s`` : length of a future. ``arrivals`` : whether further jobs arrive, as in the history. ``cycle_s`` :
    least time between two backfill cycles of Slurm policies, if theirs is shorter, because much of the time of a future
    goes into these cycles; 0 = as the policy says.
    """

    futures: int = 1000
    seed: int = 0
    horizon_s: float = 7 * DAY_S
    arrivals: bool = True
    cycle_s: float = 0.0
    threads: int = 1

    def __post_init__(self) -> None:
        """Check every field."""
        if self.futures < 1 or self.threads < 1 or self.seed < 0:
            raise GpuschedError("forecast: futures and threads are whole numbers of at least 1, seed one of at least 0")
        if not 0.0 <= self.cycle_s < math.inf:
            raise GpuschedError(f"forecast: cycle_s is {self.cycle_s}: give a finite number of seconds >= 0")
        if not 0.0 < self.horizon_s < math.inf:
            raise GpuschedError(f"forecast: horizon_s is {self.horizon_s}: give a finite number of seconds above 0")


def sampled_starts(
    snapshot: Snapshot,
    setting: Setting,
    history: History,
    options: Options,
    tell: Callable[[int], None] | None = None,
    shares: Mapping[tuple[str, str], float] | None = None,
) -> Array:
    """Return when each queued job starts in each future.

    ``tell`` gets the number of futures that were played; ``shares`` : (account, user) -> usage in any unit, None = from
    the jobs. Returns float64 [futures, queued jobs]: time to the start [s]; inf = not within the horizon; NaN = no pool
    can run the job.
    """
    starts = np.full((options.futures, len(snapshot.queued)), math.nan)
    if not snapshot.queued:
        return starts
    if snapshot.closed:  # from the present on, so that the running jobs started before it
        latest_s = snapshot.time_s - 1e-3
        running = tuple(dataclasses.replace(job, start_s=min(job.start_s, latest_s)) for job in snapshot.running)
        snapshot = dataclasses.replace(snapshot, running=running)
    source = _Source(snapshot, history, options)
    setting = closing(setting, snapshot, source.now_s, source.now_s + options.horizon_s + FAR_S)
    past = _Past(source, setting, shares or {})
    groups = min(GROUPS, options.futures)

    def play(group: int, futures: range) -> None:
        problems = setting.problems(source.workload(group))
        _refuse_unplaced(source, problems)
        for problem in problems:
            if (problem.rows < source.present).any():
                _Group(source, problem, past).play(futures, starts)
        if tell is not None:
            tell(len(futures))

    sets = [(group, range(group, options.futures, groups)) for group in range(groups)]
    if options.threads > 1:
        play(0, range(1))  # compiles what the other threads use
        sets[0] = 0, sets[0][1][1:]
    with ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(lambda one: play(*one), sets))
    return starts


class _Source:
    """The jobs of all futures: running ones, then queued ones; time 0, and the snapshot in this time [s]."""

    def __init__(self, snapshot: Snapshot, history: History, options: Options) -> None:
        self.snapshot, self.history, self.options = snapshot, history, options
        self.jobs = [*snapshot.running, *snapshot.queued]
        self.present = len(self.jobs)
        self.running = len(snapshot.running)
        arrival_s = np.array([_arrival(job, snapshot.time_s) for job in self.jobs])
        self.first_s = math.floor(arrival_s.min() / DAY_S) * DAY_S  # whole days keep the slots of backfill
        self.now_s = snapshot.time_s - self.first_s
        self.dependency = _dependencies(self.jobs)
        self.arrival_s = _after_others(arrival_s, self.dependency) - self.first_s
        begin_s = np.array([job.begin_s for job in self.jobs]) - self.first_s
        self.held_s = np.maximum(np.nan_to_num(begin_s - self.arrival_s, nan=0.0), 0.0)
        start_s = np.array([snapshot.time_s if job.waits else job.start_s for job in self.jobs])
        limit_s = np.array([job.limit_s for job in self.jobs])
        asked = Asked(np.array([job.user for job in self.jobs]), limit_s, snapshot.time_s - start_s)
        self.choices: Choices = history.choices(asked)
        self.medians = self.choices.draw(np.full(self.present, 0.5))
        self.start_s = start_s - self.first_s
        self.limit_s = limit_s
        self.gpus = np.array([job.gpus for job in self.jobs])
        self.columns = {name: np.array([getattr(job, field) for job in self.jobs]) for field, name in NAMES.items()}
        self.columns[PRIORITY] = np.array([job.priority for job in self.jobs])
        self.asked_types = self.columns[GPU_TYPES]
        waits = [job.waits for job in self.jobs]  # others run already, wherever that is
        self.columns[GPU_TYPES] = np.where(waits, self.asked_types, "")
        for name, anywhere in ((MIN_NODES, np.ones_like(self.gpus)), (MAX_NODES, self.gpus)):
            told = np.array([getattr(job, name) for job in self.jobs])
            self.columns[name] = np.where(waits, told, anywhere)
        self.batch = batches(asked.user, arrival_s, DAY_S)
        past = history.workload.jobs["arrival_s"] + history.origin_s
        # Arrivals are learned from all submissions: of the jobs of the last days, only the short ones have ended.
        told = ~np.isnan([job.arrival_s for job in self.jobs])
        self.seen = np.flatnonzero(told & (arrival_s >= past.min()))
        self.submitted_s = np.concatenate([past, arrival_s[self.seen]])

    def drawn(self, rng: np.random.Generator) -> Array:
        """float64 [J]: draw the total run time of each present job [s]."""
        return self.choices.draw(alike(rng, self.batch, self.history.likeness))

    def workload(self, group: int) -> Workload:
        """Return the present jobs and the arrivals of this group of futures; run times of present jobs are medians."""
        past = self.history.workload
        logged = {PRIORITY: past.attributes.get("priority"), **past.attributes}  # logs of Kubernetes name it so
        rows, times, run_s = np.empty(0, np.int64), np.empty(0), np.empty(0)
        if self.options.arrivals:
            rng = np.random.default_rng([self.options.seed, 0, group])
            rows, times = drawn_arrivals(self.submitted_s, self.snapshot.time_s, self.options.horizon_s, rng)
            drawn_s = self.drawn(rng)[self.seen]
            run_s = np.concatenate([past.jobs["duration_s"], drawn_s])[rows]

        def column(present: Array, of_past: Array | None, asked: Array | None = None) -> Array:
            """Return the values of the present jobs, then those of the arrivals, which may ask for others."""
            if of_past is None:
                of_past = np.full(len(past), "") if present.dtype.kind == "U" else np.zeros(len(past))
            asked = present if asked is None else asked
            submitted = np.concatenate([of_past.astype(present.dtype.kind), asked[self.seen]])
            return np.concatenate([present, submitted[rows]])

        return Workload.from_columns(
            np.concatenate([self.arrival_s, self.now_s + times]),
            column(self.gpus, past.jobs["gpus"]),
            duration_s=np.concatenate([self.medians, run_s]),
            estimate_s=column(self.limit_s, past.jobs["estimate_s"]),
            ids=np.concatenate([np.arange(self.present), ARRIVES + np.arange(len(rows))]),
            attributes={name: column(own, logged.get(name)) for name, own in self.columns.items()}
            | {GPU_TYPES: column(self.columns[GPU_TYPES], logged.get(GPU_TYPES), self.asked_types)}
            | self._holds(len(rows)),
            name="snapshot",
        )

    def _holds(self, arrivals: int) -> dict[str, Array]:
        """Return the attributes that hold present jobs; later arrivals are not held."""
        texts = [",".join(f"{kind}:{row}{delay}" for kind, row, delay in items) for items in self.dependency]
        found = {}
        if any(texts):
            found[DEPENDENCY] = np.array([*texts, *[""] * arrivals])
        if self.held_s.any():
            found[BEGIN] = np.concatenate([self.held_s, np.zeros(arrivals)])
        return found


def _refuse_unplaced(source: _Source, problems: Sequence[Problem]) -> None:
    """Refuse running jobs that no pool holds; without them, their GPUs would count as free."""
    placed = {int(row) for problem in problems for row in problem.rows if row < source.running}
    for row, job in enumerate(source.snapshot.running):
        if row not in placed:
            where = f"machines of partition {job.partition!r}" if job.partition else "machines"
            raise GpuschedError(
                f"snapshot: running job {job.id} holds {job.gpus:,} GPUs, but no {where} have as many: correct the "
                "cluster or the GPUs of the job, or let squeue print the partitions of these machines only"
            )


def _dependencies(jobs: Sequence[PresentJob]) -> list[list[tuple[str, int, str]]]:
    """Return kind, row of the other job, and delay of each dependency of each job, without jobs that have ended."""
    row_of = {job.id: row for row, job in enumerate(jobs)}
    found = []
    for job in jobs:
        items = []
        for item in filter(None, job.dependency.split(",")):
            kind, *others = item.split(":")
            for other in others:
                name, plus, delay = other.partition("+")
                if name in row_of:
                    items.append((kind, row_of[name], plus + delay))
        found.append(items)
    return found


def _after_others(arrival_s: Array, dependency: list[list[tuple[str, int, str]]]) -> Array:
    """float64 [J]: arrivals [s] after those of dependencies, as workloads want it; a held job waits anyway."""
    late = arrival_s.copy()
    depending = [(row, items) for row, items in enumerate(dependency) if items]
    for _ in range(len(depending) + 1):
        moved = False
        for row, items in depending:
            for _, other, _ in items:
                if (late[other], other) >= (late[row], row):
                    late[row], moved = late[other] + 1e-3, True
        if not moved:
            return late
    raise GpuschedError("snapshot: jobs depend on each other in a circle: remove one of these dependencies")


def problems_of(history: History, setting: Setting) -> Sequence[Problem]:
    """Return the ended jobs of each pool."""
    ended = history.workload
    unknown = {name: np.full(len(ended), "") for name in NAMES.values()}
    return setting.problems(dataclasses.replace(ended, attributes={**unknown, **ended.attributes}))


class _Past:
    """Usage of tenants in each pool of machines."""

    def __init__(self, source: _Source, setting: Setting, shares: Mapping[tuple[str, str], float]) -> None:
        self._source, self._setting = source, setting
        self._shares: dict[str, float] = {}
        for (account, user), used in shares.items():
            name = "/".join(self._leaf(account, user))
            self._shares[name] = self._shares.get(name, 0.0) + used
        present = {"/".join(self._leaf(job.account, job.user)) for job in source.jobs}
        if self._shares and present.isdisjoint(self._shares):
            raise GpuschedError(
                "usage: it names no account and user with a job in the snapshot; take both files from one cluster, "
                "without pseudonyms, and let squeue print accounts and users"
            )

    @property
    def told(self) -> bool:
        """Whether the usage is that of ``sshare``."""
        return bool(self._shares)

    @cached_property
    def _pools(self) -> dict[str, Problem]:
        """The ended jobs of each pool."""
        return {problem.name: problem for problem in problems_of(self._source.history, self._setting)}

    def _leaf(self, account: str, user: str) -> list[str]:
        return [{"account": account, "user": user}.get(column, "") for column in self._setting.tenant_columns]

    def of(self, rules: Slurm, problem: Problem, running: list[int]) -> PastUsage:
        """Return the usage in a pool, in which these jobs of the snapshot run."""
        source, history = self._source, self._source.history
        now_s = source.now_s
        tree, leaf = problem.instance.tenancy
        row_of = {int(row): i for i, row in enumerate(problem.rows)}
        names = [np.array(tree.names)[leaf[[row_of[row] for row in running]]]]
        runs = np.array(running, np.int64)
        parts = [Recorded(source.arrival_s[runs], source.start_s[runs], np.full(len(runs), now_s), source.gpus[runs])]
        if (past := self._pools.get(problem.name)) is not None:
            jobs, (own, leaves) = past.instance.workload, past.instance.tenancy
            start_s = jobs.jobs["arrival_s"] + jobs.attributes.get(WAIT, 0.0) + history.origin_s - source.first_s
            end_s = np.minimum(start_s + jobs.jobs["duration_s"], now_s)
            parts.append(Recorded(start_s, start_s, end_s, jobs.jobs["gpus"].astype(np.int64)))
            names.append(np.array(own.names)[leaves])
        recorded = Recorded(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        found = past_usage(rules, np.concatenate(names), recorded, now_s)
        return by_shares(found, self._shares) if self._shares else found


class _Group:
    """The futures of one pool that share their arrivals: one state at the present, which is copied for each future."""

    def __init__(self, source: _Source, problem: Problem, past: _Past) -> None:
        self.source, self.problem = source, problem
        self.spec = with_cycles(problem.spec, source.options.cycle_s)
        instance = problem.instance
        if make_scheduler(problem.spec).clairvoyant:
            raise SchedulerError(
                f"scheduler {problem.spec!r} reads true run times, which nobody knows of the future; choose one that "
                "reads limits, such as slurm or fifo-easy:estimator=user"
            )
        row_of = {int(row): i for i, row in enumerate(problem.rows)}
        running = [row for row in range(source.running) if row in row_of]
        jobs = [source.jobs[row] for row in running]
        places = gpus_of_running(problem.pool, source.snapshot, jobs)
        moves = [
            Move(float(source.start_s[row]), Start(row_of[row], gpus=gpus))
            for row, gpus in zip(running, places, strict=True)
        ]
        moves.sort(key=lambda move: (move.time_s, move.decision.job))  # type: ignore[union-attr]
        self.here = np.array([row for row in range(source.present) if row in row_of])
        self.at = np.array([row_of[row] for row in self.here.tolist()])
        queued = self.here >= source.running
        self.queued, self.queued_at = self.here[queued] - source.running, self.at[queued]
        self.run_s = instance.ideal_s.copy()
        # A job that takes 1 s on the machines of the history takes so long on the best machines of this pool.
        self.factor = instance.ideal_s[self.at] / source.medians[self.here]
        self.start = begin(instance, moves, source.now_s)
        self.start.drain()
        rules = make_scheduler(self.spec)
        shares_fairly = isinstance(rules, Slurm) and rules.fair_share_weight > 0
        if past.told and not shares_fairly:
            raise GpuschedError(
                f"usage: the policy {self.spec!r} has no fair shares, so it would not be used: leave out --usage, or "
                "choose slurm with a fair_share_weight above 0"
            )
        self.past = past.of(rules, problem, running) if shares_fairly else None  # type: ignore[arg-type]

    def play(self, futures: range, starts: Array) -> None:
        """Play these futures and write the starts of the queued jobs."""
        if not len(self.queued):
            return
        source = self.source
        end_s = source.now_s + source.options.horizon_s
        work = self.start.arrays.copy()
        for future in futures:
            work.copy_from(self.start.arrays)
            work.world["time_limit_s"] = end_s
            run = Simulation(self.problem.instance, arrays=work)
            rng = np.random.default_rng([source.options.seed, 1, future])
            self.run_s[self.at] = source.drawn(rng)[self.here] * self.factor
            run.change_run_times(self.run_s)
            self._play(run, end_s)
            starts[future, self.queued] = work.jobs["first_start_s"][self.queued_at] - source.now_s

    def _play(self, run: Simulation, end_s: float) -> None:
        """Play one future until all queued jobs have started, or to its end."""
        scheduler = make_scheduler(self.spec)
        if self.past is not None:
            scheduler.remember(self.past)  # type: ignore[attr-defined]
        player = run.player_for(scheduler)
        if player is None:
            run.run(scheduler)
            return
        world, queued = run.arrays.world, self.queued_at
        stop_s = self.source.now_s
        while True:
            # A time limit that is raised later changes nothing, unlike a pause, at which the scheduler would be asked.
            world["time_limit_s"] = stop_s = min(stop_s + STOP_S, end_s)
            outcome = player.play()
            ended = outcome is not Outcome.TIME_LIMIT or stop_s == end_s
            if ended or np.isfinite(run.arrays.jobs["first_start_s"][queued]).all():
                return


def with_cycles(spec: str, cycle_s: float) -> str:
    """Return a policy of Slurm with at least this time between two backfill cycles [s]; another policy as it is."""
    scheduler = make_scheduler(spec)
    if not isinstance(scheduler, Slurm) or scheduler.bf_interval_s >= cycle_s:
        return spec
    return with_parameters(spec, bf_interval_s=cycle_s)


def _arrival(job: PresentJob, now_s: float) -> float:
    """Return the arrival of a job [s]; if it is unknown, its start, or the present."""
    if not math.isnan(job.arrival_s):
        return min(job.arrival_s, job.arrival_s if job.waits else job.start_s)
    return now_s if job.waits else job.start_s
