"""Failures of nodes as data: rates, repairs, lemon nodes, bursts, a file of outages; and the outages of a seed."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.portable import arrays, draws, elementary
from gpusched_env.problem.checkpoints import INTERVALS
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.outages import OUTAGE_DTYPE, SHORTEST_INTERVAL_S, Outages, recovery_of
from gpusched_env.problem.partitions import Partition, nodes_of
from gpusched_env.problem.workload import CHECKPOINT_INTERVAL, Workload
from gpusched_env.sharing.csv_pairs import number_of, pair_rows, text_of
from gpusched_env.support.files import file_digest, toml_beside
from gpusched_env.support.plain_data import set_fields
from gpusched_env.support.units import LATEST_S

if TYPE_CHECKING:
    from gpusched_env.problem.instance import Instance

__all__ = ["Burst", "Failures"]

DAY_S: Final = 86_400.0  # [s]
SLACK: Final = 10.0  # horizon / time in which the jobs could be done without a failure
MOST_DRAWS: Final = 2_000_000  # failures of the part that fails most x (nodes + PER_ROUND); more are a typing error
PER_ROUND: Final = 400  # nodes for which numbers are drawn in the time that one call takes
NEVER: Final = 1e-200  # [1/s] a rate at which nothing fails
FAILURE_PRESETS: Final = toml_beside(__file__)
_DRAW: Final = 0xFA11  # separates these draws from others with the same seed


@dataclass(frozen=True)
class Renewal:
    """Parts that fail and are repaired, independently of each other; a repaired part is as good as new.

    Parameters
    ----------
    rate : failures of 1,000 parts in a day of work; 0 = none
    shape : shape of the Weibull distribution of the time from a repair to the next failure; 1 = exponential, less =
        failures follow each other, more = wear. Its mean follows from the rate
    repair_s : mean time of a repair [s]
    repair_sigma : standard deviation of its logarithm (lognormal); 0 = each repair takes ``repair_s``

    Raises
    ------
    ScenarioError : a number that is out of range
    """

    RANGES: ClassVar = {"rate": (0, 1e9), "shape": (0.1, 100), "repair_s": (0, LATEST_S), "repair_sigma": (0, 5)}

    rate: float = 4.0
    shape: float = 1.0
    repair_s: float = 7_200.0
    repair_sigma: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, (least, most) in self.RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                where = f"{type(self).__name__.lower()}.{name}"
                raise ScenarioError(f"{where} is {value!r}: give a number from {least:g} to {most:g}")

    def outages(
        self, rng: np.random.Generator, cause: int, part: np.ndarray, factor: np.ndarray, horizon_s: float
    ) -> Iterator[np.ndarray]:
        """Yield OUTAGE_DTYPE: the outages before the horizon of the nodes, whose parts are ``part``, in any order.

        ``factor`` : float64 [parts], multiple of the rate for each part. Numbers are drawn for all parts each time, so
        outages do not depend on the horizon.
        """
        rates = self.rate / (1_000 * DAY_S) * factor
        scale_s = 1.0 / np.maximum(rates * _gamma(1.0 + 1.0 / self.shape), NEVER)
        most = MOST_DRAWS // (len(part) + PER_ROUND)
        expected = self._expected(float(scale_s.min()), horizon_s) if self.rate else 0.0
        if expected > most:
            raise ScenarioError(
                f"{type(self).__name__.lower()}: rate {self.rate:g}, shape {self.shape:g} and repair_s "
                f"{self.repair_s:g} let the part that fails most fail about {expected:.2g} times in {horizon_s:.3g} s, "
                f"but {most:,} times is the limit for {len(part)} nodes: lower the rate or lemon_factor, raise shape "
                "or repair_s, lower repair_sigma, or set until_s"
            )
        end_s = np.zeros(len(rates))
        while (end_s < horizon_s).any() and self.rate:
            start_s = end_s + scale_s * arrays.power(draws.exponential(rng, len(rates)), 1.0 / self.shape)
            spread = self.repair_sigma * draws.normal(rng, len(rates)) - self.repair_sigma**2 / 2
            end_s = start_s + self.repair_s * arrays.exp(spread)
            down = (rng.random(len(part)) < getattr(self, "share", 1.0)) & (start_s < horizon_s)[part]
            rows = np.zeros(int(down.sum()), OUTAGE_DTYPE)
            rows["node"], rows["cause"] = np.flatnonzero(down), cause
            rows["start_s"], rows["end_s"] = start_s[part[down]], end_s[part[down]]
            yield rows

    def _expected(self, scale_s: float, horizon_s: float) -> float:
        """Return the expected failures of a part before the horizon, to a factor of 4: the horizon / E[min(cycle, it)].

        K. B. Erickson, "The strong law of large numbers when the mean is undefined", Trans. AMS 185, 1973: the
        number of renewals, the first included, is 1 to 2 times this ratio. For the cycle, the expectations of its two
        parts are added. Both integrals are sums over midpoints.
        """
        hazard, normal = np.arange(0.015, 60.0, 0.03), np.arange(-7.995, 8.0, 0.01)
        work_s = np.minimum(scale_s * arrays.power(hazard, 1.0 / self.shape), horizon_s)
        spread = arrays.exp(self.repair_sigma * normal - self.repair_sigma**2 / 2)
        repair_s = np.minimum(self.repair_s * spread, horizon_s)
        density = 0.01 / math.sqrt(2 * math.pi) * arrays.exp(-normal * normal / 2)
        mean_s = arrays.total(0.03 * arrays.exp(-hazard) * work_s) + arrays.total(density * repair_s)
        return horizon_s / max(mean_s, NEVER)


@dataclass(frozen=True)
class Burst(Renewal):
    """A kind of shared part, such as a leaf switch or a power supply, whose failure takes nodes down together.

    Parameters
    ----------
    name : cause of the outages
    nodes : number of consecutive nodes that depend on one part; 0 = the nodes of a rack
    share : probability that a failure takes a node down that depends on the part; nodes go down independently
    """

    RANGES: ClassVar = {**Renewal.RANGES, "nodes": (0, 10**6), "share": (0, 1)}

    name: str = "burst"
    nodes: int = 0
    share: float = 1.0


@dataclass(frozen=True)
class Failures(Renewal):
    """How the nodes of a scenario fail. The fields of a renewal are those of single nodes.

    Parameters
    ----------
    lemon_share : share of the nodes that fail more often; ``rate`` remains the mean over all nodes
    lemon_factor : rate of such a node / rate of another one
    bursts : failures that nodes share
    path : CSV of further outages with the columns ``node`` (numbers such as ``3`` or ``0-3,8``), ``start_s``, ``end_s``
        (empty = for ever) and, if wanted, ``cause``; a relative path starts at the working directory
    checkpoints : "daly" or "young" = jobs that name no ``checkpoint_interval_s`` save after this interval, by the size
        of their gang; empty = after that of the scenario's semantics
    until_s : time up to which failures are drawn, at which the run ends at the latest [s]; None = the time limit of
        the scenario, or SLACK x (last arrival + GPU time of all jobs / GPUs + longest job), by their ideal run times
    """

    RANGES: ClassVar = {**Renewal.RANGES, "lemon_share": (0, 1), "lemon_factor": (1, 1e6)}

    lemon_share: float = 0.0
    lemon_factor: float = 1.0
    bursts: tuple[Burst, ...] = ()
    path: str = ""
    checkpoints: str = ""
    until_s: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if self.checkpoints and self.checkpoints not in INTERVALS:
            raise ScenarioError(f"failures.checkpoints: {unknown_name('interval', self.checkpoints, INTERVALS)}")
        if self.until_s is not None and not 0 < self.until_s <= LATEST_S:
            raise ScenarioError(f"failures.until_s is {self.until_s!r}: give seconds > 0, at most {LATEST_S:g}")

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Return the failures of a preset (FAILURE_PRESETS), with some fields changed."""
        if name not in FAILURE_PRESETS:
            raise ScenarioError(f"failures: {unknown_name('preset of failures', name, FAILURE_PRESETS)}")
        fields = {field: value for field, value in FAILURE_PRESETS[name].items() if field != "source"}
        return cls(**fields | changes)

    def horizon_s(self, instance: Instance) -> float:
        """Return the time at which a run of this instance ends at the latest [s], as the field ``until_s`` says."""
        limit_s = instance.semantics.time_limit_s
        if self.until_s is not None or math.isfinite(limit_s):
            return min(limit_s, self.until_s or math.inf)
        jobs, run_s = instance.workload.jobs, instance.ideal_s
        gpu_s = arrays.total(jobs["gpus"] * run_s) / instance.cluster.gpus
        return min(SLACK * (float(jobs["arrival_s"].max()) + gpu_s + float(run_s.max())), LATEST_S)

    def apply(self, instance: Instance, seed: int) -> Instance:
        """Return an instance with the outages of a seed, whose runs end at the horizon, before outages run out."""
        found, limit_s = copy.copy(instance), self.horizon_s(instance)
        found.semantics = dataclasses.replace(instance.semantics, time_limit_s=limit_s)
        found.outages = self.draw(seed, instance.cluster, limit_s)
        if self.checkpoints:
            found.workload = self._with_intervals(found)
        found._recovery = recovery_of(found.workload, found.semantics)
        return found

    def between_s(self, gpus: np.ndarray, cluster: Cluster) -> np.ndarray:
        """float64 [s]: mean time between failures of gangs of ``gpus`` GPUs on few nodes, without a file."""
        nodes = np.ceil(gpus / int(cluster.nodes["gpus"].max()))
        rates = nodes * self.rate
        for burst in self.bursts:
            of_part = burst.nodes or int(cluster.racks["nodes"].max())
            untouched = arrays.power(1.0 - burst.share, np.minimum(nodes, of_part))
            rates = rates + np.ceil(nodes / of_part) * burst.rate * (1.0 - untouched)
        seconds: np.ndarray = 1_000 * DAY_S / np.maximum(rates, NEVER)
        return seconds

    def _with_intervals(self, instance: Instance) -> Workload:
        """Return the jobs with the intervals of ``checkpoints``."""
        workload, jobs = instance.workload, instance.workload.jobs
        rules = dataclasses.replace(instance.semantics, checkpoint_interval_s=SHORTEST_INTERVAL_S)
        told = recovery_of(workload, rules)
        if not told.cost_s.min() > 0:
            raise ScenarioError(
                "failures.checkpoints: checkpoints that take no time have no best interval; set "
                "semantics.checkpoint_cost_s"
            )
        interval_s = INTERVALS[self.checkpoints](self.between_s(jobs["gpus"], instance.cluster), told.cost_s)
        own = np.full(len(jobs), np.nan)
        if CHECKPOINT_INTERVAL in workload.attributes:
            own = workload.told(CHECKPOINT_INTERVAL)
        interval_s = np.where(np.isnan(own), np.maximum(interval_s, SHORTEST_INTERVAL_S), own)
        return dataclasses.replace(workload, attributes={**workload.attributes, CHECKPOINT_INTERVAL: interval_s})

    def draw(self, seed: int, cluster: Cluster, horizon_s: float) -> Outages:
        """Draw the outages of a seed that begin before the horizon [s].

        They depend on nothing but the seed, the nodes and racks, and these fields. A longer horizon adds outages, and
        lemons, bursts or a file do not change the other draws.

        Raises
        ------
        ScenarioError : a part fails too often to be drawn (MOST_DRAWS), or a file that cannot be read
        """
        nodes = np.arange(len(cluster.nodes))
        rng = np.random.default_rng([_DRAW, seed])
        lemons = rng.permutation(len(nodes))[: round(self.lemon_share * len(nodes))]
        factor = np.ones(len(nodes))
        factor[lemons] = self.lemon_factor
        factor *= len(nodes) / arrays.total(factor)
        parts = [np.empty(0, OUTAGE_DTYPE), *self.outages(rng, 0, nodes, factor, horizon_s)]
        for number, burst in enumerate(self.bursts, 1):
            part = nodes // burst.nodes if burst.nodes else cluster.nodes["rack"]
            rng = np.random.default_rng([_DRAW, seed, number])
            parts += burst.outages(rng, number, part, np.ones(int(part.max()) + 1), horizon_s)
        causes = ["node", *(burst.name for burst in self.bursts)]
        if self.path:
            parts.append(np.array([*_read(Path(self.path), cluster, causes)], OUTAGE_DTYPE))
        return Outages.merged(np.concatenate(parts), tuple(causes))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; fields with their default values are left out, but not the rate."""
        bursts = {"bursts": [set_fields(burst, "rate") for burst in self.bursts]} if self.bursts else {}
        return set_fields(self, "rate") | bursts

    def identity(self) -> dict[str, Any]:
        """Return the data of :meth:`as_dict` with the SHA-256 of the file instead of its path, for fingerprints."""
        return self.as_dict() | ({"path": file_digest(Path(self.path), ScenarioError)} if self.path else {})


def _read(path: Path, cluster: Cluster, causes: list[str]) -> Iterator[tuple[int, float, float, int]]:
    """Yield the outages of a file; its causes are appended to ``causes``."""
    for place, row in pair_rows(path, ("node", "start_s", "end_s")):
        text = text_of(row, "node", place)
        try:
            nodes = nodes_of(Partition(place, text), cluster)
        except ScenarioError:
            wanted = f"numbers from 0 to {len(cluster.nodes) - 1}, such as 3 or 0-3,8"
            raise ScenarioError(f"{place}, field 'node': {text!r}: give {wanted}") from None
        seconds = f"seconds from 0 to {LATEST_S:g}"
        start_s = number_of(row, "start_s", place, most=LATEST_S, wanted=seconds)
        forever = f"{seconds}, or nothing if it never ends"
        end_s = number_of(row, "end_s", place, most=LATEST_S, wanted=forever) if row["end_s"] else math.inf
        if not start_s < end_s:
            raise ScenarioError(f"{place}, field 'end_s': {end_s:g} is not after start_s, {start_s:g}: give {forever}")
        if (cause := row.get("cause") or "file") not in causes:
            causes.append(cause)
        yield from ((node, start_s, end_s, causes.index(cause)) for node in np.flatnonzero(nodes).tolist())


def _gamma(x: float) -> float:
    """Return the gamma function for x >= 1, to 1e-12, by Stirling's series."""
    product = 1.0
    while x < 10.0:
        product, x = product * x, x + 1.0
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)
    return elementary.exp((x - 0.5) * elementary.log(x) - x + 0.5 * elementary.log(2 * math.pi) + series) / product
