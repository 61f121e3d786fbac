"""The network as schedulers see it: the links, their loads, and the time of an iteration on a possible placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.core import queries
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.errors import GpuschedError

if TYPE_CHECKING:
    from gpusched_env.network import Topology
    from gpusched_env.simulator.simulation import Simulation

_NO_ROWS: Final = np.empty(0, np.int32)


def known_rows(simulation: Simulation, rows: np.ndarray | Sequence[int]) -> np.ndarray:
    """Return ``rows`` as contiguous int32; raise an error if one of the jobs has not arrived.

    The check is necessary because kernels check no bounds, and because schedulers must not see future jobs.
    """
    arrived = int(simulation.arrays.world["next_arrival"])
    known = np.ascontiguousarray(rows, np.int32)
    if len(known) and not (known.min() >= 0 and known.max() < arrived):
        raise GpuschedError(f"job rows must lie in 0..{arrived - 1}, the jobs that have arrived: {rows!r}")
    return known


class NetworkView:
    """Read-only view of the links. All rates and loads are those after the latest decision."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    @property
    def topology(self) -> Topology | None:
        """The links and routes; None if communication times depend only on the tier of a placement."""
        return self._simulation.instance.topology

    @property
    def links(self) -> np.ndarray:
        """LINK_ROW_DTYPE [L]: name, nominal capacity [byte/s] and tier of each link; empty without a topology."""
        return self._simulation.instance.links

    @property
    def capacity_Bps(self) -> np.ndarray:
        """float64 [L] [byte/s]: present capacity of each link, per direction."""
        return self._simulation.arrays.links["capacity"][: len(self.links)].copy()

    def loads_Bps(self) -> np.ndarray:
        """float64 [L] [byte/s]: present load of each link, per direction."""
        loads = np.zeros((1, len(self.links)))
        queries.link_loads(self._simulation.arrays, queries.Asked(rows=_NO_ROWS, answers=loads))
        return loads[0]

    def flows(self) -> np.ndarray:
        """int32 [L]: number of gangs whose rings cross each link."""
        return self._simulation.arrays.links["flows"][: len(self.links)].copy()

    def iteration_s(self, rows: np.ndarray) -> np.ndarray:
        """float64 [s]: present time of one iteration of each of the running jobs ``rows``."""
        settled_s = self._of(rows, "settled_s")
        if self._simulation.instance.sharing is None:
            return settled_s
        return (settled_s + self._of(rows, "accumulation_s")) * self._of(rows, "slowdown")

    def slowdown(self, rows: np.ndarray) -> np.ndarray:
        """float64: ring rate of each of the running jobs ``rows`` on an idle network / its present ring rate."""
        rate = self._of(rows, "rate_Bps")
        alone = self._of(rows, "solo_Bps")
        return np.divide(alone, rate, out=np.ones(len(rate)), where=rate > 0)

    def bottleneck(self, rows: np.ndarray) -> np.ndarray:
        """int32: link that limits the rate of each of the running jobs ``rows``; -1 = the gang's own ports limit it."""
        return self._of(rows, "bottleneck")

    def machines(self, rows: np.ndarray) -> np.ndarray:
        """int32: number of machines on which each of the running jobs ``rows`` has GPUs."""
        return self._of(rows, "machines")

    def what_if_s(self, job: int, gpus: Sequence[int]) -> float:
        """Return the time of one iteration of a waiting job if it started on ``gpus`` now, contention included [s].

        Other jobs may hold some of these GPUs. The job is assumed to process its whole batch in one step.

        Parameters
        ----------
        job : row of a waiting job
        gpus : ids of distinct GPUs, as many as the gang size
        """
        simulation = self._simulation
        row = int(job)
        if row not in waiting_rows(simulation.arrays):
            raise GpuschedError(f"what_if_s: job {job} is not waiting")
        gang = int(simulation.instance.workload.jobs["gpus"][row])
        known = simulation.instance.cluster.gpus
        if len(gpus) != gang or len(set(gpus)) != gang or not all(0 <= gpu < known for gpu in gpus):
            raise GpuschedError(f"what_if_s: give {gang} different GPUs of 0 to {known - 1} for job {job}")
        simulation.arrays.chosen[:gang] = gpus
        return float(queries.what_if(simulation.arrays, row))

    def _of(self, rows: np.ndarray, name: str) -> np.ndarray:
        simulation, known = self._simulation, known_rows(self._simulation, rows)
        queries.settle_now(simulation.arrays)
        replicas = simulation.arrays.jobs["replica"][known]
        if (replicas < 0).any():
            raise GpuschedError("only running jobs have a rate")
        column: np.ndarray = simulation.arrays.replicas[name][replicas]
        return column
