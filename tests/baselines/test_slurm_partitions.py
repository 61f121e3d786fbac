"""Slurm over several partitions and beside reservations: examples by hand, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import first_starts, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Workload
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.event_log import PREEMPT
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.partitions import Partition, Partitions, Reservation
from gpusched_env.simulator import Until, simulate

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)
MINUTE_S = 60.0


def starts(instance: Instance, spec: str) -> list[float]:
    """First start of each job [min]."""
    return [start_s / MINUTE_S for start_s in first_starts(instance, spec)]


def problem(nodes: int, rows: list[tuple[str, int, float]], rules: Partitions) -> Instance:
    """Jobs (partition, nodes, minutes) that arrive together, on nodes of one GPU; limits are the true run times."""
    partition, gpus, minutes = zip(*rows, strict=True)
    seconds = np.array(minutes) * MINUTE_S
    workload = Workload.from_columns(
        np.zeros(len(rows)), gpus, seconds, estimate_s=seconds, attributes={"partition": np.array(partition)}
    )
    return Instance(Cluster.homogeneous(nodes, 1), workload, semantics=FREE, partitions=rules)


def test_a_blocked_partition_blocks_no_other() -> None:
    parts = Partitions((Partition("a", nodes="0-1"), Partition("b", nodes="2-3")))
    rows = [("a", 1, 60.0), ("a", 2, 60.0), ("a", 1, 90.0), ("b", 2, 30.0), ("b", 1, 10.0)]
    assert starts(problem(4, rows, parts), "slurm:backfill=none") == [0.0, 60.0, 120.0, 0.0, 30.0]


def test_a_reservation_holds_back_the_jobs_whose_limits_reach_into_it() -> None:
    """Nodes 2 and 3 of four are reserved from minute 60 to 120.

    A (3 nodes, 90 min) is planned for 120 on nodes 0, 1 and 2 or 3. B (2 nodes, 60 min) ends in time: it starts on
    nodes 0 and 1. C (2 nodes, 120 min) would run into A's plan until 210. D (1 node, 61 min) would run into the
    reservation on nodes 2 and 3, and into A's plan on nodes 0 and 1; at 120 A leaves a node to it.
    """
    parts = Partitions((Partition("all", default=True),), (Reservation("r", 3600.0, 7200.0, nodes="2-3"),))
    rows = [("all", 3, 90.0), ("all", 2, 60.0), ("all", 2, 120.0), ("all", 1, 61.0)]
    assert starts(problem(4, rows, parts), "slurm:bf_interval_s=0") == [120.0, 0.0, 210.0, 120.0]


def test_a_fault_is_not_known_before_it_begins() -> None:
    """Nodes 2 and 3 of four fail from minute 60 to 120.

    A (3 nodes, 90 min) starts at 0 and loses a node at 60. Until 120 only two nodes are left, so that it cannot be
    planned, and B (2 nodes, 60 min) starts at 60. At 120 A goes on for 30 min.
    """
    faults = (Reservation("r", 3600.0, 7200.0, nodes="2-3", planned=False),)
    case = problem(4, [("all", 3, 90.0), ("all", 2, 60.0)], Partitions((Partition("all", default=True),), faults))
    log = play(case, "slurm:bf_interval_s=0")
    times = job_times(case, log)
    assert (times["first_start_s"] / MINUTE_S).tolist() == [0.0, 60.0]
    assert (times["finish_s"] / MINUTE_S).tolist() == [150.0, 120.0]


def test_easy_plans_one_job_in_each_partition() -> None:
    parts = Partitions((Partition("a", nodes="0-1"), Partition("b", nodes="2-3")))
    rows = [("a", 1, 60.0), ("b", 1, 60.0), ("a", 2, 10.0), ("b", 2, 10.0), ("a", 1, 90.0), ("b", 1, 60.0)]
    # The first waiting job of each partition keeps its start at 60: the job of 90 min must wait, that of 60 min not.
    assert starts(problem(4, rows, parts), "slurm:backfill=easy,bf_interval_s=0") == [0.0, 0.0, 60.0, 60.0, 70.0, 0.0]


def test_a_job_does_not_delay_the_plan_of_a_job_in_an_overlapping_partition() -> None:
    """Partition a has nodes 0 to 2, b has 2 and 3.

    Best fit puts the first job of b on node 3 and that of a on node 2, and the job of two nodes of a on nodes 0 and 1.
    The job of two nodes of b is planned for 20 on nodes 2 and 3. The last job of a must not take node 2 at 20.
    """
    parts = Partitions((Partition("a", nodes="0-2"), Partition("b", nodes="2-3")))
    rows = [("b", 1, 20.0), ("a", 1, 20.0), ("b", 2, 30.0), ("a", 2, 60.0), ("a", 1, 20.0)]
    assert starts(problem(4, rows, parts), "slurm:bf_interval_s=0") == [0.0, 0.0, 20.0, 0.0, 50.0]


@pytest.mark.parametrize("options", ["", ":backfill=easy", ":backfill=none"])
def test_the_main_pass_starts_nothing_on_the_nodes_of_a_blocked_partition(options: str) -> None:
    """x has nodes 0 and 1, y 1 and 2. Node 0 is busy until 60, and the head of x wants both nodes of x.

    The second job of y, whose limit is 200, would take node 1, and the head would start at 200.
    """
    parts = Partitions((Partition("x", nodes="0-1"), Partition("y", nodes="1-2")))
    rows = [("x", 1, 60.0), ("x", 2, 60.0), ("y", 1, 200.0), ("y", 1, 200.0)]
    assert starts(problem(3, rows, parts), f"slurm{options}") == [0.0, 60.0, 0.0, 120.0]


def test_jobs_of_a_higher_tier_go_first() -> None:
    parts = Partitions((Partition("low"), Partition("high", nodes="0", tier=2)))
    rows = [("low", 1, 60.0), ("low", 1, 60.0), ("high", 1, 30.0)]
    assert starts(problem(2, rows, parts), "slurm:backfill=none") == [0.0, 30.0, 0.0]


@pytest.mark.parametrize(("preempt", "begin"), [("off", 60.0), ("tier", 10.0)])
def test_with_preempt_tier_a_job_preempts_those_of_lower_tiers_on_its_nodes(preempt: str, begin: float) -> None:
    """At minute 10, high needs nodes 1 and 2. Node 2 is free; the job of low on nodes 0 and 1 is preempted.

    The job of other has the lowest tier, but high cannot use its node.
    """
    parts = Partitions(
        (Partition("low", "0-1"), Partition("high", "1-2", tier=2), Partition("other", "3", tier=0)),
    )
    workload = Workload.from_columns(
        [0.0, 0.0, 600.0], [2, 1, 2], [3600.0, 3600.0, 600.0], estimate_s=[3600.0, 3600.0, 600.0],
        attributes={"partition": np.array(["low", "other", "high"])},
    )  # fmt: skip
    instance = Instance(Cluster.homogeneous(4, 1), workload, semantics=FREE, partitions=parts)
    log = play(instance, f"slurm:preempt={preempt}")
    assert job_times(instance, log)["first_start_s"][2] == begin * MINUTE_S
    assert log.events["job"][log.events["kind"] == PREEMPT].tolist() == ([0] if preempt == "tier" else [])


@pytest.mark.parametrize("options", ["", ",bf_interval_s=0", ",backfill=none"])
def test_gpus_are_kept_while_victims_write_checkpoints(options: str) -> None:
    """At 30 s, job 2 asks for both nodes, of which job 0 has one; job 1 of another partition may not take the other.

    Otherwise jobs 0 and 1 would take turns on the two nodes for ever, as each is preempted when the other one has gone.
    """
    names = np.array(["wide", "wide", "small"])
    workload = Workload.from_columns(
        [0, 30, 30], [1, 1, 2], [100, 100, 50], estimate_s=[100, 100, 50],
        attributes={"partition": names, "priority_class": np.array([0.0, 0.0, 1.0])},
    )  # fmt: skip
    rules = Partitions((Partition("small", nodes="0-1"), Partition("wide", nodes="0-1")))
    semantics = Semantics(checkpoint_s=10.0, restore_s=30.0, time_limit_s=1_000.0)
    case = Instance(Cluster.homogeneous(2, 1), workload, semantics=semantics, partitions=rules)
    log = play(case, "slurm:preempt=class" + options)
    assert job_times(case, log)["first_start_s"].tolist() == [0.0, 90.0, 40.0]
    assert (log.events["kind"] == PREEMPT).sum() == 1


@pytest.mark.parametrize("nodes", ["", "1"])
@pytest.mark.parametrize("placement", ["pack", "consolidate"])
def test_backfill_goes_on_in_other_partitions_while_a_victim_has_its_grace_time(placement: str, nodes: str) -> None:
    """At 1, a job asks for node 0 of p, whose victim runs on until 121. At 3, one of q fits before the head of q.

    That of p which comes at 4 would fit on the free GPU of node 0, and must not take it.
    """
    rows = [
        ("p", 0.0, 0, 3, 300), ("q", 0.0, 0, 4, 300), ("p", 5.0, 1, 4, 50), ("q", 0.0, 2, 8, 50), ("q", 0.0, 3, 4, 20),
        ("p", 0.0, 4, 1, 200),
    ]  # fmt: skip
    partition, classes, arrival, gpus, minutes = map(np.array, zip(*rows, strict=True))
    attributes = {"partition": partition, "priority_class": classes}
    if nodes:
        attributes |= dict.fromkeys(("min_nodes", "max_nodes"), np.ceil(gpus / 4).astype(int))
    workload = Workload.from_columns(
        arrival * MINUTE_S, gpus, minutes * MINUTE_S, estimate_s=minutes * MINUTE_S, attributes=attributes
    )
    rules = Partitions((Partition("p", nodes="0"), Partition("q", nodes="1-2")))
    case = Instance(Cluster.parse("3x4"), workload, semantics=FREE, partitions=rules)
    spec = f"slurm:preempt=class,grace_s=7200,placement={placement}"
    assert starts(case, spec) == [0.0, 0.0, 121.0, 300.0, 3.0, 171.0]


def test_a_job_that_cannot_start_before_a_reservation_preempts_nobody() -> None:
    """Job 1 may run for 200 s, so it cannot begin before the reservation from 100 s to 150 s."""
    parts = (Partition("low"), Partition("high", tier=2))
    rules = Partitions(parts, (Reservation("maintenance", 100.0, 150.0),))
    workload = Workload.from_columns(
        [0.0, 10.0], [4, 4], [50.0, 20.0], estimate_s=[60.0, 200.0],
        attributes={"partition": np.array(["low", "high"])},
    )  # fmt: skip
    instance = Instance(Cluster.parse("1x4"), workload, semantics=Semantics(checkpoint_s=0.0), partitions=rules)
    log = play(instance, "slurm:preempt=tier")
    assert not (log.events["kind"] == PREEMPT).any()
    assert job_times(instance, log)["finish_s"].tolist() == [50.0, 170.0]


def test_the_partition_is_a_factor_of_the_priority() -> None:
    parts = Partitions((Partition("a", priority=1.0), Partition("b", priority=2.0)))
    rows = [("a", 2, 10.0), ("a", 2, 10.0), ("b", 2, 10.0)]
    assert starts(problem(2, rows, parts), "slurm") == [0.0, 10.0, 20.0]
    assert starts(problem(2, rows, parts), "slurm:partition_weight=1000") == [10.0, 20.0, 0.0]


def test_jobs_without_a_limit_get_that_of_their_partition() -> None:
    """The partition's limit of 30 min ends before the reservation at 40 min, one of a day would not."""
    reserved = (Reservation("r", 2400.0, 4800.0),)
    rows = [("a", 1, 20.0)]
    for limit_s, begin in ((1800.0, 0.0), (7200.0, 80.0)):
        instance = problem(1, rows, Partitions((Partition("a", max_time_s=limit_s),), reserved))
        jobs = instance.workload.jobs.copy()
        jobs["estimate_s"] = np.nan
        workload = Workload(jobs, instance.workload.profiles, attributes=instance.workload.attributes)
        instance = Instance(instance.cluster, workload, semantics=FREE, partitions=instance.partitions)
        assert starts(instance, "slurm") == [begin]


