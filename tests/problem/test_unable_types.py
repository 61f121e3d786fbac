"""Jobs that cannot run on some GPU types are never placed there, and their ideal time counts only the other types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from helpers import begin, play

from gpusched_env.errors import SchedulerError, WorkloadError
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload
from gpusched_env.simulator import PLACEMENT_RULES, ClusterView, Decision, Outcome, Scheduler, Simulation, Start

ROW = dict(batch=1, gradient_bytes=1e8, memory_bytes=0.0, skew=0.5, overlap=1.0)
LINKS = Network("topology", topology=NETWORK_PRESETS["oversub4"].topology, contention=Contention("maxmin"))
ROOM = Cluster([NodeGroup(2, 4, "A", 1), NodeGroup(2, 4, "B", 1), NodeGroup(1, 8, "C")])


def profiles() -> Profiles:
    """Model a runs on A and B, b on all types, c as a gang of 2 only on C, d on A and C."""
    inf = np.inf
    rows = [
        ROW | dict(name="a", compute_s=[1.0, 2.0, inf]), ROW | dict(name="b", compute_s=[1.0, 2.0, 3.0]),
        ROW | dict(name="c", compute_s=[1.0, 1.0, 2.0]), ROW | dict(name="d", compute_s=[1.0, inf, 0.5]),
    ]  # fmt: skip
    plain = Profiles.from_rows(rows, ("A", "B", "C"))
    cannot = [(2, gpu_type, 2, 0, inf, 0.0) for gpu_type in (0, 1)]
    return Profiles(plain.rows, plain.compute_s, plain.gpu_types, np.array(cannot, MEASURED_DTYPE))


def drawn(seed: int, network: Network | None = None, jobs: int = 50, largest: int = 6, **rules: Any) -> Instance:
    rng = np.random.default_rng(seed)
    workload = Workload.from_columns(
        np.cumsum(rng.exponential(30.0, jobs)), rng.integers(1, largest + 1, jobs),
        iterations=rng.integers(1, 400, jobs) * 1.0, profiles=profiles(), profile=rng.integers(0, 4, jobs),
    )  # fmt: skip
    return Instance(ROOM, workload, network, Semantics(**rules))


def arrays_of(simulation: Simulation) -> dict[str, bytes]:
    return {name: getattr(simulation.arrays, name).tobytes() for name in simulation.arrays.fields}


def misplaced(instance: Instance, log: EventLog) -> list[tuple[int, int]]:
    """(job, GPU type) of placements on types that cannot run the job."""
    of_gpu = ROOM.nodes["gpu_type"][ROOM.node_of_gpu]
    found = []
    for event in log.events[np.isin(log.events["kind"], [START, RESUME])]:
        gpus = log.gpus[event["gpu_at"] : event["gpu_at"] + event["gpu_count"]]
        kind = instance.job_class[event["job"]]
        found += [(int(event["job"]), t) for t in of_gpu[gpus].tolist() if np.isinf(instance.iteration_s[kind, 0, t])]
    return found


@pytest.mark.parametrize("network", [None, Network("tiers"), LINKS])
def test_a_class_that_cannot_run_on_a_type_has_infinite_iteration_time_there(network: Network | None) -> None:
    workload = Workload.from_columns([0.0] * 4, [1, 2, 2, 1], [10.0] * 4, profiles=profiles(), profile=[0, 0, 2, 3])
    instance = Instance(ROOM, workload, network)
    expected = {(0, 1): "AB", (0, 2): "AB", (2, 2): "C", (3, 1): "AC"}
    for kind, told in enumerate(instance.classes.tolist()):
        able = np.isfinite(instance.iteration_s[kind])
        assert (able == able[0]).all()  # on every tier or on none
        assert "".join(np.array(ROOM.gpu_types)[able[0]]) == expected[tuple(told)]
    assert np.isfinite(instance.communication_s).all()
    assert np.isfinite(instance.ideal_iteration_s).all()
    assert instance.ideal_s.tolist() == [10.0] * 4  # durations hold on the best type that can run the job


def test_the_ideal_time_counts_only_types_that_run_the_job() -> None:
    workload = Workload.from_columns([0.0, 0.0], [1, 2], iterations=[10.0, 10.0], profiles=profiles(), profile=[3, 2])
    instance = Instance(ROOM, workload, Network("none"))
    assert instance.ideal_s.tolist() == [5.0, 20.0]


def test_a_job_that_runs_nowhere_is_refused_at_the_start() -> None:
    only_c = Workload.from_columns([0.0], [2], iterations=[10.0], profiles=profiles(), profile=[2])
    with pytest.raises(WorkloadError, match=r"'c' on 2 GPUs cannot run on the cluster's GPU types \(A, B\)"):
        Instance(Cluster.parse("2x4@A,2x4@B"), only_c)
    large = Workload.from_columns([0.0], [17], iterations=[10.0], profiles=profiles(), profile=[0])
    with pytest.raises(WorkloadError, match="or the cluster has too few GPUs of a type that runs it"):
        Instance(ROOM, large)  # 24 GPUs, 16 of them A and B


def test_explicit_gpus_of_a_type_that_cannot_run_the_job_are_refused() -> None:
    workload = Workload.from_columns([0.0], [2], iterations=[10.0], profiles=profiles(), profile=[0])
    simulation = begin(Instance(ROOM, workload))
    before = arrays_of(simulation)
    for gpus in ((3, 16), (16, 3), (17, 18)):
        assert simulation.apply(Start(0, gpus=gpus)) == "the job cannot run on the type of one of these GPUs"
    for name in ("free", "holder"):
        assert arrays_of(simulation)[name] == before[name]
    assert simulation.apply(Start(0, gpus=(3, 8))) == ""  # on mixed types, both of which can run the job
    assert simulation.advance() is Outcome.DONE


@pytest.mark.parametrize("rule", PLACEMENT_RULES)
def test_no_rule_places_a_job_where_it_cannot_run(rule: str) -> None:
    instance = drawn(1, LINKS, largest=4)
    assert not misplaced(instance, play(instance, "fifo-skip", placement=rule))


@pytest.mark.parametrize(
    "scheduler",
    ["fifo-easy", "srtf", "las-2d", "tiresias", "tiresias-g", "random", "sjf-bco", "bco-ls", "gandiva-lite"],
)
@pytest.mark.parametrize("seed", [3, 4])
def test_no_scheduler_places_a_job_where_it_cannot_run(scheduler: str, seed: int) -> None:
    instance = drawn(seed)
    assert not misplaced(instance, play(instance, scheduler))


def test_dally_refuses_jobs_that_cannot_run_on_every_type() -> None:
    with pytest.raises(SchedulerError, match=r"dally: '.' on \d GPUs cannot run on ., and offers ignore GPU types"):
        play(drawn(3), "dally")


@pytest.mark.parametrize("rule", ["yarn", "consolidate"])
def test_rules_count_machines_among_those_that_can_run_the_job(rule: str) -> None:
    """The machine of eight C GPUs would hold the gang, but a cannot run on C:
    it takes two whole machines of A in a rack.
    """
    room = Cluster([NodeGroup(2, 4, "A"), NodeGroup(1, 8, "C")])
    workload = Workload.from_columns([0.0], [8], iterations=[10.0], profiles=profiles(), profile=[0])
    simulation = begin(Instance(room, workload))
    assert simulation.apply(Start(0, rule)) == ""
    assert simulation.log().gpus.tolist() == list(range(8))


def test_questions_about_places_leave_the_state_unchanged() -> None:
    """Questions hide GPUs temporarily and must restore the state."""
    simulation = begin(drawn(5))
    view = ClusterView(simulation)
    before = arrays_of(simulation)
    for job in view.waiting.tolist():
        for rule in ("pack", "consolidate", "random", "least-busy", "least-busy-servers", "spread", "most-free"):
            assert view.can_place(job, rule) == bool(view.where(job, rule))
    assert {**arrays_of(simulation), "chosen": b""} == {**before, "chosen": b""}


def test_rates_on_each_type_are_those_of_its_tightest_place() -> None:
    """Two GPUs fit a machine of A, eight a rack of A, ten only A's network; B has four GPUs."""
    room = Cluster([NodeGroup(4, 4, "A", 2), NodeGroup(1, 4, "B")])
    rows = [ROW | dict(name="a", compute_s=[1.0, 2.0]), ROW | dict(name="b", compute_s=[1.0, np.inf])]
    workload = Workload.from_columns(
        [0.0] * 5, [2, 8, 10, 4, 2], iterations=[9.0] * 5, profiles=Profiles.from_rows(rows, ("A", "B")),
        profile=[0, 0, 0, 0, 1],
    )  # fmt: skip
    instance = Instance(room, workload, Network("tiers"))
    simulation = begin(instance)
    rates = ClusterView(simulation).type_rates(np.arange(5))
    kinds = instance.job_class
    expected = [[1 / instance.iteration_s[kinds[job], tier, 0], 0.0] for job, tier in enumerate((0, 1, 2, 0, 0))]
    expected[0][1] = 1 / instance.iteration_s[kinds[0], 0, 1]
    expected[3][1] = 1 / instance.iteration_s[kinds[3], 0, 1]
    assert rates.tolist() == expected


def test_the_ideal_time_is_that_of_the_best_placement() -> None:
    """Four fast GPUs lie on two nodes, four slow ones on one: the ideal is the better of these two."""
    cluster = Cluster([NodeGroup(2, 2, "fast"), NodeGroup(1, 4, "slow")])
    row = dict(name="m", batch=1, gradient_bytes=12e9, memory_bytes=0.0, skew=0.0, overlap=1.0)
    for slow, best in ((1.2, "slow"), (30.0, "fast")):
        profiles = Profiles.from_rows([row | {"compute_s": [1.0, slow]}], ("fast", "slow"))
        workload = Workload.from_columns([0], [4], [100.0], profiles=profiles)
        instance = Instance(cluster, workload, Network(latency_s=(0, 0, 0)))
        gpus = (4, 5, 6, 7) if best == "slow" else (0, 1, 2, 3)
        log = play(instance, Explicit(gpus))
        assert log.events[-1]["time_s"] == pytest.approx(100.0, rel=1e-12)


class Explicit(Scheduler):
    """Start job 0 on given GPUs."""

    def __init__(self, gpus: tuple[int, ...]) -> None:
        self.gpus = gpus

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if len(view.waiting):
            yield Start(0, gpus=self.gpus)
