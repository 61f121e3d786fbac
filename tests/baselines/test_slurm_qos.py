"""QOS under Slurm's rules: limits of what runs at a time, of single jobs, and who preempts whom."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers import asked, finish, play, preemptions
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.event_log import COMPLETE, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import job_times, summarise
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partition, Partitions
from gpusched_env.problem.qos import Qos
from gpusched_env.problem.tenants import PRIORITY, Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Simulation


def qos_instance(
    arrival: list[float],
    gpus: list[int],
    duration: list[float],
    names: list[str],
    listed: tuple[Qos, ...],
    users: list[str] | None = None,
    limits: list[float] | None = None,
    cluster: str = "1x4",
    tree: tuple[Tenant, ...] = (),
    rules: Semantics | None = None,
    partitions: Partitions | None = None,
    **attributes: np.ndarray,
) -> Instance:
    """Jobs of users with QOS; the users are the tenants, and preemption is free."""
    people = np.array(users or ["u"] * len(names))
    workload = Workload.from_columns(
        arrival, gpus, duration, estimate_s=limits or duration,
        attributes={"qos": np.array(names), "user": people, **attributes},
    )  # fmt: skip
    tenants = Tenants(tree, by="user", qos=listed)
    rules = rules or Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(
        Cluster.parse(cluster), tenants.assign(workload, 0), Network("none"), rules, tenants=tenants,
        partitions=partitions,
    )  # fmt: skip


# --- limits of what runs at a time


@pytest.mark.parametrize(
    ("limited", "wanted"),
    [
        (Qos("low"), [10, 10, 10, 20]),
        (Qos("low", most=2), [10, 10, 20, 10]),
        (Qos("low", jobs=1), [10, 20, 30, 10]),
        (Qos("low", most_per_user=1), [10, 20, 10, 10]),
        (Qos("low", jobs_per_user=1), [10, 20, 10, 10]),
        (Qos("low", most=2, jobs_per_user=1), [10, 20, 10, 10]),
    ],
)
def test_each_limit_of_what_runs_at_a_time_by_hand(limited: Qos, wanted: list[float]) -> None:
    """Jobs of 1 GPU of u, u, v in the QOS low, then one of 2 GPUs of another QOS, on 4 GPUs: it waits for nobody."""
    case = qos_instance(
        [0] * 4, [1, 1, 1, 2], [10] * 4, ["low", "low", "low", "other"], (limited, Qos("other")), ["u", "u", "v", "v"]
    )
    for spec in ("slurm", "slurm:backfill=none"):
        assert finish(case, spec) == wanted


def test_a_limit_of_the_qos_replaces_that_of_the_tenant_which_still_counts_the_job() -> None:
    """u may hold 1 GPU; in the QOS big it may hold 3, and they count against its next normal job."""
    tree = (Tenant("u", most=1), Tenant("v"))
    listed = (Qos("normal"), Qos("big", most=3))
    names = ["big", "big", "normal", "normal"]
    case = qos_instance([0] * 4, [2, 1, 1, 1], [10, 20, 5, 5], names, listed, ["u", "u", "u", "v"], tree=tree)
    assert finish(case, "slurm") == [10, 20, 25, 5]
    jobs = (Tenant("u", jobs=1),)
    case = qos_instance([0] * 3, [1] * 3, [10] * 3, ["q"] * 3, (Qos("q", jobs_per_user=2),), tree=jobs)
    assert finish(case, "slurm") == [10, 10, 20]


def test_users_of_several_accounts_are_one_user() -> None:
    case = qos_instance([0, 0], [1, 1], [10, 10], ["q", "q"], (Qos("q", jobs_per_user=1),))
    leaves = np.array(["a/u", "b/u"])
    workload = case.workload.unchecked_replace(attributes={**case.workload.attributes, "tenant": leaves})
    both = Instance(
        case.cluster, workload, case.network, case.semantics, tenants=Tenants(qos=(Qos("q", jobs_per_user=1),))
    )
    assert finish(both, "slurm") == [10, 20]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(["off", "qos", "class"]), st.sampled_from([0.0, 7.0]))
def test_limits_hold_at_all_times_and_every_job_ends(seed: int, preempt: str, checkpoint_s: float) -> None:
    """Counted from the event log alone."""
    rng = np.random.default_rng(seed)
    jobs = 30
    listed = (
        Qos("low", most=int(rng.integers(3, 8)), jobs_per_user=2),
        Qos("mid", priority=1.0, jobs=int(rng.integers(1, 4)), most_per_user=3, preempts=("low",)),
        Qos("high", priority=2.0, preempts=("mid", "low"), preempt_mode="off"),
    )
    names = rng.choice(["low", "mid", "high", ""], jobs)
    users = rng.choice(["u", "v"], jobs)
    gangs = rng.integers(1, 4, jobs)
    duration = rng.integers(1, 60, jobs).astype(float).tolist()
    arrival = np.cumsum(rng.integers(0, 12, jobs)).astype(float).tolist()
    case = qos_instance(
        arrival, gangs.tolist(), duration, names.tolist(), listed, users.tolist(), cluster="2x4",
        rules=Semantics(checkpoint_s=checkpoint_s, restore_s=0.0),
    )  # fmt: skip
    log = play(case, f"slurm-multifactor:bf_interval_s=0,preempt={preempt}")
    rank = {"": 0, "low": 0, "mid": 1, "high": 2}
    running: set[int] = set()
    for event in log.events:
        row = int(event["job"])
        if event["kind"] in (START, RESUME):
            running.add(row)
        elif event["kind"] in (RELEASE, COMPLETE):
            running.discard(row)
        elif event["kind"] == PREEMPT and preempt == "qos":
            assert names[row] in ("low", "mid")
            waits = job_times(case, log)["arrival_s"] <= event["time_s"]
            assert max(rank[str(name)] for name in names[waits]) > rank[str(names[row])]
        for qos in listed:
            of_qos = [row for row in running if names[row] == qos.name]
            assert qos.jobs is None or len(of_qos) <= qos.jobs
            assert qos.most is None or gangs[of_qos].sum() <= qos.most
            for user in "uv":
                own = [row for row in of_qos if users[row] == user]
                assert qos.jobs_per_user is None or len(own) <= qos.jobs_per_user
                assert qos.most_per_user is None or gangs[own].sum() <= qos.most_per_user
    assert (log.events["kind"] == COMPLETE).sum() == jobs


# --- limits of single jobs


@pytest.mark.parametrize(
    ("limited", "message"),
    [
        (Qos("q", most_per_job=2), "job 0: it wants 3 GPUs, and most_per_job of its QOS 'q' is 2"),
        (Qos("q", most=2), "it wants 3 GPUs, and most of its QOS 'q' is 2"),
        (Qos("q", most_per_user=2), "it wants 3 GPUs, and most_per_user of its QOS 'q' is 2"),
        (Qos("q", max_time_s=9.0), "it wants 10 s, and max_time_s of its QOS 'q' is 9; raise it"),
    ],
)
def test_a_job_over_a_limit_of_its_qos_is_refused_before_the_run(limited: Qos, message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        qos_instance([0], [3], [10], ["q"], (limited,))


def test_jobs_without_a_time_limit_have_that_of_their_qos_or_partition_if_that_is_less() -> None:
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0, kill_at_limit=True)
    nan = float("nan")
    for partition, wanted in (
        (None, [40.0, 100.0, 30.0]),
        (Partition("all", max_time_s=35.0, default=True), [35.0, 35.0, 30.0]),
    ):
        case = qos_instance(
            [0] * 3, [1] * 3, [100] * 3, ["short", "", "short"], (Qos("short", max_time_s=40.0),),
            limits=[nan, nan, 30.0], rules=rules, partitions=None if partition is None else Partitions((partition,)),
        )  # fmt: skip
        for spec in ("slurm", "fifo"):
            log = play(case, spec)
            assert job_times(case, log)["finish_s"].tolist() == wanted
        assert summarise(case, log)["killed"] == sum(one < 100.0 for one in wanted)


# --- preemption

LOW, MID, HIGH = Qos("low"), Qos("mid", priority=1.0), Qos("high", priority=5.0, preempts=("low",))


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        ((LOW, MID, HIGH), [120, 100, 30]),  # only low is in the list
        ((LOW, MID, Qos("high", priority=5.0, preempts=("mid",))), [100, 120, 30]),
        ((LOW, MID, Qos("high", priority=5.0, preempts=("low", "mid"))), [120, 100, 30]),  # the lowest priority first
        ((LOW, MID, Qos("high", priority=5.0)), [100, 100, 120]),
        ((Qos("low", preempt_mode="off"), MID, HIGH), [100, 100, 120]),
        ((Qos("low", grace_s=15.0), MID, HIGH), [120, 100, 45]),  # low runs on until 25
        ((Qos("low", priority=9.0), MID, HIGH), [120, 100, 30]),  # the list decides, not the priority
    ],
)  # fmt: skip
def test_who_is_preempted_by_hand(listed: tuple[Qos, ...], wanted: list[float]) -> None:
    """2 GPUs: jobs of low and mid run for 100 s; at 10 s one of high arrives, needs 1 GPU, and runs for 20 s."""
    case = qos_instance([0, 0, 10], [1, 1, 1], [100, 100, 20], ["low", "mid", "high"], listed, cluster="1x2")
    for scheduler in (make_scheduler("slurm:preempt=qos"), asked(make_scheduler("slurm:preempt=qos"))):
        assert job_times(case, play(case, scheduler))["finish_s"].tolist() == wanted
    assert preemptions(play(case, "slurm")) == 0


@pytest.mark.parametrize(("placement", "victims"), [("pack", 0), ("consolidate", 1), ("rack", 0)])
def test_victims_are_those_that_the_placement_rule_needs(placement: str, victims: int) -> None:
    """Four low jobs of 2 GPUs fill 2x4; one on each node ends at 5 s. At 10 s a high job wants 4 GPUs.

    Free are 2 + 2: enough for "pack" and "rack", but "consolidate" needs one node.
    """
    names = ["low"] * 4 + ["high"]
    case = qos_instance(
        [0, 0, 0, 0, 10], [2, 2, 2, 2, 4], [5, 100, 5, 100, 50], names, (LOW, HIGH), cluster="2x4"
    )  # fmt: skip
    spec = f"slurm:preempt=qos,placement={placement}"
    for scheduler in (make_scheduler(spec), asked(make_scheduler(spec))):
        log = play(case, scheduler)
        assert job_times(case, log)["first_start_s"].tolist() == [0, 0, 0, 0, 10]
        assert preemptions(log) == victims


@pytest.mark.parametrize(
    ("cluster", "partitions"),
    [
        ("2x4", None),
        ("2x4", Partitions((Partition("all", default=True),))),
        ("3x4", Partitions((Partition("p", "0-1", default=True), Partition("q", "2")))),
    ],
)
def test_two_victims_do_not_take_turns_on_a_node_that_a_job_waits_for(
    cluster: str, partitions: Partitions | None
) -> None:
    """The high job needs a whole node, on which 2 GPUs are free, and preempts the low job there: 60 s of checkpoint.

    Nobody may take the 2 GPUs meanwhile. By numbers, the last job could, as the limit of the job of mid is 65 s.
    """
    case = qos_instance(
        [0, 0, 0, 10, 20], [2, 2, 4, 4, 2], [900, 5, 400, 50, 900], ["low", "low", "mid", "high", "low"],
        (LOW, MID, HIGH), limits=[900, 5, 65, 50, 900], cluster=cluster, rules=Semantics(checkpoint_s=60.0),
        partitions=partitions,
    )  # fmt: skip
    log = play(case, "slurm:preempt=qos,placement=consolidate,bf_interval_s=0")
    assert job_times(case, log)["first_start_s"].tolist()[3:] == [70, 120]
    assert preemptions(log) == 1


@pytest.mark.parametrize("checkpoint_s", [0.0, 6.0])
def test_a_job_preempts_nobody_on_nodes_that_are_kept_for_another(checkpoint_s: float) -> None:
    """At 1, the head of x asks for nodes 0 and 1: node 0 is busy until 100, and the low job on node 1 cannot help it.

    The head of y, which asks for node 1 or 2 from 2 on, cannot start on node 1, so it preempts no low job there.
    Nodes have 4 GPUs. Short low jobs wait for node 2, so that there is a decision at each arrival.
    """
    parts = Partition("x", "0-1"), Partition("y", "1-2"), Partition("one", "1"), Partition("two", "2")
    rows = [
        ("x", "fixed", 0, 4, 100), ("one", "low", 0, 4, 90), ("two", "fixed", 0, 4, 100),
        ("x", "high", 1, 8, 50), ("y", "high", 2, 4, 300), *[("two", "low", 5 + i, 1, 1) for i in range(5)],
    ]  # fmt: skip
    partition, names, arrival, gpus, minutes = map(list, zip(*rows, strict=True))
    listed = (LOW, HIGH, Qos("fixed", preempt_mode="off"))
    case = qos_instance(
        arrival, gpus, minutes, names, listed, cluster="3x4", rules=Semantics(checkpoint_s=checkpoint_s, restore_s=0.0),
        partitions=Partitions(parts), partition=np.array(partition),
    )  # fmt: skip
    log = play(case, "slurm:preempt=qos")
    assert preemptions(log) == 0
    assert job_times(case, log)["first_start_s"].tolist()[3:5] == [100, 100]


def test_the_end_of_the_time_without_preemption_is_an_event() -> None:
    case = qos_instance([0, 600], [4, 4], [3600, 600], ["low", "high"], (LOW, HIGH))
    assert finish(case, "slurm:preempt=qos,preempt_exempt_s=1200") == [4200, 1800]


def test_qos_that_may_preempt_others_come_before_them_in_the_queue() -> None:
    """a may preempt b, and b may preempt c; the job of d, first in the queue by arrival, has no such right."""
    listed = (Qos("c"), Qos("a", preempts=("b",)), Qos("b", preempts=("c",)), Qos("d", preempt_mode="off"))
    case = qos_instance([0, 1, 2, 3, 4], [4] * 5, [10] * 5, ["d", "c", "d", "b", "a"], listed)
    assert finish(case, "slurm:preempt=qos") == [10, 40, 50, 30, 20]


def test_the_priority_of_a_qos_is_a_factor_and_the_class_of_its_jobs() -> None:
    case = qos_instance([0, 1, 2], [4] * 3, [10] * 3, ["low", "low", "mid"], (LOW, MID))
    assert case.workload.attributes[PRIORITY].tolist() == [0.0, 0.0, 1.0]
    assert finish(case, "slurm:qos_weight=100") == [10, 30, 20]


def test_what_is_no_qos_is_refused_with_the_remedy() -> None:
    for bad, message in (
        (lambda: Qos(""), "the name is empty"),
        (lambda: Qos("q", jobs=0), "QOS 'q': jobs is 0: give a whole number from 1 to 2"),
        (lambda: Qos("q", most=2**63), "QOS 'q': most is 9223372036854775808: give a whole number from 1 to 2"),
        (lambda: Qos("q", preempt_mode="CANCEL"), "'CANCEL' is not supported: no decision ends a running job"),
        (lambda: Tenants(qos=(Qos("q"), Qos("q"))), "'q' is listed twice"),
        (lambda: Tenants(qos=(Qos("q", preempts=("p",)),)), "preempts: unknown QOS 'p'"),
        (lambda: Tenants(qos=(Qos("p", preempts=("q",)), Qos("q", preempts=("p",)))), "preempt each other for ever"),
        (lambda: qos_instance([0], [1], [1], ["p"], (Qos("q"),)), "a job names an unknown QOS 'p': known: q; list it"),
    ):
        with pytest.raises(ScenarioError, match=message):
            bad()
    case = dataclasses.replace(Tenants(by="user", qos=(Qos("q"),)), qos_by="quality")
    workload = Workload.from_columns([0], [1], [1], attributes={"user": np.array(["u"])})
    with pytest.raises(ScenarioError, match="qos_by: unknown attribute 'quality'"):
        Instance(Cluster.parse("1x1"), workload, tenants=case)
    with pytest.raises(GpuschedError, match="preempt is 'qos', and the scenario has no QOS"):
        Simulation(Instance(Cluster.parse("1x1"), workload)).run(make_scheduler("slurm:preempt=qos"))
