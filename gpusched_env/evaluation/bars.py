"""Compute the bars of a Gantt chart, which show the GPUs that jobs held, shared GPUs, and times without progress."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpusched_env.event_log import FAIL, PREEMPT, EventLog
from gpusched_env.metrics import segments
from gpusched_env.problem.instance import Instance

PHASES: Final = ("running", "restoring", "checkpointing")
RUNNING, RESTORING, CHECKPOINTING = range(len(PHASES))
BAR_DTYPE: Final = np.dtype(
    [
        ("job", "<i4"),  # row of the instance's jobs
        ("row", "<i4"),  # lowest GPU id of the bar
        ("rows", "<i4"),  # number of consecutive GPU ids
        ("lane", "<i4"),  # index of the job among the jobs that share these GPUs, in order of their start
        ("lanes", "<i4"),  # number of jobs that share these GPUs; 1 = not shared
        ("phase", "<i4"),  # index into PHASES
        ("start_s", "<f8"),  # [s] start of the bar
        ("end_s", "<f8"),  # [s] end of the bar
    ]
)
MOST_BARS: Final = 4_000  # largest number of bars; more cannot be distinguished on a screen, and are slow to draw
MOST_MARKS: Final = 2_000  # largest number of marks of preemptions
PARTS: Final = 2_000  # phases and gaps shorter than 1 / PARTS of the run are not drawn


class Bars(NamedTuple):
    """The bars and marks of a chart, and how many were left out."""

    bars: np.ndarray  # BAR_DTYPE, the bars; only the largest if there are too many
    crowds: np.ndarray  # BAR_DTYPE with rows = 1 and job = -1, merged bars that are too many to draw separately
    joined_s: float  # [s] longest gap within a crowd
    left_out: int  # number of bars that were merged into crowds
    preempted: np.ndarray  # float64 [P, 2], time of each shown preemption [s], and middle of the row of its lowest GPU
    preemptions: int  # number of all preemptions, at least P
    failed: np.ndarray  # float64 [F, 2], the same of each shown failure of a gang


def bars(instance: Instance, log: EventLog, most: int = MOST_BARS) -> Bars:
    """Compute the bars of a run.

    If there are more than ``most``, the bars with the most GPU-seconds are kept, and the others are merged into crowds:
    on each GPU, bars with a gap of at most ``joined_s`` become one crowd. ``joined_s`` starts at 1 / PARTS of the run
    and is doubled until there are fewer than ``most`` / 2 crowds, or one crowd per GPU.
    """
    held = segments(instance, log)
    if not len(held):
        return Bars(np.zeros(0, BAR_DTYPE), np.zeros(0, BAR_DTYPE), 0.0, 0, np.zeros((0, 2)), 0, np.zeros((0, 2)))
    span_s = float(held["free_s"].max() - held["hold_s"].min())
    shortest_s = span_s / PARTS
    found = _joined(_stacked(_in_phases(held, _pieces(held, log), shortest_s)), shortest_s)
    found, crowds, joined_s, left_out = _bounded(found, most, shortest_s, span_s)
    marks = _marks(held, log, PREEMPT)
    return Bars(found, crowds, joined_s, left_out, _some(marks), len(marks), _some(_marks(held, log, FAIL)))


def _pieces(held: np.ndarray, log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """Return the bars of each segment on its GPUs, cut where jobs on a shared GPU change, and the row of each in it."""
    count = held["gpus"].astype(np.int64)
    stay = np.repeat(np.arange(len(held)), count)
    begins = np.repeat(log.events["gpu_at"][held["start_event"]] - (np.cumsum(count) - count), count)
    gpu = log.gpus[begins + np.arange(len(stay))]
    order = np.lexsort([stay, held["hold_s"][stay], gpu])
    order = order[(held["free_s"] > held["hold_s"])[stay[order]]]
    stay, gpu = stay[order], gpu[order]
    start, end = held["hold_s"][stay], held["free_s"][stay]
    beside = (gpu[1:] == gpu[:-1]) & (start[1:] < end[:-1])
    shared = np.isin(gpu, gpu[1:][beside])
    cut = [(which, *piece) for which, piece in _cuts(np.flatnonzero(shared), gpu, start, end)]
    alone = np.flatnonzero(~shared)
    source = np.concatenate([alone, np.array([piece[0] for piece in cut], np.int64)])
    pieces = np.zeros(len(source), BAR_DTYPE)
    pieces["job"], pieces["row"], pieces["rows"] = held["job"][stay[source]], gpu[source], 1
    pieces["start_s"], pieces["end_s"], pieces["lanes"] = start[source], end[source], 1
    for place, name in enumerate(("start_s", "end_s", "lane", "lanes"), 1):
        pieces[name][len(alone) :] = [piece[place] for piece in cut]
    return stay[source], pieces


def _cuts(
    which: np.ndarray, gpu: np.ndarray, start: np.ndarray, end: np.ndarray
) -> list[tuple[int, tuple[float, float, int, int]]]:
    """Return (index, (start, end, lane, lanes)) for each interval in which a job's lane and lanes are constant.

    ``gpu``, ``start`` and ``end`` have one item for each segment on each of its GPUs; the index refers to them.
    ``which`` has the indices on shared GPUs, sorted by GPU and start. The function sweeps over the starts and ends on
    each GPU.
    """
    cut: list[tuple[int, tuple[float, float, int, int]]] = []
    for one in np.split(which, np.flatnonzero(np.diff(gpu[which])) + 1):
        holders: list[int] = []
        since: dict[int, tuple[float, int, int]] = {}
        coming = one.tolist()[::-1]  # in descending order of start, so the next to start is the last item
        for time in np.unique(np.concatenate([start[one], end[one]])).tolist():
            following = [holder for holder in holders if end[holder] > time]
            while coming and start[coming[-1]] == time:
                following.append(coming.pop())
            for holder in holders:
                begin, lane, lanes = since[holder]
                if holder not in following or (following.index(holder), len(following)) != (lane, lanes):
                    cut.append((holder, (begin, time, lane, lanes)))
                    del since[holder]
            holders = following
            for lane, holder in enumerate(holders):
                since.setdefault(holder, (time, lane, len(holders)))
    return cut


def _in_phases(held: np.ndarray, pieces: tuple[np.ndarray, np.ndarray], shortest_s: float) -> np.ndarray:
    """Cut bars where the progress of the gang begins and ends; phases shorter than ``shortest_s`` count as running."""
    stay, bars = pieces
    begins = np.minimum(held["progress_s"], held["stop_s"])
    begins = np.where(begins - held["hold_s"] < shortest_s, held["hold_s"], begins)[stay]
    ends = np.where(held["free_s"] - held["stop_s"] < shortest_s, held["free_s"], held["stop_s"])[stay]
    parts = []
    for phase, low, high in ((RESTORING, -np.inf, begins), (RUNNING, begins, ends), (CHECKPOINTING, ends, np.inf)):
        part = bars.copy()
        part["phase"] = phase
        part["start_s"], part["end_s"] = np.maximum(bars["start_s"], low), np.minimum(bars["end_s"], high)
        parts.append(part[part["end_s"] > part["start_s"]])
    return np.concatenate(parts)


def _stacked(bars: np.ndarray) -> np.ndarray:
    """Merge bars that are equal except for the GPU if their GPUs have consecutive ids."""
    names = ("job", "phase", "lanes", "start_s", "end_s")
    bars = bars[np.lexsort([bars["row"], *(bars[name] for name in names)])]
    above = (bars["row"][1:] == bars["row"][:-1] + 1) & (bars["lanes"][1:] == 1)
    for name in names:
        above &= bars[name][1:] == bars[name][:-1]
    first = np.flatnonzero(np.append(True, ~above))
    stacked: np.ndarray = bars[first]
    stacked["rows"] = np.diff(np.append(first, len(bars)))
    return stacked


def _joined(bars: np.ndarray, shortest_s: float) -> np.ndarray:
    """Merge bars of the same job on the same GPUs if the gap between them is shorter than ``shortest_s``."""
    names = ("job", "phase", "row", "rows", "lane", "lanes")
    bars = bars[np.lexsort([bars["start_s"], *(bars[name] for name in names)])]
    after = bars["start_s"][1:] - bars["end_s"][:-1] < shortest_s
    for name in names:
        after &= bars[name][1:] == bars[name][:-1]
    first = np.flatnonzero(np.append(True, ~after))
    joined: np.ndarray = bars[first]
    joined["end_s"] = np.maximum.reduceat(bars["end_s"], first)
    return joined


def _bounded(bars: np.ndarray, most: int, joined_s: float, span_s: float) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Keep the ``most`` largest bars, and merge the others into crowds."""
    bars = bars[np.lexsort([bars["row"], bars["start_s"]])]
    if len(bars) <= most:
        return bars, bars[:0], 0.0, 0
    area = (bars["end_s"] - bars["start_s"]) * bars["rows"] / bars["lanes"]
    largest = np.sort(np.argsort(-area, kind="stable")[:most])
    small = np.delete(bars, largest)
    each = np.repeat(small, small["rows"])
    each["row"] += np.arange(len(each)) - np.repeat(np.cumsum(small["rows"]) - small["rows"], small["rows"])
    each["rows"], each["job"], each["phase"], each["lane"], each["lanes"] = 1, -1, RUNNING, 0, 1
    each = each[np.lexsort([each["start_s"], each["row"]])]
    # Shift the times of each GPU to a separate range, so that one running maximum gives the latest end on each GPU.
    offset = each["row"] * (2 * span_s + abs(float(bars["end_s"].max())))
    latest = np.maximum.accumulate(each["end_s"] + offset)
    gap = (each["start_s"] + offset)[1:] - latest[:-1]
    other = each["row"][1:] != each["row"][:-1]
    while 2 * np.count_nonzero(other | (gap > joined_s)) >= most and joined_s < span_s:
        joined_s *= 2
    first = np.flatnonzero(np.append(True, other | (gap > joined_s)))
    crowds = each[first]
    crowds["end_s"] = np.maximum.reduceat(each["end_s"], first)
    return bars[largest], crowds, joined_s, len(small)


def _some(marks: np.ndarray) -> np.ndarray:
    return marks[np.linspace(0, len(marks) - 1, MOST_MARKS).astype(int)] if len(marks) > MOST_MARKS else marks


def _marks(held: np.ndarray, log: EventLog, kind: int) -> np.ndarray:
    """Return the time of each stop of a kind [s] and the middle of the row of the gang's lowest GPU; float64 [P, 2]."""
    stopped = held[(held["stop_event"] >= 0) & (log.events["kind"][held["stop_event"]] == kind)]
    stopped = stopped[np.argsort(stopped["stop_s"], kind="stable")]
    lowest = np.zeros(0)
    if len(stopped):
        begins = np.cumsum(stopped["gpus"]) - stopped["gpus"]
        gang = np.repeat(log.events["gpu_at"][stopped["start_event"]] - begins, stopped["gpus"])
        lowest = np.minimum.reduceat(log.gpus[gang + np.arange(len(gang))], begins)
    return np.column_stack([stopped["stop_s"], lowest + 0.5])
