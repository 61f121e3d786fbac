"""A size index, a scheduler for elastic jobs: few learned weights say which job gets the next GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.baselines.elastic.granting import Grants, more
from gpusched_env.baselines.elastic.sizes import SizingScheduler
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.portable import arrays
from gpusched_env.portable.keys import rounded_key
from gpusched_env.simulator import ClairvoyantView, ClusterView


class Values(Handle):
    """What the weights of a size index say about the jobs of a table of sizes."""

    worth = array(np.float64, "known", "steps")  # of one more GPU, by job and the step that it has; <= 0 = nothing
    held = array(np.int32, "known")  # [GPU] that each of ``Grants.listed`` holds now
    keep = array(np.float64, "one")  # factor on the value of GPUs that a job holds already
    value = array(np.float64, "known")  # scratch


@kernel
def value_of(g: Grants, v: Values, i: int) -> float:
    """Return the value of the next size of a job for each of its GPUs; 0 = there is none, or it is not faster."""
    row = g.listed[i]
    step = g.step[i]
    if step == g.last[row]:
        return 0.0
    value = v.worth[row, step] * g.left[i]
    return rounded_key(value * v.keep[0] if g.sizes[row, step + 1] <= v.held[i] else value)


@kernel
def by_value(g: Grants, v: Values, count: int, gpus: int) -> None:
    """Grant sizes to the largest value, until no GPU is left or no job gains; ties: the first job.

    ``left`` holds the factor of each job. A job whose next size does not fit gets no more.
    """
    for i in range(count):
        g.step[i] = 0
        v.value[i] = value_of(g, v, i)
    while gpus > 0:
        best = 0
        for i in range(1, count):
            if v.value[i] > v.value[best]:
                best = i
        if v.value[best] <= 0.0:
            return
        if more(g, best) > gpus:
            v.value[best] = 0.0
        else:
            gpus -= more(g, best)
            g.step[best] += 1
            v.value[best] = value_of(g, v, best)


FORMAT: Final = "gpusched-size-index-1"
LEAST_S: Final = 60.0  # [s], [GPU s] added to times before their logarithm is taken


@dataclass(frozen=True)
class SizeWeights:
    """The weights of a size index. The defaults value each GPU by the speed that it adds.

    Parameters
    ----------
    work : how much less a GPU is worth to a job with more work: its time left on its smallest size if run times are
        known, else its attained GPU time
    age : how much less it is worth to a job that arrived earlier
    pace : how much less it is worth to a job that makes more iterations per second on its smallest size
    spread : how much less it is worth to a job that has more GPUs already
    start : ln of the factor on the first GPUs of a job
    keep : ln of the factor on GPUs that a job holds already, since every change costs time
    clairvoyant : whether ``work`` is the time left
    """

    work: float = 0.0
    age: float = 0.0
    pace: float = 0.0
    spread: float = 0.0
    start: float = 0.0
    keep: float = 0.0
    clairvoyant: bool = False

    @classmethod
    def load(cls, path: Path) -> SizeWeights:
        """Read a file that a search has written."""
        with checkpoint(path, FORMAT, "the weights of a size index") as (metadata, stored):
            weights = dict(zip(metadata["weights"], stored["weights"].tolist(), strict=True))
            return cls(**weights, clairvoyant=metadata["clairvoyant"])


@dataclass
class SizeIndex(SearchedRule, SizingScheduler):
    """Grant sizes one by one, each to the job to which its GPUs are worth most; nobody has GPUs at first.

    The value of one more GPU to a job that has n is the largest relative speed per GPU that any larger size adds, times
    the factors of the weights::

        (speed at n' - speed at n) / (n' - n) / speed at the smallest size
        x n ** -spread x work ** -work x age ** -age x pace ** -pace
        x exp(start) if n = 0 x exp(keep) if the job holds n'

    A job that gets nothing is preempted. GPUs are divided anew at every decision point.

    Notes
    -----
    Ties: the earliest arrival. A decision point takes O(n x GPUs), n = number of jobs in the system.
    """

    kind: ClassVar = "size index"
    needs = ("sizes",)
    load = SizeWeights.load
    clairvoyant: bool = field(init=False, default=False)
    name = "learned"

    def take(self, rule: SizeWeights) -> None:
        """Play these weights, which may read run times."""
        self.rule, self.clairvoyant = rule, rule.clairvoyant

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        super().reset(view)
        self._valued = 0
        self._values = _empty(self._grants, self.rule)

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs by their values."""
        rows, weights, values = grants.listed[:count], self.rule, self._values_of(view, grants)
        if weights.clairvoyant:
            assert isinstance(view, ClairvoyantView)
            work = view.iterations_left(rows) / grants.rates[rows, 1]
        else:
            work = view.attained_gpu_s(rows)
        lost = weights.work * arrays.log(work + LEAST_S)
        lost += weights.age * arrays.log(view.now_s - view.arrival_s[rows] + LEAST_S)
        lost += weights.pace * arrays.log(grants.rates[rows, 1])
        grants.left[:count] = arrays.exp(np.clip(-lost, -300.0, 300.0))
        values.held[:count] = view.held_gpus(rows)
        by_value(grants, values, count, gpus)

    def _values_of(self, view: ClusterView, grants: Grants) -> Values:
        """Return the worths of all sizes, with those of the jobs that have arrived since the last call."""
        if self._values.worth.shape != grants.sizes.shape:
            self._valued, self._values = 0, _empty(grants, self.rule)
        for job in range(self._valued, self._known):
            last = int(grants.last[job])
            sizes, speeds = grants.sizes[job, : last + 1], grants.rates[job, : last + 1] / grants.rates[job, 1]
            self._values.worth[job, :last] = worths(sizes, speeds, self.rule)
        self._valued = self._known
        return self._values


def worths(sizes: np.ndarray, speeds: np.ndarray, weights: SizeWeights) -> np.ndarray:
    """Return the worth of one more GPU to a job on each of its sizes but the last, without the factors of the job.

    Parameters
    ----------
    sizes : int [S], 0 and the sizes of the job, ascending
    speeds : float64 [S], relative to the smallest size; 0 at first
    """
    gains = (speeds[None, :] - speeds[:-1, None]) / np.where(
        np.tri(len(sizes) - 1, len(sizes), dtype=bool), 1, sizes[None, :] - sizes[:-1, None]
    )
    best: np.ndarray = np.where(np.tri(len(sizes) - 1, len(sizes), dtype=bool), -np.inf, gains).max(axis=1)
    factors = arrays.exp(-weights.spread * arrays.log(np.maximum(sizes[:-1], 1).astype(float)))
    factors[0] = float(arrays.exp([weights.start])[0])
    return best * factors


def _empty(grants: Grants, weights: SizeWeights) -> Values:
    known = grants.sizes.shape[0]
    return Values(
        worth=np.zeros(grants.sizes.shape),
        held=np.zeros(known, np.int32),
        keep=arrays.exp([weights.keep]),
        value=np.zeros(known),
    )
