"""The company of a gang, which are the other gangs on its GPUs, and the slowdown that they cause (docs/sjf_bsbf.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpusched_env.event_log import RATE, EventLog
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.performance import overlapped


class Change(NamedTuple):
    """A gang takes or frees its GPUs."""

    event: int  # number of the start, resume, release or complete event
    segment: int  # row of the table of segments
    joins: bool  # True = the gang takes its GPUs
    gang: np.ndarray  # int32 [gpus], ids of the GPUs


class Slowdowns(NamedTuple):
    """Slowdowns, sorted by segment, then by time; each holds until the next slowdown of its segment."""

    segment: np.ndarray  # int64 [N]
    time_s: np.ndarray  # float64 [N] [s]
    slowdown: np.ndarray  # float64 [N]

    def at(self, segment: np.ndarray, time_s: np.ndarray) -> np.ndarray:
        """Return the slowdown of ``segment[i]`` at ``time_s[i]`` [s]; float64 [n]; NaN before its first value."""
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
    """Yield the changes at which segments take and free their GPUs, in the order of events."""
    moves = [(int(event), segment, True) for segment, event in enumerate(table["start_event"])]
    moves += [(int(event), segment, False) for segment, event in enumerate(table["free_event"]) if event >= 0]
    for event, segment, joins in sorted(moves):
        yield Change(event, segment, joins, log.gang(int(table["start_event"][segment])))


def rates_told(log: EventLog, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the event number and the segment of each rate event in the log, sorted by segment, then by time.

    The segment of a rate event is the last segment of its job that starts before the event.
    """
    events = log.events
    rates = np.flatnonzero(events["kind"] == RATE)
    rates = rates[np.argsort(events["job"][rates], kind="stable")]
    keys = table["job"].astype(np.int64) * len(events) + table["start_event"]  # ascending
    return rates, np.searchsorted(keys, events["job"][rates].astype(np.int64) * len(events) + rates) - 1


def gpu_types(instance: Instance) -> np.ndarray:
    """Return the index of the GPU type of each GPU; int32 [G]."""
    types: np.ndarray = instance.cluster.nodes["gpu_type"][instance.cluster.node_of_gpu]
    return types


def slowdowns(instance: Instance, log: EventLog, table: np.ndarray) -> Slowdowns:
    """Return the slowdown of every segment by its company after each change; events at the same time are one change.

    The slowest GPU determines the speed of a gang. So the slowdown of a gang is the largest xi over all its GPUs and
    all other gangs on them. A gang that restores or is being checkpointed holds its GPUs, so it counts as company.

    With ``semantics.pace_until_lease``, a gang that leaves does not change the slowdowns of the gangs on its GPUs; the
    slowdown of each remaining gang is recomputed at the next rate event of that gang. Lease renewals are not in the
    log, so the time at which a rate event is due cannot be checked.
    """
    assert instance.sharing_tables is not None
    holds = instance.semantics.pace_until_lease
    kinds = instance.job_class[table["job"]].tolist()
    xi, types = instance.sharing_tables.interference, gpu_types(instance).tolist()
    residents: list[list[int]] = [[] for _ in types]
    gangs: dict[int, list[int]] = {}  # segment that holds GPUs -> its GPUs
    met: set[int] = set()  # segments whose company has changed at this instant
    found: list[tuple[int, float, float]] = []  # (segment, time, slowdown)

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
        told = (column.tolist() for column in rates_told(log, table))
        moments = sorted([*moments, *zip(*told, strict=True)], key=lambda moment: moment[0])
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
    """Return the time and the compute time of one iteration of each gang without company on an idle network [s].

    Only the last of s sub-steps communicates, so the iteration takes ``(s - 1) c + overlap(c, communication)``, where c
    is the compute time of one sub-step.

    ``starts`` are ascending numbers of start and resume events; ``row`` is the tier or the shape of each gang.
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
