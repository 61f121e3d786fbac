"""What a log shows that a twin does not explain: waits although the gang fitted, idle GPUs, reservations, holds."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.metrics import StepFunction
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.slurm_reasons import meaning_of
from gpusched_env.twin.model import Remainder, Twin, partitions_of
from gpusched_env.twin.outages import closed_gpus
from gpusched_env.twin.recorded import Recorded

HOUR_S: Final = 3600.0
CLOCKS_S: Final = 60.0  # more GPUs than there are may be held for so long in all: times are whole seconds
OVER: Final = "jobs held more GPUs than the machines have"
LONG_S: Final = 600.0  # shorter waits are those of the scheduler's own cycles
RESERVATION, REASON, INELIGIBLE = "reservation", "reason", "ineligible_s"  # attributes
OTHER: Final = "another reason"
UNKNOWN: Final = (
    "holds, reservations, limits of users, or down nodes; the log does not tell them apart (sacct's column Reason does)"
)


def find_remainders(twin: Twin, workload: Workload, start_s: np.ndarray) -> tuple[Remainder, ...]:
    """Return what the twin does not explain, pool by pool."""
    recorded = Recorded.of(workload)
    pools = twin.pool_of(workload)
    wait_s = recorded.start_s - recorded.arrival_s
    twin_wait_s = start_s - recorded.arrival_s
    fitted = np.zeros(len(workload), bool)
    over_s, idle_gpu_s = 0.0, 0.0
    for number, pool in enumerate(twin.pools):
        rows = np.flatnonzero(pools == number)
        if not len(rows):
            continue
        gpus = pool.cluster.gpus
        own = Recorded(*(column[rows] for column in recorded))
        held, used = own.held(), own.held(*closed_gpus(pool))
        room = pool.room_of(jobs := workload.select(rows), partitions_of(jobs))
        fitted[rows] = _fitted_throughout(own, used, room)
        over_s += time_above(held, gpus)
        idle_gpu_s += _idle_below(own, used, gpus, fitted[rows] & (twin_wait_s[rows] < LONG_S))
    unexplained = fitted & (twin_wait_s < LONG_S)
    planned = fitted & ~unexplained
    found = [
        *_by_cause(
            "jobs waited, although their gang fitted all the time, and the twin starts them within 10 minutes",
            workload, unexplained, wait_s - np.nan_to_num(twin_wait_s),
        ),
        _waits(
            "jobs waited, although their gang fitted all the time, and wait in the twin too: their GPUs are kept for "
            "jobs of higher priority, or lie on other numbers of nodes", planned, wait_s,
        ),
        Remainder(
            "GPUs were idle while jobs waited that fitted and that the twin starts within 10 minutes",
            0, idle_gpu_s / HOUR_S, "GPU h",
        ),
    ]  # fmt: skip
    if INELIGIBLE in workload.attributes:
        before_s = workload.attributes[INELIGIBLE]
        found += _by_cause(
            "jobs were not eligible when they were submitted; their waits begin later", workload, before_s > 0, before_s
        )
    if RESERVATION in workload.attributes:
        reserved = workload.attributes[RESERVATION].astype(str) != ""
        found.append(_waits("jobs ran in a reservation, which the twin does not know", reserved, wait_s))
    if over_s > 0:
        found.append(Remainder(OVER, 0, over_s / HOUR_S, "h"))
    left_out = pools < 0
    if left_out.any():
        found.append(_waits("jobs have no pool with their partition and room for their gang", left_out, wait_s))
    return tuple(one for one in found if one.jobs or one.hours)


def _waits(what: str, chosen: np.ndarray, wait_s: np.ndarray) -> Remainder:
    return Remainder(what, int(chosen.sum()), float(wait_s[chosen].sum()) / HOUR_S)


def _by_cause(what: str, workload: Workload, chosen: np.ndarray, waited_s: np.ndarray) -> list[Remainder]:
    """Return how many of the chosen jobs waited for each cause of slurm_reasons.py, and how long."""
    if REASON not in workload.attributes:
        causes = np.full(len(workload), UNKNOWN)
    else:
        reasons, at = np.unique(workload.attributes[REASON], return_inverse=True)
        causes = np.array([meaning_of(reason)[0] or OTHER for reason in reasons.tolist()])[at]
    found = [
        Remainder(f"{what}: {cause}", int(rows.sum()), float(waited_s[rows].sum()) / HOUR_S)
        for cause in dict.fromkeys(causes[chosen].tolist())
        for rows in [chosen & (causes == cause)]
    ]
    return sorted(found, key=lambda one: -one.hours)


def _fitted_throughout(own: Recorded, held: StepFunction, room: np.ndarray) -> np.ndarray:
    """Return which jobs waited long, although so many GPUs were free during the whole wait; bool [J].

    ``room`` is the number of GPUs that each job may use. All held GPUs may be of these, because the log does not tell
    which nodes jobs held.
    """
    waited = own.start_s - own.arrival_s >= LONG_S
    rows = np.flatnonzero(waited)
    first = np.maximum(np.searchsorted(held.times_s, own.arrival_s[rows], side="right") - 1, 0)
    last = np.maximum(np.searchsorted(held.times_s, own.start_s[rows], side="left") - 1, first)
    most = _range_max(held.values, first, last)
    fits: np.ndarray = waited.copy()
    fits[rows] = room[rows] - most >= own.gpus[rows]
    return fits


def _range_max(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """float64: largest of ``values[first..last]`` for each range, by a table of the maxima of 2^k values."""
    table = [values]
    while 1 << len(table) <= len(values):
        step = 1 << (len(table) - 1)
        table.append(np.maximum(table[-1][:-step], table[-1][step:]))
    length = last - first + 1
    level = np.frexp(length.astype(float))[1] - 1  # floor of the binary logarithm
    found = np.empty(len(first))
    for k in np.unique(level).tolist():
        these = level == k
        found[these] = np.maximum(table[k][first[these]], table[k][last[these] - (1 << k) + 1])
    return found


def time_above(held: StepFunction, gpus: int) -> float:
    """Return the time in which jobs held more GPUs than there are [s]."""
    return float(np.diff(held.times_s)[held.values[:-1] > gpus].sum())


def _idle_below(own: Recorded, held: StepFunction, gpus: int, fitted: np.ndarray) -> float:
    """Return the idle GPU time while jobs waited although they fitted [GPU s], at most what these jobs asked for."""
    if not fitted.any():
        return 0.0
    asked = StepFunction.of_changes(
        np.concatenate([own.arrival_s[fitted], own.start_s[fitted]]),
        np.concatenate([own.gpus[fitted], -own.gpus[fitted]]),
    )
    times = np.union1d(held.times_s, asked.times_s)
    idle = np.maximum(gpus - held.at(times[:-1]), 0.0)
    return float((np.minimum(idle, asked.at(times[:-1])) * np.diff(times)).sum())
