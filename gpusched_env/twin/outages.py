"""Times in which nodes were down or drained, from text that ``sacctmgr`` prints, as reservations of a twin's pools."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.problem.partitions import Reservation, nodes_of
from gpusched_env.traces.parsing.columns import EPOCH
from gpusched_env.traces.parsing.slurm_fields import Stamps
from gpusched_env.traces.slurm_files.description import DOWN, DRAINED, MAINTENANCE, SlurmNode
from gpusched_env.twin.model import Pool
from gpusched_env.twin.sacctmgr import table_rows

COMMAND: Final = "sacctmgr --parsable2 list event format=NodeName,TimeStart,TimeEnd,State start=DATE"
CLOSED: Final = (DOWN, DRAINED, MAINTENANCE)


class Outage(NamedTuple):
    """A time in which a node took no jobs; seconds since 1970-01-01 in the zone of the file."""

    node: str
    start_s: float
    end_s: float  # inf = it had not ended
    drained: bool = False  # whether its jobs ran on


def read_outages(path: str | Path) -> tuple[Outage, ...]:
    """Read the events of nodes that were down, drained or in maintenance; other events are left out."""
    stamps, found = Stamps(), []
    for place, row in table_rows(path, ("nodename", "timestart", "timeend", "state"), COMMAND):
        condition = SlurmNode(row["nodename"], 0, state=row["state"]).condition
        start_s = stamps.read(place, "TimeStart", row["timestart"])
        end_s = stamps.read(place, "TimeEnd", row["timeend"])
        if not row["nodename"] or condition not in CLOSED or start_s is None:
            continue
        found.append(Outage(row["nodename"], start_s, math.inf if end_s is None else end_s, condition == DRAINED))
    return tuple(found)


def with_outages(
    pools: Sequence[Pool], outages: Sequence[Outage], origin: str, last_s: float
) -> tuple[tuple[Pool, ...], int]:
    """Return the pools with the outages of their nodes as reservations, and the number of outages of unknown nodes.

    Gangs on drained nodes run on. Those on other nodes are preempted and keep their work: a crash would undo work that
    the recorded run times do not contain (docs/twin.md).
    Schedulers do not know them in advance, not even maintenance: many planned reservations would make replays slow.

    Outages that go on end with the log.
    """
    origin_s = float((np.datetime64(origin) - np.datetime64(EPOCH)) / np.timedelta64(1, "s"))
    found = []
    for pool in pools:
        number = pool.numbers
        spans: dict[tuple[float, float, bool], list[int]] = {}
        for node in number:
            own = [one for one in outages if one.node == node]
            closed = _merged([one for one in own if not one.drained], origin_s, last_s)
            drained = _merged([one for one in own if one.drained], origin_s, last_s)
            for hole in closed:
                drained = [part for a, b in drained for part in ((a, min(b, hole[0])), (max(a, hole[1]), b))]
                drained = [span for span in drained if span[0] < span[1]]
            for start_s, end_s in closed + drained:
                spans.setdefault((start_s, end_s, (start_s, end_s) in drained), []).extend(number[node])
        reservations = tuple(
            Reservation(f"outage {i}", start_s, end_s, ",".join(map(str, sorted(nodes))), planned=False, drain=drained)
            for i, ((start_s, end_s, drained), nodes) in enumerate(sorted(spans.items()), 1)
        )
        found.append(dataclasses.replace(pool, reservations=reservations))
    known = {name for pool in pools for name in pool.node_names}
    return tuple(found), sum(one.node not in known for one in outages)


def _merged(outages: Sequence[Outage], origin_s: float, last_s: float) -> list[tuple[float, float]]:
    """Return the spans of outages of a node in the time of the log [s]; those that overlap or touch are one."""
    spans: list[tuple[float, float]] = []
    for one in sorted(outages):
        start_s, end_s = max(one.start_s - origin_s, 0.0), min(one.end_s - origin_s, last_s)
        if start_s >= end_s:
            continue
        if spans and start_s <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end_s)
        else:
            spans.append((start_s, end_s))
    return spans


def closed_gpus(pool: Pool) -> tuple[list[float], list[float]]:
    """Return times [s], and the changes of the number of GPUs that are out of use then, in any order."""
    cluster = pool.cluster
    gpus = [float(cluster.nodes["gpus"][nodes_of(one, cluster)].sum()) for one in pool.reservations]
    times = [one.start_s for one in pool.reservations] + [one.end_s for one in pool.reservations]
    return times, gpus + [-value for value in gpus]
