"""GPUs of the jobs of a round: those that a job had in the last round if possible, else GPUs on few machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gpusched_env.problem.cluster import Cluster


class Seats:
    """The GPUs of jobs that each have one GPU type; a pair of jobs keeps the GPUs of its first member that has some.

    Larger gangs choose first. Among gangs of one size, those that had the same type in the last round choose first:
    such a gang keeps its GPUs of the last round, unless a gang that chose before has taken some of them. Each other
    gang takes the machine on which it leaves the fewest GPUs free; if no machine has enough GPUs, it fills machines in
    order.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._node_of_gpu = cluster.node_of_gpu
        self._gpus_of_type = [
            np.flatnonzero(cluster.nodes["gpu_type"][cluster.node_of_gpu] == column)
            for column in range(len(cluster.gpu_types))
        ]
        self._nodes = len(cluster.nodes)
        self.of_job: dict[int, tuple[int, tuple[int, ...]]] = {}  # type and GPUs of the last round

    def seat(self, jobs: Iterable[tuple[int, int, int]], partner_of: Mapping[int, int] | None = None) -> None:
        """Seat the jobs of a round, (job, type, gang size) in order, and their partners on the same GPUs."""
        partner_of = partner_of or {}
        before, self.of_job = self.of_job, {}
        taken = bytearray(len(self._node_of_gpu))  # for access to single GPUs it is faster than an array
        by_size: dict[int, list[tuple[int, int]]] = {}
        for job, column, gang in jobs:
            by_size.setdefault(gang, []).append((job, column))
        for gang in sorted(by_size, reverse=True):
            newcomers = []
            for job, column in by_size[gang]:
                members = (job, partner_of[job]) if job in partner_of else (job,)
                for had in [before[member] for member in members if member in before]:
                    if had[0] == column and not any(taken[gpu] for gpu in had[1]):
                        self.of_job[job] = had
                        for gpu in had[1]:
                            taken[gpu] = True
                        break
                else:
                    newcomers.append((job, column))
            for job, column in newcomers:
                gpus = self._choose(column, gang, np.frombuffer(taken, np.bool_))
                self.of_job[job] = column, tuple(gpus)
                for gpu in gpus:
                    taken[gpu] = True
        self.of_job |= {other: self.of_job[job] for job, other in partner_of.items()}

    def _choose(self, column: int, gang: int, taken: np.ndarray) -> list[int]:
        free = self._gpus_of_type[column][~taken[self._gpus_of_type[column]]]
        room = np.bincount(self._node_of_gpu[free], minlength=self._nodes)
        holds = np.flatnonzero(room >= gang)
        if len(holds):
            free = free[self._node_of_gpu[free] == holds[np.argmin(room[holds])]]
        chosen: list[int] = free[:gang].tolist()
        return chosen
