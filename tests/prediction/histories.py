"""Small random histories, and what the definitions of `predictors.md` predict in them, by a scan of all ended jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from gpusched_env.prediction import Known, find_predictor
from gpusched_env.problem.workload import Workload

NAN = math.nan


class Job(NamedTuple):
    arrival_s: float
    run_s: float
    gang: int
    user: str  # "" and "-1" = unknown
    name: str
    queue: str
    limit_s: float

    @property
    def end_s(self) -> float:
        return self.arrival_s + self.run_s


UNKNOWN = ("", "-1")
MOST = 6  # run times of a key whose median counts, instead of 50
jobs = st.builds(
    Job,
    st.integers(0, 40).map(float),  # few times: arrivals and ends often coincide
    st.sampled_from([1e-3, 1.0, 2.0, 5.0, 7.5, 20.0, 1e9]) | st.floats(1e-3, 1e9),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["", "-1", "ann", "bob"]),
    st.sampled_from(["", "-1", "train-a", "train-b", "tran-a", "eval", "x", "12", "121"]),
    st.sampled_from(["", "vc1", "vc2"]),
    st.sampled_from([NAN, 3.0, 10.0, 1e6]),
)
histories = st.lists(jobs, min_size=1, max_size=40).map(lambda found: sorted(found, key=lambda job: job.arrival_s))


def workload_of(history: list[Job]) -> Workload:
    columns = list(zip(*history, strict=True))
    texts = {name: np.array(columns[at]) for name, at in (("user", 3), ("name", 4), ("queue", 5))}
    return Workload.from_columns(columns[0], columns[2], columns[1], estimate_s=columns[6], attributes=texts)


def events(history: list[Job], ends_first: bool = False) -> list[tuple[float, int, int]]:
    """(time, kind, row) of arrivals and ends at zero wait; a job without a run time does not end."""
    found = [(job.arrival_s, int(ends_first), row) for row, job in enumerate(history)]
    found += [(job.end_s, 1 - int(ends_first), row) for row, job in enumerate(history) if not math.isnan(job.run_s)]
    return [(at, kind ^ int(ends_first), row) for at, kind, row in sorted(found)]


def played(name: str, history: list[Job], of: list[Job] | None = None, ends_first: bool = False) -> list[float]:
    """The predictions of a registered predictor; ``of`` = the jobs with run times, if they are taken away."""
    predictor = find_predictor(name)(Known.of(workload_of(of or history)))
    found = [NAN] * len(history)
    for _, kind, row in events(history, ends_first):
        job = history[row]
        if kind:
            predictor.end(row, job.run_s, job.run_s >= job.limit_s)
        else:
            found[row] = predictor.predict(row)
    return found


def expected(reference: Callable[[list[Job], Job], float], history: list[Job]) -> list[float]:
    """The predictions of a reference: a function of the ended jobs, in the order of their ends, and a job."""
    ended: list[Job] = []
    found = [NAN] * len(history)
    for _, kind, row in events(history):
        if kind:
            ended.append(history[row])
        else:
            found[row] = reference(ended, history[row])
    return found


def alike(ended: list[Job], job: Job, *columns: str) -> list[Job] | None:
    """The ended jobs with the same columns; None = the job does not tell one."""
    if any(getattr(job, column) in UNKNOWN for column in columns):
        return None
    return [one for one in ended if all(getattr(one, column) == getattr(job, column) for column in columns)]


KEYS = (("user", "name", "gang"), ("user", "gang"), ("user",), ("queue", "gang"), ("gang",), ())


def by_key(ended: list[Job], job: Job) -> list[list[float]]:
    """Run times of each key with at least 3 entries, the narrowest key first; fewer are none."""
    found = (alike(ended, job, *key) or [] for key in KEYS)
    return [[other.run_s for other in one] if len(one) >= 3 else [] for one in found]


def statistics(ended: list[Job], job: Job) -> list[float]:
    """The median of the last run times of each key."""
    return [float(np.quantile(runs[-MOST:], 0.5)) if runs else NAN for runs in by_key(ended, job)]


def median(ended: list[Job], job: Job) -> float:
    return next((one for one in statistics(ended, job) if not math.isnan(one)), NAN)


def recency(ended: list[Job], job: Job) -> float:
    runs = next((one for one in by_key(ended, job) if one), None)
    if runs is None:
        return NAN
    weights = [2.0 ** (-age / 5.0) for age in reversed(range(len(runs)))]
    return math.exp(sum(w * math.log(x) for w, x in zip(weights, runs, strict=True)) / sum(weights))


def recent_two(ended: list[Job], job: Job) -> float:
    own = alike(ended, job, "user") or []
    if len(own) < 2:
        return job.limit_s
    mean = (own[-1].run_s + own[-2].run_s) / 2
    return mean if math.isnan(job.limit_s) else min(mean, job.limit_s)


def similar(ended: list[Job], job: Job) -> list[str]:
    names = {one.name for one in ended} - set(UNKNOWN)
    if job.name in UNKNOWN or job.name in names or job.name.isdigit():
        return [job.name] if job.name in names else []
    ratios = sorted(((SequenceMatcher(None, one, job.name).ratio(), one) for one in names), reverse=True)
    return [one for ratio, one in ratios if ratio >= 0.6][:2]


def rolling(ended: list[Job], job: Job) -> float:
    """N of QSSF."""
    near = similar(ended, job)
    named = [one for one in ended if one.name in near]
    own = alike(named, job, "user") or []
    for found in ([one for one in own if one.gang == job.gang], own, named, alike(ended, job, "user") or [], ended):
        if found:
            return sum(one.run_s for one in found) / len(found)
    return NAN


BEGINS_S = [0.0, *(4.0 * 1.25**power for power in range(61))]  # of the levels of run time
MIDDLES_S = (np.array(BEGINS_S) + np.array([*BEGINS_S[1:], 1.25 * BEGINS_S[-1]])) / 2.0


def level(run_s: float) -> int:
    return sum(run_s >= begin - 1e-6 for begin in BEGINS_S) - 1


def nested_keys(job: Job) -> list[tuple[tuple[str, object], ...]]:
    """The keys of a job, from wide to narrow; one that a column does not narrow is not there."""
    told: list[tuple[str, object]] = [] if math.isnan(job.limit_s) else [("limit", level(job.limit_s))]
    columns = [(column, getattr(job, column)) for column in ("queue", "user", "gang", "name")]
    told += [(column, value) for column, value in columns if value not in UNKNOWN]
    return [tuple(told[:depth]) for depth in range(len(told) + 1)]


def nested_weights(runs: list[float], fade: float) -> np.ndarray:
    """Of the levels, of these run times in their order, smoothed."""
    weights = np.zeros(len(BEGINS_S) + 4)  # two levels more at either side, which are lost
    for run_s in runs:
        at = level(run_s)
        weights *= fade
        weights[at : at + 5] += np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9.0
    return weights[2:-2]


def nested_shares(ended: list[Job], job: Job, exist: Container[object] | None = None) -> np.ndarray:
    """The distribution of the narrowest key of a job, of the keys that exist; None = all do."""
    shares = np.full(len(BEGINS_S), 1.0 / len(BEGINS_S))
    for key in nested_keys(job):
        if exist is None or key in exist:
            weights = nested_weights([one.run_s for one in ended if key in nested_keys(one)], 0.95 if key else 1.0)
            shares = weights + (8.0 if key else 50.0) * shares
            shares = shares / shares.sum()
    return shares


def nested(ended: list[Job], job: Job, exist: Container[object] | None = None) -> float:
    return float(nested_shares(ended, job, exist) @ MIDDLES_S) if ended else NAN


REFERENCES = {
    "none": lambda ended, job: NAN,
    "limit": lambda ended, job: job.limit_s,
    "quantile": median,
    "recency": recency,
    "recent-two": recent_two,
    "nested": nested,
}
