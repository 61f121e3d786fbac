"""Kueue 0.14: exact shares, hierarchical reclaim, StrictFIFO's reservations, thresholds; runs of a reference."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from kueue_reference import Kueue, Policies

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.queues.state import KUEUE, build
from gpusched_env.baselines.queues.usage import hold
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import COMPLETE, RELEASE
from gpusched_env.metrics import job_times
from gpusched_env.problem.tenants import Tenant
from gpusched_env.problem.workload import TENANT
from gpusched_env.simulator import simulate
from tests.baselines.test_tenants import Job, last_start, play_both, preempted, present_share, shared

# --- fair sharing


@pytest.mark.parametrize("weights", [(2.0, 1.0), (2000.0, 1000.0), (0.5, 0.25)])
@pytest.mark.parametrize("wait_s", [0.0, 1.0])
def test_shares_depend_on_the_ratio_of_weights(weights: tuple[float, float], wait_s: float) -> None:
    """Rounded to whole thousandths, as in Kueue before 0.13.5, the shares of large weights are all 0."""
    tree = [Tenant("shared", quota=12), *(Tenant(name, weight=w) for name, w in zip("ab", weights, strict=True))]
    jobs: list[Job] = [(wait_s * i, name, 1, 1000.0, 0.0) for i in range(12) for name in "ab"]
    instance = shared(tree, [*jobs, (50.0, "b", 1, 1.0, 0.0)], "1x12")
    log = simulate(instance, make_scheduler("kueue-fair"))
    held = dict.fromkeys("ab", 0)
    for event in log.events[log.events["time_s"] < 900]:
        name = instance.workload.attributes[TENANT][event["job"]]
        held[name] += int(event["gpu_count"] > 0) - int(event["kind"] in (COMPLETE, RELEASE))
    assert held == {"a": 8, "b": 4}


@pytest.mark.parametrize(("used", "weight", "share"), [(501, 1.0, 1000 / 1500), (800, 300.0, 300_000 / 1500 / 300)])
def test_small_shares_are_not_zero(used: int, weight: float, share: float) -> None:
    """A queue with a quota of 500 in a cohort of 1,500 uses a little more: one GPU more, or with a large weight."""
    tree = [Tenant("A", quota=500, weight=weight), Tenant("B", quota=1000)]
    queues = build(shared(tree, [(0, name, 1, 1, 0) for name in "AB"], "15x100"), 1, {"policy": KUEUE})
    hold(queues.parameter, 1, used)
    assert present_share(queues.parameter, 1) == share > 0


def test_what_a_nested_cohort_lends_is_what_it_can_reach() -> None:
    """C may use 4 + 2 borrowed of 16 GPUs, so 3 GPUs beyond the quota of A are 3/6; for C they are 2 of all 16."""
    tree = [Tenant("C", quota=4, borrow=2), Tenant("D", quota=12), Tenant("A", "C", quota=3), Tenant("B", "C", quota=1)]
    instance = shared(tree, [(0, name, 1, 1, 0) for name in ("A", "B", "D")], "2x8")
    queues = build(instance, 1, {"policy": KUEUE})
    names = instance.tenancy[0].names
    hold(queues.parameter, names.index("A"), 6)
    assert [present_share(queues.parameter, names.index(name)) for name in "AC"] == [500.0, 125.0]


def test_of_equal_shares_the_lowest_priority_goes_first() -> None:
    """Queues A and B have the same share; A's job is newer and of a higher priority."""
    tree = [Tenant("A"), Tenant("B"), Tenant("C", quota=4)]
    jobs = [(0, "B", 2, 99, 0), (1, "A", 2, 99, 1), (9, "C", 2, 9, 0)]
    assert preempted(shared(tree, jobs, "1x4"), "kueue-fair") == [0]
    newer = [(0, "A", 2, 99, 0), (1, "B", 2, 99, 0), (9, "C", 2, 9, 0)]
    assert preempted(shared(tree, newer, "1x4"), "kueue-fair") == [1]


# --- hierarchical reclaim


def test_quota_of_a_cohort_is_taken_back_for_a_queue_below_it() -> None:
    """Kueue's test "preempt with hierarchical advantage": q has no quota of its own, but its cohort c has."""
    tree = [Tenant("r", quota=2), Tenant("c", "r", quota=2), Tenant("q", "c"), Tenant("qb", "r")]
    jobs = [(0, "qb", 2, 1000, 0), (10, "q", 2, 50, 0)]
    assert last_start(shared(tree, jobs, "2x1"), "kueue-reclaim") == 10
    assert last_start(shared(tree, jobs, "2x1"), "kueue") == 1000
    beside = [Tenant("r", quota=2), Tenant("c", "r", quota=2), Tenant("q", "c"), Tenant("qb", "c")]
    assert last_start(shared(beside, jobs, "2x1"), "kueue-reclaim") == 1000  # equal rights to the quota of c


