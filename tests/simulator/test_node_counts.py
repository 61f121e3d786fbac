"""Gangs in parts that are not split over nodes: ``min_nodes`` and ``max_nodes``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import begin, check_counts, state_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Start, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.registry import BASELINES
from gpusched_env.cli.parsing import chosen_scenario
from gpusched_env.core.placement.rules import PLACEMENT_RULES, goes_anywhere
from gpusched_env.core.state import allocate
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import ScheduleError, SchedulerError, WorkloadError
from gpusched_env.evaluation.accounting import export_run
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.metrics import validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.workload import Profiles
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Simulation, simulate

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)
Row = tuple[float, int, float, int, int]  # arrival [s], GPUs, run time [s], min_nodes, max_nodes


def workload_of(rows: Sequence[Row]) -> Workload:
    arrival_s, gpus, duration_s, least, most = (np.array(column) for column in zip(*rows, strict=True))
    attributes = {"min_nodes": least, "max_nodes": most}
    return Workload.from_columns(arrival_s, gpus, duration_s, attributes=attributes)


def instance_of(cluster: str, rows: Sequence[Row], semantics: Semantics = FREE) -> Instance:
    return Instance(Cluster.parse(cluster), workload_of(rows), semantics=semantics)


def starts_of(instance: Instance, log: EventLog) -> dict[int, float]:
    """Map the id of each job to its first start [s]."""
    ids = instance.workload.jobs["id"]
    events = log.events[log.events["kind"] == START]
    return {int(ids[event["job"]]): float(event["time_s"]) for event in events}


def keeps(nodes: Sequence[int], gpus: int, least: int, most: int) -> bool:
    """Tell by the definition whether GPUs on these nodes (one entry per GPU) are as a job demands."""
    if most == 0:
        return True
    part = gpus // most
    counts = Counter(nodes).values()
    return least <= len(counts) <= most and all(count % part == 0 for count in counts)


def assert_kept(instance: Instance, log: EventLog) -> None:
    validate(instance, log)
    least, most = (instance.workload.attributes[name] for name in ("min_nodes", "max_nodes"))
    for number in np.flatnonzero(np.isin(log.events["kind"], (START, RESUME))):
        row = int(log.events["job"][number])
        gpus = int(instance.workload.jobs["gpus"][row])
        nodes = instance.cluster.node_of_gpu[log.gang(int(number))]
        for copy in nodes.reshape(-1, gpus):
            assert keeps(copy.tolist(), gpus, int(least[row]), int(most[row]))


def test_a_job_of_one_node_waits_for_one_node() -> None:
    rows = [(0.0, 5, 100.0, 1, 1), (0.0, 5, 100.0, 1, 1), (1.0, 6, 50.0, 1, 1)]
    instance = instance_of("2x8", rows)
    assert starts_of(instance, simulate(instance, make_scheduler("fifo")))[2] == 100.0
    unbound = instance_of("2x8", [(*row[:3], 0, 0) for row in rows])
    assert starts_of(unbound, simulate(unbound, make_scheduler("fifo")))[2] == 1.0


def test_equal_parts_on_exactly_two_nodes() -> None:
    """Eight GPUs are free on one node, but the job demands four on each of two."""
    rows = [(0.0, 6, 100.0, 1, 1), (1.0, 8, 50.0, 2, 2), (1.0, 2, 10.0, 1, 1)]
    instance = instance_of("2x8", rows)
    log = simulate(instance, make_scheduler("fifo-skip"))
    assert starts_of(instance, log) == {0: 0.0, 1: 100.0, 2: 1.0}
    assert_kept(instance, log)


def test_pods_go_wherever_one_has_room() -> None:
    """Three pods of two GPUs go on nodes of five and three GPUs, as two and one."""
    rows = [(1.0, 6, 50.0, 1, 3), (2.0, 2, 50.0, 1, 1)]
    cluster = Cluster([NodeGroup(1, 5), NodeGroup(1, 3)])
    instance = Instance(cluster, workload_of(rows), semantics=FREE)
    log = simulate(instance, make_scheduler("fifo"))
    assert starts_of(instance, log) == {0: 1.0, 1: 51.0}  # one and one GPU are left
    assert_kept(instance, log)


def test_the_work_of_a_job_is_that_of_its_ideal_placement_on_so_many_nodes() -> None:
    """A job on two nodes communicates between them at best, so its logged time means that placement."""
    rows = [(0.0, 8, 100.0, 2, 2)]
    instance = instance_of("2x8", rows)
    assert instance.ideal_s.tolist() == [100.0]
    log = simulate(instance, make_scheduler("fifo"))
    assert log.events["time_s"].max() == 100.0


demands = st.sampled_from([(1, 0, 0), (1, 1, 1), (2, 1, 1), (2, 1, 2), (4, 1, 1), (4, 2, 2), (4, 1, 2),
                           (4, 2, 4), (6, 2, 3), (6, 3, 6), (6, 2, 2), (8, 1, 1), (8, 2, 2), (8, 2, 4), (3, 0, 0),
                           (5, 0, 0)])  # fmt: skip
jobs = st.lists(st.tuples(st.integers(0, 20), demands, st.integers(1, 15)), min_size=1, max_size=12)


def rows_of(drawn: list[tuple[int, tuple[int, int, int], int]]) -> list[Row]:
    return [(float(at), gpus, float(length), least, most) for at, (gpus, least, most), length in drawn]


CLUSTER = Cluster([NodeGroup(3, 8), NodeGroup(1, 4)])
RULES = [name for name in PLACEMENT_RULES if name != "fork"]  # a copy of a gang lies on one node


class ByRule(Scheduler):
    """Start every waiting job that can start, in order, by one placement rule."""

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        for row in view.waiting.tolist():
            promised = view.can_place(row, self.rule)
            room = has_room(view, row)
            yield Start(row, self.rule)
            assert (view.refusal == "") == promised
            assert room or view.refusal
            assert promised or not (room and goes_anywhere(self.rule))


def has_room(view: ClusterView, row: int) -> bool:
    """Tell by the definition whether the free GPUs can hold a job as it demands."""
    least, most = (int(view.told(name, 0.0)[row]) for name in ("min_nodes", "max_nodes"))
    gpus, free = int(view.gpus[row]), view.free_by_node.tolist()
    if most == 0:
        return gpus <= sum(free)
    largest = most if least == 1 else (most - 1) // (least - 1)
    return sum(min(count // (gpus // most), largest) for count in free) >= most


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=15, deadline=None)
@given(drawn=jobs)
def test_every_rule_keeps_parts_whole_and_starts_all_jobs(rule: str, drawn: list[Any]) -> None:
    instance = Instance(CLUSTER, workload_of(rows_of(drawn)), semantics=FREE)
    log = simulate(instance, ByRule(rule))
    assert_kept(instance, log)


# cells of hived are of equal servers
@pytest.mark.parametrize("name", [name for name in BASELINES if not name.startswith(("learned", "hived"))])
@settings(max_examples=8, deadline=None)
@given(drawn=jobs)
def test_every_scheduler_keeps_parts_whole_and_starts_all_jobs(name: str, drawn: list[Any]) -> None:
    instance = Instance(CLUSTER, workload_of(rows_of(drawn)), semantics=FREE)
    scheduler = make_scheduler(name)
    if not scheduler.knows_node_counts and instance.node_counts is not None:
        with pytest.raises(SchedulerError, match="min_nodes"):
            simulate(instance, scheduler)
        return
    log = simulate(instance, scheduler)
    assert_kept(instance, log)


def test_explicit_gpus_must_be_whole_parts() -> None:
    instance = instance_of("2x8", [(0.0, 4, 10.0, 2, 2), (0.0, 4, 10.0, 1, 1), (0.0, 4, 10.0, 1, 2)])
    simulation = begin(instance, 0)
    before = state_bytes(simulation)
    for row, gpus in ((0, (0, 1, 2, 3)), (0, (0, 1, 2, 8)), (1, (0, 1, 8, 9)), (2, (0, 1, 2, 8))):
        assert "min_nodes" in simulation.apply(Start(row, gpus=gpus))
        assert state_bytes(simulation) == before
    for row, gpus in ((0, (0, 1, 8, 9)), (1, (2, 3, 4, 5)), (2, (6, 7, 10, 11))):
        assert simulation.apply(Start(row, gpus=gpus)) == ""
    check_counts(simulation)


def test_the_validator_refuses_a_split_part() -> None:
    rows = [(0.0, 4, 10.0, 2, 2)]
    split = instance_of("2x8", [(0.0, 4, 10.0, 1, 4)])
    log = simulate(split, make_scheduler("fifo"))  # four parts of one GPU, all on one node
    with pytest.raises(ScheduleError, match="parts of 2 GPUs, at most 2 on one node"):
        validate(instance_of("2x8", rows), log)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0.0, 8, 10.0, 3, 3), "8 GPUs on 3 to 3 nodes"),
        ((0.0, 8, 10.0, 2, 1), "8 GPUs on 2 to 1 nodes"),
        ((0.0, 8, 10.0, 0, 2), "8 GPUs on 0 to 2 nodes"),
        ((0.0, 8, 10.0, 1, 0), "8 GPUs on 1 to 0 nodes"),
        ((0.0, 16, 10.0, 1, 1), "demands 1 parts of 16 GPUs"),
        ((0.0, 12, 10.0, 3, 3), "demands 3 parts of 4 GPUs"),
    ],
)
def test_impossible_numbers_of_nodes(row: Row, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        instance_of("2x8", [row])


def test_classes_that_are_alike_in_several_groups_keep_their_times() -> None:
    """Two jobs of one model with different demands, and a slower model after them in the table of times."""
    names = [("a", 1.0), ("b", 5.0)]
    rows = [dict(name=n, batch=1, gradient_bytes=0, memory_bytes=0, skew=0, overlap=1, compute_s=s) for n, s in names]
    workload = Workload.from_columns(
        [0.0] * 3, [4] * 3, iterations=[10.0] * 3, profiles=Profiles.from_rows(rows), profile=[0, 0, 1],
        attributes={"min_nodes": np.array([1, 2, 1]), "max_nodes": np.array([1, 2, 1])},
    )  # fmt: skip
    instance = Instance(Cluster.parse("2x8"), workload, network=Network("none"))
    assert instance.ideal_s.tolist() == [10.0, 10.0, 50.0]


CSV = """arrival,gpus,duration,nodes
0,6,100,1
0,6,100,1
5,4,50,1
5,8,50,2
6,4,30,1-2
7,3,20,
"""


def scenario_of(tmp_path: Path, **changes: Any) -> Scenario:
    (tmp_path / "log.csv").write_text(CSV)
    return chosen_scenario(None, f"csv:{tmp_path / 'log.csv'}", "2x8", changes)


@pytest.mark.parametrize("rules", [("pack",), ("pack", "spread")])
def test_masks_of_the_environment_know_parts(rules: tuple[str, ...], tmp_path: Path) -> None:
    """The starts that a mask marks are those for which there is room; random feasible actions keep parts whole."""
    for seed in range(5):
        env = ClusterEnv(scenario_of(tmp_path), rules=rules)
        rng = np.random.default_rng(seed)
        _, info = env.reset(seed=seed)
        over = False
        while not over:
            view = ClusterView(env.simulation)
            room = sum(has_room(view, row) for row in view.waiting.tolist())
            assert info["action_mask"][: env.windows.first_preemption].sum() == room * len(rules)
            allowed = np.flatnonzero(info["action_mask"])
            _, _, ended, cut, info = env.step(int(rng.choice(allowed)))
            over = ended or cut
        assert_kept(env.simulation.instance, env.event_log())


def test_a_log_is_played_whatever_nodes_its_jobs_ask_for(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="ignore_nodes"):
        simulate(scenario_of(tmp_path).instance(0), make_scheduler("dally"))
    instance = scenario_of(tmp_path, ignore_nodes=True).instance(0)
    assert instance.node_counts is None
    assert set(starts_of(instance, simulate(instance, make_scheduler("dally")))) == {0, 1, 2, 3, 4, 5}


def test_a_range_of_nodes_is_kept(tmp_path: Path) -> None:
    """Two to three nodes for three parts: two and one on two nodes will do, but not all three on one."""
    instance = instance_of("2x8", [(0.0, 6, 10.0, 2, 3)])
    log = simulate(instance, make_scheduler("fifo"))
    assert_kept(instance, log)
    remarks = export_run(instance, log, "sacct", tmp_path / "log.txt")
    assert any("a range of them" in remark for remark in remarks)


def test_runs_with_and_without_demands_share_a_batch() -> None:
    """The table of parts of one run may be shorter than the table of classes of another one."""
    bound = [(0.0, 6, 10.0, 1, 1), (0.0, 6, 10.0, 1, 1)]
    free = [(float(i), 1 + i, 10.0, 0, 0) for i in range(16)]
    for rows in ([free, bound], [bound, free]):
        instances = [instance_of("2x8", own) for own in rows]
        state = allocate(instances)
        for b, own in enumerate(rows):
            simulation = Simulation(instances[b], arrays=state.handle(b))
            simulation.run(make_scheduler("fifo"))
            expected = simulate(instances[b], make_scheduler("fifo"))
            assert simulation.log().digest() == expected.digest(), own
