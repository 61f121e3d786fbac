"""Programs of the card of SJF-BCO: 160 ring-all-reduce jobs at once on 10, 15 or 20 servers, and further metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios.ring_all_reduce import ring_all_reduce
from studies.reproduce.kway import effective_contenders, straddle_counts

GPUS_OF_A_SERVER: Final = (4, 8, 16, 32)  # drawn uniformly
MOST_SERVERS: Final = 20
DRAW_OF_SERVERS: Final = 1  # makes the draw of the servers independent of that of the jobs


@dataclass(frozen=True)
class RingAllReduce:
    """The scenario ``rar-160`` with the sizes of servers drawn for each seed, as in the paper.

    Parameters
    ----------
    servers : number of servers. With the same seed, a smaller cluster has the first servers of a larger one, and the
        jobs are the same
    extra : budget for contention and overhead together, as a fraction of the run time when both are at their maximum
    """

    servers: int
    extra: float

    @property
    def name(self) -> str:
        """Name in results."""
        return f"ring-all-reduce, {self.servers} servers, extra {self.extra:g}"

    def fingerprint(self) -> str:
        """SHA-256 of the draw of seed 0, which changes with everything that a draw depends on."""
        return self.instance(0).fingerprint()

    def instance(self, seed: int) -> Instance:
        """Draw servers and jobs."""
        sizes = np.random.default_rng((seed, DRAW_OF_SERVERS)).choice(GPUS_OF_A_SERVER, MOST_SERVERS)
        return ring_all_reduce(self.extra, sizes[: self.servers].tolist()).instance(seed)


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure the least completion time, the share of straddling jobs, and the contention that they met.

    Returns
    -------
    min_jct_s : smallest JCT of all jobs [s]
    straddling_share : fraction of jobs on more than one server (straddling jobs)
    mean_contenders : effective contenders k, averaged over straddling jobs and their running time; 0 without such jobs
    """
    servers, rules = len(instance.cluster.nodes), instance.network.contention
    gpus_on = np.zeros((len(instance.workload), servers), np.int64)
    running = np.zeros(len(gpus_on), bool)
    contenders_s = straddling_s = 0.0
    times = log.events["time_s"]
    for number, seconds in enumerate(np.diff(times, append=times[-1])):
        job, kind = log.events["job"][number], log.events["kind"][number]
        if kind == START:
            gpus_on[job] = np.bincount(instance.cluster.node_of_gpu[log.gang(number)], minlength=servers)
        running[job] = kind == START or (running[job] and kind != COMPLETE)
        if seconds > 0:
            straddle = straddle_counts(gpus_on[running])
            k = effective_contenders(straddle, rules.k_mode, rules.xi1)
            contenders_s += seconds * float(k[straddle > 0].sum())
            straddling_s += seconds * np.count_nonzero(straddle)
    return {
        "min_jct_s": float(np.nanmin(job_times(instance, log)["jct_s"])),
        "straddling_share": float(np.mean(np.count_nonzero(gpus_on, axis=1) > 1)),
        "mean_contenders": contenders_s / straddling_s if straddling_s > 0 else 0.0,
    }