def node_counts(gpus: int, nodes: tuple[int, int]) -> list[tuple[int, int]]:
    """Numbers of nodes, at least and at most, on which some nodes of 2 GPUs can hold a gang; 0, 0 = no demand."""
    found = [(0, 0), (1, gpus)]
    if gpus % 2 == 0:
        found.append((gpus // 2, gpus // 2))
    if gpus <= nodes[1] - nodes[0] + 1:
        found.append((gpus, gpus))
    return found


@st.composite
def problems(draw: st.DrawFn) -> Instance:
    """Jobs that keep their limits, on overlapping partitions of six nodes, with up to two reservations.

    In some problems, jobs demand a number of nodes of 2 GPUs.
    """
    ranges = draw(
        st.lists(st.sampled_from([(0, 1), (0, 3), (2, 5), (4, 5), (0, 5)]), min_size=1, max_size=3, unique=True)
    )
    count = draw(st.integers(1, 14))
    of_job = [draw(st.integers(0, len(ranges) - 1)) for _ in range(count)]
    gpus = [draw(st.integers(1, 2 * (ranges[p][1] - ranges[p][0] + 1))) for p in of_job]
    minutes = np.array([draw(st.integers(1, 30)) for _ in range(count)], float)
    late = np.array([draw(st.integers(0, 3)) for _ in range(count)], float)
    attributes = {"partition": np.array([f"p{p}" for p in of_job])}
    if draw(st.booleans()):
        demands = [draw(st.sampled_from(node_counts(g, ranges[p]))) for g, p in zip(gpus, of_job, strict=True)]
        attributes |= dict(zip(("min_nodes", "max_nodes"), np.array(demands).T, strict=True))
    workload = Workload.from_columns(
        [MINUTE_S * draw(st.integers(0, 30)) for _ in range(count)], gpus, minutes * MINUTE_S,
        estimate_s=(minutes + late) * MINUTE_S, attributes=attributes,
    )  # fmt: skip
    parts = tuple(Partition(f"p{i}", f"{a}-{b}", tier=draw(st.integers(0, 1))) for i, (a, b) in enumerate(ranges))
    reserved = []
    for i in range(draw(st.integers(0, 2))):
        first, begin = draw(st.integers(0, 5)), MINUTE_S * draw(st.integers(0, 60))
        nodes = f"{first}-{draw(st.integers(first, 5))}"
        reserved.append(Reservation(f"r{i}", begin, begin + MINUTE_S * draw(st.integers(1, 60)), nodes))
    return Instance(Cluster.parse("6x2/3"), workload, semantics=FREE, partitions=Partitions(parts, tuple(reserved)))


@settings(max_examples=150, deadline=None)
@given(
    problems(),
    st.sampled_from(["conservative", "easy", "none"]),
    st.sampled_from(["bf_interval_s=0", "bf_interval_s=30", "bf_interval_s=0,bf_window_s=300"]),
)
def test_no_start_delays_a_reservation(instance: Instance, backfill: str, options: str) -> None:
    """No gang holds a node when its reservation begins, so none has to be preempted; every job ends.

    This holds also where time limits reach beyond the window of the plans.
    """
    log = play(instance, f"slurm:backfill={backfill},{options}")
    assert not (log.events["kind"] == PREEMPT).any()
    assert not np.isnan(job_times(instance, log)["finish_s"]).any()


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["off", "tier"]))
def test_the_compiled_loop_makes_the_decisions_of_decide(instance: Instance, preempt: str) -> None:
    scheduler = Slurm(bf_interval_s=0.0, preempt=preempt, age_weight=1000.0)
    everything = Until(0, len(instance.workload), grace_s=1e9)  # with a stopping condition, decide is asked
    asked = simulate(instance, scheduler, until=everything)
    validate(instance, asked)
    assert simulate(instance, scheduler).digest() == asked.digest()


@pytest.mark.parametrize("backfill", ["conservative", "easy", "none"])
def test_one_partition_of_all_nodes_has_the_starts_of_an_undivided_cluster(backfill: str) -> None:
    rng = np.random.default_rng(5)
    rows = [("all", int(rng.integers(1, 9)), float(rng.integers(1, 90))) for _ in range(60)]
    divided = problem(12, rows, Partitions((Partition("all", default=True),)))
    plain = Instance(divided.cluster, divided.workload, semantics=FREE)
    spec = f"slurm:backfill={backfill},bf_interval_s=0"
    assert starts(divided, spec) == starts(plain, spec)
