"""Models with an efficiency for each shape of a gang's placement, and the profiles made from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.network.dimensions import DIMENSIONS
from gpusched_env.problem.workload import SHAPED_DTYPE, Profiles

# Number of units in the dimensions gpu, slot, machine and rack; 1 = the gang does not span the dimension
Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class ShapedModel:
    """A model with its efficiency on each shape: network -> shape -> compute time / iteration time.

    ``compute_s`` is for jobs without an iteration time; ``skew`` = gradient bytes of the largest layer / of all layers.
    """

    compute_s: float
    gradient_bytes: float
    skew: float
    efficiency: Mapping[str, Mapping[Shape, float]]

    def __post_init__(self) -> None:
        """Check that all values are in range."""
        if not 0 < self.compute_s < math.inf or not 0 <= self.gradient_bytes < math.inf or not 0 <= self.skew <= 1:
            raise WorkloadError("compute_s, gradient_bytes or skew is out of range")
        for network, shapes in self.efficiency.items():
            for shape, efficiency in shapes.items():
                if len(shape) != len(DIMENSIONS) or min(shape) < 1 or not 0 < efficiency <= 1:
                    raise WorkloadError(f"{network}, shape {list(shape)}: efficiency {efficiency!r} is out of range")


@dataclass(frozen=True)
class EfficiencyTable:
    """Table of the models of one publication; random draws number the models in their order."""

    name: str
    source: str
    licence: str
    made: str
    models: Mapping[str, ShapedModel]

    def __post_init__(self) -> None:
        """Check that there are models, and that all of them have the same networks."""
        if not self.models:
            raise WorkloadError(f"profile table {self.name!r}: it lists no model")
        for name, model in self.models.items():
            if set(model.efficiency) != set(self.networks):
                raise WorkloadError(f"profile table {self.name!r}, model {name!r}: not the networks of the first model")

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of the networks for which the models have efficiencies."""
        return tuple(next(iter(self.models.values())).efficiency)

    def for_jobs(
        self,
        network: str,
        models: Sequence[str],
        compute_s: Sequence[float],
        gangs: Sequence[int] | np.ndarray,
        gpu_types: tuple[str, ...] = ("V100",),
    ) -> tuple[Profiles, np.ndarray]:
        """Make the profiles of jobs, one for each pair of model and compute time that occurs.

        ``network`` names the efficiencies that are used; NaN in ``compute_s`` = the time in the table [s]. Returns the
        profiles, with each shape that the gang of at least one job can have, and the row of each job in them.
        """
        if network not in self.networks:
            raise WorkloadError(f"profile table {self.name!r}: {unknown_name('network', network, self.networks)}")
        for model in models:
            if model not in self.models:
                raise WorkloadError(f"profile table {self.name!r}: {unknown_name('model', model, self.models)}")
        pairs = [
            (model, self.models[model].compute_s if math.isnan(seconds) else float(seconds))
            for model, seconds in zip(models, compute_s, strict=True)
        ]
        row_of = {pair: row for row, pair in enumerate(sorted(set(pairs)))}
        rows = np.array([row_of[pair] for pair in pairs], np.int32)
        plain = Profiles.from_rows([self._profile(*pair, len(gpu_types)) for pair in row_of], gpu_types)
        shaped = [
            (row, *shape, efficiency)
            for (model, _), row in row_of.items()
            for shape, efficiency in self.models[model].efficiency[network].items()
            if math.prod(shape) in set(np.asarray(gangs)[rows == row].tolist())
        ]
        return Profiles(plain.rows, plain.compute_s, gpu_types, shaped=np.array(shaped, SHAPED_DTYPE)), rows

    def _profile(self, name: str, compute_s: float, types: int) -> dict[str, object]:
        """Make one row of Profiles; overlap is 1, because efficiencies count only communication that is not hidden."""
        model = self.models[name]
        return dict(
            name=f"{name}, {compute_s * 1e6:.9g} us",
            batch=0,
            gradient_bytes=model.gradient_bytes,
            memory_bytes=0.0,
            skew=model.skew,
            overlap=1.0,
            compute_s=[compute_s] * types,
        )
