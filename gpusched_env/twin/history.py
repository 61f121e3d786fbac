"""Run times and arrivals of the past, from which forecasts draw those of the future, and how alike run times are.

People submit many similar jobs at once. If the run times of a queue were drawn independently, their errors would cancel
out, and the starts of the last jobs of a long queue would seem to be known within a few per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.problem.workload import Workload

Array = np.ndarray


def batches(user: Array, submitted_s: Array, day_s: float) -> Array:
    """int64 [J]: number of the batch of each job, which is one user's jobs of one day."""
    who = np.unique(user, return_inverse=True)[1]
    day = np.unique(np.floor(submitted_s / day_s), return_inverse=True)[1]
    found: Array = np.unique(who * (day.max(initial=0) + 1) + day, return_inverse=True)[1]
    return found


def likeness(batch: Array, submitted_s: Array, group: Array, run_s: Array, least: int) -> float:
    """Return the probability with which a job has the rank of its batch, 0..1.

    Ranks are those of run times within a group, as numbers of 0..1. If each job has the rank of its batch with
    probability p and else one of its own, ranks of two jobs of a batch have the correlation p x p. It is measured on
    jobs of a batch that were submitted one after the other, which are the most alike.

    Only groups with at least ``least`` jobs count; ``run_s`` may be in parts of the time limit.
    """
    order = np.lexsort((run_s, group))
    begins = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0])
    count = np.diff(np.r_[begins, len(order)])
    size = np.empty(len(order), np.int64)
    rank = np.empty(len(order))
    size[order] = np.repeat(count, count)
    rank[order] = (np.arange(len(order)) - np.repeat(begins, count) + 0.5) / np.repeat(count, count) - 0.5
    after = np.lexsort((submitted_s, batch))
    first, second = after[:-1], after[1:]
    pairs = (batch[first] == batch[second]) & (size[first] >= least) & (size[second] >= least)
    if not pairs.any():
        return 0.0
    correlation = 12.0 * arrays.total((rank[first] * rank[second])[pairs]) / int(pairs.sum())  # 1 / 12 is the variance
    return math.sqrt(min(max(correlation, 0.0), 1.0))


def alike(rng: np.random.Generator, batch: Array, part: float) -> Array:
    """float64 [J]: numbers of 0..1, where each job has that of its batch with the probability ``part``."""
    own, chosen = rng.random(len(batch)), rng.random(len(batch)) < part
    shared = rng.random(int(batch.max(initial=-1)) + 1)
    return np.where(chosen, shared[batch], own) if len(batch) else own


USER: Final = "user"  # attribute: name of the user of each job
LEAST: Final = 20  # run times that a group needs, so that a job draws from it
DAY_S: Final = 86_400.0  # [s]
WEEK: Final = 7  # [day]
MOST_WEEKS: Final = 8  # of arrivals that are drawn
SHORTEST_S: Final = 1.0  # [s] shortest remaining time of a running job


def bucket(limit_s: Array) -> Array:
    """int64: the time limits from 2^(k-1) to 2^k minutes are bucket k; -1 = no limit."""
    minutes = np.where(np.isnan(limit_s), 0.0, limit_s) / 60.0
    return np.where(np.isnan(limit_s), -1, np.maximum(np.frexp(minutes)[1], 0)).astype(np.int64)


@dataclass(frozen=True)
class Asked:
    """What is known of jobs whose run times are drawn.

    Parameters
    ----------
    user : str [J]
    limit_s : float64 [J], time limit [s]; NaN = none
    age_s : float64 [J], time for which the job has run [s]; 0 = it has not started
    """

    user: Array
    limit_s: Array
    age_s: Array


@dataclass(frozen=True)
class Choices:
    """The run times from which each job draws: ``runs[first : last]``, times ``scale``.

    ``runs`` : run times [s] or parts of the time limit, ascending within each group; ``otherwise_s`` : total run time
    of a job that has run longer than every past job, NaN = its age and a uniform part of it.
    """

    runs: Array
    first: Array
    last: Array
    scale: Array
    age_s: Array
    otherwise_s: Array

    def draw(self, uniform: Array) -> Array:
        """float64 [J]: total run time of each job [s], from a number of 0..1 for each."""
        count = self.last - self.first
        at = self.first + np.minimum((uniform * count).astype(np.int64), np.maximum(count - 1, 0))
        drawn = self.runs[np.minimum(at, len(self.runs) - 1)] * self.scale
        beyond = np.where(np.isnan(self.otherwise_s), self.age_s * (1.0 + uniform), self.otherwise_s)
        return np.maximum(np.where(count > 0, drawn, beyond), self.age_s + SHORTEST_S)


