"""Compare a workload with a log: measure the statistics that describe the log, and check them against bounds.

The bounds are meant for medians over many draws of 50,000 jobs. A single draw, or a part of a log, may exceed them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.generators.bursty import HOUR, WEEK
from gpusched_env.traces.generators.calibration import CLASS_NAMES, RUN_TIME_RANKS, Calibration, demand_class
from gpusched_env.traces.generators.synthetic import CALIBRATIONS, generate_workload

Measured = dict[str, np.ndarray]


class Bound(NamedTuple):
    """Bound on the deviation of a measured statistic from the log's value.

    The deviation is "relative", "absolute" or a "factor"; "at most" and "at least" bound the measured value itself.
    """

    kind: str
    size: float

    def distance(self, measured: float, log: float) -> float:
        """Return the signed deviation from the log's value in units of the bound; the bound is met from -1 to 1."""
        if self.kind == "factor":
            return math.log(measured / log, self.size) if measured > 0 else -math.inf
        if self.kind == "at most":
            return measured / self.size
        if self.kind == "at least":
            return (measured - log) / (log - self.size)
        return (measured - log) / (self.size * (abs(log) if self.kind == "relative" else 1.0))

    def __str__(self) -> str:
        """Format the bound for a table."""
        signs = {"relative": f"± {self.size:.0%}", "absolute": f"± {self.size:g}"}
        return signs.get(self.kind, f"{self.kind} {self.size:g}")


class Check(NamedTuple):
    """A statistic of a workload, its value in the log, and the bound on their difference.

    If the workload lacks the statistic, ``measured`` is NaN and ``passed`` is None.
    """

    name: str
    measured: float
    log: float
    bound: Bound

    @property
    def distance(self) -> float:
        """Signed deviation of ``measured`` from the log's value, in units of the bound."""
        return self.bound.distance(self.measured, self.log)

    @property
    def passed(self) -> bool | None:
        """Whether the bound is met; None if the workload lacks the statistic."""
        return None if math.isnan(self.measured) else abs(self.distance) <= 1


# Statistics of arrivals and demand, each as (name in a table, field of LogStatistics, bound)
PLAIN: Final = (
    ("jobs per hour", "jobs_per_hour", Bound("relative", 0.05)),
    ("cv of gaps", "gap_cv", Bound("factor", 2)),
    ("gaps up to 10 s", "gaps_to_10s", Bound("absolute", 0.08)),
    ("dispersion of hourly counts", "dispersion", Bound("factor", 2)),
    ("same demand within 10 s", "same_demand", Bound("absolute", 0.05)),
    ("GPUs demanded at once", "gpus_demanded", Bound("relative", 0.10)),
)
QUANTILES: Final = {0.5: Bound("relative", 0.10), 0.9: Bound("relative", 0.20), 0.99: Bound("relative", 0.35)}