LOWER = "reclaim=any,within=lower,borrow_within=lower,threshold=0"


@pytest.mark.parametrize(
    ("cohort", "nominal", "jobs", "spec", "gone"),
    [
        (2, 2, [(0, "qn", 2, -10), (0, "qb", 2, 0), (1, "q", 2, 0)], "reclaim=any,within=lower", [1]),
        (2, 0, [(0, "qb", 1, 1), (0, "qb", 1, 2), (1, "q", 2, 0)], "reclaim=any,within=lower", [0, 1]),
        (3, 0, [(0, "qs", 1, 1), (0, "qs", 1, 0), (0, "q", 1, -1), (1, "q", 2, 1)], LOWER, [1, 2]),
        (2, 0, [(0, "qb", 1, 1), (0, "q", 1, -2), (1, "q", 1, 0)], "reclaim=any,within=lower", [0]),
        (2, 2, [(0, "qn", 2, -10), (0, "qs", 2, -1), (1, "q", 2, 0)], LOWER, [1]),
    ],
    ids=["within-nominal", "several", "own-cohort", "prefer-hierarchical", "only-priority"],
)
def test_victims_in_a_tree_are_those_of_kueues_own_test(
    cohort: int, nominal: int, jobs: list[tuple[int, str, int, float]], spec: str, gone: list[int]
) -> None:
    """TestHierarchicalPreemptions: queues q and qs below the cohort c; qb, without quota, and qn beside c."""
    tree = [Tenant("c", quota=cohort), Tenant("qb"), Tenant("qn", quota=nominal), Tenant("q", "c"), Tenant("qs", "c")]
    rows = [(at, name, gpus, 99, priority) for at, name, gpus, priority in jobs]
    instance = shared(tree, rows, f"1x{cohort + nominal}")
    assert sorted(set(preempted(instance, f"kueue:{spec}"))) == gone


@pytest.mark.parametrize(("priority", "gone"), [(49, [0]), (50, [0]), (51, [])])
def test_a_borrower_preempts_up_to_the_threshold(priority: float, gone: list[int]) -> None:
    """maxPriorityThreshold includes equality."""
    jobs = [(0, "A", 4, 99, priority), (9, "B", 4, 9, 100)]
    instance = shared([Tenant("A", quota=2), Tenant("B", quota=2)], jobs, "1x4")
    assert preempted(instance, "kueue:reclaim=any,borrow_within=lower,threshold=50") == gone


# --- StrictFIFO


STRICT: list[Job] = [
    (0, "s", 3, 1000, 10), (0, "a", 5, 1000, 1), (10, "s", 3, 100, 99), (10, "a", 5, 100, 11), (10, "a", 1, 50, 10)
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "starts"),
    [
        ("kueue:queueing=strict", 110.0),
        ("kueue:queueing=strict,reclaim=lower", 110.0),
        ("kueue:queueing=strict,reclaim=any", 10.0),
        ("kueue", 10.0),
    ],
)
def test_the_first_job_of_a_strict_queue_keeps_its_quota(spec: str, starts: float) -> None:
    """Kueue's integration test: 2 of the 5 GPUs of s are left for its first job, which needs 3."""
    tree = [Tenant("s", quota=5, borrow=0), Tenant("a", quota=5), Tenant("sh", quota=5)]
    assert last_start(shared(tree, STRICT, "15x1"), spec) == starts


def test_a_reservation_does_not_stop_jobs_that_come_before_it() -> None:
    """As above, but the last job is of a higher priority than the one that waits, or within the quota of its queue."""
    tree = [Tenant("s", quota=5, borrow=0), Tenant("a", quota=5), Tenant("sh", quota=5)]
    urgent = [*STRICT[:3], (10, "a", 1, 50, 100)]
    assert last_start(shared(tree, urgent, "15x1"), "kueue:queueing=strict") == 10
    within = [Tenant("s", quota=5, borrow=0), Tenant("a", quota=11)]
    assert last_start(shared(within, STRICT, "16x1"), "kueue:queueing=strict") == 10


# --- policies of each queue


def starts_of(tree: list[Tenant], jobs: list[Job], cluster: str) -> list[float]:
    instance = shared(tree, jobs, cluster)
    starts: list[float] = job_times(instance, play_both(instance, "kueue"))["first_start_s"].tolist()
    return starts


def test_each_queue_has_its_own_strategy() -> None:
    """A job of 4 GPUs waits in both queues, each of which has one of 4 GPUs left: only the strict one blocks a job."""
    tree = [
        Tenant("strict", quota=4, borrow=0, lend=0, rules="queueing=strict"), Tenant("loose", quota=4, borrow=0, lend=0)
    ]  # fmt: skip
    jobs = [(at, name, gpus, 100, 0) for at, gpus in ((0, 3), (1, 4), (2, 1)) for name in ("strict", "loose")]
    assert starts_of(tree, jobs, "2x4") == [0, 0, 100, 102, 200, 2]


