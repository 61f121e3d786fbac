"""A model whose throughput was measured for several gang sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import MACHINE, RACK

Times = tuple[
    tuple[int, float, float], ...
]  # (tier, compute [s], communication [s]) of an iteration; () = does not run


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
