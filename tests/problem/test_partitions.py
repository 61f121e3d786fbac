"""Partitions and reservations: which nodes gangs hold, under every kind of scheduler, and errors of bad input."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Start, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import GpuschedError, ScenarioError, ScheduleError, SchedulerError, WorkloadError
from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import validate
from gpusched_env.problem.partitions import Partition, Partitions, Reservation
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.problem.workload import Profiles
from gpusched_env.scenarios import get_scenario, load_scenario, scenario_from_dict
from gpusched_env.simulator import Move, Outcome, Simulation, past, simulate

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)
SCHEDULERS = (
    "fifo", "fifo-skip", "fifo-easy", "sjf", "srtf", "las", "tiresias", "slurm",
    "slurm:backfill=easy", "slurm:preempt=class", "kueue", "drf", "fair", "capacity", "themis-lite",
    "themis", "random", "learned", "volcano", "kai", "kueue-reclaim", "kueue-fair",
)  # fmt: skip


def jobs_of(
    partition: list[str], arrival_s: list[float], gpus: list[int], duration_s: list[float], **columns: object
) -> Workload:
    attributes = {"partition": np.array(partition)}
    return Workload.from_columns(arrival_s, gpus, duration_s, attributes=attributes, **columns)  # type: ignore[arg-type]


def held(instance: Instance, log: EventLog) -> list[tuple[int, set[int], float, float]]:
    """Row, nodes, begin and end of each stay of a gang on its nodes, by a walk through the log."""
    stays, since = [], {}
    for number, event in enumerate(log.events):
        job = int(event["job"])
        if event["kind"] in (START, RESUME):
            since[job] = float(event["time_s"]), set(instance.cluster.node_of_gpu[log.gang(number)].tolist())
        elif event["kind"] in (RELEASE, COMPLETE):
            begin, nodes = since.pop(job)
            stays.append((job, nodes, begin, float(event["time_s"])))
    stays += [(job, nodes, begin, math.inf) for job, (begin, nodes) in since.items()]
    return stays


TWO = (Partition("a", nodes="0"), Partition("b", nodes="1"))


def test_a_gang_starts_only_on_nodes_of_its_partition() -> None:
    workload = jobs_of(["a", "a", "b"], [0.0, 0.0, 0.0], [4, 4, 4], [10.0, 10.0, 10.0])
    instance = Instance(Cluster.parse("2x4"), workload, semantics=FREE, partitions=Partitions(TWO))
    log = simulate(instance, make_scheduler("fifo-skip"))
    validate(instance, log)
    assert held(instance, log) == [(0, {0}, 0.0, 10.0), (2, {1}, 0.0, 10.0), (1, {0}, 10.0, 20.0)]


def test_gangs_leave_a_reserved_node_in_time_for_their_checkpoint_and_come_back_when_it_opens() -> None:
    workload = jobs_of(["b"], [0.0], [4], [30.0])
    maintenance = (Reservation("maintenance", 20.0, 50.0, nodes="1"),)
    instance = Instance(
        Cluster.parse("2x4"), workload, semantics=Semantics(checkpoint_s=5.0, restore_s=1.0),
        partitions=Partitions(TWO, maintenance),
    )  # fmt: skip
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    # 15 s of work, a checkpoint until the reservation begins, and the other 15 s after 1 s of restore
    assert held(instance, log) == [(0, {1}, 0.0, 20.0), (0, {1}, 50.0, 66.0)]


def test_gangs_on_drained_nodes_run_on_and_nothing_more_starts_there_until_they_open() -> None:
    workload = jobs_of(["b", "b", "b"], [0.0, 0.0, 0.0], [2, 2, 2], [30.0, 5.0, 10.0])
    drained = (Reservation("drained", 4.0, 33.0, nodes="1", drain=True),)
    rules = Semantics(checkpoint_s=5.0, restore_s=1.0)
    instance = Instance(Cluster.parse("2x4"), workload, semantics=rules, partitions=Partitions(TWO, drained))
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    # Two run on over the drain; the third, for which there is room from 5 s on, waits for its end.
    assert held(instance, log) == [(1, {1}, 0.0, 5.0), (0, {1}, 0.0, 30.0), (2, {1}, 33.0, 43.0)]


def test_a_reservation_ends_the_stay_of_gangs_on_a_node_that_is_also_drained() -> None:
    workload = jobs_of(["b"], [0.0], [4], [30.0])
    both = (Reservation("drained", 4.0, 50.0, nodes="1", drain=True), Reservation("r", 20.0, 40.0, nodes="1"))
    instance = Instance(
        Cluster.parse("2x4"), workload, semantics=Semantics(checkpoint_s=5.0, restore_s=1.0),
        partitions=Partitions(TWO, both),
    )  # fmt: skip
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    assert held(instance, log) == [(0, {1}, 0.0, 20.0), (0, {1}, 50.0, 66.0)]


def test_slurm_reserves_no_gpus_of_drained_nodes_for_a_waiting_job() -> None:
    """The gang on drained node 0 ends at 600 s, the one on node 1 at 3,600 s: the head can start only then.

    So backfill starts the last job, which ends before 3,600 s, but long after 600 s.
    """
    duration_s = [600.0, 3600.0, 60.0, 3000.0]
    workload = Workload.from_columns([0.0, 0.0, 60.0, 60.0], [4, 2, 4, 2], duration_s, estimate_s=duration_s)
    drained = Partitions(reservations=(Reservation("drained", 60.0, 1e6, nodes="0", drain=True),))
    instance = Instance(Cluster.parse("2x4"), workload, semantics=FREE, partitions=drained)
    run = past.begin(instance, [Move(0.0, Start(0, gpus=(0, 1, 2, 3))), Move(0.0, Start(1, gpus=(4, 5)))], 60.0)
    run.run(make_scheduler("slurm"))
    validate(instance, run.log())
    starts = {job: (nodes, start_s) for job, nodes, start_s, _ in held(instance, run.log())}
    assert starts == {0: ({0}, 0.0), 1: ({1}, 0.0), 2: ({1}, 3600.0), 3: ({1}, 60.0)}


def test_a_reservation_is_open_to_its_tenants_only() -> None:
    workload = Workload.from_columns(
        [0.0, 0.0], [4, 4], [10.0, 10.0], attributes={"tenant": np.array(["lab", "guests"])}
    )
    lab = Partitions(reservations=(Reservation("lab", 0.0, 15.0, tenants=("lab",)),))
    instance = Instance(Cluster.parse("2x4"), workload, semantics=FREE, partitions=lab)
    log = simulate(instance, make_scheduler("fifo-skip"))
    assert [(job, begin) for job, _, begin, _ in held(instance, log)] == [(0, 0.0), (1, 15.0)]


def test_a_reservation_may_name_a_tenant_that_has_no_jobs() -> None:
    workload = Workload.from_columns([0.0], [4], [10.0], attributes={"tenant": np.array(["guests"])})
    lab = Partitions(reservations=(Reservation("lab", 0.0, 15.0, nodes="0", tenants=("lab",)),))
    tree = Tenants((Tenant("lab"), Tenant("guests")))
    instance = Instance(Cluster.parse("2x4"), workload, semantics=FREE, partitions=lab, tenants=tree)
    assert held(instance, simulate(instance, make_scheduler("fifo"))) == [(0, {1}, 0.0, 10.0)]


def test_with_rounds_gangs_leave_at_the_last_round_before_the_reservation() -> None:
    workload = jobs_of(["b"], [0.0], [4], [30.0])
    rules = Semantics(round_s=10.0, checkpoint_s=2.0, restore_s=0.0)
    maintenance = (Reservation("maintenance", 21.0, 43.0, nodes="1"),)
    instance = Instance(Cluster.parse("2x4"), workload, semantics=rules, partitions=Partitions(TWO, maintenance))
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    assert held(instance, log) == [(0, {1}, 0.0, 12.0), (0, {1}, 50.0, 70.0)]


def test_explicit_gpus_outside_the_partition_are_refused_with_the_reason() -> None:
    workload = jobs_of(["b"], [0.0], [2], [30.0])
    simulation = Simulation(Instance(Cluster.parse("2x4"), workload, partitions=Partitions(TWO)))
    assert simulation.advance() == Outcome.DECIDE
    assert "outside the job's partition" in simulation.apply(Start(0, gpus=(3, 4)))
    assert simulation.apply(Start(0, gpus=(4, 5))) == ""


def test_the_ideal_run_time_is_that_of_the_partition() -> None:
    """A gang that fits on a machine of the cluster, but spans two machines in its partition, is ideal on two."""
    cluster = Cluster.parse("1x8,2x4")
    scenario = get_scenario("tiny-v1")
    drawn = scenario.instance(0).workload
    jobs = drawn.jobs[:1].copy()
    jobs["gpus"], jobs["duration_s"], jobs["iterations"] = 8, np.nan, 100.0
    small = Partitions((Partition("small", nodes="1-2", default=True),))
    workload = Workload(jobs, drawn.profiles)
    whole = Instance(cluster, workload, scenario.network)
    part = Instance(cluster, workload, scenario.network, partitions=small)
    assert part.ideal_iteration_s[0] == part.iteration_s[0, 1, 0]  # tier "rack"
    assert whole.ideal_iteration_s[0] == whole.iteration_s[0, 0, 0]  # tier "machine"


@st.composite
def problems(draw: st.DrawFn) -> Instance:
    """Draw up to 12 jobs of 2 tenants on 4 nodes of 2 types, in overlapping partitions, with up to 2 reservations."""
    cluster = Cluster.parse("2x4,2x2@T4")
    ranges = [(0, 0), (0, 1), (1, 2), (2, 3), (0, 3)]
    parts = draw(st.lists(st.sampled_from(ranges), min_size=1, max_size=3, unique=True))
    partitions = tuple(
        Partition(f"p{i}", nodes=f"{a}-{b}", tier=draw(st.integers(0, 2))) for i, (a, b) in enumerate(parts)
    )
    count = draw(st.integers(1, 12))
    of_job = [draw(st.integers(0, len(parts) - 1)) for _ in range(count)]
    nodes = cluster.nodes["gpus"]
    gpus = [draw(st.integers(1, int(nodes[parts[p][0] : parts[p][1] + 1].sum()))) for p in of_job]
    duration_s = [float(draw(st.integers(1, 60))) for _ in range(count)]
    workload = Workload.from_columns(
        [float(draw(st.integers(0, 60))) for _ in range(count)], gpus, duration_s,
        profiles=Profiles.unit("V100", "T4"),
        estimate_s=[d + draw(st.integers(0, 30)) for d in duration_s],
        attributes={
            "partition": np.array([f"p{i}" for i in of_job]),
            "tenant": np.array([draw(st.sampled_from(["x", "y"])) for _ in range(count)]),
        },
    )  # fmt: skip
    reservations = []
    for i in range(draw(st.integers(0, 2))):
        first = draw(st.integers(0, 3))
        start_s = float(draw(st.integers(0, 80)))
        who = draw(st.sampled_from([(), (str(workload.attributes["tenant"][0]),)]))
        reservations.append(
            Reservation(f"r{i}", start_s, start_s + draw(st.integers(1, 60)), f"{first}-{draw(st.integers(first, 3))}",
                        tenants=who, drain=draw(st.booleans()))
        )  # fmt: skip
    rules = Semantics(
        round_s=draw(st.sampled_from([0.0, 0.0, 10.0])), checkpoint_s=draw(st.sampled_from([0.0, 3.0])), restore_s=2.0
    )
    return Instance(cluster, workload, semantics=rules, partitions=Partitions(partitions, tuple(reservations)))


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from(SCHEDULERS))
def test_no_job_runs_outside_its_partition_or_inside_a_foreign_reservation(instance: Instance, spec: str) -> None:
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    sets = instance.node_sets
    assert sets is not None
    for job, nodes, begin, end in held(instance, log):
        group = sets.of_job[job]
        assert all(sets.belongs[group, node] for node in nodes)
        for row in range(len(sets.start_s)):
            if sets.barred[row, group] and any(sets.reserved[row, node] for node in nodes):
                leaves = end if not sets.drains[row] else begin
                assert leaves <= sets.start_s[row] or begin >= sets.end_s[row]


@pytest.mark.parametrize("spec", ["fifo-skip", "tiresias", "slurm", "kueue", "learned"])
def test_one_partition_of_all_nodes_changes_no_event(spec: str) -> None:
    plain = get_scenario("tiny-v1").instance(3)
    everything = Partitions((Partition("all", default=True),))
    divided = Instance(
        plain.cluster, plain.workload, plain.network, plain.semantics, tenants=plain.tenants, partitions=everything
    )
    assert simulate(divided, make_scheduler(spec)).digest() == simulate(plain, make_scheduler(spec)).digest()
    assert divided.fingerprint() != plain.fingerprint()


def test_the_validator_refuses_what_the_simulator_never_does() -> None:
    workload = jobs_of(["a"], [0.0], [4], [10.0])
    open_log = simulate(Instance(Cluster.parse("2x4"), workload, semantics=FREE), make_scheduler("fifo"))
    there = Instance(
        Cluster.parse("2x4"), workload, semantics=FREE,
        partitions=Partitions((Partition("a", nodes="1"), Partition("b", nodes="0"))),
    )  # fmt: skip
    with pytest.raises(ScheduleError, match="node 0 is outside the job's partition"):
        validate(there, open_log)
    busy = Partitions((Partition("a", nodes="0"),), (Reservation("r", 5.0, 8.0, nodes="0"),))
    with pytest.raises(ScheduleError, match=r"node 0 is reserved for others from 5.0 to 8.0 s"):
        validate(Instance(Cluster.parse("2x4"), workload, semantics=FREE, partitions=busy), open_log)
    shut = Partitions((Partition("a", nodes="0"),), (Reservation("r", 0.0, 8.0, nodes="0", drain=True),))
    with pytest.raises(ScheduleError, match=r"node 0 is reserved for others from 0.0 to 8.0 s"):
        validate(Instance(Cluster.parse("2x4"), workload, semantics=FREE, partitions=shut), open_log)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Partition(""), "name is empty"),
        (lambda: Partition("a", nodes="3-"), "such as 0-3,8"),
        (lambda: Partition("a", max_time_s=0.0), "max_time_s is 0.0"),
        (lambda: Partition("a", max_time_s=5.0, default_time_s=9.0), "default_time_s is 9.0"),
        (lambda: Partition("a", max_gpus=0), "max_gpus is 0"),
        (lambda: Partition("a", tier=-1), "tier is -1"),
        (lambda: Partition("a", priority=-1.0), "priority is -1"),
        (lambda: Reservation("r", 5.0, 5.0), "start_s is 5.0"),
        (
            lambda: Reservation("r", 0.0, 5.0, tenants=("lab",), planned=False),
            "not planned, so it closes its nodes to all",
        ),
        (lambda: Partitions((Partition("a"), Partition("a"))), "'a' is listed twice"),
        (lambda: Partitions((Partition("a", default=True), Partition("b", default=True))), "several partitions"),
    ],
)
def test_impossible_partitions_are_refused(make: object, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (Partitions((Partition("a", nodes="0-2"), Partition("b"))), "nodes '0-2': give numbers from 0 to 1"),
        (Partitions((Partition("a", gpu_type="A100"), Partition("b"))), "unknown GPU type 'A100'"),
        (Partitions((Partition("a"), Partition("bb"))), "a job names unknown partition 'b'"),
        (Partitions((Partition("a"), Partition("b")), by="queue"), "unknown attribute 'queue'"),
        (
            Partitions((Partition("a", default=True), Partition("b")), by="queue"),
            "partitions.by: unknown attribute 'queue'; the jobs have 'partition': set by = 'partition'",
        ),
        (Partitions((Partition("a"), Partition("b", max_gpus=3))), "job 1: it wants 4 GPUs.*max_gpus 3"),
        (Partitions((Partition("a", max_time_s=9.0), Partition("b"))), "job 0: it wants 60 s.*max_time_s 9"),
        (Partitions(TWO, (Reservation("r", 0.0, 1.0, tenants=("lab",)),)), "unknown tenant 'lab'"),
    ],
)
def test_partitions_that_do_not_fit_the_problem_are_refused_with_the_remedy(rules: Partitions, told: str) -> None:
    workload = jobs_of(["a", "b"], [0.0, 0.0], [4, 4], [9.0, 9.0], estimate_s=[60.0, 60.0])
    with pytest.raises((ScenarioError, WorkloadError), match=told):
        Instance(Cluster.parse("2x4"), workload, partitions=rules)


def test_a_gang_that_is_larger_than_its_partition_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"wants 8 GPUs, and its partition 'a' has GPUs in all 4"):
        Instance(Cluster.parse("2x4"), jobs_of(["a"], [0.0], [8], [9.0]), partitions=Partitions(TWO))


def test_jobs_without_a_partition_go_to_the_default_one() -> None:
    parts = Partitions((dataclasses.replace(TWO[0], default=True), TWO[1]))
    instance = Instance(Cluster.parse("2x4"), jobs_of(["", "b"], [0.0, 0.0], [4, 4], [9.0, 9.0]), partitions=parts)
    assert instance.node_sets is not None
    assert instance.node_sets.partition.tolist() == [0, 1]
    with pytest.raises(ScenarioError, match="a job names no partition"):
        Instance(Cluster.parse("2x4"), instance.workload, partitions=Partitions(TWO))


def test_time_limits_come_from_the_job_then_from_the_partition() -> None:
    parts = Partitions((Partition("a", max_time_s=90.0, default_time_s=30.0), Partition("b", max_time_s=80.0)))
    workload = jobs_of(["a", "a", "b"], [0.0] * 3, [1] * 3, [9.0] * 3, estimate_s=[50.0, np.nan, np.nan])
    instance = Instance(Cluster.parse("2x4"), workload, partitions=parts)
    assert instance.limit_s.tolist() == [50.0, 30.0, 80.0]
    assert np.isinf(Instance(Cluster.parse("2x4"), workload).limit_s[1])


def test_a_scenario_file_holds_partitions(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(
        """