def test_each_queue_preempts_as_it_says() -> None:
    """Both queues have lent their 2 GPUs; only the job of the queue that reclaims stops a borrower, the other waits."""
    tree = [Tenant("lender", quota=2), Tenant("taker", quota=2, rules="reclaim=any"), Tenant("guest")]
    jobs = [(0, "guest", 2, 100, 0), (1, "guest", 2, 100, 0), (2, "lender", 2, 10, 5), (3, "taker", 2, 10, 0)]
    assert starts_of(tree, jobs, "1x4") == [0, 1, 13, 3]
    assert preempted(shared(tree, jobs, "1x4"), "kueue") == [1]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("queueing=lax", "tenant 'A', rules 'queueing=lax': kueue: unknown queueing 'lax'"),
        ("threshold=low", "tenant 'A', rules 'threshold=low', threshold='low': expected a value like inf"),
        ("threshold=nan", "tenant 'A', rules 'threshold=nan'"),
    ],
)
def test_wrong_values_of_rules_of_a_queue_are_refused(rules: str, message: str) -> None:
    instance = shared([Tenant("A", quota=2, rules=rules)], [(0, "A", 1, 1, 0)], "1x2")
    with pytest.raises(SchedulerError, match=re.escape(message)):
        simulate(instance, make_scheduler("kueue"))


# --- random runs


def written(policies: Policies) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in vars(policies).items())


def random_run(seed: int) -> tuple[list[Tenant], list[Job], int, Policies, dict[str, Policies]]:
    """Tenants in one to three levels, jobs, GPUs of the cluster, policies, and those of queues with their own."""
    rng = np.random.default_rng(seed)

    def tenant(name: str, parent: str = "", most: int = 4) -> Tenant:
        borrow, lend = (None if rng.random() < 0.6 else int(rng.integers(0, 4)) for _ in range(2))
        weight = float(rng.choice([1, 1, 2, 3, 0.5, 7, 300]))
        return Tenant(name, parent, weight, int(rng.integers(0, most)), borrow, lend)

    inner, leaves = list[Tenant](), list[Tenant]()
    deep = rng.random() < 0.6
    for name in "CD"[: rng.integers(1, 3)] if deep else "":
        inner.append(tenant(name, most=5))
        leaves += [tenant(f"{name}{i}", name) for i in range(rng.integers(1, 4))]
        if rng.random() < 0.3:
            inner.append(tenant(f"{name}x", name))
            leaves += [tenant(f"{name}x{i}", f"{name}x") for i in range(rng.integers(1, 3))]
    leaves += [tenant(f"A{i}", most=6) for i in range(rng.integers(0 if deep else 2, 4))]
    tree = inner + leaves
    gpus = max(1, sum(t.quota for t in tree) + int(rng.integers(0, 3)))
    flat = rng.random() < 0.5
    jobs = [
        (
            float(rng.integers(0, 40)), str(rng.choice([t.name for t in leaves])), int(rng.integers(1, 6)),
            float(rng.integers(1, 60)), 0.0 if flat else float(rng.integers(0, 3)),
        )
        for _ in range(rng.integers(2, 26))
    ]  # fmt: skip

    def drawn() -> Policies:
        return Policies(
            str(rng.choice(["best-effort", "strict"])), str(rng.choice(["never", "lower", "newer"])),
            str(rng.choice(["never", "lower", "any", "any"])), str(rng.choice(["never", "never", "lower"])),
            float(rng.choice([0, 1, math.inf])), bool(rng.random() < 0.5), bool(rng.random() < 0.7),
        )  # fmt: skip

    policies = drawn()
    own = {t.name: drawn() for t in leaves if rng.random() < 0.7} if seed % 2 else {}
    tree = [
        dataclasses.replace(t, rules=written(own[t.name]).partition(",fair=")[0]) if t.name in own else t for t in tree
    ]
    room = {t.name: Kueue(tree, [], gpus, policies).nodes[t.name].potential for t in leaves}
    return tree, sorted(job for job in jobs if job[2] <= min(gpus, room[job[1]])), gpus, policies, own


def test_random_runs_are_those_of_the_reference() -> None:
    """Every start and every preemption, in the runs in which no job is spared by a rule of ours."""
    compared = preemptions = 0
    for seed in range(900):
        tree, jobs, gpus, policies, own = random_run(seed)
        if not jobs:
            continue
        reference = Kueue(tree, jobs, gpus, policies, own)
        expected = reference.run()
        if reference.met_spared:
            continue
        compared += 1
        preemptions += reference.preemptions
        spec = f"kueue:{written(policies)}"
        log = simulate(shared(tree, jobs, f"1x{gpus}"), make_scheduler(spec))
        found: list[list[float]] = [[] for _ in jobs]
        for event in log.events[log.events["gpu_count"] > 0]:
            found[event["job"]].append(float(event["time_s"]))
        assert found == expected, (seed, spec)
    assert compared > 500
    assert preemptions > 150