@dataclass(frozen=True)
class History:
    """Jobs that have ended.

    Run times are drawn from the first of these groups that has at least LEAST run times above the job's age: jobs of
    the same user whose time limits lie in the same bucket (a factor of 2), all jobs of the user, all jobs with limits
    in this bucket, all jobs. If no group has as many, the last one that has any is used. Where the limits lie in one
    bucket, the part of the limit that the job used is drawn.

    ``workload`` : ``duration_s`` is the run time, ``estimate_s`` the limit, the attribute USER the user. ``origin_s`` :
    time 0 as seconds since a Thursday at 0:00 (such as 1970-01-01).
    """

    workload: Workload
    origin_s: float = 0.0
    _groups: dict[tuple[str, int], tuple[int, int]] = field(init=False, repr=False, default_factory=dict)
    _runs: Array = field(init=False, repr=False, default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        """Sort the run times within each group."""
        jobs = self.workload.jobs
        if not len(jobs) or np.isnan(jobs["duration_s"]).any():
            raise GpuschedError(f"history {self.workload.name!r}: each job needs a run time in seconds")
        users = users_of(self.workload)
        buckets = bucket(jobs["estimate_s"])
        seconds = jobs["duration_s"]
        part = np.where(buckets < 0, seconds, seconds / jobs["estimate_s"])
        names, of_user = np.unique(users, return_inverse=True)
        levels = (  # user ("" = any), bucket (-2 = any), values
            (of_user, buckets, part),
            (of_user, np.full(len(jobs), -2), seconds),
            (np.full(len(jobs), -1), buckets, part),
            (np.full(len(jobs), -1), np.full(len(jobs), -2), seconds),
        )
        begin, runs = 0, []
        for who, which, values in levels:
            order = np.lexsort((values, which, who))
            user, limits = who[order], which[order]
            starts = np.flatnonzero(np.r_[True, (user[1:] != user[:-1]) | (limits[1:] != limits[:-1])])
            ends = np.r_[starts[1:], len(jobs)]
            for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
                name = "*" if user[first] < 0 else f"={names[user[first]]}"
                self._groups[name, int(limits[first])] = (begin + first, begin + last)
            runs.append(values[order])
            begin += len(jobs)
        object.__setattr__(self, "_runs", np.concatenate(runs))

    @cached_property
    def likeness(self) -> float:
        """Probability with which a job has the rank of its user's other jobs of the day; see likeness.py."""
        jobs, users = self.workload.jobs, users_of(self.workload)
        buckets = bucket(jobs["estimate_s"])
        who = np.unique(users, return_inverse=True)[1]
        used = jobs["duration_s"] / np.where(buckets < 0, 1.0, jobs["estimate_s"])
        submitted_s = jobs["arrival_s"] + self.origin_s
        return likeness(
            batches(users, submitted_s, DAY_S), submitted_s, who * (buckets.max() + 2) + buckets, used, LEAST
        )

    def choices(self, asked: Asked) -> Choices:
        """Return the run times from which each job draws."""
        buckets = bucket(asked.limit_s)
        first, last = np.zeros(len(buckets), np.int64), np.zeros(len(buckets), np.int64)
        scale = np.ones(len(buckets))
        known: dict[tuple[str, int, float], tuple[int, int]] = {}
        for row, (user, at, limit, age) in enumerate(
            zip(asked.user.tolist(), buckets.tolist(), asked.limit_s.tolist(), asked.age_s.tolist(), strict=True)
        ):
            for name, which in ((f"={user}", at), (f"={user}", -2), ("*", at), ("*", -2)):
                times = limit if which >= 0 else 1.0
                key = (name, which, age / times)
                if key not in known:
                    known[key] = self._above(name, which, age / times)
                low, high = known[key]
                if high - low > 0:
                    first[row], last[row], scale[row] = low, high, times
                if high - low >= LEAST:
                    break
        beyond = np.where(asked.limit_s > asked.age_s, asked.limit_s, np.nan)
        return Choices(self._runs, first, last, scale, asked.age_s, beyond)

    def _above(self, name: str, which: int, age: float) -> tuple[int, int]:
        """Return the part of a group that lies above an age; (0, 0) = there is no such group."""
        begin, end = self._groups.get((name, which), (0, 0))
        return begin + int(np.searchsorted(self._runs[begin:end], age, side="right")) if age > 0 else begin, end


def drawn_arrivals(arrival_s: Array, now_s: float, horizon_s: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw future arrivals: each day of the future is the same day of a random week of the past.

    Returns rows of ``arrival_s``, and their arrivals after ``now_s`` [s], ascending. A day for which the past has no
    such week is the latest day of the past; without a whole day of the past, nobody arrives.
    """
    order = np.argsort(arrival_s, kind="stable")
    sorted_s = arrival_s[order]
    begin_s = float(sorted_s[0])
    rows, times = [], []
    for day in range(math.ceil(horizon_s / DAY_S)):
        least = day // WEEK + 1  # weeks back, so that the whole day has passed
        most = int((now_s + day * DAY_S - begin_s) // (WEEK * DAY_S))
        if most >= least:
            back = WEEK * int(rng.integers(least, min(most, least + MOST_WEEKS - 1) + 1))
        else:
            back = day + 1
            if now_s - DAY_S < begin_s:
                continue
        source_s = now_s + (day - back) * DAY_S
        first, last = np.searchsorted(sorted_s, [source_s, source_s + DAY_S])
        rows.append(order[first:last])
        times.append(sorted_s[first:last] - source_s + day * DAY_S)
    if not rows:
        return np.empty(0, np.int64), np.empty(0)
    all_rows, all_times = np.concatenate(rows), np.concatenate(times)
    early = all_times < horizon_s
    return all_rows[early], all_times[early]


def users_of(workload: Workload) -> Array:
    """Str [J]: user of each job; empty texts if the log names none."""
    names = workload.attributes.get(USER)
    return np.full(len(workload), "") if names is None else names.astype(str)
