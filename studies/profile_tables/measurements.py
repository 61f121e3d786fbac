"""Measured iteration times, and a ring as the model to which they are fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gpusched_env.traces.profile_tables.throughput import IterationTime

MEASUREMENT_DTYPE: Final = np.dtype(
    [
        ("machines", "<i4"),  # number of machines over which the gang is spread, >= 1
        ("gpus", "<i4"),  # [GPU] gang size
        ("batch", "<f8"),  # [samples] on each GPU, > 0
        ("iteration_s", "<f8"),  # [s] of one iteration, > sync_s
        ("sync_s", "<f8"),  # [s] from the end of the gradients until all are reduced, >= 0, NaN = not known
    ]
)
SECONDS: Final = (1e-9, 1e9)  # [s] shortest gradient time and longest iteration time of a valid measurement
KINDS: Final = ("one GPU", "one machine", "across machines")
WIDER: Final = (0.5, 1.0)  # bounds of RingThroughput.wider: the traffic of a ring of two machines is all on one path


@dataclass(frozen=True)
class RingThroughput(IterationTime):
    """Iteration time of gangs that reduce gradients in a ring, in which each of K GPUs sends 2 (K - 1) / K of them.

    So the slope per GPU falls like 1 / K**2, where that of :class:`Throughput` is a constant; the hops of the ring add
    their latency. Between two machines the traffic of both directions uses one path; in a larger ring, each path has
    one direction. Two machines do not tell what limits the traffic: if a machine's card, a third one changes nothing;
    if the path (a flow of a public cloud, a shared medium), it halves the time. The geometric mean is then predicted.

    Attributes
    ----------
    alpha_grad, beta_grad, gamma : as in :class:`Throughput`
    local_s : K GPUs in one machine synchronise in 2 (K - 1) / K x local_s [s]
    network_s : K GPUs in two machines do in 2 (K - 1) / K x (local_s + network_s) [s]
    wider : factor of network_s on three machines or more, 0.5 to 1
    hop_s : [s] latency, 2 (K - 1) times on several machines; 0 unless three sizes on three machines or more tell it
    unknown : what the measurements do not tell: "local_s", "network_s", "wider"; "pair", the time on two machines;
        "growth", that of a ring with K
    """

    alpha_grad: float
    beta_grad: float
    local_s: float
    network_s: float
    hop_s: float
    wider: float
    gamma: float
    unknown: Sequence[str] = ()

    def sync_s(self, gpus: int | np.ndarray, machines: int | np.ndarray) -> np.ndarray:
        """Return the time to synchronise a gang on an idle network [s]; 0 for one GPU."""
        gangs, machines = np.asarray(gpus, float), np.asarray(machines)
        rate_s = self.local_s + self.network_s * np.where(machines > 2, self.wider, machines > 1)
        return 2 * (gangs - 1) * (rate_s / gangs + np.where(machines > 1, self.hop_s, 0.0))

    def range_s(self, gpus: int, machines: int, batch: float) -> tuple[float, float]:
        """Return the shortest and the longest iteration that the measurements allow [s]; inf = they do not limit it."""
        local_s, network_s = (
            0.0 if name in self.unknown else value
            for name, value in (("local_s", self.local_s), ("network_s", self.network_s))
        )
        least, most = WIDER if "wider" in self.unknown else (self.wider, self.wider)
        low, high = replace(self, local_s=local_s, network_s=network_s, wider=least), replace(self, wider=most)
        if "pair" in self.unknown:  # network_s x wider was measured
            wide_s = self.network_s * self.wider
            low, high = (replace(one, wider=w, network_s=wide_s / w) for one, w in ((low, WIDER[1]), (high, WIDER[0])))
        longest_on = 2 if "local_s" in self.unknown else machines  # a gang in one machine takes no longer than in two
        shortest = float(low.iteration_s(min(gpus, 2) if "growth" in self.unknown else gpus, machines, batch))
        endless = gpus > 1 and "network_s" in self.unknown and longest_on > 1
        return shortest, math.inf if endless else float(high.iteration_s(gpus, max(longest_on, machines), batch))


def relative_errors(law: IterationTime, rows: np.ndarray) -> np.ndarray:
    """Return abs(modelled / measured iteration time - 1) of MEASUREMENT_DTYPE rows; float64 [R]."""
    return np.abs(law.iteration_s(rows["gpus"], rows["machines"], rows["batch"]) / rows["iteration_s"] - 1)


def is_measurement(rows: np.ndarray) -> np.ndarray:
    """Return which of the MEASUREMENT_DTYPE rows [R] are valid, so that a model can be fitted to them; bool [R]."""
    good = (rows["gpus"] >= rows["machines"]) & (rows["machines"] >= 1) & (rows["batch"] > 0)
    good &= rows["batch"] < np.inf
    sync_s = np.nan_to_num(rows["sync_s"], posinf=np.inf)
    good &= (sync_s >= 0) & (rows["iteration_s"] - sync_s >= SECONDS[0])
    return good & (rows["iteration_s"] <= SECONDS[1])


def kinds(rows: np.ndarray) -> np.ndarray:
    """Return the index into KINDS of MEASUREMENT_DTYPE rows; int64 [R]."""
    return np.where(rows["gpus"] == 1, 0, np.where(rows["machines"] == 1, 1, 2))
