"""Interference between two one-GPU jobs on a V100, P100 or K80, as Gavel measured it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.problem.workload import Workload
from gpusched_env.sharing.interference import Interference, class_names
from gpusched_env.support.files import file_digest

if TYPE_CHECKING:
    from gpusched_env.traces.profile_tables import MeasuredTable


@dataclass(frozen=True)
class GavelPairs(Interference):
    """Interference from the rates of pairs of job types in Gavel's throughput tables.

    The slowdown xi of a job beside another job is its rate alone / its rate beside the other job. A pair must not share
    a GPU if the two jobs do not fit into the GPU's memory, or if the table lacks the pair. The table lacks gangs of
    more than one GPU, and models and GPU types that Gavel did not measure.

    Parameters
    ----------
    path : path of ``simulation_throughputs.json`` or ``physical_cluster_throughputs.json``, compressed with gzip or
        not; "" = the table of this package, which was made from ``simulation_throughputs.json`` (MIT licence) with
        three significant digits

    References
    ----------
    D. Narayanan et al., OSDI 2020; stanford-futuredata/gavel, scheduler/simulation_throughputs.json.
    """

    path: str = ""

    def __post_init__(self) -> None:
        """Check the path; the file is not opened."""
        if not isinstance(self.path, str):
            raise ScenarioError(f"sharing.interference.path is {self.path!r}: it must be a text")

    def _table(self) -> MeasuredTable:
        from gpusched_env.traces.profile_tables import load_measured
        from gpusched_env.traces.profile_tables.gavel import gavel_table

        return gavel_table(Path(self.path)) if self.path else load_measured("gavel")

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        """Return xi of each job class beside each other class on each GPU type; inf = they must not share a GPU."""
        packed = self._table().packed
        names = class_names(classes, workload)
        rates = np.array(
            [
                [[packed.get(gpu_type, {}).get((own, other), 0.0) for gpu_type in gpu_types] for other in names]
                for own in names
            ]
        ).reshape(len(names), len(names), len(gpu_types))
        one_gpu = classes[:, 1] == 1
        together = (rates > 0) & (rates.transpose(1, 0, 2) > 0) & (one_gpu[:, None] & one_gpu)[:, :, None]
        with np.errstate(divide="ignore"):
            found: np.ndarray = np.where(together, np.maximum(1.0 / rates, 1.0), np.inf)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"source": "gavel"} | ({"path": self.path} if self.path else {})

    def identity(self) -> dict[str, Any]:
        """Return the data of :meth:`as_dict` with the SHA-256 of the file instead of its path, for fingerprints."""
        return self.as_dict() | ({"path": file_digest(Path(self.path), ScenarioError)} if self.path else {})
