"""Statistics of a cluster log that a bursty generator needs; the values of each log are in ``calibrations/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp, log

if TYPE_CHECKING:
    from gpusched_env.traces.generators.bursty_kernels import LogTables

# Upper bounds of the demand classes 1, 2, 3-4, 5-7, 8, 9-16, 17-32, 33-64, > 64 [GPU]
CLASS_NAMES: Final = ("1", "2", "3-4", "5-7", "8", "9-16", "17-32", "33-64", ">64")
CLASS_BOUNDS: Final = (1, 2, 4, 7, 8, 16, 32, 64)


# Probabilities of the quantiles in LogStatistics.run_time
RUN_TIME_RANKS: Final = (
    0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999,
)  # fmt: skip


@dataclass(frozen=True)
class LogStatistics:
    """Statistics of a log that a workload drawn from its calibration must match.

    Parameters
    ----------
    jobs_per_hour : number of jobs / span from the first to the last arrival [1/h]
    gap_cv : coefficient of variation of the gaps between consecutive arrivals
    gaps_to_10s : share of these gaps that are at most 10 s
    dispersion : variance / mean of the number of arrivals per full hour
    same_demand : share of jobs with the same demand as their predecessor, among those that arrive at most 10 s after it
    gpus_demanded : sum of gang size x run time over all jobs / span [GPU]
    run_time : quantiles of all run times at RUN_TIME_RANKS [s]
    class_share : demand class -> share of the jobs
    class_mean : demand class -> mean run time, for the classes with at least 500 jobs [s]
    """

    jobs_per_hour: float
    gap_cv: float
    gaps_to_10s: float
    dispersion: float
    same_demand: float
    gpus_demanded: float
    run_time: Sequence[float]
    class_share: Mapping[str, float]
    class_mean: Mapping[str, float]


@dataclass(frozen=True)
class Calibration:
    """Parameters of a bursty generator, estimated from one log.

    Parameters
    ----------
    log : name of the log and its jobs from which the parameters were estimated
    bursts_per_hour : mean rate of bursts; a burst is a sequence of jobs that arrive less than 60 s apart
    modulation_sigma, modulation_phi : standard deviation of z and its correlation from one hour to the next, where
        exp(z) is a factor of the rate
    hour_of_day, day_of_week : factors of the rate, with mean 1; hours 0-23 of the log's local time, days from Monday
    burst_size : quantiles (probability, number of jobs) of the burst size
    burst_gap : quantiles (probability, seconds) of the gaps inside a burst
    keep_demand : probability that a job in a burst repeats its predecessor's demand
    keep_run_time : probability that a job in a burst repeats its predecessor's run time, given the same demand class
    demand : gang size [GPU] -> probability
    run_time : demand class -> quantiles (probability, seconds) of the run time
    statistics : statistics of the same jobs of the log, with which drawn jobs are compared
    """

    log: str
    bursts_per_hour: float
    modulation_sigma: float
    modulation_phi: float
    hour_of_day: Sequence[float]
    day_of_week: Sequence[float]
    burst_size: Sequence[tuple[float, float]]
    burst_gap: Sequence[tuple[float, float]]
    keep_demand: float
    keep_run_time: float
    demand: Mapping[int, float]
    run_time: Mapping[str, Sequence[tuple[float, float]]]
    statistics: LogStatistics

    @cached_property
    def hourly_rate(self) -> np.ndarray:
        """Expected number of bursts in each hour of the week, from Monday 0 h; float64 [168]."""
        factor: np.ndarray = np.outer(self.day_of_week, self.hour_of_day).reshape(-1)
        rate: np.ndarray = self.bursts_per_hour * factor / arrays.mean(factor)
        return rate

    @cached_property
    def tables(self) -> LogTables:
        """Tables that kernels read, read-only; a class that the log lacks has the run times of the nearest one."""
        from gpusched_env.traces.generators.bursty_kernels import LogTables

        known = [index for index, name in enumerate(CLASS_NAMES) if name in self.run_time]
        nearest = [min(known, key=lambda other: abs(other - index)) for index in range(len(CLASS_NAMES))]
        times = [_log_table(self.run_time[CLASS_NAMES[index]]) for index in nearest]
        size_probability, log_size = _log_table(self.burst_size)
        gap_probability, gap_s = np.array(self.burst_gap, float).T.copy()
        time_probability, log_time = (np.concatenate(columns) for columns in zip(*times, strict=True))
        tables = {
            "weekly": self.hourly_rate,
            "size_probability": size_probability,
            "log_size": log_size,
            "gap_probability": gap_probability,
            "gap_s": gap_s,
            "begin": np.cumsum([0, *(len(probability) for probability, _ in times)]),
            "time_probability": time_probability,
            "log_time": log_time,
        }
        for table in tables.values():
            table.flags.writeable = False
        return LogTables(**tables)

    @cached_property
    def longest_s(self) -> float:
        """Longest run time of the log [s]."""
        return exp(max(_log_table(table)[1][-1] for table in self.run_time.values()))


def demand_class(gpus: np.ndarray) -> np.ndarray:
    """Return the index into CLASS_NAMES of each demand; int64, with the shape of ``gpus``."""
    return np.searchsorted(CLASS_BOUNDS, gpus)


def _log_table(quantiles: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(quantiles, float)
    return table[:, 0].copy(), np.array([log(value) for value in table[:, 1].tolist()])


@cache
def read_calibration(name: str) -> Calibration:
    """Read a file of ``calibrations/``, whose ``about`` says from where and how its numbers were made."""
    text = (Path(__file__).parent / "calibrations" / f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=Calibration)
