"""A table of fitted models: any gang at any batch size, and the model profiles of the jobs that train them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpusched_env.cluster import MACHINE, RACK
from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.traces.profile_tables.application import Application, Fit
from gpusched_env.workload import MEASURED_DTYPE, Profiles


@dataclass(frozen=True)
class FittedTable:
    """Fitted models of one publication.

    Attributes
    ----------
    name : of the table
    source, licence, made : where the measurements come from, under what terms, and how this table was made from them
    applications : by name, in the order of random draws
    fits : GPU type -> application -> fit; every GPU type has every application
    """

    name: str
    source: str
    licence: str
    made: str
    applications: Mapping[str, Application]
    fits: Mapping[str, Mapping[str, Fit]]

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """GPU types measured."""
        return tuple(self.fits)

    def for_jobs(
        self,
        applications: Sequence[str],
        batches: Sequence[int] | np.ndarray,
        gangs: Sequence[int] | np.ndarray,
        gpu_types: Sequence[str] = (),
    ) -> tuple[Profiles, np.ndarray]:
        """Make the profiles of jobs: one for each application and batch of a GPU, with measured rows for each gang.

        Parameters
        ----------
        applications : of each job
        batches : of each job, of its whole gang [samples]
        gangs : gang size of each job [GPU]
        gpu_types : those that the profiles shall know; none = all of the table

        Returns
        -------
        profiles : see Notes
        rows : int32 [J], profile of each job

        Notes
        -----
        A GPU that cannot hold its share of the batch takes it in equal passes (gradient accumulation); as in Pollux, a
        single GPU takes at least two where the batch is above the initial one. Pollux rounds shares up; here they need
        not be whole. ``compute_s`` is that of all passes, ``overlap`` the smallest gamma among the GPU types, and
        ``communication_s`` what gives the fitted iteration time with it on an idle network: with one pass and one GPU
        type the time of synchronisation itself.

        Raises
        ------
        WorkloadError : an application or GPU type that the table lacks
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
            for time in self._times(*model, gpus, gpu_type, self._overlap(model[0], types))
        ]
        profiles = Profiles(plain.rows, plain.compute_s, types, np.array(measured, MEASURED_DTYPE))
        return profiles, np.array([row_of[model] for model in models], np.int32)

    def _overlap(self, application: str, types: Sequence[str]) -> float:
        return min(self.fits[gpu_type][application].throughput.gamma for gpu_type in types)

    def _profile(self, application: str, share: Fraction, types: Sequence[str]) -> dict[str, object]:
        """One row of Profiles; its compute_s is that of a gang of any size above 1."""
        trained = self.applications[application]
        fits = [self.fits[gpu_type][application] for gpu_type in types]
        return dict(
            name=f"{application} ({share} a GPU)",
            batch=math.ceil(share),
            gradient_bytes=trained.gradient_bytes,
            memory_bytes=0.0,
            skew=trained.skew,
            overlap=self._overlap(application, types),
            compute_s=[fit.compute_s(share, fit.passes(share)) for fit in fits],
        )

    def _times(
        self, application: str, share: Fraction, gpus: int, gpu_type: str, overlap: float
    ) -> list[tuple[int, float, float]]:
        """Tier, compute [s] and communication [s] of an iteration of a gang."""
        fit = self.fits[gpu_type][application]
        accumulates = gpus == 1 and share > self.applications[application].initial_batch
        passes = max(2 if accumulates else 1, fit.passes(share))
        compute_s = fit.compute_s(share, passes)
        times = []
        for tier, machines in ((MACHINE, 1), (RACK, 2))[: 1 if gpus == 1 else None]:
            whole_s = fit.iteration_s(gpus, machines, share, passes)
            # compute_s and this many seconds have the p-norm whole_s
            longer = math.expm1(overlap * math.log(max(1.0, whole_s / compute_s)))
            times.append((tier, compute_s, compute_s * longer ** (1 / overlap)))
        return times
