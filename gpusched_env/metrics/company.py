"""Company: the jobs that share GPUs with a gang, read from the log, and the gang's slowdown (docs/sjf_bsbf.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpusched_env.event_log import RATE, EventLog
from gpusched_env.instance import Instance
from gpusched_env.performance import overlapped


class Change(NamedTuple):
    """A gang takes or frees its GPUs."""

    event: int  # number of the start, resume, release or complete
    segment: int
    joins: bool
    gang: np.ndarray  # int32 [gpus], GPU ids


class Slowdowns(NamedTuple):
    """Slowdowns, sorted by segment, then time; each holds until the next one of its segment. 1 = as fast as alone."""

    segment: np.ndarray  # int64 [N]
    time_s: np.ndarray  # float64 [N] [s]
    slowdown: np.ndarray  # float64 [N]

    def at(self, segment: np.ndarray, time_s: np.ndarray) -> np.ndarray:
        """float64 [n]: slowdown of ``segment[i]`` at ``time_s[i]`` [s]; NaN before the segment's first value."""
        asked = np.repeat([0, 1], [len(self.segment), len(segment)])
        times = np.concatenate([self.time_s, time_s])
        segments = np.concatenate([self.segment, segment])
        order = np.lexsort([asked, times, segments])
        latest = order[np.maximum.accumulate(np.where(asked[order] == 0, np.arange(len(order)), 0))]
        known = (asked[latest] == 0) & (segments[latest] == segments[order])
        result = np.empty(len(order))
        result[order] = np.where(known, np.append(self.slowdown, np.zeros(len(segment)))[latest], np.nan)
        return result[len(self.segment) :]


def changes(log: EventLog, table: np.ndarray) -> Iterator[Change]:
    """Yield each segment's taking and freeing of its GPUs, in order of events."""
    moves = [(int(event), segment, True) for segment, event in enumerate(table["start_event"])]
    moves += [(int(event), segment, False) for segment, event in enumerate(table["free_event"]) if event >= 0]
    for event, segment, joins in sorted(moves):
        yield Change(event, segment, joins, log.gang(int(table["start_event"][segment])))


def rates_told(log: EventLog, table: np.ndarray) -> list[tuple[int, int]]:
    """Event and segment of each rate of the log."""
    events = log.events
    rates = np.flatnonzero(events["kind"] == RATE)
    keys = table["job"].astype(np.int64) * len(events) + table["start_event"]  # ascend
    segment = np.searchsorted(keys, events["job"][rates].astype(np.int64) * len(events) + rates) - 1
    return list(zip(rates.tolist(), segment.tolist(), strict=True))


def gpu_types(instance: Instance) -> np.ndarray:
    """int32 [G]: type of each GPU."""
    types: np.ndarray = instance.cluster.nodes["gpu_type"][instance.cluster.node_of_gpu]
    return types


def slowdowns(instance: Instance, log: EventLog, table: np.ndarray) -> Slowdowns:
    """Slowdown of every segment by its company at each change; all events of one instant are one change.

    The slowest GPU determines a gang's speed: its slowdown is the largest xi over its GPUs and over the other gangs on
    each. A gang that restores or is being checkpointed holds its GPUs, so it counts as company.

    With ``semantics.pace_until_lease``, a gang that leaves does not change the slowdowns of the gangs beside it; their
    slowdown is recomputed at each rate event. Lease renewals are not in the log, so the time at which a rate is due
    cannot be checked.

    Parameters
    ----------
    table : SEGMENT_DTYPE [S], of an instance whose jobs share GPUs
    """
    assert instance.sharing_tables is not None
    holds = instance.semantics.pace_until_lease
    kinds = instance.job_class[table["job"]].tolist()
    xi, types = instance.sharing_tables.interference, gpu_types(instance).tolist()
    residents: list[list[int]] = [[] for _ in types]
    gangs: dict[int, list[int]] = {}  # of the segments that hold GPUs
    met: set[int] = set()  # segments whose company has changed at this instant
    found: list[tuple[int, float, float]] = []

    def settle(time_s: float) -> None:
        for segment in met & gangs.keys():
            worst = 1.0
            for gpu in gangs[segment]:
                for other in residents[gpu]:
                    if other != segment:
                        worst = max(worst, float(xi[kinds[segment], kinds[other], types[gpu]]))
            found.append((segment, time_s, worst))
        met.clear()

    now_s = 0.0
    moments: list[tuple[int, Change | int]] = [(change.event, change) for change in changes(log, table)]
    if holds:
        moments = sorted([*moments, *rates_told(log, table)], key=lambda moment: moment[0])
    for event, change in moments:
        time_s = float(log.events["time_s"][event])
        if time_s > now_s:
            settle(now_s)
            now_s = time_s
        if isinstance(change, int):
            met.add(change)
            continue
        gang = change.gang.tolist()
        for gpu in gang:
            if change.joins or not holds:
                met.update(residents[gpu])
            (residents[gpu].append if change.joins else residents[gpu].remove)(change.segment)
        if change.joins:
            gangs[change.segment] = gang
            met.add(change.segment)
        else:
            del gangs[change.segment]
    settle(now_s)
    found.sort()
    columns = np.array(found, float).reshape(-1, 3)
    return Slowdowns(columns[:, 0].astype(np.int64), columns[:, 1], columns[:, 2])


def alone(instance: Instance, log: EventLog, starts: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Time and compute time [s] of one iteration of each gang without company, on an idle network.

    Only the last of s sub-steps communicates: ``(s - 1) c + overlap(c, communication)``, c = compute of one sub-step.

    Parameters
    ----------
    starts : int64 [n], event numbers of starts and resumes, ascending
    row : int [n], row of each in the tables of iteration times: its tier, or its shape
    """
    assert instance.sharing_tables is not None
    placed = log.events[starts]
    kind, first = instance.job_class[placed["job"]], placed["gpu_at"]
    tables = instance if instance.shapes is None else instance.shapes
    # A gang on mixed GPU types runs at the speed of its slowest GPU. Ties: the first GPU in the gang's list.
    of_gpu = gpu_types(instance)[log.gpus]
    each = np.repeat(np.arange(len(starts)), placed["gpu_count"])
    pace = tables.iteration_s[kind[each], row[each], of_gpu]
    slowest = pace == np.maximum.reduceat(pace, first)[each]
    at = np.minimum.reduceat(np.where(slowest, np.arange(len(pace)), len(pace)), first)
    place = kind, row, of_gpu[at]
    iteration_s, compute_s, communication_s = (
        array[place] for array in (tables.iteration_s, tables.compute_s, tables.communication_s)
    )
    sizes = instance.sharing_tables
    option = (sizes.sub_steps[kind] == placed["sub_steps"][:, None]).argmax(axis=1)
    part_s = compute_s * sizes.compute_share[kind, option]
    steps = placed["sub_steps"].astype(float)
    overlap = instance.workload.profiles.rows["overlap"][instance.classes[kind, 0]]
    in_parts = (steps - 1) * part_s + overlapped(part_s, communication_s, overlap)
    return np.where(steps > 1, in_parts, iteration_s), np.where(steps > 1, steps * part_s, compute_s)
