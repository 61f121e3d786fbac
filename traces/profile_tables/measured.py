"""Models whose throughput was measured for some gang sizes: their table, and the profiles made from it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload
from gpusched_env.traces.profile_tables.profile_table import ProfileTable

# (tier, compute [s], communication [s]) of an iteration; () = does not run
Times = tuple[tuple[int, float, float], ...]

CANNOT_RUN: Final[Times] = ((MACHINE, math.inf, 0.0),)  # how Profiles.measured marks a gang that cannot run
COLUMNS: Final = ("batch", "gradient_bytes", "memory_bytes", "skew", "overlap")  # left out of the file if the default


@dataclass(frozen=True)
class MeasuredModel:
    """A model whose throughput was measured for some gang sizes.

    ``rates`` : GPU type -> gang size -> iterations per second of the gang in one machine and, if measured, spread over
    machines; 0 or no entry = it cannot run. ``batch`` : samples per GPU, 0 = unknown or different for each gang size.
    """

    name: str
    rates: Mapping[str, Mapping[int, tuple[float, ...]]]
    batch: int = 0
    gradient_bytes: float = 0.0
    memory_bytes: float = 0.0
    skew: float = 0.0
    overlap: float = 1.0

    def __post_init__(self) -> None:
        """Check that all rates are in range."""
        for gpu_type, gangs in self.rates.items():
            for gpus, rates in gangs.items():
                if gpus < 1 or not 1 <= len(rates) <= 2 or not all(0 <= rate < math.inf for rate in rates):
                    raise WorkloadError(
                        f"model {self.name!r}, {gpu_type}, {gpus} GPUs: rates {list(rates)}: give one or two finite "
                        "numbers >= 0, in one machine and spread, for a gang of at least 1 GPU"
                    )

    @property
    def gangs(self) -> tuple[int, ...]:
        """Gang sizes that can run on at least one GPU type, ascending [GPU]."""
        sizes = {gpus for gangs in self.rates.values() for gpus, rates in gangs.items() if rates[0] > 0}
        return tuple(sorted(sizes))

    def times(self, gpu_type: str, gpus: int) -> Times:
        """Return the times of a gang's iteration for each tier; () if the gang cannot run.

        In one machine, the whole time counts as compute. Spread over machines, the extra time against one machine
        counts as communication; if the gang is faster there, the whole time counts as compute. The rate spread over
        machines holds inside a rack and across racks.
        """
        together, *apart = self.rates.get(gpu_type, {}).get(gpus, (0.0,))
        if together == 0:
            return ()
        times = [(MACHINE, 1 / together, 0.0)]
        if apart and apart[0] > 0 and apart[0] != together:
            longer = max(0.0, 1 / apart[0] - 1 / together)
            times.append((RACK, 1 / together if longer else 1 / apart[0], longer))
        return tuple(times)


@dataclass(frozen=True)
class MeasuredTable(ProfileTable):
    """Table of the measured models of one publication; random draws number the models in their order.

    ``packed`` : GPU type -> (own, other) -> rate of a one-GPU job of ``own`` that shares its GPU with ``other`` / its
    rate alone; 0 = the two jobs do not fit into the GPU's memory.
    """

    gpu_types: tuple[str, ...]
    models: Mapping[str, MeasuredModel]
    packed: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)

    SHIPPED = ("elasticflow", "gavel")

    def __post_init__(self) -> None:
        """Check that the table is not empty, and that it lists all GPU types and models that occur in it."""
        if not self.models or not self.gpu_types:
            raise WorkloadError(f"profile table {self.name!r}: it lists no model or no GPU type")
        for name, model in self.models.items():
            strange = [gpu_type for gpu_type in model.rates if gpu_type not in self.gpu_types]
            if name != model.name or strange or not model.gangs:
                complaint = f"GPU type {strange[0]!r} is not listed" if strange else "another name, or no rate above 0"
                raise WorkloadError(f"profile table {self.name!r}, model {name!r}: {complaint}")
        for gpu_type, pairs in self.packed.items():
            for pair, rate in pairs.items():
                if gpu_type not in self.gpu_types or not set(pair) <= set(self.models) or not 0 <= rate < math.inf:
                    raise WorkloadError(
                        f"profile table {self.name!r}, packed on {gpu_type!r}: {pair} has rate {rate!r}"
                    )

    def named(self, model: str, batch: str = "") -> str:
        """Return the name of a model in the table, ``model`` or ``model (batch size batch)``; "" if there is none."""
        return next((name for name in (model, f"{model} (batch size {batch})") if name in self.models), "")

    def gpu_types_of(self, model: str, gpus: int) -> tuple[str, ...]:
        """Return the GPU types on which the model can run with a gang of ``gpus`` GPUs."""
        found = self.models.get(model)
        return tuple(t for t in self.gpu_types if found and found.times(t, gpus))

    def packed_rate(self, gpu_type: str, own: str, other: str) -> float:
        """Return the rate of a one-GPU job of ``own`` beside one of ``other`` / its rate alone; 0 = they do not fit."""
        rate = self.packed.get(gpu_type, {}).get((own, other))
        if rate is None:
            raise WorkloadError(f"profile table {self.name!r}: {own!r} with {other!r} on one {gpu_type}: not measured")
        return rate

    def for_jobs(
        self,
        models: Sequence[str],
        gangs: Sequence[int] | np.ndarray,
        gpu_types: Iterable[str] = (),
        ignore_placement: bool = False,
    ) -> tuple[Profiles, np.ndarray]:
        """Make the profiles of jobs.

        Returns a profile for each model that occurs, in the order of the table, with rows for the gang sizes there,
        and the row of each job. A gang that cannot run on a GPU type has an infinite compute time there.
        ``ignore_placement`` : gangs run on every placement at the rate measured in one machine.
        """
        types = tuple(gpu_types) or self.gpu_types
        for gpu_type in types:
            if gpu_type not in self.gpu_types:
                raise WorkloadError(
                    f"profile table {self.name!r}: {unknown_name('GPU type', gpu_type, self.gpu_types)}"
                )
        uses = sorted(set(zip(models, np.asarray(gangs).tolist(), strict=True)))
        for model, gpus in uses:
            if model not in self.models:
                raise WorkloadError(f"profile table {self.name!r}: {unknown_name('model', model, self.models)}")
            if not set(self.gpu_types_of(model, gpus)) & set(types):
                known = ", ".join(map(str, self.models[model].gangs))
                raise WorkloadError(
                    f"profile table {self.name!r}: {model!r} on {gpus} GPUs of {' or '.join(types)} was not "
                    f"measured, or does not fit into memory; measured gangs: {known}"
                )
        used = {model for model, _ in uses}
        names = [name for name in self.models if name in used]
        row_of = {name: row for row, name in enumerate(names)}
        measured = [
            (row_of[model], column, gpus, *time)
            for model, gpus in uses
            for column, gpu_type in enumerate(types)
            for time in (self.models[model].times(gpu_type, gpus) or CANNOT_RUN)[: 1 if ignore_placement else None]
        ]
        rows = [self._profile(self.models[name], types) for name in names]
        plain = Profiles.from_rows(rows, types)
        profiles = Profiles(plain.rows, plain.compute_s, types, np.array(measured, MEASURED_DTYPE))
        return profiles, np.array([row_of[model] for model in models], np.int32)

    @staticmethod
    def _profile(model: MeasuredModel, gpu_types: Sequence[str]) -> dict[str, object]:
        """Make one row of Profiles; ``compute_s`` on a GPU type is that of the smallest gang that can run on it."""
        compute = []
        for gpu_type in gpu_types:
            gangs = (times[0][1] for gpus in model.gangs if (times := model.times(gpu_type, gpus)))
            compute.append(next(gangs, math.inf))
        columns = ("name", "batch", "gradient_bytes", "memory_bytes", "skew", "overlap")
        return {column: getattr(model, column) for column in columns} | {"compute_s": compute}

    @classmethod
    def _fields(cls, data: Any) -> dict[str, Any]:
        models = {}
        for name, row in data["models"].items():
            rates = {
                gpu_type: {int(gpus): tuple(map(float, values)) for gpus, values in gangs.items()}
                for gpu_type, gangs in row["rates"].items()
            }
            models[name] = MeasuredModel(name, rates, **{column: row[column] for column in COLUMNS if column in row})
        packed = {}
        for gpu_type, rows in data["packed"].items():
            packed[gpu_type] = {
                (own, other): float(rate)
                for own, row in zip(models, rows, strict=True)
                for other, rate in zip(models, row, strict=True)
                if rate is not None
            }
        return {"gpu_types": tuple(map(str, data["gpu_types"])), "models": models, "packed": packed}


load_measured = functools.cache(MeasuredTable.load)


def measured_profiles(
    table: str | MeasuredTable, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign a model of the table to every job.

    If the attribute ``model`` of a job, alone or with the attribute ``batch_size``, names a model of the table, the job
    gets this model, if it can run on a GPU type of the cluster. Otherwise it draws uniformly among the models that can
    run on every GPU type of the cluster with the job's gang size.
    """
    found = load_measured(table) if isinstance(table, str) else table
    names = _named(found, workload)
    gangs = workload.jobs["gpus"]
    drawn = rng.random(len(workload))
    for gpus in np.unique(gangs).tolist():
        able = [name for name in found.models if set(gpu_types) <= set(found.gpu_types_of(name, gpus))]
        for job in np.flatnonzero(gangs == gpus).tolist():
            if not names[job] and able:
                names[job] = able[int(drawn[job] * len(able))]
            if names[job] not in able and not set(gpu_types) & set(found.gpu_types_of(names[job], gpus)):
                who = repr(names[job]) if names[job] else "any model"
                sizes = sorted({size for model in found.models.values() for size in model.gangs})
                raise WorkloadError(
                    f"profiles {found.name!r}, job {workload.jobs['id'][job]}: no throughput was measured for {who} on "
                    f"{gpus} GPUs of each of {', '.join(gpu_types)}; the table has GPU types "
                    f"{', '.join(found.gpu_types)} and gangs of {', '.join(map(str, sizes))}; limit the jobs "
                    "(max_gpus), or use other profiles"
                )
    return found.for_jobs(names, gangs, gpu_types)


def _named(table: MeasuredTable, workload: Workload) -> list[str]:
    """Return the model of the table that each job names; "" if the job names none."""
    empty = np.full(len(workload), "")
    models = workload.attributes.get("model", empty).tolist()
    batches = workload.attributes.get("batch_size", empty).tolist()
    return [table.named(str(model), str(batch)) for model, batch in zip(models, batches, strict=True)]
