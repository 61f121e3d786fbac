"""Jobs that cannot run on some GPU types: they are never placed there, whoever places them; else nothing changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers import begin, play

from gpusched_env.cluster import Cluster, NodeGroup
from gpusched_env.errors import GpuschedError, SchedulerError, WorkloadError
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.instance import Instance, Semantics
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.simulator import PLACEMENT_RULES, ClusterView, Outcome, Simulation, Start
from gpusched_env.workload import MEASURED_DTYPE, Profiles, Workload

ROW = dict(batch=1, gradient_bytes=1e8, memory_bytes=0.0, skew=0.5, overlap=1.0)
LINKS = Network("topology", topology=NETWORK_PRESETS["oversub4"].topology, contention=Contention("maxmin"))
ROOM = Cluster([NodeGroup(2, 4, "A", 1), NodeGroup(2, 4, "B", 1), NodeGroup(1, 8, "C")])


def profiles() -> Profiles:
    """Model a runs on A and B, b on all, c on C and as a gang of 2 nowhere else, d on A and C."""
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
    """Jobs and GPU types on which they were placed though they cannot run there."""
    of_gpu = ROOM.nodes["gpu_type"][ROOM.node_of_gpu]
    found = []
    for event in log.events[np.isin(log.events["kind"], [START, RESUME])]:
        gpus = log.gpus[event["gpu_at"] : event["gpu_at"] + event["gpu_count"]]
        kind = instance.job_class[event["job"]]
        found += [(int(event["job"]), t) for t in of_gpu[gpus].tolist() if np.isinf(instance.iteration_s[kind, 0, t])]
    return found


@pytest.mark.parametrize("network", [None, Network("tiers"), LINKS])
def test_a_class_that_cannot_run_on_a_type_has_no_pace_there(network: Network | None) -> None:
    workload = Workload.from_columns([0.0] * 4, [1, 2, 2, 1], [10.0] * 4, profiles=profiles(), profile=[0, 0, 2, 3])
    instance = Instance(ROOM, workload, network)
    expected = {(0, 1): "AB", (0, 2): "AB", (2, 2): "C", (3, 1): "AC"}
    for kind, told in enumerate(instance.classes.tolist()):
        able = np.isfinite(instance.iteration_s[kind])
        assert (able == able[0]).all()  # on every tier or on none
        assert "".join(np.array(ROOM.gpu_types)[able[0]]) == expected[tuple(told)]
    assert np.isfinite(instance.communication_s).all()
    assert np.isfinite(instance.ideal_iteration_s).all()
    assert instance.ideal_s.tolist() == [10.0] * 4  # durations hold on the best of those that can


def test_the_ideal_looks_only_at_types_that_run_the_job() -> None:
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
        assert simulation.apply(Start(0, gpus=gpus)) == "the job cannot run on the GPU type of one of these"
    for name in ("free", "holder"):
        assert arrays_of(simulation)[name] == before[name]
    assert simulation.apply(Start(0, gpus=(3, 8))) == ""  # on mixed types that both can
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


def test_dally_says_that_it_does_not_look_at_types() -> None:
    with pytest.raises(
        SchedulerError, match=r"dally: '.' on \d GPUs cannot run on ., and offers do not look at GPU types"
    ):
        play(drawn(3), "dally")


@pytest.mark.parametrize("rule", ["yarn", "consolidate"])
def test_rules_count_machines_among_those_that_can_run_the_job(rule: str) -> None:
    """On the machine of eight C one would do; a runs only on A, where it takes two whole machines of a rack."""
    room = Cluster([NodeGroup(2, 4, "A"), NodeGroup(1, 8, "C")])
    workload = Workload.from_columns([0.0], [8], iterations=[10.0], profiles=profiles(), profile=[0])
    simulation = begin(Instance(room, workload))
    assert simulation.apply(Start(0, rule)) == ""
    assert simulation.log().gpus.tolist() == list(range(8))


def test_nothing_is_left_behind_by_the_look_for_a_place() -> None:
    """Questions hide GPUs for a moment: the state after them is that before."""
    simulation = begin(drawn(5))
    view = simulation.view_for(type("Any", (), {"clairvoyant": False}))  # type: ignore[arg-type]
    before = arrays_of(simulation)
    for job in view.waiting.tolist():
        for rule in ("pack", "consolidate", "random", "least-busy", "least-busy-servers", "spread", "most-free"):
            assert view.can_place(job, rule) == bool(view.where(job, rule))
    assert {**arrays_of(simulation), "chosen": b""} == {**before, "chosen": b""}


def test_speeds_on_each_type_are_those_of_the_tightest_place_there() -> None:
    """Two GPUs fit a machine of A, eight a rack of A, and ten nothing but A's network; B has four in all."""
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


def test_users_may_tell_weights_and_deadlines() -> None:
    plain = Workload.from_columns([0.0, 5.0], [1, 1], [10.0, 10.0])
    told = dataclasses.replace(plain, attributes={"slo": np.array(["1.5", "-1"]), "user": np.array(["x", "y"])})
    view = ClusterView(begin(Instance(Cluster.parse("1x4"), told)))
    assert view.told("slo", -1.0).tolist() == [1.5]  # of the jobs that have arrived
    assert view.told("priority_weight", 1.0).tolist() == [1.0]
    with pytest.raises(GpuschedError, match="unknown number that users tell 'user'"):
        view.told("user", 0.0)
    assert told.fingerprint() != plain.fingerprint()  # it may decide a run, unlike
    assert dataclasses.replace(plain, attributes={"user": np.array(["x", "y"])}).fingerprint() == plain.fingerprint()
    words = dataclasses.replace(plain, attributes={"priority_weight": np.array(["high", "low"])})
    with pytest.raises(GpuschedError, match=r"priority_weight: could not convert string to float.*give numbers"):
        ClusterView(begin(Instance(Cluster.parse("1x4"), words))).told("priority_weight", 1.0)
