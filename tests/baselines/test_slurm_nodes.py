"""Slurm with jobs that demand a number of nodes: examples by hand, and all that a plan by node promises."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from helpers import asked, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import START, EventLog
from gpusched_env.metrics import job_times, validate

MINUTE_S = 60.0
Row = tuple[int, int, int, int, int]  # arrival [min], nodes at least, nodes at most, GPUs of a part, run time [min]


def problem(cluster: str, rows: Sequence[Row], limits: Sequence[int] | None = None, **more: object) -> Instance:
    """Jobs whose limits are by default their run times [min]."""
    arrival, least, most, part, minutes = (np.array(column) for column in zip(*rows, strict=True))
    attributes = {"min_nodes": least, "max_nodes": most}
    names = more.pop("attributes", {})
    limit_s = np.array(limits or minutes) * MINUTE_S
    workload = Workload.from_columns(
        arrival * MINUTE_S, most * part, minutes * MINUTE_S, estimate_s=limit_s, attributes=attributes | names
    )
    if "tenants" in more:
        workload = more["tenants"].assign(workload, 0)
    more.setdefault("semantics", Semantics(checkpoint_s=0.0, restore_s=0.0))
    return Instance(Cluster.parse(cluster), workload, **more)


def starts(instance: Instance, spec: str) -> list[float]:
    """First start of each job [min]; the compiled loop and ``decide`` agree."""
    log = play(instance, spec)
    assert play(instance, asked(make_scheduler(spec))).digest() == log.digest()
    return (job_times(instance, log)["first_start_s"] / MINUTE_S).tolist()


def test_a_job_of_one_node_waits_for_a_node_with_room() -> None:
    rows = [(0, 1, 1, 5, 100), (0, 1, 1, 5, 100), (1, 1, 1, 6, 50)]
    assert starts(problem("2x8", rows), "slurm") == [0, 0, 100]


# --- the definition


def has_room(free: Sequence[int], least: int, most: int, part: int) -> bool:
    """Whether ``most`` parts find room, at most ``most // least`` of them on one node."""
    return sum(min(most // least, gpus // part) for gpus in free) >= most


def check_heads(instance: Instance, rows: Sequence[Row], log: EventLog) -> None:
    """Check that a job starts when those jobs leave it room that run as it becomes the first in the queue.

    Jobs are in order of arrival, and limits are the run times, so nothing that starts later may be in its way.
    """
    size = instance.cluster.nodes["gpus"].astype(int)
    node_of = np.repeat(np.arange(len(size)), size)
    events = {int(log.events["job"][n]): n for n in np.flatnonzero(log.events["kind"] == START)}
    start = {job: log.events["time_s"][n] / MINUTE_S for job, n in events.items()}
    for job, (arrival, least, most, part, _) in enumerate(rows):
        head = max([float(arrival), *(start[one] for one in range(job))])
        runs = [one for one in start if one < job or (one > job and start[one] < head)]
        ends = {one: start[one] + rows[one][4] for one in runs}
        for time in sorted({head, *(end for end in ends.values() if end > head)}):
            held = np.zeros(len(size), int)
            for one in runs:
                if ends[one] > time:
                    held += np.bincount(node_of[log.gang(events[one])], minlength=len(size))
            if has_room((size - held).tolist(), least, most, part):
                break
        assert start[job] == time or start[job] < head, (job, start)


@st.composite
def tiny_rows(draw: st.DrawFn) -> list[Row]:
    """Five jobs of one to three nodes of 4 GPUs, some of which may also be packed on fewer nodes."""
    arrival, rows = 0, []
    for _ in range(5):
        arrival += draw(st.integers(0, 6))
        most = draw(st.integers(1, 3))
        rows.append((arrival, draw(st.integers(1, most)), most, draw(st.integers(1, 4)), draw(st.integers(1, 9))))
    return rows


@settings(max_examples=300, deadline=None)
@given(
    rows=tiny_rows(), backfill=st.sampled_from(["conservative", "easy", "none"]), interval_s=st.sampled_from([0, 30])
)
def test_backfill_never_delays_the_first_job(rows: list[Row], backfill: str, interval_s: int) -> None:
    case = problem("3x4", rows)
    log = play(case, f"slurm:backfill={backfill},bf_interval_s={interval_s}")
    validate(case, log)
    check_heads(case, rows, log)