def measure(workload: Workload, calibration: Calibration | None, start_hour: float = math.nan) -> Measured:
    """Measure the statistics of a workload; a statistic is NaN if the workload has too few jobs or no run times.

    ``ks`` is the largest difference between the cumulative distributions of run times of workload and log, at the log's
    quantiles. ``start_hour`` is the hour of the week, from Monday 0 h, at the workload's time 0; NaN = unknown. The
    other statistics are fields of LogStatistics, ``quantiles`` [s] and ``hour_of_day`` (arrivals / their mean).
    """
    jobs = workload.jobs[np.argsort(workload.jobs["arrival_s"], kind="stable")]
    arrival, gpus, duration = jobs["arrival_s"], jobs["gpus"], jobs["duration_s"]
    gap, span, kind = np.diff(arrival), float(np.ptp(arrival)), demand_class(gpus)
    near = gap <= 10
    values: dict[str, object] = {
        "jobs_per_hour": _ratio(len(jobs) * HOUR, span),
        "gap_cv": _ratio(gap.std(), gap.mean()) if len(gap) else math.nan,
        "gaps_to_10s": _mean(near),
        "dispersion": _dispersion(arrival - arrival[0], int(span // HOUR)),
        "same_demand": _mean((gpus[1:] == gpus[:-1])[near]),
        "gpus_demanded": _ratio(float((gpus * duration).sum()), span),
        "class_share": np.bincount(kind, minlength=len(CLASS_NAMES)) / len(jobs),
        "class_mean": [_mean(duration[kind == k]) for k in range(len(CLASS_NAMES))],
        "quantiles": np.quantile(duration, list(QUANTILES)),
        "ks": math.nan if calibration is None else _distance(duration, calibration.statistics.run_time),
        "hour_of_day": _by_hour(arrival, start_hour),
    }
    return {name: np.asarray(value, float) for name, value in values.items()}


def measure_generator(name: str, seed: int = 0, jobs: int = 50_000, draws: int = 40, **parameters: Any) -> Measured:
    """Return the median of each statistic over ``draws`` draws of a calibrated generator.

    The draws have the seeds ``seed`` + i, and begin at hours that are spread evenly over the week. For ``hour_of_day``
    the mean is returned, because one draw is mostly noise.
    """
    if name not in CALIBRATIONS:
        raise WorkloadError(unknown_name("calibration", name, CALIBRATIONS))
    measured = []
    for draw in range(draws):
        begin = WEEK * draw / draws
        workload = generate_workload(name, seed + draw, jobs, start_hour=begin, **parameters)
        measured.append(measure(workload, CALIBRATIONS[name], begin))
    combine = {key: np.mean if key == "hour_of_day" else np.median for key in measured[0]}
    return {key: combine[key]([one[key] for one in measured], axis=0) for key in measured[0]}


def acceptance(measured: Measured, calibration: Calibration) -> list[Check]:
    """Check every statistic of ``measured`` against its bound."""
    log = calibration.statistics
    checks = [Check(name, float(measured[key]), getattr(log, key), bound) for name, key, bound in PLAIN]
    for rank, value, bound in zip(QUANTILES, measured["quantiles"], QUANTILES.values(), strict=True):
        published = log.run_time[RUN_TIME_RANKS.index(rank)]
        checks.append(Check(f"run time p{100 * rank:.0f} [s]", float(value), published, bound))
    checks.append(Check("KS to the log's run times", float(measured["ks"]), 0.0, Bound("at most", 0.03)))
    hours = measured["hour_of_day"]
    correlation = float(np.corrcoef(hours, calibration.hour_of_day)[0, 1]) if np.ptp(hours) > 0 else math.nan
    checks.append(Check("correlation of hours of the day", correlation, 1.0, Bound("at least", 0.95)))
    for title, key, bound in (
        ("share of {} GPU", "class_share", Bound("absolute", 0.01)),
        ("mean run time of {} GPU [s]", "class_mean", Bound("relative", 0.25)),
    ):
        by_class = dict(zip(CLASS_NAMES, measured[key].tolist(), strict=True))
        checks += [Check(title.format(name), by_class[name], x, bound) for name, x in getattr(log, key).items()]
    return checks


def _dispersion(arrival_s: np.ndarray, hours: int) -> float:
    """Return variance / mean of the number of arrivals per full hour; memory holds only hours that have arrivals."""
    if not hours:
        return math.nan
    counts = np.unique(arrival_s[arrival_s < hours * HOUR] // HOUR, return_counts=True)[1]
    mean = counts.sum() / hours
    return float((counts**2).sum() / hours - mean**2) / mean


def _distance(duration_s: np.ndarray, quantiles: Sequence[float]) -> float:
    if np.isnan(duration_s).any():
        return math.nan
    below = np.searchsorted(np.sort(duration_s), quantiles, side="right") / len(duration_s)
    known = np.asarray(quantiles) < duration_s.max()  # at a cut-off of run times, both distributions are trivially 1
    return float(np.abs(below - RUN_TIME_RANKS)[known].max(initial=0.0))


def _by_hour(arrival_s: np.ndarray, start_hour: float) -> np.ndarray:
    if math.isnan(start_hour):
        return np.full(24, math.nan)
    counts = np.bincount(((arrival_s / HOUR + start_hour) % 24).astype(np.int64), minlength=24)
    return counts / counts.mean()


def _ratio(value: float, by: float) -> float:
    return value / by if by > 0 else math.nan


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
