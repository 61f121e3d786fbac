"""Jobs that name several partitions: examples by hand, and properties."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Start, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.errors import ScenarioError, ScheduleError, WorkloadError
from gpusched_env.evaluation.accounting import export_run
from gpusched_env.event_log import COMPLETE, RESUME, START, EventLog
from gpusched_env.metrics import job_times, summarise, until, validate
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.partitions import Partition, Partitions, Reservation
from gpusched_env.problem.workload import Profiles
from gpusched_env.simulator import Simulation, Until, simulate
from gpusched_env.traces import read_trace
from gpusched_env.twin.model import Pool, Twin

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)
MINUTE_S = 60.0
TWO = (Partition("a", "0"), Partition("b", "1"))


def problem(
    nodes: int, rows: list[tuple[str, int, float]], *parts: Partition, arrival: list[float] | None = None
) -> Instance:
    """Jobs (partitions, nodes, minutes) on nodes of one GPU; limits are the true run times."""
    names, gpus, minutes = zip(*rows, strict=True)
    seconds = np.array(minutes) * MINUTE_S
    workload = Workload.from_columns(
        np.array(arrival or [0.0] * len(rows)) * MINUTE_S, gpus, seconds, estimate_s=seconds,
        attributes={"partition": np.array(names)},
    )  # fmt: skip
    return Instance(Cluster.homogeneous(nodes, 1), workload, semantics=FREE, partitions=Partitions(parts))


def nodes_of_starts(instance: Instance, log: EventLog) -> list[tuple[int, float, list[int]]]:
    """Row, time [min] and nodes of each start or resumption."""
    events = log.events
    starts = np.flatnonzero((events["kind"] == START) | (events["kind"] == RESUME))
    return [
        (
            int(events["job"][i]),
            float(events["time_s"][i]) / MINUTE_S,
            sorted(set(instance.cluster.node_of_gpu[log.gang(i)].tolist())),
        )
        for i in starts
    ]


def played(instance: Instance, spec: str) -> list[tuple[int, float, list[int]]]:
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    return nodes_of_starts(instance, log)


def test_a_job_starts_in_the_first_of_its_partitions_with_room() -> None:
    rows = [("a", 1, 60.0), ("a,b", 1, 30.0), ("a,b", 1, 10.0)]
    assert played(problem(2, rows, *TWO), "slurm") == [(0, 0.0, [0]), (1, 0.0, [1]), (2, 30.0, [1])]


def test_the_order_is_that_of_tiers_then_that_of_the_list() -> None:
    for listed, tiers, node in (("a,b", (1, 1), 0), ("b,a", (1, 1), 1), ("a,b", (1, 2), 1), ("b,a", (2, 1), 0)):
        parts = (Partition("a", "0", tier=tiers[0]), Partition("b", "1", tier=tiers[1]))
        assert played(problem(2, [(listed, 1, 5.0)], *parts), "slurm:backfill=none") == [(0, 0.0, [node])]


def test_a_job_is_in_the_queue_once_for_each_partition_with_the_priority_of_each() -> None:
    """b has the higher factor: job 1 comes before job 0 in b, but the request of a is behind that of job 0."""
    parts = (Partition("a", "0", priority=1.0), Partition("b", "1", priority=2.0))
    rows = [("a", 1, 10.0), ("a,b", 1, 10.0), ("b", 1, 10.0), ("a,b", 1, 20.0)]
    spec = "slurm:partition_weight=1000,backfill=none"
    assert played(problem(2, rows, *parts), spec) == [(1, 0.0, [1]), (0, 0.0, [0]), (2, 10.0, [1]), (3, 10.0, [0])]


def test_a_job_that_waits_blocks_each_of_its_partitions_in_the_main_pass_only() -> None:
    """Job 1 needs two nodes, which neither partition has free; job 2 would fit, but comes later in b."""
    parts = (Partition("a", "0-1"), Partition("b", "2-3"))
    rows = [("a", 1, 60.0), ("b", 1, 40.0), ("a,b", 2, 10.0), ("b", 1, 40.0)]
    instance = problem(4, rows, *parts)
    assert played(instance, "slurm:backfill=none") == [(0, 0.0, [0]), (1, 0.0, [2]), (2, 40.0, [2, 3]), (3, 50.0, [2])]
    assert played(instance, "slurm")[2:] == [(3, 0.0, [3]), (2, 40.0, [2, 3])]


@pytest.mark.parametrize(("one", "begin"), [("false", 30.0), ("true", 0.0)])
def test_a_job_may_have_a_plan_in_each_partition_or_one_only(one: str, begin: float) -> None:
    """Job 2 is planned in b for 30 and in a for 60, where it needs both nodes.

    With both plans, job 3 cannot take node 1 for 90 minutes. At 30, job 2 starts in b, and its plan in a is gone.
    """
    parts = (Partition("a", "0-1"), Partition("b", "2-3"))
    rows = [("a", 1, 60.0), ("b", 2, 30.0), ("b,a", 2, 60.0), ("a", 1, 90.0)]
    spec = f"slurm:bf_interval_s=0,bf_one_resv_per_job={one}"
    starts = {row: (time, nodes) for row, time, nodes in played(problem(4, rows, *parts), spec)}
    assert starts == {0: (0.0, [0]), 1: (0.0, [2, 3]), 2: (30.0, [2, 3]), 3: (begin, [1])}


def test_partitions_whose_limits_a_job_exceeds_do_not_count() -> None:
    parts = (Partition("short", "0", max_time_s=600.0), Partition("small", "1-2", max_gpus=1), Partition("all"))
    rows = [("short,small,all", 1, 20.0), ("short,small,all", 1, 10.0), ("short,small,all", 3, 10.0)]
    instance = problem(4, rows, *parts)
    assert instance.node_sets is not None
    choices = instance.node_sets.choices
    assert [choices.partition[choices.job == row].tolist() for row in range(3)] == [[1, 2], [0, 1, 2], [2]]
    with pytest.raises(WorkloadError, match=r"job 0: it wants 1200 s, and its partition 'short' has max_time_s 600"):
        problem(4, [("short,short", 1, 20.0)], *parts)
    with pytest.raises(WorkloadError, match=r"job 0: it wants 3 GPUs, and its partition 'short' has GPUs in all 1"):
        problem(4, [("short,small", 3, 5.0)], *parts)


def test_each_name_of_a_list_must_be_known() -> None:
    with pytest.raises(ScenarioError, match="a job names unknown partition 'c'"):
        problem(2, [("a,c", 1, 5.0)], *TWO)
    with pytest.raises(ScenarioError, match="a job names no partition, and none is the default"):
        problem(2, [("", 1, 5.0)], *TWO)
    named = problem(2, [("a,b", 1, 5.0)], Partition("a,b", "1"))  # a partition may have a comma in its name
    assert played(named, "slurm") == [(0, 0.0, [1])]


def test_other_schedulers_use_the_first_partition_and_explicit_gpus_may_lie_in_any_one() -> None:
    parts = (Partition("a", "0"), Partition("b", "1"), Partition("c", "2"))
    instance = problem(3, [("a,b", 1, 10.0), ("a,b", 1, 10.0)], *parts)
    assert played(instance, "fifo") == [(0, 0.0, [0]), (1, 10.0, [0])]
    simulation = Simulation(instance)
    simulation.advance()
    assert "outside the job's partition" in simulation.apply(Start(0, gpus=(2,)))
    assert simulation.apply(Start(0, gpus=(1,))) == ""
    assert simulation.apply(Start(1, "pack")) == ""


def test_a_gang_never_spans_two_of_its_partitions() -> None:
    instance = problem(2, [("a,b", 1, 10.0)], *TWO)
    wide = problem(2, [("all", 2, 10.0)], Partition("all"))
    with pytest.raises(WorkloadError, match="wants 2 GPUs, and its partition 'a' has GPUs in all 1"):
        problem(2, [("a,b", 2, 10.0)], *TWO)
    parts = (Partition("a", "0-1"), Partition("b", "2-3"))
    instance = problem(4, [("a,b", 2, 10.0)], *parts)
    simulation = Simulation(instance)
    simulation.advance()
    assert "outside the job's partition" in simulation.apply(Start(0, gpus=(1, 2)))
    across = simulate(problem(4, [("all", 2, 10.0)], Partition("all")), make_scheduler("fifo"))
    log = EventLog(across.events, np.array([1, 2], np.int32))
    assert wide.node_sets is not None
    with pytest.raises(ScheduleError, match="node 2 is outside the first of the job's partitions, and the gang in no"):
        validate(instance, log)


def test_a_blocked_job_keeps_its_nodes_from_a_job_that_also_names_a_lower_tier() -> None:
    """Both partitions have both nodes. Job 1 of high needs two, and waits until 60; job 2 does not begin in low.

    Slurm's main pass starts nothing more on the nodes of a blocked job's partition.
    """
    parts = (Partition("high", tier=2), Partition("low"))
    rows = [("high", 1, 60.0), ("high", 2, 10.0), ("high,low", 1, 90.0)]
    spec = "slurm:preempt=tier,backfill=none"
    assert played(problem(2, rows, *parts), spec) == [(0, 0.0, [0]), (1, 60.0, [0, 1]), (2, 70.0, [0])]
    alone = [rows[0], ("low", 2, 10.0), rows[2]]  # nothing waits before it in high, where it starts then
    assert played(problem(2, alone, *parts), spec) == [(0, 0.0, [0]), (2, 0.0, [1]), (1, 90.0, [0, 1])]


def test_a_job_is_killed_at_the_limit_of_the_partition_in_which_it_runs() -> None:
    parts = (Partition("a", "0", default_time_s=600.0), Partition("b", "1", default_time_s=1200.0))
    workload = Workload.from_columns(
        [0.0, 0.0, 0.0], [1, 1, 1], [3000.0, 3000.0, 3000.0],
        attributes={"partition": np.array(["a,b", "a,b", "a,b"])},
    )  # fmt: skip
    rules = Semantics(checkpoint_s=0.0, kill_at_limit=True)
    instance = Instance(Cluster.homogeneous(2, 1), workload, semantics=rules, partitions=Partitions(parts))
    log = simulate(instance, make_scheduler("slurm"))
    validate(instance, log)
    assert job_times(instance, log)["finish_s"].tolist() == [600.0, 1200.0, 1200.0]
    assert summarise(instance, log)["killed"] == 3.0
    assert instance.shortest_s.tolist() == [600.0, 600.0, 600.0]
    early = EventLog(log.events.copy(), log.gpus)
    early.events["time_s"][early.events["kind"] == COMPLETE] = [600.0, 600.0, 1200.0]
    with pytest.raises(ScheduleError):
        validate(instance, early)


def test_the_fastest_of_its_partitions_is_the_ideal_of_a_job() -> None:
    from gpusched_env.problem.workload import Profiles

    unit = Profiles.unit("V100").rows[0]
    row = {name: unit[name] for name in unit.dtype.names} | {"compute_s": [2.0, 1.0]}
    profiles = Profiles.from_rows([row], ("K80", "V100"))
    workload = Workload.from_columns(
        [0.0] * 3, [1] * 3, [60.0] * 3, profiles=profiles, attributes={"partition": np.array(["slow,fast"] * 3)}
    )
    parts = Partitions((Partition("slow", gpu_type="K80"), Partition("fast", gpu_type="V100")))
    instance = Instance(Cluster.parse("1x1@K80,1x1@V100"), workload, semantics=FREE, partitions=parts)
    log = simulate(instance, make_scheduler("slurm"))
    validate(instance, log)
    assert instance.iterations.tolist() == [60.0] * 3
    assert job_times(instance, log)["finish_s"].tolist() == [120.0, 60.0, 120.0]


def test_jobs_of_one_partition_have_the_fingerprint_that_they_had() -> None:
    """Recorded before jobs could name several partitions."""
    instance = problem(2, [("a", 1, 60.0), ("b", 1, 30.0)], *TWO)
    assert instance.fingerprint() == FINGERPRINT
    assert problem(2, [("a,b", 1, 60.0), ("b", 1, 30.0)], *TWO).fingerprint() != instance.fingerprint()


FINGERPRINT = "268af4f2a26c8af2d5b5c5471eb93affe0edea975b6b98e352e27db285a1bb74"


def test_a_job_is_killed_where_it_resumes_if_it_has_run_for_longer_than_the_limit_there() -> None:
    """At 100 s a job of a higher tier takes node 0; the first job goes to b, where 60 s are allowed."""
    workload = Workload.from_columns(
        [0.0, 100.0], [1, 1], [500.0, 1000.0], attributes={"partition": np.array(["a,b", "high"])}
    )
    parts = Partition("a", "0"), Partition("b", "1", max_time_s=60.0), Partition("high", "0", tier=2)
    rules = Semantics(checkpoint_s=0.0, restore_s=30.0, kill_at_limit=True)
    instance = Instance(Cluster.homogeneous(2, 1), workload, semantics=rules, partitions=Partitions(parts))
    log = simulate(instance, make_scheduler("slurm:preempt=tier"))
    validate(instance, log)
    assert job_times(instance, log)["finish_s"].tolist() == [130.0, 1100.0]
    assert summarise(instance, log)["killed"] == 1.0


@pytest.mark.parametrize("names", ["b,", ",a", "a,,b", " , "])
def test_an_empty_name_in_a_list_is_refused(names: str) -> None:
    """Otherwise it would silently add the default partition to the list, even a second time."""
    parts = Partition("a", "0"), Partition("b", "1", default=True)
    with pytest.raises(ScenarioError, match=f"a job names '{names}', which has an empty name; correct the list"):
        problem(2, [(names, 1, 60.0)], *parts)


def test_partitions_without_gpus_that_run_the_model_do_not_count() -> None:
    """The model runs on V100 only, so a job that names the K80 first starts on the V100, whatever the scheduler."""
    unit = Profiles.unit("V100").rows[0]
    rows = [{name: unit[name] for name in unit.dtype.names} | {"compute_s": [np.inf, 1.0]}]
    workload = Workload.from_columns(
        [0.0, 0.0], [1, 1], [60.0, 60.0], profiles=Profiles.from_rows(rows, ("K80", "V100")),
        attributes={"partition": np.array(["slow,fast", "fast"])},
    )  # fmt: skip
    parts = Partitions((Partition("slow", gpu_type="K80"), Partition("fast", gpu_type="V100")))
    instance = Instance(Cluster.parse("1x2@K80,1x2@V100"), workload, semantics=FREE, partitions=parts)
    for name in ("fifo", "slurm"):
        log = simulate(instance, make_scheduler(name))
        assert [nodes for _, _, nodes in nodes_of_starts(instance, log)] == [[1], [1]]
    alone = workload.unchecked_replace(attributes={"partition": np.array(["slow", "fast"])})
    with pytest.raises(WorkloadError, match="cannot run on the cluster's GPU types"):
        Instance(instance.cluster, alone, semantics=FREE, partitions=parts)


@pytest.mark.parametrize("by", ["partition", "queue"])
def test_a_csv_holds_lists_and_sacct_tells_the_partition_in_which_a_job_ran(by: str, tmp_path: Path) -> None:
    workload = Workload.from_columns(
        [0.0, 0.0, 0.0], [1, 1, 1], [60.0, 60.0, 60.0], estimate_s=[60.0] * 3,
        attributes={by: np.array(["a", "a,b", "b,a"])},
    )  # fmt: skip
    rules = Partitions(TWO, by=by)
    instance = Instance(Cluster.homogeneous(2, 1), workload, semantics=FREE, partitions=rules)
    log = simulate(instance, make_scheduler("slurm"))
    export_run(instance, log, "csv", tmp_path / "jobs.csv")
    again, _ = read_trace(f"csv:{tmp_path / 'jobs.csv'}")
    assert again.attributes[by].tolist() == ["a", "a,b", "b,a"]
    replay = Instance(instance.cluster, again, semantics=FREE, partitions=rules)
    assert simulate(replay, make_scheduler("slurm")).digest() == log.digest()
    export_run(instance, log, "sacct", tmp_path / "sacct.txt")
    told, _ = read_trace(f"slurm:{tmp_path / 'sacct.txt'}")
    assert told.attributes["virtual_cluster"].tolist() == ["a", "b", "b"]


def test_sacct_tells_the_partitions_of_waiting_jobs_if_the_log_has_queues_too(tmp_path: Path) -> None:
    workload = Workload.from_columns(
        [0.0, 0.0, 0.0], [1, 1, 1], [60.0, 60.0, 60.0],
        attributes={"partition": np.array(["a", "a,b", "b,a"]), "queue": np.array(["x", "x", "y"])},
    )  # fmt: skip
    instance = Instance(Cluster.homogeneous(2, 1), workload, semantics=FREE, partitions=Partitions(TWO))
    log = until(simulate(instance, make_scheduler("slurm")), 30.0)
    export_run(instance, log, "sacct", tmp_path / "sacct.txt")
    header, *rows = [line.split("|") for line in (tmp_path / "sacct.txt").read_text().splitlines()]
    assert [row[header.index("Partition")] for row in rows] == ["a", "b", "b,a"]


def test_a_waiting_job_of_a_twin_may_start_in_any_partition_of_its_pool_that_it_names() -> None:
    """The first job runs in a for an hour. The second one waits, and names b, and c of another pool."""
    machines = (NodeGroup(2, 1, "V100"),)
    pools = (Pool("left", machines, ("a", "b"), TWO), Pool("right", machines, ("c",)))
    workload = Workload.from_columns(
        [0.0, 0.0], [1, 1], [3600.0, 60.0], estimate_s=[3600.0, 60.0],
        attributes={"virtual_cluster": np.array(["a", "a,b,c"])},
    )  # fmt: skip
    (found,) = Twin("slurm:log", "slurm", pools).problems(workload)
    log = simulate(found.instance, make_scheduler(found.spec))
    assert nodes_of_starts(found.instance, log) == [(0, 0.0, [0]), (1, 0.0, [1])]


@st.composite
def problems(draw: st.DrawFn) -> Instance:
    """Jobs that name up to three of up to four overlapping partitions of six nodes, with up to one reservation."""
    ranges = [(0, 1), (0, 3), (2, 5), (4, 5)][: draw(st.integers(2, 4))]
    parts = tuple(
        Partition(
            f"p{i}", f"{a}-{b}", tier=draw(st.integers(0, 2)), max_gpus=draw(st.sampled_from([None, None, 2])),
            default_time_s=draw(st.sampled_from([None, 600.0])),
        )
        for i, (a, b) in enumerate(ranges)
    )  # fmt: skip
    count = draw(st.integers(1, 12))
    lists = [draw(st.lists(st.integers(0, len(ranges) - 1), min_size=1, max_size=3, unique=True)) for _ in range(count)]
    gpus = []
    for one in lists:
        most = [min(2 * (ranges[p][1] - ranges[p][0] + 1), parts[p].max_gpus or 12) for p in one]
        gpus.append(draw(st.integers(1, max(most))))
    minutes = np.array([draw(st.integers(1, 30)) for _ in range(count)], float)
    late = np.array([draw(st.integers(0, 3)) for _ in range(count)], float)
    claims = [draw(st.sampled_from([True, True, False])) for _ in range(count)]
    workload = Workload.from_columns(
        [MINUTE_S * draw(st.integers(0, 30)) for _ in range(count)], gpus, minutes * MINUTE_S,
        estimate_s=np.where(claims, (minutes + late) * MINUTE_S, np.nan),
        attributes={"partition": np.array([",".join(f"p{p}" for p in one) for one in lists])},
    )  # fmt: skip
    reserved = []
    for i in range(draw(st.integers(0, 1))):
        begin = MINUTE_S * draw(st.integers(0, 60))
        reserved.append(Reservation(f"r{i}", begin, begin + 1200.0, f"0-{draw(st.integers(0, 5))}"))
    rules = Semantics(
        checkpoint_s=draw(st.sampled_from([0.0, 20.0])), restore_s=5.0, kill_at_limit=draw(st.booleans()),
        round_s=draw(st.sampled_from([0.0, 0.0, 60.0])),
    )  # fmt: skip
    return Instance(Cluster.parse("6x2/3"), workload, semantics=rules, partitions=Partitions(parts, tuple(reserved)))


SPECS = st.builds(
    Slurm,
    backfill=st.sampled_from(["conservative", "easy", "none"]),
    bf_interval_s=st.sampled_from([0.0, 30.0]),
    bf_one_resv_per_job=st.booleans(),
    preempt=st.sampled_from(["off", "tier"]),
    age_weight=st.sampled_from([0.0, 1000.0]),
    partition_weight=st.sampled_from([0.0, 100.0]),
)


@settings(max_examples=150, deadline=None)
@given(problems(), SPECS)
def test_every_gang_is_in_one_partition_that_its_job_names_and_whose_limits_it_keeps(
    instance: Instance, scheduler: Slurm
) -> None:
    log = simulate(instance, scheduler)
    validate(instance, log)
    assert not np.isnan(job_times(instance, log)["finish_s"]).any()
    workload = instance.workload
    assert instance.partitions is not None
    by_name = {one.name: one for one in instance.partitions.partitions}
    for row, _, nodes in nodes_of_starts(instance, log):
        fine = []
        for name in str(workload.attributes["partition"][row]).split(","):
            first, last = (int(part) for part in by_name[name].nodes.split("-"))
            small = by_name[name].max_gpus is None or workload.jobs["gpus"][row] <= by_name[name].max_gpus
            fine.append(small and all(first <= node <= last for node in nodes))
        assert any(fine)


@settings(max_examples=60, deadline=None)
@given(problems(), SPECS)
def test_the_compiled_loop_makes_the_decisions_of_decide(instance: Instance, scheduler: Slurm) -> None:
    everything = Until(0, len(instance.workload), grace_s=1e9)  # with a stopping condition, decide is asked
    asked = simulate(instance, scheduler, until=everything)
    assert simulate(instance, scheduler).digest() == asked.digest()


SIZE = 3  # nodes of each of the separate partitions below


def reference(
    jobs: list[tuple[int, int, int, list[int]]], tiers: list[int], backfill: bool, one: bool
) -> list[tuple[int, int]]:
    """Begin [min] and partition of each job on separate partitions; a job is (arrival, nodes, minutes, partitions).

    The pass and the cycle of the documentation, in plain Python: pairs in order, a partition stops in the main pass at
    its first pair that does not fit, and in the cycle each pair takes the first time with room. Pairs by tier, arrival,
    job, then the order in which the job lists its partitions, as docs/slurm.md says for equal priorities.
    """
    begun: dict[int, tuple[int, int]] = {}
    now = -1

    def busy(partition: int, minute: int) -> int:
        return sum(jobs[j][1] for j, (b, p) in begun.items() if p == partition and b <= minute < b + jobs[j][2])

    while len(begun) < len(jobs):
        now = min(
            minute
            for minute in {job[0] for job in jobs} | {b + jobs[j][2] for j, (b, _) in begun.items()}
            if minute > now
        )  # passes come at arrivals and ends
        pairs = [
            (-tiers[p], arrival, j, at, p)
            for j, (arrival, _, _, listed) in enumerate(jobs)
            for at, p in enumerate(listed)
            if arrival <= now and j not in begun
        ]
        stopped = set()
        for _, _, j, _, p in sorted(pairs):
            if j in begun or p in stopped:
                continue
            if busy(p, now) + jobs[j][1] <= SIZE:
                begun[j] = now, p
            else:
                stopped.add(p)
        plans: list[tuple[int, int, int, int]] = []  # begin, end, partition, nodes
        booked = set()
        for _, _, j, _, p in sorted(pairs) if backfill else []:
            if j in begun:
                continue
            _, nodes, minutes, _ = jobs[j]
            begin = now
            while any(
                busy(p, minute) + sum(n for b, e, q, n in plans if q == p and b <= minute < e) + nodes > SIZE
                for minute in range(begin, begin + minutes)
            ):
                begin += 1
            if begin == now:
                begun[j] = now, p
            elif not (one and j in booked):
                plans.append((begin, begin + minutes, p, nodes))
                booked.add(j)
    return [begun[j] for j in range(len(jobs))]


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_starts_are_those_of_the_pass_and_the_cycle_of_the_documentation(data: st.DataObject) -> None:
    tiers = data.draw(st.lists(st.integers(0, 1), min_size=3, max_size=3))
    jobs = []
    for _ in range(data.draw(st.integers(1, 10))):
        listed = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True))
        jobs.append(
            (
                data.draw(st.integers(0, 20)),
                data.draw(st.integers(1, SIZE)),
                data.draw(st.integers(1, 30)),
                sorted(listed, key=lambda p: -tiers[p]),
            )
        )
    jobs.sort(key=lambda job: job[0])
    backfill, one = data.draw(st.booleans()), data.draw(st.booleans())
    parts = [Partition(f"p{i}", f"{SIZE * i}-{SIZE * i + SIZE - 1}", tier=tiers[i]) for i in range(3)]
    rows = [(",".join(f"p{p}" for p in listed), nodes, float(minutes)) for _, nodes, minutes, listed in jobs]
    instance = problem(3 * SIZE, rows, *parts, arrival=[float(job[0]) for job in jobs])
    scheduler = Slurm(
        backfill="conservative" if backfill else "none", bf_interval_s=0.0, bf_one_resv_per_job=one
    )  # fmt: skip
    log = simulate(instance, scheduler)
    validate(instance, log)
    starts = {row: (time, nodes[0] // SIZE) for row, time, nodes in nodes_of_starts(instance, log)}
    assert [starts[row] for row in range(len(jobs))] == reference(jobs, tiers, backfill, one)
