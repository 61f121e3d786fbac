"""Models fitted to measurements: their table, and the profiles made from it for any gang size and batch."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.portable.elementary import expm1, log, power
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.workload import ACCUMULATION_DTYPE, MEASURED_DTYPE, Profiles, Workload
from gpusched_env.traces.profile_tables.application import Application, Fit
from gpusched_env.traces.profile_tables.profile_table import ProfileTable
from gpusched_env.traces.profile_tables.throughput import Throughput

ACCUMULATING: Final = ("bsbf",)  # tables whose jobs may share GPUs by splitting a batch into more, smaller passes
PARAMETERS: Final = tuple(field.name for field in dataclasses.fields(Throughput))
# Share of a GPU's memory that a job needs at any batch (choice); with the largest batch, it needs the whole memory.
FIXED_MEMORY: Final = 0.25


@dataclass(frozen=True)
class FittedTable(ProfileTable):
    """Table of the fitted models of one publication; random draws number the applications in their order.

    ``fits`` : GPU type -> application -> fit. ``accumulates`` : profiles describe gradient accumulation.
    """

    applications: Mapping[str, Application]
    fits: Mapping[str, Mapping[str, Fit]]
    accumulates: bool = False

    SHIPPED = ("pollux", "sia", "sia-robust", "bsbf")

    @classmethod
    def load(cls, name: str) -> FittedTable:
        """Load a table of this package.

        ``pollux`` and ``bsbf`` have T4 only; ``sia`` and ``sia-robust`` three other GPU types, and T4 of ``pollux``.
        """
        table = dataclasses.replace(super().load(name), accumulates=name in ACCUMULATING)
        if table.applications:
            return table
        pollux = load_fitted("pollux")
        others = {gpu_type: fits for gpu_type, fits in pollux.fits.items() if gpu_type not in table.fits}
        return dataclasses.replace(table, applications=pollux.applications, fits={**table.fits, **others})

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """GPU types that were measured."""
        return tuple(self.fits)

    def for_jobs(
        self,
        applications: Sequence[str],
        batches: Sequence[int] | np.ndarray,
        gangs: Sequence[int] | np.ndarray,
        gpu_types: Sequence[str] = (),
    ) -> tuple[Profiles, np.ndarray]:
        """Make the profiles of jobs: one for each application and batch per GPU, with measured rows for each gang.

        Returns the profiles and the row of each job in them. ``batches`` are those of whole gangs [samples].

        If a GPU cannot hold its share of the batch, it processes the share in equal passes (gradient accumulation). As
        in Pollux, a gang of one GPU takes at least two passes if the batch is above the application's initial batch.
        Deviation: Pollux rounds shares up to whole samples; here, shares may be fractions.

        ``compute_s`` is the time of all passes. ``overlap`` is the smallest gamma among the GPU types.
        ``communication_s`` is chosen so that, with this ``overlap`` and an idle network, the iteration takes the fitted
        time. With one pass and one GPU type, ``communication_s`` is the synchronisation time.

        If the table ``accumulates``, three things differ. A GPU takes the fewest passes in which its share fits, so one
        GPU may take a single pass. Synchronisation overlaps the last pass only, and ``communication_s`` belongs to that
        pass. The memory of a job is a quarter of the GPU, plus three quarters times (samples of a pass / largest number
        of samples that fit); a pass of the largest size thus fills the GPU.
        """
        types = tuple(gpu_types) or self.gpu_types
        for kind, names, known in (
            ("GPU type", types, self.gpu_types),
            ("application", sorted(set(applications)), tuple(self.applications)),
        ):
            for name in names:
                if name not in known:
                    raise WorkloadError(f"profile table {self.name!r}: {unknown_name(kind, name, known)}")
        sizes, samples = np.asarray(gangs).tolist(), np.asarray(batches).tolist()
        shares = [Fraction(batch, gpus) for batch, gpus in zip(samples, sizes, strict=True)]
        models = list(zip(applications, shares, strict=True))
        row_of = {model: row for row, model in enumerate(sorted(set(models)))}
        plain = Profiles.from_rows([self._profile(*model, types) for model in row_of], types)
        measured = [
            (row_of[model], column, gpus, *time)
            for model, gpus in sorted(set(zip(models, sizes, strict=True)))
            for column, gpu_type in enumerate(types)
            for time in self._times(*model, gpus, gpu_type, types)
        ]
        accumulation = [self._accumulation(row, *model, types) for model, row in row_of.items() if self.accumulates]
        profiles = Profiles(
            plain.rows,
            plain.compute_s,
            types,
            np.array(measured, MEASURED_DTYPE),
            accumulation=np.array(accumulation, ACCUMULATION_DTYPE),
        )
        return profiles, np.array([row_of[model] for model in models], np.int32)

    def _overlap(self, application: str, types: Sequence[str]) -> float:
        return min(self.fits[gpu_type][application].throughput.gamma for gpu_type in types)

    def _profile(self, application: str, share: Fraction, types: Sequence[str]) -> dict[str, object]:
        """Make one row of Profiles; its compute_s holds for gangs of at least two GPUs."""
        trained = self.applications[application]
        fits = [self.fits[gpu_type][application] for gpu_type in types]
        most = self._passes(application, share, types) if self.accumulates else 0
        return dict(
            name=f"{application} ({share} a GPU)",
            batch=math.ceil(share),
            gradient_bytes=trained.gradient_bytes,
            memory_bytes=0.0,
            skew=trained.skew,
            overlap=self._overlap(application, types),
            compute_s=[fit.compute_s(share, most or fit.passes(share)) for fit in fits],
        )

    def _passes(self, application: str, share: Fraction, types: Sequence[str]) -> int:
        """Return the passes of a job that does not share its GPUs: those of the GPU type with the least memory."""
        return max(self.fits[gpu_type][application].passes(share) for gpu_type in types)

    def _accumulation(self, row: int, application: str, share: Fraction, types: Sequence[str]) -> tuple[float, ...]:
        """Make one row of ACCUMULATION_DTYPE, for the GPU type with the least memory."""
        passes = self._passes(application, share, types)
        fit = min((self.fits[gpu_type][application] for gpu_type in types), key=lambda fit: fit.largest_batch)
        fixed_compute = fit.throughput.alpha_grad / fit.compute_s(share / passes, 1)
        memory = (1.0 - FIXED_MEMORY) * float(share / passes / fit.largest_batch)
        return row, passes, fixed_compute, FIXED_MEMORY, memory

    def _times(
        self, application: str, share: Fraction, gpus: int, gpu_type: str, types: Sequence[str]
    ) -> list[tuple[int, float, float]]:
        """Return a tuple (tier, compute [s], communication [s]) of a gang's iteration for each tier."""
        fit = self.fits[gpu_type][application]
        overlap = self._overlap(application, types)
        if self.accumulates:
            passes = self._passes(application, share, types)
            together = 1  # number of passes that overlap synchronisation
        else:
            accumulates = gpus == 1 and share > self.applications[application].initial_batch
            passes = together = max(2 if accumulates else 1, fit.passes(share))
        compute_s = fit.compute_s(share, passes)
        part_s = compute_s * together / passes
        times = []
        for tier, machines in ((MACHINE, 1), (RACK, 2))[: 1 if gpus == 1 else None]:
            whole_s = fit.iteration_s(gpus, machines, share, passes) - (compute_s - part_s)
            # The communication time c solves part_s^p + c^p = whole_s^p, where p is ``overlap``.
            longer = expm1(overlap * log(max(1.0, whole_s / part_s)))
            times.append((tier, compute_s, part_s * power(longer, 1 / overlap)))
        return times

    @classmethod
    def _fields(cls, data: Any) -> dict[str, Any]:
        applications = {name: read_application(name, row) for name, row in data["applications"].items()}
        fits = {t: {name: _fit(row) for name, row in rows.items()} for t, rows in data["fits"].items()}
        return {"applications": applications, "fits": fits}


