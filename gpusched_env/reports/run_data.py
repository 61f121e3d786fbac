"""The data of a run for the schedule viewer, of bounded size; times are in ticks since the first arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.evaluation.bars import MOST_BARS, bars
from gpusched_env.evaluation.link_loads import link_loads
from gpusched_env.event_log import ARRIVAL, COMPLETE, REFUSE, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import end_of_run, job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.reports.curves import over_time
from gpusched_env.support.files import visible
from gpusched_env.support.units import unit_for

TICKS: Final = 100_000  # number of ticks of a run, finer than any screen
MOST_JOBS: Final = 5_000  # runs with more jobs have no data of single jobs
MOST_WAITS: Final = 10_000  # largest number of periods in which jobs wait
MOST_DOWN: Final = 2_000  # largest number of outages
LINK_TIMES: Final = 160  # number of times at which link loads are computed
MOST_LINKS: Final = 40  # largest number of links with loads


def run_data(instance: Instance, log: EventLog, label: str, hosts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the data that the viewer draws; docs/reports.md says what is left out for long runs.

    ``tick_s`` is the length of a tick [s]. A part is ``None`` if it does not apply or is too large. ``hosts`` : names
    of the nodes, if they are known.
    """
    first = float(instance.workload.jobs["arrival_s"].min())
    span_s = max(end_of_run(instance, log) - first, 1e-9)
    tick_s = span_s / TICKS
    unit = unit_for([span_s])

    def ticks(time_s: np.ndarray) -> list[int | None]:
        """Round to whole ticks; NaN becomes None."""
        number = np.rint((time_s - first) / tick_s)
        if np.isnan(number).any():
            return [None if np.isnan(one) else int(one) for one in number]
        return number.astype(np.int64).tolist()

    drawn = bars(instance, log)
    return {
        "label": label,
        "tick_s": tick_s,
        "ticks": TICKS,
        "unit": {"sign": unit.sign, "seconds": unit.seconds},
        "cluster": _cluster(instance) | ({"names": [visible(name) for name in hosts]} if hosts else {}),
        "bars": _columns(drawn.bars, ticks),
        "crowds": {
            "row": drawn.crowds["row"].tolist(),
            "start": ticks(drawn.crowds["start_s"]),
            "end": ticks(drawn.crowds["end_s"]),
        },
        "crowded": {"bars": drawn.left_out, "joined_s": drawn.joined_s, "most": MOST_BARS},
        "preempted": {"at": ticks(drawn.preempted[:, 0]), "row": drawn.preempted[:, 1].tolist()},
        "preemptions": drawn.preemptions,
        "failed": {"at": ticks(drawn.failed[:, 0]), "row": drawn.failed[:, 1].tolist()},
        "down": _down(instance, first + span_s, ticks),
        "jobs": _jobs(instance, log, ticks),
        "waits": _waits(log, ticks),
        "lines": over_time(instance, log),
        "links": _links(instance, log, first, tick_s),
    }


def _cluster(instance: Instance) -> dict[str, Any]:
    nodes = instance.cluster.nodes
    return {
        "gpus": nodes["gpus"].tolist(),
        "rack": nodes["rack"].tolist(),
        "type": nodes["gpu_type"].tolist(),
        "types": list(instance.cluster.gpu_types),
    }


def _down(instance: Instance, end_s: float, ticks: Any) -> dict[str, Any] | None:
    """Return the outages of nodes, the MOST_DOWN longest if there are more; None if nodes cannot fail."""
    if instance.outages is None:
        return None
    rows = instance.outages.rows[instance.outages.rows["start_s"] < end_s].copy()
    rows["end_s"] = np.minimum(rows["end_s"], end_s)
    rows = rows[np.sort(np.argsort(rows["start_s"] - rows["end_s"], kind="stable")[:MOST_DOWN])]
    nodes = instance.cluster.nodes[rows["node"]]
    plain = {"row": nodes["first_gpu"].tolist(), "rows": nodes["gpus"].tolist(), "node": rows["node"].tolist()}
    causes = [visible(instance.outages.causes[cause]) for cause in rows["cause"].tolist()]
    return plain | {"start": ticks(rows["start_s"]), "end": ticks(rows["end_s"]), "cause": causes}


def _columns(table: np.ndarray, ticks: Any) -> dict[str, list[int]]:
    plain = {name: table[name].tolist() for name in ("job", "row", "rows", "lane", "lanes", "phase")}
    return plain | {"start": ticks(table["start_s"]), "end": ticks(table["end_s"])}


def _jobs(instance: Instance, log: EventLog, ticks: Any) -> dict[str, Any] | None:
    """Return the columns of the table of jobs; None if there are more than MOST_JOBS jobs."""
    jobs = instance.workload.jobs
    if len(jobs) > MOST_JOBS:
        return None
    times = job_times(instance, log)
    return {
        "id": jobs["id"].tolist(),
        "gpus": jobs["gpus"].tolist(),
        "profile": jobs["profile"].tolist(),
        "profiles": instance.workload.profiles.rows["name"].tolist(),
        "arrival": ticks(np.where(np.isfinite(times["arrival_s"]), times["arrival_s"], np.nan)),
        "start": ticks(times["first_start_s"]),
        "finish": ticks(times["finish_s"]),
        "preemptions": times["preemptions"].tolist(),
    }


def _waits(log: EventLog, ticks: Any) -> dict[str, list[int | None]] | None:
    """Return the periods in which jobs waited; an end of None means that the job waited until the end of the run."""
    events = log.events[np.isin(log.events["kind"], (ARRIVAL, START, RESUME, RELEASE, COMPLETE, REFUSE))]
    events = events[np.argsort(events["job"], kind="stable")]
    begins = np.flatnonzero(np.isin(events["kind"], (ARRIVAL, RELEASE)))
    if len(begins) > MOST_WAITS:
        return None
    there = np.minimum(begins + 1, len(events) - 1)
    ends = np.where(events["job"][there] == events["job"][begins], events["time_s"][there], np.nan)
    ends[there == begins] = np.nan
    long = ~(ends <= events["time_s"][begins])  # leaves out waits of length 0, because a job may start on arrival
    return {
        "job": events["job"][begins][long].tolist(),
        "start": ticks(events["time_s"][begins][long]),
        "end": ticks(ends[long]),
    }


def _links(instance: Instance, log: EventLog, first_s: float, tick_s: float) -> dict[str, Any] | None:
    """Return the loads of the busiest links at LINK_TIMES evenly spaced times [% of capacity]; None without links."""
    if instance.topology is None:
        return None

    at = (np.arange(LINK_TIMES) + 0.5) * (TICKS / LINK_TIMES)
    share = link_loads(instance, log, first_s + at * tick_s) / instance.links["capacity"]
    busiest = np.sort(np.argsort(-share.mean(axis=0), kind="stable")[:MOST_LINKS])
    return {
        "names": instance.links["name"][busiest].tolist(),
        "all": len(instance.links),
        "at": at.tolist(),
        "load": (100 * share[:, busiest]).T.round().astype(int).tolist(),
    }
