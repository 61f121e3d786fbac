"""Slurm with jobs that demand a number of nodes: examples by hand, and all that a plan by node promises."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers import asked, plain_python_digests, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import PREEMPT, START, EventLog
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.partitions import Partition, Partitions, Reservation
from gpusched_env.problem.tenants import PRIORITY

MINUTE_S = 60.0
# arrival [min], nodes at least and at most (0 = no demand), GPUs of a part (no demand: of the job), run time [min]
Row = tuple[int, int, int, int, int]


def problem(
    cluster: str,
    rows: Sequence[Row],
    classes: Sequence[float] = (),
    partitions: Partitions | None = None,
    **attributes: np.ndarray,
) -> Instance:
    """Jobs whose limits are their run times; ``classes``: their priority classes."""
    arrival, least, most, part, minutes = (np.array(column) for column in zip(*rows, strict=True))
    attributes |= {"min_nodes": least, "max_nodes": most} | ({PRIORITY: np.array(classes)} if classes else {})
    workload = Workload.from_columns(
        arrival * MINUTE_S, np.maximum(most, 1) * part, minutes * MINUTE_S, estimate_s=minutes * MINUTE_S,
        attributes=attributes,
    )  # fmt: skip
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(Cluster.parse(cluster), workload, semantics=rules, partitions=partitions)


def starts(instance: Instance, spec: str) -> list[float]:
    """First start of each job [min]; the compiled loop and ``decide`` agree."""
    log = play(instance, spec)
    assert play(instance, asked(make_scheduler(spec))).digest() == log.digest()
    return (job_times(instance, log)["first_start_s"] / MINUTE_S).tolist()


def test_a_job_of_one_node_waits_for_a_node_with_room() -> None:
    rows = [(0, 1, 1, 5, 100), (0, 1, 1, 5, 100), (1, 1, 1, 6, 50)]
    assert starts(problem("2x8", rows), "slurm") == [0, 0, 100]


def test_a_plan_reserves_whole_nodes() -> None:
    """On two nodes of 8 GPUs, 5 are held: until 100 and 300. A job of 6 GPUs is planned for 100 on the first node.

    Of the jobs behind it, one of 99 min starts on the other node, which is then full, and one that ends at 100 on the
    first. The last one would end at 101: it waits, although the planned job leaves 2 GPUs beside it.
    """
    rows = [
        (0, 1, 1, 5, 100),
        (0, 1, 1, 5, 300),
        (1, 1, 1, 6, 50),
        (2, 1, 1, 3, 99),
        (3, 1, 1, 2, 97),
        (4, 1, 1, 1, 97),
    ]
    assert starts(problem("2x8", rows), "slurm") == [0, 0, 100, 2, 3, 100]


@pytest.mark.parametrize("drain", [False, True])
def test_plans_count_with_nodes_that_a_reservation_in_force_will_free(drain: bool) -> None:
    """Node 0 of two is reserved until 100. The job of two nodes is planned for 100, so that of 200 min must wait."""
    rules = Partitions((Partition("all", default=True),), (Reservation("r", 0.0, 6000.0, nodes="0", drain=drain),))
    rows = [(0, 1, 1, 8, 50), (1, 2, 2, 8, 50), (2, 1, 1, 8, 200)]
    assert starts(problem("2x8", rows, partitions=rules), "slurm") == [0, 100, 150]


# --- the definition


def has_room(free: Sequence[int], least: int, most: int, part: int) -> bool:
    """Whether ``most`` parts find room on at least ``least`` nodes; without a demand, any GPUs.

    A node holds at most the largest number of parts with which a gang still needs ``least`` nodes.
    """
    if most == 0:
        return sum(free) >= part
    largest = max(n for n in range(1, most + 1) if -(-most // n) >= least)
    return sum(min(largest, gpus // part) for gpus in free) >= most


def check_heads(instance: Instance, rows: Sequence[Row], log: EventLog, reserved: Sequence[Reservation] = ()) -> None:
    """Check that a job starts when those jobs leave it room that run as it becomes the first in the queue.

    Jobs are in order of arrival, and limits are the run times, so nothing that starts later may be in its way. A job
    may not use a node of a reservation that begins before its end.
    """
    size = instance.cluster.nodes["gpus"].astype(int)
    node_of = np.repeat(np.arange(len(size)), size)
    events = {int(log.events["job"][n]): n for n in np.flatnonzero(log.events["kind"] == START)}
    start = {job: log.events["time_s"][n] / MINUTE_S for job, n in events.items()}
    opens = [one.end_s / MINUTE_S for one in reserved]
    for job, (arrival, least, most, part, minutes) in enumerate(rows):
        head = max([float(arrival), *(start[one] for one in range(job))])
        runs = [one for one in start if one < job or (one > job and start[one] < head)]
        ends = {one: start[one] + rows[one][4] for one in runs}
        for time in sorted({head, *(end for end in (*ends.values(), *opens) if end > head)}):
            held = np.zeros(len(size), int)
            for one in runs:
                if ends[one] > time:
                    held += np.bincount(node_of[log.gang(events[one])], minlength=len(size))
            free = size - held
            for one in reserved:
                if one.start_s < (time + minutes) * MINUTE_S and one.end_s > time * MINUTE_S:
                    free[int(one.nodes)] = 0
            if has_room(free.tolist(), least, most, part):
                break
        assert start[job] == time or start[job] < head, (job, start)


@st.composite
def tiny_rows(draw: st.DrawFn) -> list[Row]:
    """Five jobs of one to three nodes of 4 GPUs; some may also be packed on fewer nodes, some demand nothing."""
    arrival, rows = 0, []
    for _ in range(5):
        arrival += draw(st.integers(0, 6))
        most = draw(st.integers(0, 3))
        least = draw(st.integers(min(most, 1), most))
        rows.append((arrival, least, most, draw(st.integers(1, 4 if most else 12)), draw(st.integers(1, 9))))
    return rows


BACKFILLS, INTERVALS_S = st.sampled_from(["conservative", "easy", "none"]), st.sampled_from([0, 30])


@settings(max_examples=300, deadline=None)
@given(rows=tiny_rows(), backfill=BACKFILLS, interval_s=INTERVALS_S)
def test_backfill_never_delays_the_first_job(rows: list[Row], backfill: str, interval_s: int) -> None:
    case = problem("3x4", rows)
    log = play(case, f"slurm:backfill={backfill},bf_interval_s={interval_s}")
    validate(case, log)
    check_heads(case, rows, log)


@settings(max_examples=200, deadline=None)
@given(tiny_rows(), BACKFILLS, INTERVALS_S, st.lists(st.tuples(*[st.integers(0, 20)] * 2, st.booleans()), max_size=3))
def test_backfill_never_delays_the_first_job_beside_reservations(
    rows: list[Row], backfill: str, interval_s: int, spans: list[tuple[int, int, bool]]
) -> None:
    """Reservations of nodes 0, 1 and 2, some of which are drains: they begin, and last at least a minute."""
    reserved = tuple(
        Reservation(f"r{node}", begin * MINUTE_S, (begin + 1 + length) * MINUTE_S, nodes=str(node), drain=drain)
        for node, (begin, length, drain) in enumerate(spans)
    )
    case = problem("3x4", rows, partitions=Partitions((Partition("all", default=True),), reserved))
    if case.node_counts is None:  # no job demands a number of nodes
        return
    log = play(case, f"slurm:backfill={backfill},bf_interval_s={interval_s}")
    validate(case, log)
    assert not (log.events["kind"] == PREEMPT).any()
    check_heads(case, rows, log, reserved)


# --- preemption


@pytest.mark.parametrize("partitions", [None, Partitions((Partition("all", default=True),))])
@pytest.mark.parametrize(
    ("high", "victims"),
    [
        ((10, 1, 1, 6, 20), [1]),  # the first job frees 5 GPUs of a node, the second 4 beside 4 free ones
        ((10, 1, 2, 3, 20), [0]),  # the free GPUs hold one part of 3 GPUs
        ((10, 2, 2, 8, 20), [0, 1, 2]),
        ((10, 1, 2, 2, 20), []),
    ],
)
def test_victims_are_those_that_free_whole_parts(high: Row, victims: list[int], partitions: Partitions | None) -> None:
    """Jobs of 5 and 3 GPUs fill the first node of 2x8, and one of 4 GPUs holds half of the other."""
    rows = [(0, 1, 1, 5, 100), (0, 1, 1, 4, 100), (0, 1, 1, 3, 100), high]
    case = problem("2x8", rows, (0.0, 0.0, 0.0, 5.0), partitions)
    log = play(case, "slurm:preempt=class")
    assert starts(case, "slurm:preempt=class") == [0, 0, 0, 10]
    assert sorted(log.events["job"][log.events["kind"] == PREEMPT]) == victims


def digests() -> list[str]:
    """Digests of runs with partitions, a reservation and a drain, for a process without compilation."""
    parts = (Partition("x", nodes="0-2"), Partition("y", nodes="2-3", tier=2))
    reserved = (Reservation("r", 600.0, 1800.0, nodes="1-2"), Reservation("d", 0.0, 900.0, nodes="3", drain=True))
    rows = [(i // 2, 1 + i % 2, 1 + i % 2, 1 + 3 * i % 4, 3 + 5 * i % 11) for i in range(12)]
    case = problem(
        "4x4", rows, [float(i % 3) for i in range(12)], Partitions(parts, reserved), partition=np.array(["x", "y"] * 6)
    )
    options = ("", "backfill=easy,preempt=class", "preempt=tier,placement=consolidate")
    return [play(case, f"slurm:bf_interval_s=0,{one}".rstrip(",")).digest() for one in options]


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.baselines.test_slurm_nodes") == digests()
