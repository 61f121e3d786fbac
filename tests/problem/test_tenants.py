"""Tenants: the tree, the assignment of jobs, metrics by tenant, and partitions."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from typer.testing import CliRunner

from gpusched_env import Cluster, Instance, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.evaluation.partitions import partitions, pooling
from gpusched_env.metrics import TENANT_COLUMNS, jain_index, max_min_distance, tenant_summary, tenant_times
from gpusched_env.metrics.tenants import entitlements, max_min_shares, usage
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.qos import Qos
from gpusched_env.problem.tenants import UNLIMITED, Resource, Tenant, Tenants, tree_of
from gpusched_env.scenarios import get_scenario, scenario_from_dict
from gpusched_env.simulator import simulate


def jobs_of(leaves: list[str], arrival_s: list[float], gpus: list[int], duration_s: list[float]) -> Workload:
    return Workload.from_columns(arrival_s, gpus, duration_s, attributes={"tenant": np.array(leaves)})


TREE = (
    Tenant("lab", weight=3.0),
    Tenant("vis", "lab", quota=4),
    Tenant("nlp", "lab", weight=2.0, quota=2, most=3),
    Tenant("ops"),
)


def test_a_tree_lists_parents_before_children_and_limits_that_are_not_given_are_unlimited() -> None:
    listed = (TREE[1], TREE[3], TREE[2], TREE[0])  # children before their parent
    tree, leaf = tree_of(Tenants(listed), np.array(["ops", "nlp", "vis"]))
    assert tree.names == ("", "ops", "lab", "vis", "nlp")
    assert tree.parent.tolist() == [-1, 0, 0, 2, 2]
    assert tree.quota.tolist() == [0, 0, 0, 4, 2]
    assert tree.most.tolist() == [UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, 3]
    assert tree.leaves.tolist() == [1, 3, 4]
    assert leaf.tolist() == [1, 4, 3]


def test_without_a_tree_each_name_is_a_tenant_and_without_names_all_jobs_belong_to_one() -> None:
    workload = jobs_of(["b", "a", "b"], [0.0, 1.0, 2.0], [1, 1, 1], [9.0, 9.0, 9.0])
    tree, leaf = Instance(Cluster.parse("1x4"), workload).tenancy
    assert tree.names == ("", "a", "b")
    assert leaf.tolist() == [2, 1, 2]
    plain = dataclasses.replace(workload, attributes={})
    tree, leaf = Instance(Cluster.parse("1x4"), plain).tenancy
    assert tree.names == ("", "all")
    assert leaf.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("tenants", "told"),
    [
        (lambda: Tenants((Tenant("a"), Tenant("a", "b"))), "'a' is listed twice"),
        (lambda: Tenants((Tenant("a", "b"), Tenant("b", "a"))), "cycle"),
        (lambda: Tenant("q", rules="garbage!!"), "tenant 'q', rules 'garbage!!': 'garbage!!' is not of the form"),
        (lambda: Tenant("q", rules="within="), "tenant 'q', rules 'within=': 'within=' is not of the form"),
        (lambda: Tenant("q", rules="within=any,fair=on"), "tenant 'q', .*unknown rule of a queue 'fair'"),
        (lambda: Tenants((Tenant("c", rules="within=any"), Tenant("q", "c"))), "tenant 'c': rules .* no leaf"),
        (lambda: Tenants((Tenant("a", "labb"), Tenant("lab"))), "did you mean 'lab'"),
        (lambda: Tenant("a", weight=0.0), "weight is 0.0"),
        (lambda: Tenant("a", quota=-1), "quota is -1"),
        (lambda: Tenant("a", most=2**63), "'a': most is 9223372036854775808: give a number of GPUs from 0 to 2"),
        (lambda: Tenant("a", jobs=2**63), "jobs is 9223372036854775808: give a number of jobs from 1 to 2"),
        (lambda: Tenant(""), "name is empty"),
        (lambda: Tenants(burst=0.5), "burst is 0.5"),
    ],
)
def test_what_is_no_tree_is_refused(tenants: object, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        tenants()  # type: ignore[operator]


def test_a_job_of_an_unknown_tenant_and_a_workload_without_tenants_are_refused_with_the_remedy() -> None:
    workload = jobs_of(["vis", "viz"], [0.0, 1.0], [1, 1], [9.0, 9.0])
    with pytest.raises(ScenarioError, match=r"unknown leaf 'viz'.*did you mean 'vis'"):
        Tenants(TREE).assign(workload, 0)
    with pytest.raises(ScenarioError, match=r"unknown attribute 'user'.*known: tenant"):
        Tenants(TREE, by="user").assign(workload, 0)
    named = workload.unchecked_replace(attributes={"partition": np.array(["vis", "viz"])})
    with pytest.raises(ScenarioError, match=r"tenants\.by: unknown attribute 'queue'; the jobs have 'partition'"):
        Tenants((Tenant("vis", demand=1.0),), by="queue").assign(named, 0)
    with pytest.raises(ScenarioError, match=r"tenants\.priority: unknown attribute 'qos'"):
        Tenants(TREE, priority="qos").assign(workload.select(np.array([0])), 0)


def test_an_instance_of_its_own_reads_the_priority_column_or_refuses_it() -> None:
    """Job 1 preempts job 0 because of the class in the column that the tenants name."""
    workload = jobs_of(["ops", "ops"], [0.0, 5.0], [4, 4], [99.0, 9.0])
    cluster, tenants = Cluster.parse("1x4"), Tenants((Tenant("ops", quota=4),), priority="pr")
    with pytest.raises(ScenarioError, match=r"tenants\.priority: unknown attribute 'pr': known: tenant; name one"):
        Instance(cluster, workload, tenants=tenants)
    classes = workload.unchecked_replace(attributes=workload.attributes | {"pr": np.array([0.0, 1.0])})
    instance = Instance(cluster, classes, tenants=tenants)
    log = simulate(instance, make_scheduler("kueue:within=lower"))
    assert "preempt job 0" in "\n".join(log.lines())


def test_a_scenario_file_with_an_unknown_priority_column_names_it(tmp_path: Path) -> None:
    data = get_scenario("cohort-256-v0").as_dict()
    data["tenants"]["priority"] = "pr"
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    result = CliRunner().invoke(app, ["run", "--scenario", str(path), "--scheduler", "kai"])
    assert result.exit_code != 0
    assert "tenants.priority: unknown attribute 'pr'" in " ".join(result.output.split())


def test_tenants_are_part_of_the_scenario_file_and_of_fingerprints() -> None:
    scenario = get_scenario("cohort-256-v0")
    assert scenario_from_dict(scenario.as_dict()) == scenario
    assert scenario.tenants is not None
    other = scenario.replace(tenants=dataclasses.replace(scenario.tenants, burst=1.0))
    assert other.fingerprint() != scenario.fingerprint()
    assert other.instance(0).fingerprint() != scenario.instance(0).fingerprint()
    assert other.instance(0).workload.jobs.tobytes() == scenario.instance(0).workload.jobs.tobytes()
    tree = dataclasses.replace(
        scenario.tenants, qos=(Qos("low", most=4), Qos("high", 2.0, preempts=("low",), max_time_s=60.0)),
        qos_by="class", resources=(Resource("memory_gb", 64),),
    )  # fmt: skip
    further = scenario.replace(tenants=tree)
    assert scenario_from_dict(json.loads(json.dumps(further.as_dict()))) == further
    assert further.fingerprint() != scenario.fingerprint()


def test_drawn_tenants_follow_their_demands_and_bursts_have_the_given_mean() -> None:
    tree = (Tenant("a", demand=3.0), Tenant("b", demand=1.0), Tenant("c"))
    count = 40_000
    workload = Workload.from_columns(np.arange(count, dtype=float), np.ones(count, int), np.ones(count))
    leaf = Tenants(tree, burst=1.0).assign(workload, 1).attributes["tenant"]
    assert (leaf == "a").mean() == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / count))
    assert not (leaf == "c").any()
    bursty = Tenants(tree, burst=10.0).assign(workload, 1).attributes["tenant"]
    # A burst ends with probability 1/10, and the next is of another tenant with probability 2 x 3/4 x 1/4.
    changes = (bursty[1:] != bursty[:-1]).mean()
    assert changes == pytest.approx(0.1 * 0.375, rel=0.15)


def test_entitlements_are_quotas_or_else_weights_by_level() -> None:
    workload = jobs_of(["vis", "nlp", "ops"], [0.0] * 3, [1] * 3, [9.0] * 3)
    cluster = Cluster.parse("1x8")
    assert entitlements(Instance(cluster, workload, tenants=Tenants(TREE))).tolist() == [0, 4 / 6, 2 / 6]
    unquoted = tuple(dataclasses.replace(tenant, quota=0) for tenant in TREE)
    shares = entitlements(Instance(cluster, workload, tenants=Tenants(unquoted)))
    assert shares.tolist() == pytest.approx([1 / 4, 3 / 4 / 3, 3 / 4 * 2 / 3])  # ops, vis, nlp


def test_metrics_by_tenant_of_a_run_by_hand() -> None:
    # 4 GPUs. a: 3 GPUs from 0 to 100, quota 2. b: 2 GPUs; it waits from 10 to 100, then runs to 150; quota 2.
    workload = jobs_of(["a", "b"], [0.0, 10.0], [3, 2], [100.0, 50.0])
    tenants = Tenants((Tenant("a", quota=2, most=2), Tenant("b", quota=2), Tenant("c")))
    instance = Instance(Cluster.parse("1x4"), workload, tenants=tenants)
    log = simulate(instance, make_scheduler("fifo"))
    a, b, c = tenant_times(instance, log)
    assert (a["gpu_seconds"], b["gpu_seconds"], c["gpu_seconds"]) == (300.0, 100.0, 0.0)
    assert (a["share"], a["entitlement"]) == (0.75, 0.5)
    assert (b["mean_queueing_s"], b["mean_jct_s"]) == (90.0, 140.0)
    assert (a["borrowed_gpu_s"], a["violation_gpu_s"]) == (100.0, 100.0)
    assert (b["lent_gpu_s"], a["lent_gpu_s"], c["lent_gpu_s"]) == (100.0, 0.0, 0.0)
    assert (b["unused_gpu_s"], a["unused_gpu_s"]) == (180.0, 0.0)  # two GPUs of its quota while it waits for 90 s
    assert (b["reclaims"], b["mean_reclaim_s"], b["max_reclaim_s"]) == (1, 90.0, 90.0)
    assert a["reclaims"] == 0  # it holds more than its quota from the start
    assert np.isnan([c["mean_jct_s"], a["mean_reclaim_s"]]).all()
    assert c["jobs"] == 0
    times, held = usage(instance, log)
    assert times.tolist() == [0.0, 10.0, 100.0, 150.0]
    assert held.tolist() == [[3, 3, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]]
    # x = 300 / .5 and 100 / .5: (800)^2 / (2 (600^2 + 200^2))
    assert jain_index(tenant_times(instance, log)) == pytest.approx(0.8)
    found = tenant_summary(instance, log)
    assert list(found) == [column.name for column in TENANT_COLUMNS]
    assert found["worst_tenant_jct_s"] == 140.0
    assert found["tenant_jain"] == pytest.approx(0.8)
    assert found["tenant_violation"] == 100.0 / 400.0
    assert found["tenant_distance"] == max_min_distance(instance, log)


def test_use_that_equals_the_max_min_shares_has_distance_0() -> None:
    workload = jobs_of(["a", "b"], [0.0, 0.0], [2, 2], [7200.0, 7200.0])
    tenants = Tenants((Tenant("a", quota=2), Tenant("b", quota=2)))
    instance = Instance(Cluster.parse("1x4"), workload, tenants=tenants)
    assert max_min_distance(instance, simulate(instance, make_scheduler("fifo"))) == 0.0
    # On 2 GPUs, a has both for two hours, then b; the fair share of each is 1 in the first two hours:
    # differences 1 + 1 in two hours, 0 later; shares 2 in each of four hours.
    instance = Instance(Cluster.parse("1x2"), workload, tenants=tenants)
    log = simulate(instance, make_scheduler("fifo"))
    assert max_min_distance(instance, log) == pytest.approx(2 * 2 / (2 * 4 * 2))


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0.5, 1.0, 2.0, 5.0])), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_max_min_shares_equal_a_sequence_of_linear_programs(tenants: list[tuple[int, float]], capacity: int) -> None:
    demand, weight = (np.array(column, float) for column in zip(*tenants, strict=True))
    shares = max_min_shares(demand, weight, capacity)
    # An independent solution: raise the lowest share / weight as far as possible, fix who is full, and repeat.
    fixed = np.where(demand > 0, np.nan, 0.0)
    while np.isnan(fixed).any():
        free = np.isnan(fixed)
        # variables: t; x_i = min(demand, weight t) is not linear, so all free tenants get weight t <= demand
        room = capacity - np.nansum(fixed)
        bound = np.append(demand[free] / weight[free], room / weight[free].sum())
        level = -linprog([-1.0], A_ub=np.ones((len(bound), 1)), b_ub=bound).fun
        full = free & (demand <= weight * level + 1e-12)
        fixed[full] = demand[full]
        if not full.any() or room <= 0:
            fixed[free & ~full] = weight[free & ~full] * level
    assert shares == pytest.approx(fixed, abs=1e-9)
    assert (shares <= demand + 1e-9).all()
    assert shares.sum() <= capacity + 1e-9


def test_tenants_without_entitlement_share_what_the_others_leave() -> None:
    assert max_min_shares(np.array([2.0, 5.0, 1.0]), np.array([1.0, 0.0, 0.0]), 5.0).tolist() == [2.0, 2.0, 1.0]


def test_a_refused_job_demands_nothing_more() -> None:
    """EDF with admission refuses the job of b at 0 s, so b asks for nothing, and a has all that it asks for."""
    attributes = {"tenant": np.array(["a", "b"]), "deadline_s": np.array([np.inf, 10.0])}
    workload = Workload.from_columns([0.0, 0.0], [2, 4], [7200.0, 100.0], attributes=attributes)
    tenants = Tenants((Tenant("a", quota=2), Tenant("b", quota=2)))
    instance = Instance(Cluster.parse("1x4"), workload, tenants=tenants)
    log = simulate(instance, make_scheduler("edf-admission:slot_s=0"))
    _, b = tenant_times(instance, log)
    assert (b["jobs"], b["finished"], b["unused_gpu_s"]) == (1, 0, 0.0)
    assert max_min_distance(instance, log) == 0.0


def test_what_exceeds_the_quota_and_what_may_be_borrowed_is_a_violation() -> None:
    workload = jobs_of(["a", "b"], [0.0, 0.0], [3, 1], [100.0, 50.0])
    tenants = Tenants((Tenant("a", quota=1, borrow=1), Tenant("b", quota=1)))
    instance = Instance(Cluster.parse("1x4"), workload, tenants=tenants)
    a, b = tenant_times(instance, simulate(instance, make_scheduler("fifo")))
    assert (a["borrowed_gpu_s"], a["violation_gpu_s"], b["violation_gpu_s"]) == (200.0, 100.0, 0.0)


def test_what_is_borrowed_is_lent_in_proportion_to_unused_quotas() -> None:
    """Quotas 2, 4, 1. a holds 5 GPUs for 30 s, b 1 for 10 s; so b lends 3 of 4 parts for 10 s, then 4 of 5."""
    workload = jobs_of(["a", "b", "c"], [0.0, 0.0, 100.0], [5, 1, 1], [30.0, 10.0, 1.0])
    tenants = Tenants((Tenant("a", quota=2), Tenant("b", quota=4), Tenant("c", quota=1)))
    instance = Instance(Cluster.parse("1x8"), workload, tenants=tenants)
    a, b, c = tenant_times(instance, simulate(instance, make_scheduler("fifo")))
    assert a["borrowed_gpu_s"] == 90.0
    assert b["lent_gpu_s"] == pytest.approx(10 * 3 * 3 / 4 + 20 * 3 * 4 / 5)
    assert c["lent_gpu_s"] == pytest.approx(10 * 3 * 1 / 4 + 20 * 3 * 1 / 5)
    assert a["lent_gpu_s"] == 0.0


def test_killed_jobs_are_those_of_their_tenant() -> None:
    attributes, limits = {"tenant": np.array(["a", "b"])}, [50.0, 200.0]
    workload = Workload.from_columns([0.0, 0.0], [1, 1], [100.0, 100.0], attributes=attributes, estimate_s=limits)
    tenants = Tenants((Tenant("a"), Tenant("b")))
    instance = Instance(Cluster.parse("1x4"), workload, semantics=Semantics(kill_at_limit=True), tenants=tenants)
    assert tenant_times(instance, simulate(instance, make_scheduler("fifo")))["killed"].tolist() == [1, 0]


@pytest.mark.parametrize("name", ["tenants-philly-v0", "tenants-venus-v0"])
def test_partitions_have_the_jobs_and_the_nodes_of_each_tenant(name: str) -> None:
    instance = get_scenario(name).instance(0)
    assert sum(instance.tenancy[0].quota[instance.tenancy[0].leaves]) == instance.cluster.gpus
    tree, leaf = instance.tenancy
    parts = partitions(instance)
    assert sum(len(part.workload) for part in parts.values()) == len(instance.workload)
    for row, part in parts.items():
        assert part.cluster.gpus == tree.quota[row]
        assert part.workload.jobs["id"].tolist() == instance.workload.jobs["id"][leaf == row].tolist()
    small = Instance(Cluster.parse("2x4"), jobs_of(["a"], [0.0], [8], [9.0]), tenants=Tenants((Tenant("a", quota=4),)))
    with pytest.raises(GpuschedError, match="'a' has 8 GPUs, and its quota is 4"):
        partitions(small)


def test_pooling_single_gpu_jobs_in_arrival_order_delays_nobody_in_total() -> None:
    """Pooled FIFO with equal run times starts the k-th job no later than any partition does, so no total is larger."""
    rng = np.random.default_rng(3)
    tenants = Tenants((Tenant("a", quota=4), Tenant("b", quota=8)))
    for _ in range(5):
        count = 200
        arrival_s = np.sort(rng.integers(0, 4_000, count)).astype(float)
        workload = jobs_of(rng.choice(["a", "b"], count).tolist(), arrival_s.tolist(), [1] * count, [200.0] * count)
        instance = Instance(Cluster.parse("3x4"), workload, tenants=tenants)
        assert pooling([instance], "fifo", [0])[-1].mean <= 1.0


def test_the_command_shows_every_tenant() -> None:
    command = [
        "scenarios",
        "tenants",
        "--scenario",
        "cohort-256-v0:jobs=60",
        "--schedulers",
        "fifo-skip",
        "--seeds",
        "1",
    ]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0
    assert all(name in found.output for name in ("research", "product", "students", "Jain's index"))
    pooled = CliRunner().invoke(app, [*command, "--pooling"])
    assert pooled.exit_code == 0
    assert "all" in pooled.output
    plain = CliRunner().invoke(app, ["scenarios", "tenants", "--scenario", "tiny-v1", "--schedulers", "fifo"])
    assert isinstance(plain.exception, GpuschedError) or plain.exit_code == 2
