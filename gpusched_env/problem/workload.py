"""Workloads: jobs, and the profiles of the models that the jobs train. A workload does not change during a run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import TIERS
from gpusched_env.problem.dependencies import BEGIN, DEPENDENCY, FAILS, fails_of, find_edges, text_column, without_lost
from gpusched_env.problem.sizes import Sizes
from gpusched_env.support.files import read_arrays, whole
from gpusched_env.support.units import LATEST_S

__all__ = ["Workload"]

MOST_JOBS: Final = 50_000_000  # [job] maximum per workload; a larger number is a typing error or does not fit in memory
MOST_BYTES: Final = 16_000_000_000  # [byte] maximum of a saved workload, after decompression
MIN_NODES: Final = "min_nodes"  # attributes: numbers of nodes of a gang (gpusched_env.problem.node_counts)
MAX_NODES: Final = "max_nodes"
# Attributes that users submit with their jobs. Schedulers may see these. The values are numbers, or numbers as text.
REQUESTED: Final = (
    "priority_weight",  # share of the cluster to which the job is entitled, relative to the other jobs
    "slo",  # time from arrival to the deadline / run time on the reference GPU type; <= 0 = no deadline
    "priority_class",  # jobs of a higher class are more important
    "deadline_s",  # [s] time from arrival to the deadline; inf = best effort. View and metrics add the arrival
    "value",  # worth of the job if it meets its deadline, >= 0; without this attribute, every job is worth 1
    BEGIN,  # [s] time from the submission before which the job must not enter the queue
    MIN_NODES,  # number of nodes that the gang needs at least; 0 = any
    MAX_NODES,  # number of nodes over which the gang may be spread at most; 0 = any
)
GPU_TYPES: Final = "gpu_types"  # attribute: types of which each job asks for one, with | between them; empty = any
START_LATENCY: Final = "start_latency_s"  # attribute: [s] without progress after the first start, besides start_s
CHECKPOINT_INTERVAL: Final = "checkpoint_interval_s"  # attributes (gpusched_env.problem.outages): as in Semantics
CHECKPOINT_COST: Final = "checkpoint_cost_s"
FAILS_AFTER: Final = "fails_after_s"  # [s] of service after which each attempt fails, with | between attempts
ATTEMPTS: Final = "attempts"  # number of such failures after which the job ends; 0 = it never gives up
RECOVERY: Final = (CHECKPOINT_INTERVAL, CHECKPOINT_COST, FAILS_AFTER, ATTEMPTS)
TENANT: Final = "tenant"  # attribute: name of the tenant to which each job belongs (gpusched_env.problem.tenants)
JOB_DTYPE: Final = np.dtype(
    [
        ("id", "<i8"),  # unique
        ("arrival_s", "<f8"),  # [s] time of submission, >= 0; the job arrives then, unless it is held (dependencies.py)
        ("gpus", "<i4"),  # [GPU] gang size, >= 1
        ("profile", "<i4"),  # row of Profiles.rows
        ("iterations", "<f8"),  # number of iterations; NaN = duration_s is given instead
        ("duration_s", "<f8"),  # [s] run time on the ideal placement; NaN = iterations is given instead
        ("estimate_s", "<f8"),  # [s] run time that the user estimates; NaN = no estimate
    ]
)
PROFILE_DTYPE: Final = np.dtype(
    [
        ("name", "<U48"),
        ("batch", "<i4"),  # [samples] per GPU and iteration
        ("gradient_bytes", "<f8"),  # [byte] size of the gradients, which each iteration sums by an all-reduce
        ("memory_bytes", "<f8"),  # [byte] of memory used on each GPU
        ("skew", "<f8"),  # largest tensor / all tensor bytes, 0..1 (Tiresias, NSDI 2019)
        ("overlap", "<f8"),  # p of the p-norm of compute and communication time: 1 = no overlap, inf = full overlap
    ]
)
MEASURED_DTYPE: Final = np.dtype(
    [
        ("profile", "<i4"),  # row of Profiles.rows
        ("gpu_type", "<i4"),  # index into Profiles.gpu_types
        ("gpus", "<i4"),  # [GPU] gang size, >= 1
        ("tier", "<i4"),  # index into TIERS; the row also holds for outer tiers that have no row of their own
        ("compute_s", "<f8"),  # [s] of one iteration, > 0; inf = the gang cannot run on this GPU type
        ("communication_s", "<f8"),  # [s] of one iteration on an idle network, >= 0
    ]
)


SHAPED_DTYPE: Final = np.dtype(
    [
        ("profile", "<i4"),  # row of Profiles.rows
        # gpu, slot, machine, rack: extents of the placement's shape, >= 1; their product is the gang size
        ("gpu", "<i4"),
        ("slot", "<i4"),
        ("machine", "<i4"),
        ("rack", "<i4"),
        ("efficiency", "<f8"),  # compute time / (compute time + communication not overlapped with it), > 0, <= 1
    ]
)


ACCUMULATION_DTYPE: Final = np.dtype(
    [
        ("profile", "<i4"),  # row of Profiles.rows
        ("passes", "<i4"),  # number of passes in which a GPU processes its batch when the GPU is not shared, >= 1
        ("fixed_compute", "<f8"),  # fraction of a pass's compute time that does not depend on its samples, 0..1
        ("fixed_memory", "<f8"),  # fraction of a GPU's memory used independently of the samples of a pass, >= 0
        ("batch_memory", "<f8"),  # fraction of a GPU's memory that the samples of one of these passes use, >= 0
    ]
)


PLAN_DTYPE: Final = np.dtype(
    [
        ("profile", "<i4"),  # row of Profiles.rows
        ("gpus", "<i4"),  # [GPU] gang size: tp cp dp pp
        # GPUs of a group that shares the tensors of a layer (tp), a sequence (cp), the experts (ep), or the copies of
        # the parameters (dp); number of pipeline stages (pp). ep divides tp cp dp, the GPUs of a stage
        ("tp", "<i4"),
        ("cp", "<i4"),
        ("ep", "<i4"),
        ("dp", "<i4"),
        ("pp", "<i4"),
        ("order", "<i4"),  # of the ranks, innermost first: 0 = tp-cp-ep-dp-pp (Megatron), 1 = tp-cp-pp-dp (Llama 3)
        # [byte] that a GPU sends in an iteration, not hidden behind compute, if its peers are on other machines
        ("tp_bytes", "<f8"),
        ("dp_bytes", "<f8"),  # in the ring of the cp dp GPUs that hold the same parameters
        ("pp_bytes", "<f8"),  # to the GPUs of the next and the previous stage, half to each
        ("ep_bytes", "<f8"),  # to the other ep - 1 GPUs that share the experts
    ]
)


# tables of Profiles that may be empty -> the columns by which they are sorted
SORTED: Final[dict[str, list[str]]] = {
    "shaped": ["profile", "gpu", "slot", "machine", "rack"],
    "accumulation": ["profile"],
    "plans": ["profile", "gpus"],
}
ABOVE_0: Final = math.nextafter(0.0, 1.0)
MOST: Final = math.nextafter(math.inf, 0.0)  # the largest finite number


@dataclass(frozen=True)
class Profiles:
    """Model profiles: the cost of one training iteration of each model.

    Attributes
    ----------
    rows : PROFILE_DTYPE [P], one row per model
    compute_s : float64 [P, T], seconds of compute of one iteration on one GPU of each type; inf = the model cannot run
        on this type
    gpu_types : names of the T GPU types
    measured : MEASURED_DTYPE [M], measured times of gangs. For the gang size and the GPU type of a row, on the tier of
        the row and all outer tiers, they replace the times that follow from ``compute_s`` and the communication model
        of the scenario
    shaped : SHAPED_DTYPE [S], ascending, efficiency of a profile on each shape of a placement. Only the network model
        "dimensions" uses this table
    accumulation : ACCUMULATION_DTYPE [A], sorted by profile, effect of gradient accumulation on the compute and the
        memory of a profile. ``compute_s`` is the time of all passes together; only the last pass overlaps with
        communication. A profile without a row always processes its batch in one pass
    plans : PLAN_DTYPE, sorted by profile and gang size, how gangs that train LLMs divide their work, and what their
        GPUs then send. On the links of a topology it replaces the all-reduce, and measured communication on several
        machines (``gpusched_env.network.plans``)
    """

    rows: np.ndarray
    compute_s: np.ndarray
    gpu_types: tuple[str, ...]
    measured: np.ndarray = field(default_factory=partial(np.empty, 0, MEASURED_DTYPE))
    shaped: np.ndarray = field(default_factory=partial(np.empty, 0, SHAPED_DTYPE))
    accumulation: np.ndarray = field(default_factory=partial(np.empty, 0, ACCUMULATION_DTYPE))
    plans: np.ndarray = field(default_factory=partial(np.empty, 0, PLAN_DTYPE))

    def __post_init__(self) -> None:
        """Check every table."""
        if self.rows.dtype != PROFILE_DTYPE or self.compute_s.shape != (len(self.rows), len(self.gpu_types)):
            raise WorkloadError(
                "profiles: rows must be PROFILE_DTYPE [P] and compute_s float64 [P, number of GPU types]"
            )
        if not len(self.rows):
            raise WorkloadError("profiles: the table is empty: give at least one model profile")
        names = self.rows["name"].tolist()
        checks = {
            "compute_s": (self.compute_s > 0).all(axis=1) & np.isfinite(self.compute_s).any(axis=1),
            "gradient_bytes": np.isfinite(self.rows["gradient_bytes"]) & (self.rows["gradient_bytes"] >= 0),
            "memory_bytes": np.isfinite(self.rows["memory_bytes"]) & (self.rows["memory_bytes"] >= 0),
            "skew": (self.rows["skew"] >= 0) & (self.rows["skew"] <= 1),
            "overlap": self.rows["overlap"] >= 1,
        }
        for column, good in checks.items():
            if not good.all():
                raise WorkloadError(f"profile {names[int(np.argmin(good))]!r}: {column} is out of range")
        if len(set(names)) != len(names):
            raise WorkloadError("profiles: two rows have the same name")
        self._check_table(
            "measured", MEASURED_DTYPE, ("profile", "gpu_type", "gpus", "tier"),
            gpus=(1, math.inf), compute_s=(ABOVE_0, math.inf), communication_s=(0, MOST),
        )  # fmt: skip
        self._check_table(
            "shaped", SHAPED_DTYPE, ("profile", "gpu", "slot", "machine", "rack"),
            gpu=(1, math.inf), slot=(1, math.inf), machine=(1, math.inf), rack=(1, math.inf), efficiency=(ABOVE_0, 1),
        )  # fmt: skip
        self._check_table(
            "accumulation", ACCUMULATION_DTYPE, ("profile",),
            passes=(1, math.inf), fixed_compute=(0, 1), fixed_memory=(0, MOST), batch_memory=(0, MOST),
        )  # fmt: skip
        self._check_table(
            "plans", PLAN_DTYPE, ("profile", "gpus"), order=(0, 1), tp=(1, math.inf), cp=(1, math.inf),
            ep=(1, math.inf), dp=(1, math.inf), pp=(1, math.inf), tp_bytes=(0, MOST), dp_bytes=(0, MOST),
            pp_bytes=(0, MOST), ep_bytes=(0, MOST),
        )  # fmt: skip
        self._check_plans()
        for table, order in SORTED.items():
            object.__setattr__(self, table, np.sort(getattr(self, table), order=order))

    def _check_plans(self) -> None:
        plans = self.plans
        stage = plans["tp"].astype(np.int64) * plans["cp"] * plans["dp"]
        bad = (stage * plans["pp"] != plans["gpus"]) | (stage % plans["ep"] > 0)
        if bad.any():
            row = plans[int(np.argmax(bad))]
            raise WorkloadError(
                f"profile {str(self.rows['name'][row['profile']])!r}, plans: tp {row['tp']}, cp {row['cp']}, dp "
                f"{row['dp']}, pp {row['pp']}, ep {row['ep']} on {row['gpus']} GPUs: tp x cp x dp x pp must be the "
                "gang size, and ep must divide tp x cp x dp"
            )

    def _check_table(
        self, table: str, dtype: np.dtype[Any], keys: Sequence[str], **ranges: tuple[float, float]
    ) -> None:
        """Check the type of a table, its indices and the ranges of its numbers, and that its keys are unique."""
        rows = getattr(self, table)
        if rows.dtype != dtype or rows.ndim != 1:
            raise WorkloadError(f"profiles: {table} must be a one-dimensional array of {table.upper()}_DTYPE")
        ends = {"profile": len(self.rows), "gpu_type": len(self.gpu_types), "tier": len(TIERS)}
        for column in [key for key in keys if key in ends]:
            if ((rows[column] < 0) | (rows[column] >= ends[column])).any():
                raise WorkloadError(f"profiles: a row of {table} has a {column} outside 0 to {ends[column] - 1}")
        for column, (least, most) in ranges.items():
            good = (rows[column] >= least) & (rows[column] <= most)
            if not good.all():
                bad = rows[int(np.argmin(good))]
                name = str(self.rows["name"][bad["profile"]])
                where = ", ".join([f"profile {name!r}", table, *(f"{key} {bad[key]}" for key in keys[1:])])
                raise WorkloadError(f"{where}: {column} is {bad[column]}: it must be {_told_range(least, most)}")
        if len(np.unique(rows[list(keys)])) != len(rows):
            raise WorkloadError(f"profiles: two rows of {table} have the same {', '.join(keys)}")

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]], gpu_types: Sequence[str] = ("V100",)) -> Profiles:
        """Build profiles from mappings that hold the fields of PROFILE_DTYPE and ``compute_s``.

        ``compute_s`` is one number for all GPU types, or one number per GPU type.
        """
        table = np.zeros(len(rows), PROFILE_DTYPE)
        compute = np.zeros((len(rows), len(gpu_types)))
        for i, row in enumerate(rows):
            for name in PROFILE_DTYPE.names or ():
                table[i][name] = row[name]
            compute[i] = row["compute_s"]
        return cls(table, compute, tuple(gpu_types))

    @staticmethod
    def unit(*gpu_types: str) -> Profiles:
        """Return one profile of 1 s per iteration without communication: durations are exact on every placement.

        Equal arguments, by default V100, return the same read-only table.
        """
        return _unit_profiles(gpu_types or ("V100",))

    def read_only(self) -> Self:
        """Write-protect all arrays, so that many workloads can share the table; return it."""
        for rows in (self.rows, self.compute_s, self.measured, *(getattr(self, name) for name in SORTED)):
            rows.flags.writeable = False
        return self

    @property
    def passes(self) -> np.ndarray:
        """int64 [P]: number of passes in which a GPU processes the batch of each profile when the GPU is not shared."""
        passes = np.ones(len(self.rows), np.int64)
        passes[self.accumulation["profile"]] = self.accumulation["passes"]
        return passes

    def plans_of(self, classes: np.ndarray) -> np.ndarray:
        """PLAN_DTYPE [C]: the plan of each pair of a profile and a gang size (int [C, 2]); gpus 0 = it has none."""
        plans = np.zeros(len(classes), PLAN_DTYPE)
        row_of = {(row["profile"], row["gpus"]): row for row in self.plans}
        for at, one in enumerate(map(tuple, classes.tolist())):
            if one in row_of:
                plans[at] = row_of[one]
        return plans

    @property
    def is_unit(self) -> bool:
        """Whether these are the profiles of :meth:`unit`, which workloads of unknown models have."""
        return bool(self.rows["name"].tolist() == ["unit"])


def _told_range(least: float, most: float) -> str:
    """Return a range in words."""
    low = "above 0" if least == ABOVE_0 else f"at least {least:g}"
    return low + (" and finite" if most == MOST else f" and at most {most:g}" if most < MOST else "")


@cache
def _unit_profiles(gpu_types: tuple[str, ...]) -> Profiles:
    row = dict(name="unit", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=1.0)
    return Profiles.from_rows([row], gpu_types).read_only()


def refuse_too_many_jobs(jobs: int, where: str) -> None:
    """Raise an error if ``jobs`` is more than MOST_JOBS, before any memory is allocated for them.

    Parameters
    ----------
    jobs : number of jobs
    where : source of the number, for the error message

    Raises
    ------
    WorkloadError : ``jobs`` is more than MOST_JOBS
    """
    if jobs > MOST_JOBS:
        raise WorkloadError(f"{where} has {jobs:,} jobs: give at most {MOST_JOBS:,}")


@dataclass(frozen=True)
class Workload:
    """Jobs and the profiles of their models.

    Parameters
    ----------
    jobs : JOB_DTYPE [J], one row per job, in any order; the simulator sorts them by the tie order of the scenario
    profiles : model profiles, to which the jobs refer by row
    name, source : name and origin of the workload, shown in reports
    attributes : optional columns of length J, such as original ids, users or virtual clusters. Schedulers see only the
        columns of REQUESTED and TENANT, which users submit with their jobs. Columns of ``dependencies.py`` hold jobs
    sizes : numbers of GPUs on which elastic jobs may run; None = every job is rigid and runs on its gang size. The gang
        size of an elastic job is the size that it requests

    Raises
    ------
    WorkloadError : there are no jobs or more than MOST_JOBS, two jobs have the same id, a time is negative or NaN, a
        gang has less than 1 GPU, a job does not have exactly one of ``iterations`` and ``duration_s``, a deadline or
        a value is not a number, or a job depends on a job that is not submitted before it
    """

    jobs: np.ndarray
    profiles: Profiles
    name: str = "workload"
    source: str = ""
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    sizes: Sizes | None = None

    def __post_init__(self) -> None:
        """Check every job, so that the simulator need not."""
        jobs = self.jobs
        if jobs.dtype != JOB_DTYPE or jobs.ndim != 1:
            raise WorkloadError(f"workload {self.name!r}: jobs must be a one-dimensional array of JOB_DTYPE")
        if not len(jobs):
            raise WorkloadError(f"workload {self.name!r} has no jobs: check the trace, the time window and the filters")
        refuse_too_many_jobs(len(jobs), f"workload {self.name!r}")
        arrival_s, gpus, profile = jobs["arrival_s"], jobs["gpus"], jobs["profile"]
        iterations, duration_s = jobs["iterations"], jobs["duration_s"]
        # Comparisons with NaN are false.
        by_iterations = (iterations > 0) & (iterations < np.inf) & np.isnan(duration_s)
        by_duration = (duration_s > 0) & (duration_s < np.inf) & np.isnan(iterations)
        checks = {
            f"arrival_s (a number of seconds from 0 to {LATEST_S:g})": (arrival_s >= 0) & (arrival_s <= LATEST_S),
            "gpus (a whole number >= 1)": gpus >= 1,
            "profile (a row of the profile table)": (profile >= 0) & (profile < len(self.profiles.rows)),
            "estimate_s (a number of seconds >= 0, or NaN)": ~(jobs["estimate_s"] < 0),
            "iterations or duration_s (one of them finite and > 0, the other NaN)": by_iterations | by_duration,
        }
        for what, good in checks.items():
            if not good.all():
                bad = jobs[int(np.argmin(good))]
                column = what.split(" ")[0]
                raise WorkloadError(
                    f"workload {self.name!r}, job {bad['id']}: {column} is {bad[column]}: expected {what}"
                )
        if not (jobs["id"][1:] > jobs["id"][:-1]).all():  # ascending ids are unique
            ids, counts = np.unique(jobs["id"], return_counts=True)
            if len(ids) != len(jobs):
                raise WorkloadError(
                    f"workload {self.name!r}: job id {ids[np.argmax(counts)]} occurs {counts.max()} times"
                )
        if self.sizes is not None:
            self.sizes.check(jobs, len(self.profiles.rows), self.name)
        for key, values in self.attributes.items():
            if len(values) != len(jobs):
                raise WorkloadError(
                    f"workload {self.name!r}: attribute {key!r} has {len(values)} values for {len(jobs)} jobs"
                )
        if self.attributes:
            self._check_attributes()

    def _check_attributes(self) -> None:
        self._check_told("deadline_s", "a number of seconds after the arrival; inf = no deadline", -math.inf)
        self._check_told("value", "a finite number >= 0", 0.0, math.inf)
        self._check_told("priority_class", "a finite number", -math.inf, math.inf)
        self._check_told(START_LATENCY, "a finite number of seconds >= 0", 0.0, math.inf)
        self._check_told(BEGIN, "a finite number of seconds >= 0 after the submission", 0.0, math.inf)
        self._check_told(FAILS, "1 = the job fails, or 0", 0.0, 2.0, whole=True)
        for name in (MIN_NODES, MAX_NODES):
            self._check_told(name, "a whole number of nodes, 0 = any", 0.0, 2.0**31, whole=True)
        if MIN_NODES in self.attributes or MAX_NODES in self.attributes:
            self._check_node_counts()
        _ = self.edges  # checks the dependencies

    def _check_node_counts(self) -> None:
        if MIN_NODES not in self.attributes or MAX_NODES not in self.attributes:
            raise WorkloadError(f"workload {self.name!r}: give both {MIN_NODES} and {MAX_NODES}, or none of them")
        least, most = self.told(MIN_NODES), self.told(MAX_NODES)
        asks = most > 0
        bad = np.where(asks, (least < 1) | (least > most), least > 0)
        bad |= asks & (self.jobs["gpus"] % np.maximum(most, 1.0) > 0)
        if bad.any():
            at = int(np.argmax(bad))
            raise WorkloadError(
                f"workload {self.name!r}, job {self.jobs['id'][at]}: {self.jobs['gpus'][at]} GPUs on {least[at]:g} to "
                f"{most[at]:g} nodes: expected 1 <= {MIN_NODES} <= {MAX_NODES}, which divides the GPUs, or 0 in both"
            )

    def _check_told(self, name: str, what: str, least: float, below: float = math.nan, whole: bool = False) -> None:
        if name not in self.attributes:
            return
        column = self.told(name)
        bad = np.isnan(column) | (column < least) | (column >= below) | (column == -np.inf)
        if whole:
            bad |= column != np.trunc(column)
        if bad.any():
            at = int(np.argmax(bad))
            raise WorkloadError(
                f"workload {self.name!r}, job {self.jobs['id'][at]}: {name} is {column[at]:g}: expected {what}"
            )

    def told(self, name: str) -> np.ndarray:
        """float64 [J]: an attribute, such as those of REQUESTED, as numbers.

        Raises
        ------
        WorkloadError : the attribute of a job is not a number
        """
        try:
            return np.array(self.attributes[name], float)
        except ValueError as error:
            raise WorkloadError(f"workload {self.name!r}, {name}: {error}; give numbers") from None

    @cached_property
    def deadline_s(self) -> np.ndarray | None:
        """float64 [J]: time of the deadline of each job [s]; inf = best effort. None = no job has a deadline."""
        if "deadline_s" not in self.attributes:
            return None
        deadlines: np.ndarray = self.jobs["arrival_s"] + self.told("deadline_s")
        deadlines.flags.writeable = False
        return deadlines if np.isfinite(deadlines).any() else None

    @cached_property
    def edges(self) -> np.ndarray:
        """EDGE_DTYPE [D]: the dependencies between the jobs (``dependencies.py``)."""
        return find_edges(self.jobs, self.attributes, self.name)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.jobs)

    @classmethod
    def from_columns(
        cls,
        arrival_s: Sequence[float] | np.ndarray,
        gpus: Sequence[int] | np.ndarray,
        duration_s: Sequence[float] | np.ndarray | None = None,
        iterations: Sequence[float] | np.ndarray | None = None,
        profiles: Profiles | None = None,
        profile: Sequence[int] | np.ndarray | None = None,
        ids: Sequence[int] | np.ndarray | None = None,
        estimate_s: Sequence[float] | np.ndarray | None = None,
        **kwargs: Any,
    ) -> Workload:
        """Build a workload from columns; without ``profiles``, every job has the profile of :meth:`Profiles.unit`."""
        jobs = np.zeros(len(arrival_s), JOB_DTYPE)
        jobs["id"] = np.arange(len(jobs)) if ids is None else ids
        jobs["arrival_s"] = arrival_s
        gang = np.asarray(gpus)
        if gang.dtype.kind not in "iu" and not np.array_equal(gang, np.trunc(gang)):
            raise WorkloadError(f"gpus: {gang[gang != np.trunc(gang)][0]} is not a whole number of GPUs")
        jobs["gpus"] = gang
        jobs["profile"] = 0 if profile is None else profile
        jobs["iterations"] = np.nan if iterations is None else iterations
        jobs["duration_s"] = np.nan if duration_s is None else duration_s
        jobs["estimate_s"] = np.nan if estimate_s is None else estimate_s
        return cls(jobs, profiles or Profiles.unit(), **kwargs)

    def select(self, rows: np.ndarray) -> Workload:
        """Return a workload of the jobs ``rows`` (indices or a Boolean mask) and their attributes.

        Dependencies on other jobs are dropped, as if these had ended before.
        """
        attributes = {key: column[rows] for key, column in self.attributes.items()}
        if DEPENDENCY in attributes:
            attributes[DEPENDENCY] = without_lost(attributes[DEPENDENCY], self.jobs["id"][rows])
        sizes = None if self.sizes is None else self.sizes.select(rows)
        return Workload(self.jobs[rows], self.profiles, self.name, self.source, attributes, sizes)

    def reordered(self, order: np.ndarray) -> Workload:
        """Return the same jobs in another order; ``order`` is a permutation of the rows."""
        attributes = {key: column[order] for key, column in self.attributes.items()}
        jobs = self.jobs.take(order)  # jobs[order] copies field by field, which takes ten times as long
        sizes = None if self.sizes is None else self.sizes.select(order)
        return self.unchecked_replace(jobs=jobs, attributes=attributes, sizes=sizes)

    def unchecked_columns(self, **columns: np.ndarray) -> Workload:
        """Return a copy with other columns of the jobs, which are not checked."""
        jobs = self.jobs.take(np.arange(len(self)))  # as in ``reordered``: faster than a copy
        for name, values in columns.items():
            jobs[name] = values
        return self.unchecked_replace(jobs=jobs)

    def unchecked_replace(self, **fields: Any) -> Workload:
        """Return a copy with other fields, which are not checked: for code that computes them from checked ones."""
        copy = object.__new__(Workload)
        copy.__dict__.update(self.__dict__ | fields)
        for computed in ("deadline_s", "edges"):
            copy.__dict__.pop(computed, None)
        return copy

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that a simulation reads; of attributes, REQUESTED, TENANT, ..."""
        digest = hashlib.sha256()
        digest.update(self.jobs.tobytes())
        digest.update(self.profiles.rows.tobytes())
        digest.update(np.ascontiguousarray(self.profiles.compute_s).tobytes())
        digest.update(json.dumps(self.profiles.gpu_types).encode())
        digest.update(self.profiles.measured.tobytes())
        for name in SORTED:
            if len(rows := getattr(self.profiles, name)):
                digest.update(name.encode())
                digest.update(rows.tobytes())
        if self.sizes is not None:
            digest.update(b"sizes")
            digest.update(self.sizes.group.tobytes())
            digest.update(self.sizes.options.tobytes())
        for name in (*REQUESTED, TENANT, GPU_TYPES, START_LATENCY, *RECOVERY):
            if name in self.attributes:
                digest.update(json.dumps([name, self.attributes[name].tolist()]).encode())
        if len(self.edges):
            digest.update(b"dependencies")
            digest.update(self.edges.tobytes())
            digest.update(fails_of(self.attributes, len(self)).tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write a compressed ``.npz`` file, from which :meth:`load` reads a bit-identical workload.

        Raises
        ------
        WorkloadError : an attribute column holds Python objects other than texts
        GpuschedError : the file cannot be written
        """
        attributes = dict(self.attributes)
        for key, column in attributes.items():
            if column.dtype.hasobject:
                if column.dtype != object or not all(type(one) is str for one in column.tolist()):
                    remedy = "make it text or numbers"
                    raise WorkloadError(f"{path}: attribute {key!r} is of dtype {column.dtype}: {remedy}")
                attributes[key] = np.array(json.dumps(column.tolist()))  # not padded to the longest text
        header = json.dumps({"name": self.name, "source": self.source, "gpu_types": self.profiles.gpu_types})
        columns: dict[str, Any] = {f"attribute:{key}": column for key, column in attributes.items()}
        for name in SORTED:
            if len(rows := getattr(self.profiles, name)):
                columns[name] = rows
        if self.sizes is not None:
            columns["size_group"], columns["size_options"] = self.sizes.group, self.sizes.options
        with whole(Path(path)) as unfinished, unfinished.open("wb") as stream:  # savez would add a suffix to a path
            np.savez_compressed(
                stream,
                header=np.array(header),
                jobs=self.jobs,
                profiles=self.profiles.rows,
                compute_s=self.profiles.compute_s,
                measured=self.profiles.measured,
                **columns,
            )

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload from a file that :meth:`save` wrote.

        Raises
        ------
        WorkloadError : the file is missing or damaged, or does not contain a workload
        """
        try:
            with Path(path).open("rb") as file:
                try:
                    return cls._unpacked(file)
                except Exception as error:  # numpy, zipfile and json raise a dozen types of errors for damaged files
                    raise WorkloadError(
                        f"{path}: not a workload file written by Workload.save, or damaged ({error}); save it again"
                    ) from error
        except OSError as error:
            raise WorkloadError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error

    @classmethod
    def _unpacked(cls, file: BinaryIO) -> Workload:
        data = read_arrays(file, MOST_BYTES)
        header = json.loads(str(data["header"]))
        tables = {name: data[name] for name in ("measured", *SORTED) if name in data}
        profiles = Profiles(data["profiles"], data["compute_s"], tuple(header["gpu_types"]), **tables)
        attributes = {k.removeprefix("attribute:"): data[k] for k in data if k.startswith("attribute:")}
        attributes |= {k: text_column(json.loads(str(one))) for k, one in attributes.items() if not one.ndim}
        sizes = Sizes(data["size_group"], data["size_options"]) if "size_group" in data else None
        return cls(data["jobs"], profiles, header["name"], header["source"], attributes, sizes)
