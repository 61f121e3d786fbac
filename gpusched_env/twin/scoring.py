"""Replays of a log by a twin, and how well their waits agree with the recorded ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.event_log import RESUME
from gpusched_env.metrics import StepFunction, job_times
from gpusched_env.portable import arrays
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.twin.model import ALL, GroupScore, Score, Twin
from gpusched_env.twin.recorded import Recorded, used

HOUR_S: Final = 3600.0
SMALL_S: Final = 60.0  # waits well below this differ little in :func:`closeness`
NODES: Final = 4  # a size ends at a GPU, at a node, and at so many nodes


def size_names(gpus: np.ndarray, per_node: int) -> np.ndarray:
    """Return the size of each job: "1", "2-8", "9-32" or "33+" for nodes of 8 GPUs; str [J]."""
    ends = sorted({1, per_node, NODES * per_node})
    names = ["1", *(f"{a + 1}-{b}" for a, b in pairwise(ends)), f"{ends[-1] + 1}+"]
    return np.array(names)[np.searchsorted(ends, gpus)]


def closeness(recorded_s: np.ndarray, predicted_s: np.ndarray) -> float:
    """Return the mean of :func:`off` over jobs."""
    return arrays.mean(off(recorded_s, predicted_s))


def off(recorded_s: np.ndarray, predicted_s: np.ndarray) -> np.ndarray:
    """Return abs(log((60 s + predicted) / (60 s + recorded))) of each wait: 0.1 = about 10 % off."""
    distance: np.ndarray = np.abs(arrays.log((SMALL_S + predicted_s) / (SMALL_S + recorded_s)))
    return distance


def replayed_starts(twin: Twin, workload: Workload) -> np.ndarray:
    """float64 [J] [s]: start of each job of a log under the twin's policy; NaN = no pool can run the job.

    With Kueue, that of a preempted job is its last start, as the log tells it.
    """
    start_s = np.full(len(workload), np.nan)
    for problem in twin.problems(workload):
        log = simulate(problem.instance, make_scheduler(problem.spec))
        own_s = job_times(problem.instance, log)["first_start_s"]
        if twin.of_kueue:
            again = log.events[log.events["kind"] == RESUME]
            own_s[again["job"]] = again["time_s"]  # in order of time, so that the last one stays
        start_s[problem.rows] = own_s
    return start_s


def score_replay(twin: Twin, workload: Workload, start_s: np.ndarray, from_s: float) -> Score:
    """Compare a replay (starts [s], NaN: no pool can run it) with the log, for jobs that arrive from ``from_s`` on."""
    recorded = Recorded.of(workload)
    scored = (recorded.arrival_s >= from_s) & ~np.isnan(start_s)
    waits = (recorded.start_s - recorded.arrival_s)[scored], (start_s - recorded.arrival_s)[scored]
    per_node = max(group.gpus for pool in twin.pools for group in pool.groups)
    partition, size = twin.groups_of(workload)[scored], size_names(recorded.gpus[scored], per_node)
    rows = tuple(
        _group(name, length, waits[0][chosen], waits[1][chosen]) for name, length, chosen in _rows(partition, size)
    )
    played = ~np.isnan(start_s)
    arrival_s = recorded.arrival_s[played]
    edges_s = _hours(from_s, float(arrival_s.max(initial=from_s)))
    held = [_held(times[played], recorded, played) for times in (recorded.start_s, start_s)]
    parts = [one.binned(edges_s) / twin.gpus for one in held]
    if not len(parts[0]):
        return Score(rows)
    error = arrays.mean(np.abs(parts[1] - parts[0]))
    recorded_part, predicted_part = (used(one, arrival_s, twin.gpus) for one in held)
    return Score(rows, error, recorded_part, predicted_part)


def groups_of(partition: np.ndarray, size: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield partition, size and members, bool [J], of the groups that have jobs, by partition, then by size."""
    sizes = sorted(set(size.tolist()), key=lambda name: int(name.rstrip("+").split("-")[0]))
    for own in np.unique(partition).tolist():
        for length in sizes:
            both = (partition == own) & (size == length)
            if both.any():
                yield own, length, both


def _rows(partition: np.ndarray, size: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield names and members: all jobs, each partition, each size, each pair; partitions only if there are several.

    A partition that is named ALL is told apart from the rows of all jobs.
    """
    everyone = np.full(len(size), ALL)
    groups = list(groups_of(partition, size))
    several = dict.fromkeys(name for name, _, _ in groups) if len({name for name, _, _ in groups}) > 1 else {}
    shown = {name: f"{ALL} (partition)" if name == ALL else name for name in several}
    yield ALL, ALL, everyone == ALL
    for name in several:
        yield shown[name], ALL, partition == name
    yield from groups_of(everyone, size)
    for name, length, members in groups if several else ():
        yield shown[name], length, members


def _group(partition: str, size: str, recorded: np.ndarray, predicted: np.ndarray) -> GroupScore:
    if not len(recorded):
        return GroupScore(partition, size, 0, *([math.nan] * 9))
    error = np.abs(predicted - recorded)
    return GroupScore(
        partition, size, len(recorded),
        float(np.median(recorded)), float(np.median(predicted)), arrays.mean(recorded), arrays.mean(predicted),
        float(np.median(error)), float(np.quantile(error, 0.9)), arrays.mean(predicted - recorded),
        rank_correlation(recorded, predicted), distribution_distance(recorded, predicted),
    )  # fmt: skip


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's rho, with mean ranks for equal values; NaN if one side is constant."""
    first, second = (_ranks(values) - (len(values) - 1) / 2 for values in (a, b))
    spread = (first * first).sum() * (second * second).sum()
    return float((first * second).sum() / math.sqrt(spread)) if spread > 0 else math.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: np.ndarray = (ends - counts + ends - 1)[at] / 2
    return ranks


def distribution_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two empirical distribution functions, 0..1 (Kolmogorov and Smirnov)."""
    at = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(values), at, side="right") / len(values) for values in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def _held(start_s: np.ndarray, recorded: Recorded, rows: np.ndarray) -> StepFunction:
    end_s = start_s + (recorded.end_s - recorded.start_s)[rows]
    return Recorded(start_s, start_s, end_s, recorded.gpus[rows]).held()


def _hours(from_s: float, to_s: float) -> np.ndarray:
    """float64: ends of whole hours between two times [s]."""
    return from_s + HOUR_S * np.arange(int((to_s - from_s) // HOUR_S) + 1)