name = "two"
groups = [{count = 2, gpus = 4}]
workload = {source = "synthetic:philly", jobs = 20, max_gpus = 4}
[partitions]
partitions = [{name = "left", nodes = "0", default = true}, {name = "right", nodes = "1"}]
reservations = [{name = "maintenance", start_s = 0, end_s = 3600, nodes = "0"}]
"""
    )
    scenario = load_scenario(path)
    assert scenario_from_dict(scenario.as_dict()) == scenario
    assert scenario.fingerprint() != scenario.replace(partitions=None).fingerprint()
    instance = scenario.instance(0)
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    stays = held(instance, log)
    assert {tuple(nodes) for _, nodes, _, _ in stays} == {(0,)}
    assert min(begin for _, _, begin, _ in stays) >= 3600.0


def test_elastic_jobs_cannot_be_divided() -> None:
    instance = get_scenario("elasticflow-v0").instance(0)
    with pytest.raises(GpuschedError, match="jobs with several sizes"):
        Instance(
            instance.cluster,
            instance.workload,
            instance.network,
            partitions=Partitions((Partition("a", default=True),)),
        )


@pytest.mark.parametrize(
    "spec", ["dally", "yarn-cs", "gavel", "hadar", "hadare", "sjf-bco", "gandiva-lite", "sjf-bsbf"]
)
def test_schedulers_that_choose_machines_themselves_refuse_partitions(spec: str) -> None:
    instance = Instance(Cluster.parse("2x4"), jobs_of(["a"], [0.0], [2], [9.0]), partitions=Partitions(TWO))
    with pytest.raises(SchedulerError, match="knows no partitions or reservations"):
        simulate(instance, make_scheduler(spec))


@pytest.mark.parametrize("seed", [0, 1])
def test_masks_of_the_environment_respect_partitions_and_reservations(seed: int) -> None:
    """Random feasible actions: no masked action is refused, and the log is valid."""
    parts = (Partition("left", nodes="0", default=True), Partition("right", nodes="1"))
    reserved = (Reservation("maintenance", 3600.0, 7200.0, nodes="0"),)
    scenario = get_scenario("tiny-v1")
    assert len(scenario.cluster.nodes) >= 2
    workload = dataclasses.replace(scenario.workload, max_gpus=int(scenario.cluster.nodes["gpus"].min()))
    scenario = scenario.replace(partitions=Partitions(parts, reserved), workload=workload)
    env = ClusterEnv(scenario)
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    over = False
    while not over:
        allowed = np.flatnonzero(info["action_mask"])
        _, _, ended, cut, info = env.step(int(rng.choice(allowed)))
        over = ended or cut
    assert info["refusals"] == 0
    validate(env.simulation.instance, env.event_log(), complete=False)
    assert (env.event_log().events["kind"] == START).any()


def test_each_tenant_may_have_its_own_nodes() -> None:
    scenario = get_scenario("cohort-256-v0")
    assert scenario.tenants is not None
    names = [tenant.name for tenant in scenario.tenants.tree]
    parts = tuple(Partition(name, nodes=f"{10 * i}-{10 * i + 9}") for i, name in enumerate(names))
    instance = scenario.replace(partitions=Partitions(parts, by="tenant")).instance(0)
    log = simulate(instance, make_scheduler("slurm:limits=oracle"))
    validate(instance, log)
    tree, leaf = instance.tenancy
    for job, nodes, _, _ in held(instance, log):
        number = names.index(tree.names[leaf[job]])
        assert {node // 10 for node in nodes} == {number}


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("leaf-spine-256-v1", "tiresias"),
        ("leaf-spine-256-v1", "slurm:limits=oracle"),
        ("bsbf-physical-30-v1", "fifo-skip:placement=share-first-fit"),
        ("gavel-continuous-v1", "las"),
        ("family-v1", "themis-lite"),
    ],
)
def test_with_links_sharing_and_types_gangs_leave_reserved_nodes_too(name: str, spec: str) -> None:
    plain = get_scenario(name).problem(0).instance(0)
    workload = plain.workload.select(np.arange(min(len(plain.workload), 300)))
    last_s = float(workload.jobs["arrival_s"].max())
    half = len(plain.cluster.nodes) // 2
    reserved = [
        Reservation(f"r{i}", (i + 0.5) / 8 * last_s + 60.0, (i + 1) / 8 * last_s + 120.0, f"0-{half - 1}")
        for i in range(8)
    ]
    instance = Instance(
        plain.cluster, workload, plain.network, plain.semantics, plain.sharing,
        partitions=Partitions(reservations=tuple(reserved)),
    )  # fmt: skip
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    open_log = simulate(
        Instance(plain.cluster, workload, plain.network, plain.semantics, plain.sharing), make_scheduler(spec)
    )
    assert log.digest() != open_log.digest()
