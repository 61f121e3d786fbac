"""A table of measured models, and the profiles made from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.problem.cluster import MACHINE
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles
from gpusched_env.traces.profile_tables.measured_model import MeasuredModel, Times

CANNOT_RUN: Final[Times] = ((MACHINE, math.inf, 0.0),)  # how Profiles.measured marks a gang that cannot run


@dataclass(frozen=True)
class MeasuredTable:
    """Table of the measured models of one publication; random draws number the models in their order.

    ``packed`` : GPU type -> (own, other) -> rate of a one-GPU job of ``own`` that shares its GPU with ``other`` / its
    rate alone; 0 = the two jobs do not fit into the GPU's memory.
    """

    name: str
    source: str
    licence: str
    made: str
    gpu_types: tuple[str, ...]
    models: Mapping[str, MeasuredModel]
    packed: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)

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