load_fitted = functools.cache(FittedTable.load)


def read_application(name: str, row: Mapping[str, Any]) -> Application:
    """Read an application from its fields in a file."""
    iterations = {int(batch): float(count) for batch, count in row["iterations"].items()}
    milestones = {int(b): tuple(map(float, counts)) for b, counts in row.get("milestones", {}).items()}
    return Application(name, iterations, float(row["gradient_bytes"]), float(row["skew"]), milestones)


def _fit(row: Mapping[str, Any]) -> Fit:
    errors = {
        str(group): (int(rows), float(median), float(p90)) for group, (rows, median, p90) in row["errors"].items()
    }
    throughput = Throughput(*(float(row[key]) for key in PARAMETERS))
    return Fit(throughput, int(row["largest_batch"]), int(row["largest_local"]), errors)


def fitted_profiles(
    table: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign an application of the table to every job, with the application's initial batch on each GPU, as in Pollux.

    If the attribute ``model`` of a job names an application of the table, the job gets this application; otherwise it
    draws an application uniformly.
    """
    found = load_fitted(table)
    names = list(found.applications)
    drawn = rng.integers(len(names), size=len(workload)).tolist()
    told = workload.attributes.get("model", np.full(len(workload), "")).tolist()
    chosen = [str(name) if name in found.applications else names[k] for name, k in zip(told, drawn, strict=True)]
    gangs = workload.jobs["gpus"].astype(np.int64)
    batches = gangs * [found.applications[name].initial_batch for name in chosen]
    return found.for_jobs(chosen, batches, gangs, gpu_types)


def computed_profiles(
    table: str, accumulates: bool, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign an application of the table to every job, uniformly, and leave its communication to the network.

    The compute time is the fitted one of the application's initial batch on each GPU. Communication times were fitted
    on the authors' machines; here the network of the scenario determines them, from the size of the gradient. If it
    ``accumulates``, profiles have the memory and the sub-steps of :meth:`FittedTable.for_jobs`, on the GPU type of the
    table with the least memory, so that jobs can share GPUs.
    """
    profiles = _alone(table, accumulates)
    unknown = [name for name in gpu_types if name not in profiles.gpu_types]
    if unknown:
        raise WorkloadError(f"profiles '{table}-computed': {unknown_name('GPU type', unknown[0], profiles.gpu_types)}")
    return profiles, rng.integers(len(profiles.rows), size=len(workload), dtype=np.int32)


@functools.cache
def _alone(table: str, accumulates: bool) -> Profiles:
    found = dataclasses.replace(load_fitted(table), accumulates=accumulates)
    gangs = [1] * len(found.applications)
    batches = [application.initial_batch for application in found.applications.values()]
    fitted, _ = found.for_jobs(list(found.applications), batches, gangs)
    profiles = Profiles(fitted.rows, fitted.compute_s, fitted.gpu_types, accumulation=fitted.accumulation)
    return profiles.read_only()
