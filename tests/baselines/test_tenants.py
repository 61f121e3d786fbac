"""Kueue, DRF, Volcano, KAI, and YARN's queues: worked examples, quotas, shares, pooling, equal logs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from helpers import asked, play, play_both
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kai_reference import fair_shares
from scipy.optimize import linprog

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.baselines.kueue.shares import share_of
from gpusched_env.baselines.queues.state import DRF, KAI, KUEUE, VOLCANO, Queues, build
from gpusched_env.baselines.queues.usage import available, give, hold, take
from gpusched_env.baselines.volcano_kai.shares import over_quota, proportion
from gpusched_env.core.handle import kernel
from gpusched_env.errors import ScenarioError, SchedulerError, WorkloadError
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, RELEASE, EventLog
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.tenants import PRIORITY, Resource, Tenant, Tenants
from gpusched_env.problem.workload import TENANT, Profiles, Workload
from gpusched_env.simulator import Simulation, simulate
from tests.theory.test_queues import erlang_c, recursion

NAMES = sorted(set(list_baselines({"tenants", "quotas"})) - set(list_baselines(())))
GOLDEN: dict[str, str] = {  # log of ``busy``; the portability battery has one of each of NAMES
    "kueue:queueing=strict": "5727c96d6b4c70d5",
    "kueue:reclaim=lower,within=newer,queueing=strict": "c6602e984dfd3dc6",
    "kueue:reclaim=any,within=lower,borrow_within=lower,threshold=2": "131c19d0f0f6e9a4",
    "kueue-fair:initial=false": "4412efd21fc33611",
    "drf:strict=true": "662cfeb715708a71",
}
SPECS = (*NAMES, *GOLDEN)
Job = tuple[float, str, int, float, float]  # arrival [s], tenant, GPUs, run time [s], priority


def shared(
    tree: Sequence[Tenant],
    jobs: Sequence[Job],
    cluster: str,
    checkpoint_s: float = 0.0,
    restore_s: float = 0.0,
    **more: Sequence[object],
) -> Instance:
    """Jobs of tenants, with the same run time on every placement, and ``more`` attributes of sorted jobs."""
    jobs = sorted(jobs, key=lambda job: job[0])
    workload = Workload.from_columns([j[0] for j in jobs], [j[2] for j in jobs], [j[3] for j in jobs])
    attributes = {TENANT: np.array([j[1] for j in jobs]), PRIORITY: np.array([j[4] for j in jobs])}
    attributes |= {name: np.array(values) for name, values in more.items()}
    return Instance(
        Cluster.parse(cluster),
        workload.unchecked_replace(attributes=attributes),
        Network("none"),
        Semantics(checkpoint_s=checkpoint_s, restore_s=restore_s),
        tenants=Tenants(tuple(tree)),
    )


def preempted(instance: Instance, spec: str) -> list[int]:
    """Rows of the jobs that were preempted, by the compiled loop and by ``decide``."""
    log = play_both(instance, spec)
    rows: list[int] = log.events["job"][log.events["kind"] == PREEMPT].tolist()
    return rows


def last_start(instance: Instance, spec: str) -> float:
    """Start of the last job [s], by the compiled loop and by ``decide``."""
    return float(job_times(instance, play_both(instance, spec))["first_start_s"][-1])


# --- jobs that may use only some nodes

# The backfill of slurm has cycles of its own, and cells of hived are of equal servers, wherever a job may run.
QUEUES = [name for name in NAMES if not name.startswith(("slurm", "hived"))]


@pytest.mark.parametrize("spec", QUEUES)
def test_a_job_of_one_node_does_not_block_one_that_may_be_split(spec: str) -> None:
    """Three GPUs are free on each node: too few for a gang of 6 on one node, enough for one that may be split."""
    jobs = [(0, "A", 5, 100, 0), (0, "A", 5, 100, 0), (1, "A", 6, 50, 0), (2, "A", 6, 50, 0)]
    nodes = [1, 1, 1, 0]
    assert last_start(shared([Tenant("A", quota=16)], jobs, "2x8", min_nodes=nodes, max_nodes=nodes), spec) == 2


@pytest.mark.parametrize("spec", QUEUES)
def test_a_job_of_one_gpu_type_does_not_block_one_of_another(spec: str) -> None:
    jobs = [(0, "A", 8, 100, 0), (1, "A", 8, 50, 0), (2, "A", 8, 50, 0)]
    types = ["T4", "T4", "H100"]
    workload = shared([Tenant("A", quota=16)], jobs, "2x8", gpu_types=types).workload
    workload = dataclasses.replace(workload, profiles=Profiles.unit("T4", "H100"))
    tenants = Tenants((Tenant("A", quota=16),))
    assert last_start(Instance(Cluster.parse("1x8@T4,1x8@H100"), workload, tenants=tenants), spec) == 2


def on_one_node(jobs: Sequence[Job], checkpoint_s: float) -> Instance:
    """Two nodes of 8 GPUs, and jobs none of which is split over nodes."""
    one = [1] * len(jobs)
    return shared([Tenant("A", quota=16)], jobs, "2x8", checkpoint_s, min_nodes=one, max_nodes=one)


@pytest.mark.parametrize("checkpoint_s", [0.0, 2.0])
@pytest.mark.parametrize("spec", ["kai", "volcano"])
@pytest.mark.parametrize(
    ("jobs", "gone"),
    [
        # one gang of 4 GPUs on each node is the newest; both on one node must go
        ([(0, "A", 4, 99, 0), (0, "A", 4, 5, 0), (0, "A", 4, 99, 0), (3, "A", 4, 99, 0), (6, "A", 4, 99, 0)], {2, 3}),
        # 8 GPUs are free, 4 of each node: one gang must go
        ([(0, "A", 4, 99, 0), (0, "A", 4, 5, 0), (0, "A", 4, 99, 0)], {2}),
        # no node can be emptied
        ([(0, "A", 4, 99, 0), (1, "A", 4, 99, 9), (2, "A", 4, 99, 0), (3, "A", 4, 99, 9)], set()),
    ],
)
def test_gangs_of_volcano_and_kai_are_preempted_only_for_a_place(
    spec: str, checkpoint_s: float, jobs: list[Job], gone: set[int]
) -> None:
    instance = on_one_node([*jobs, (10, "A", 8, 20, 5)], checkpoint_s)
    assert set(preempted(instance, spec)) == gone
    assert last_start(instance, spec) == (10 + checkpoint_s if gone else 100)


def test_kueue_counts_gpus_when_it_preempts() -> None:
    """Without its topologies Kueue looks at quotas only: the newest gangs go, one on each node."""
    jobs = [(0, "A", 4, 99, 0), (0, "A", 4, 5, 0), (0, "A", 4, 99, 0), (3, "A", 4, 99, 0), (6, "A", 4, 99, 0)]
    assert preempted(on_one_node([*jobs, (10, "A", 8, 20, 5)], 0.0), "kueue:within=lower") == [4, 3]


# --- Kueue's documentation, by hand


@pytest.mark.parametrize(
    ("a", "b", "most"),
    [({}, {}, 20), ({}, {"lend": 4}, 14), ({"borrow": 1}, {}, 11), ({"borrow": 1}, {"lend": 0}, 10)],
)
def test_a_queue_reaches_its_quota_and_what_it_may_borrow(a: dict[str, int], b: dict[str, int], most: int) -> None:
    tree = [Tenant("A", quota=10, **a), Tenant("B", quota=10, **b)]
    queues = build(shared(tree, [(0, "A", 1, 1, 0), (0, "B", 1, 1, 0)], "1x20"), 1, {"policy": KUEUE})
    assert available(queues.parameter, 1) == most
    instance = shared(tree, [(0, "A", 1, 10, 0)] * 30, "1x20")
    log = simulate(instance, make_scheduler("kueue"))
    assert ((log.events["gpu_count"] > 0) & (log.events["time_s"] == 0)).sum() == most


def test_reclaim_takes_the_newest_job_of_the_lowest_priority() -> None:
    """A, 10 of 20 GPUs, runs 6 + 4 + 4 of priorities 0, 0, 5; B runs 6 and asks for 4: only the second job goes."""
    tree = [Tenant("A", quota=10), Tenant("B", quota=10)]
    jobs = [(1, "A", 6, 99, 0), (2, "A", 4, 99, 0), (3, "A", 4, 99, 5), (4, "B", 6, 99, 0), (9, "B", 4, 30, 0)]
    assert preempted(shared(tree, jobs, "1x20"), "kueue:reclaim=any") == [1]
    assert preempted(shared(tree, jobs, "1x20"), "kueue") == []
    # a queue of a lower priority, or within no quota, reclaims nothing
    assert preempted(shared(tree, jobs, "1x20"), "kueue:reclaim=lower") == []
    assert preempted(shared([Tenant("A", quota=10), Tenant("B", quota=6)], jobs, "1x20"), "kueue:reclaim=any") == []


def test_victims_that_are_not_needed_are_put_back() -> None:
    """To get 4 GPUs the walk takes 2, then 4; the job of 2 is put back."""
    tree = [Tenant("A", quota=2), Tenant("B", quota=8)]
    jobs = [(0, "A", 4, 99, 0), (0, "A", 4, 99, 0), (1, "A", 2, 99, 0), (2, "B", 4, 99, 0)]
    assert preempted(shared(tree, jobs, "1x10"), "kueue:reclaim=any") == [1]


@pytest.mark.parametrize(
    ("within", "priority", "gone"), [("never", 1, []), ("lower", 1, [0]), ("lower", 0, []), ("newer", 0, [])]
)
def test_preemption_inside_a_queue(within: str, priority: float, gone: list[int]) -> None:
    jobs = [(0, "A", 4, 99, 0), (5, "A", 4, 9, priority)]
    assert preempted(shared([Tenant("A", quota=4)], jobs, "1x4"), f"kueue:within={within}") == gone


def test_newer_jobs_of_equal_priority_make_room() -> None:
    jobs = [(0, "A", 2, 5, 0), (1, "A", 4, 9, 0), (2, "A", 2, 99, 0)]  # the third passes the second, which waits
    instance = shared([Tenant("A", quota=4)], jobs, "1x4")
    assert preempted(instance, "kueue:within=newer") == [2]
    assert preempted(instance, "kueue:within=lower") == []
    assert preempted(instance, "kueue:within=newer,queueing=strict") == []  # the third must not pass


@kernel
def present_share(q: Queues, node: int) -> float:
    """Return the share of a tenant; ``share_of`` is inlined into kernels."""
    share: float = share_of(q, node)
    return share


def test_fair_shares_are_thousandths_of_what_the_cohort_lends() -> None:
    for weight, share in ((1.0, 300.0), (2.0, 150.0)):
        tree = [Tenant("A", quota=10, weight=weight), Tenant("B", quota=10), Tenant("C", quota=20)]
        instance = shared(tree, [(0, name, 1, 1, 0) for name in "ABC"], "5x8")
        queues = build(instance, 1, {"policy": KUEUE})
        hold(queues.parameter, 1, 22)
        hold(queues.parameter, 2, 18)
        assert [present_share(queues.parameter, node) for node in (1, 2, 3)] == [share, 200.0, 0.0]


@pytest.mark.parametrize(
    ("victim", "weight", "initial", "gone"),
    [(2, 1.0, "false", [2]), (4, 1.0, "false", []), (4, 1.0, "true", [2]), (2, 2.0, "true", [])],
)
def test_fair_sharing_preempts_by_final_then_by_initial_shares(
    victim: int, weight: float, initial: str, gone: list[int]
) -> None:
    """A holds 22 of 40 GPUs: 300. B asks for 2 and would have 250: a victim of 2 leaves A 250, one of 4 200."""
    tree = [Tenant("A", quota=10, weight=weight), Tenant("B", quota=10), Tenant("C", quota=20)]
    jobs = [(0, "A", 22 - victim, 99, 0), (0, "B", 18, 99, 0), (1, "A", victim, 99, 0), (9, "B", 2, 99, 0)]
    found = preempted(shared(tree, jobs, "5x8"), f"kueue-fair:initial={initial}")
    assert found[:1] == gone


def test_the_first_cycle_starts_jobs_that_do_not_borrow() -> None:
    """The job of A is older and of a higher priority, but it borrows."""
    tree = [Tenant("A", quota=2), Tenant("B", quota=4)]
    jobs = [(0, "A", 6, 5, 0), (1, "A", 4, 9, 7), (2, "B", 4, 9, 0)]
    times = job_times(shared(tree, jobs, "1x6"), simulate(shared(tree, jobs, "1x6"), make_scheduler("kueue")))
    assert times["first_start_s"].tolist() == [0.0, 14.0, 5.0]


def test_quota_is_kept_for_a_job_whose_victims_are_in_a_checkpoint() -> None:
    """B asks for 6 of 8 GPUs at 10, while 2 are free; 4 come free at 15. A's job of 2 must wait until B has ended."""
    tree = [Tenant("A", quota=2), Tenant("B", quota=6)]
    jobs = [(0, "A", 2, 99, 0), (0, "A", 4, 99, 0), (10, "B", 6, 20, 0), (10, "A", 2, 30, 0), (12, "A", 2, 30, 0)]
    instance = shared(tree, jobs, "1x8", checkpoint_s=5.0)
    assert preempted(instance, "kueue:reclaim=any") == [1]
    times = job_times(instance, simulate(instance, make_scheduler("kueue:reclaim=any")))
    # the jobs of A ask again when B has ended, the oldest first; the preempted one is the oldest
    assert times["first_start_s"].tolist() == [0.0, 0.0, 15.0, 35.0, 65.0]


def test_quota_in_a_tree_counts_at_the_level_that_lends_it() -> None:
    """D lends 5 of its 20 GPUs: X reaches 20, Y outside reaches 20 + 5; use of the part that is not lent stays in D."""
    tree = [
        Tenant("D", quota=20, lend=5), Tenant("X", "D", quota=10), Tenant("Z", "D", quota=10), Tenant("Y", quota=20)
    ]  # fmt: skip
    instance = shared(tree, [(0, name, 1, 1, 0) for name in "XYZ"], "5x8")
    queues = build(instance, 1, {"policy": KUEUE})
    names = instance.tenancy[0].names
    x, y = names.index("X"), names.index("Y")
    assert (available(queues.parameter, x), available(queues.parameter, y)) == (40, 25)
    take(queues.parameter, x, 15)
    assert (available(queues.parameter, x), available(queues.parameter, y)) == (25, 25)
    take(queues.parameter, x, 3)
    assert (available(queues.parameter, x), available(queues.parameter, y)) == (22, 22)
    give(queues.parameter, x, 18)
    assert (available(queues.parameter, x), available(queues.parameter, y)) == (40, 25)


def test_a_gang_that_no_limit_admits_is_refused() -> None:
    tree = [Tenant("A", quota=4, borrow=2), Tenant("B", quota=4)]
    with pytest.raises(SchedulerError, match=r"tenant 'A': a job asks for 7 GPUs, .* allow 6 at most: raise"):
        simulate(shared(tree, [(0, "A", 7, 1, 0)], "1x8"), make_scheduler("kueue"))
    with pytest.raises(SchedulerError, match=r"tenant 'A': a job asks for 7 GPUs, .* allow 3 at most"):
        simulate(shared([Tenant("A", most=3)], [(0, "A", 7, 1, 0)], "1x8"), make_scheduler("drf"))
    with pytest.raises(SchedulerError, match="kueue: unknown reclaim 'al'"):
        make_scheduler("kueue:reclaim=al")


# --- properties of small runs


@st.composite
def runs(draw: st.DrawFn) -> Instance:
    """Tenants whose quotas fill the cluster, and jobs of whole seconds."""
    tree = [
        Tenant(
            name,
            quota=draw(st.integers(1, 4)),
            weight=float(draw(st.integers(1, 3))),
            borrow=draw(st.none() | st.integers(0, 3)),
            lend=draw(st.none() | st.integers(0, 3)),
        )
        for name in "ABC"
    ]
    job = st.tuples(
        st.integers(0, 30), st.sampled_from(tree), st.integers(1, 4), st.integers(1, 20), st.integers(0, 2)
    )  # fmt: skip
    jobs = [
        (float(at), t.name, min(gpus, t.quota), float(s), float(p))
        for at, t, gpus, s, p in draw(st.lists(job, min_size=1, max_size=25))
    ]
    return shared(tree, jobs, f"1x{sum(t.quota for t in tree)}", checkpoint_s=float(draw(st.sampled_from([0, 3]))))


def held_after(instance: Instance, log: EventLog) -> list[tuple[float, dict[str, int], set[int], set[int]]]:
    """For each time: GPUs that each tenant holds after its events, rows that wait, and rows that started then."""
    names, gangs = instance.workload.attributes[TENANT], instance.workload.jobs["gpus"]
    held, waiting = dict.fromkeys("ABC", 0), set[int]()
    states = []
    events = log.events
    ends = [*(np.flatnonzero(np.diff(events["time_s"])) + 1).tolist(), len(events)]
    for begin, end in pairwise([0, *ends]):
        started = set[int]()
        for event in events[begin:end]:
            row = int(event["job"])
            if event["kind"] == 0:
                waiting.add(row)
            elif event["gpu_count"] > 0:
                waiting.discard(row)
                started.add(row)
                held[names[row]] += int(gangs[row])
            elif event["kind"] in (COMPLETE, RELEASE):
                held[names[row]] -= int(gangs[row])
                if event["kind"] == RELEASE:
                    waiting.add(row)
        states.append((float(events["time_s"][begin]), dict(held), set(waiting), started))
    return states


@pytest.mark.parametrize("spec", ["kueue", "kueue:queueing=strict", "kueue-reclaim", "kueue-fair"])
@settings(max_examples=60)
@given(instance=runs())
def test_quotas_are_exceeded_only_by_borrowing(spec: str, instance: Instance) -> None:
    log = play(instance, spec)
    assert instance.tenants is not None
    for _, held, _, _ in held_after(instance, log):
        beyond = pool = 0
        for t in instance.tenants.tree:
            assert held[t.name] <= t.quota + (math.inf if t.borrow is None else t.borrow)
            own = 0 if t.lend is None else max(0, t.quota - t.lend)  # what it does not lend
            beyond += max(0, held[t.name] - own)
            pool += t.quota - own
        assert beyond <= pool


@pytest.mark.parametrize("spec", ["kueue:reclaim=any", "kueue-reclaim", "kueue-fair", "kai"])
@settings(max_examples=70)
@given(instance=runs())
def test_a_lender_gets_its_quota_back_at_once(spec: str, instance: Instance) -> None:
    """No job waits within the quota of its queue, unless a possible victim has started at this very time."""
    instance = with_free_preemption(instance)
    log = simulate(instance, make_scheduler(spec))
    assert instance.tenants is not None
    quota = {t.name: t.quota for t in instance.tenants.tree}
    names, gangs = instance.workload.attributes[TENANT], instance.workload.jobs["gpus"]
    for time_s, held, waiting, started in held_after(instance, log):
        for row in waiting:
            if not started:
                assert held[names[row]] + gangs[row] > quota[names[row]], (time_s, row)


@st.composite
def costly_runs(draw: st.DrawFn) -> Instance:
    """Jobs that lose more time by a preemption than they run between two; quotas may exceed the cluster."""
    names = "ABCDE"[: draw(st.integers(2, 5))]
    limit = st.none() | st.integers(0, 3)
    tree = [Tenant(name, quota=draw(st.integers(0, 6)), borrow=draw(limit), lend=draw(limit)) for name in names]
    gpus = max(1, sum(t.quota for t in tree) + draw(st.integers(-2, 3)))
    job = st.tuples(
        st.integers(0, 30), st.sampled_from(names), st.integers(1, min(6, gpus)), st.integers(1, 40), st.integers(0, 2)
    )  # fmt: skip
    jobs = [
        (float(at), name, size, float(s), float(p))
        for at, name, size, s, p in draw(st.lists(job, min_size=2, max_size=35))
    ]
    checkpoint_s = float(draw(st.sampled_from([1, 3, 7])))
    instance = shared(tree, jobs, f"1x{gpus}", checkpoint_s, 10.0)
    rooms = build(instance, 1, {"policy": DRF})
    room = {name: available(rooms.parameter, row) for row, name in enumerate(instance.tenancy[0].names) if row}
    fitting = [job for job in jobs if job[2] <= room.get(job[1], 0)]
    return shared(tree, fitting or [(0.0, "A", 1, 1.0, 0.0)], f"1x{gpus}", checkpoint_s, 10.0)


PREEMPTING = (
    "kueue:reclaim=any", "kueue-reclaim", "kueue-reclaim:queueing=strict", "kueue:reclaim=any,within=newer",
    "kueue:reclaim=any,within=lower,borrow_within=lower,threshold=2", "kueue-fair", "kueue-fair:within=newer",
    "volcano", "kai", "kai:within=false",
)  # fmt: skip


@pytest.mark.parametrize("spec", PREEMPTING)
@settings(max_examples=50)
@given(instance=costly_runs())
def test_every_run_ends_though_preemption_costs_time(spec: str, instance: Instance) -> None:
    """No job is preempted twice between two arrivals or completions, so each run ends."""
    limited = dataclasses.replace(instance.semantics, time_limit_s=1e5)
    instance = Instance(instance.cluster, instance.workload, instance.network, limited, tenants=instance.tenants)
    try:
        log = simulate(instance, make_scheduler(spec))
    except SchedulerError as error:  # a tenant without quota that may not borrow
        assume("allow" not in str(error))
        raise
    validate(instance, log)
    kinds = log.events["kind"]
    assert (kinds == COMPLETE).sum() == len(instance.workload)
    moved = set[int]()
    for event in log.events:
        if event["kind"] in (ARRIVAL, COMPLETE):
            moved.clear()
        elif event["kind"] == PREEMPT:
            assert int(event["job"]) not in moved
            moved.add(int(event["job"]))


@pytest.mark.parametrize("spec", ["kueue:reclaim=any", "kueue-reclaim", "kueue-fair", "kai"])
@settings(max_examples=70)
@given(instance=runs())
def test_a_lender_that_asks_stops_borrowers_in_the_same_decision(spec: str, instance: Instance) -> None:
    """While a job waits within the quota of its queue, some job is in a checkpoint, or a running one is spared."""
    semantics = dataclasses.replace(instance.semantics, checkpoint_s=3.0)
    instance = Instance(instance.cluster, instance.workload, instance.network, semantics, tenants=instance.tenants)
    log = simulate(instance, make_scheduler(spec))
    events = log.events
    assert instance.tenants is not None
    quota = {t.name: t.quota for t in instance.tenants.tree}
    names, gangs = instance.workload.attributes[TENANT], instance.workload.jobs["gpus"]
    changes_s = events["time_s"][np.isin(events["kind"], (ARRIVAL, COMPLETE))]
    for time_s, held, waiting, started in held_after(instance, log):
        past = events[events["time_s"] <= time_s]
        stops = past[past["kind"] == PREEMPT]
        last_change_s = changes_s[changes_s <= time_s].max()
        if started or (stops["time_s"] >= min(last_change_s, time_s - 3.0 + 1e-9)).any():
            continue
        for row in waiting:
            assert held[names[row]] + gangs[row] > quota[names[row]], (time_s, row)


def test_gpus_of_victims_go_to_the_job_that_asked() -> None:
    """C's second job takes 5 GPUs back, which B's job of a higher class, or C's first job, would take again at 11."""
    tree = [Tenant("B", quota=3), Tenant("C", quota=5)]
    jobs = [(0, "B", 4, 100, 2), (0, "B", 5, 100, 2), (10, "C", 6, 50, 0), (10, "C", 5, 50, 0)]
    instance = shared(tree, jobs, "1x13", 1.0, 10.0)
    assert preempted(instance, "kueue:reclaim=any") == [1]
    times = job_times(instance, simulate(instance, make_scheduler("kueue:reclaim=any")))
    assert times["first_start_s"].tolist() == [0.0, 0.0, 100.0, 11.0]
    assert times["finish_s"].tolist() == [100.0, 161.0, 150.0, 61.0]


def with_free_preemption(instance: Instance) -> Instance:
    """The same problem with free preemption."""
    semantics = dataclasses.replace(instance.semantics, checkpoint_s=0.0)
    return Instance(instance.cluster, instance.workload, instance.network, semantics, tenants=instance.tenants)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=25)
@given(instance=runs())
def test_the_compiled_loop_gives_the_log_of_decide(spec: str, instance: Instance) -> None:
    play_both(instance, spec)


@pytest.mark.parametrize("name", ["kueue-reclaim", "kueue-fair", "fair", "volcano", "kai"])
def test_pauses_and_a_full_log_change_nothing(name: str) -> None:
    """The loop follows the log, whose buffer is emptied whenever it is full, and by whoever reads it in a pause."""
    rng = np.random.default_rng(8)
    columns = [rng.integers(0, 4000, 900), rng.choice([1, 2, 4], 900), rng.integers(20, 90, 900)]
    names, classes = rng.choice(["A", "B", "C"], 900).tolist(), rng.integers(0, 3, 900).tolist()
    rows = zip(*(c.tolist() for c in columns), names, classes, strict=True)
    jobs = [(float(at), who, gpus, float(s), float(p)) for at, gpus, s, who, p in rows]
    instance = shared([Tenant("A", quota=16), Tenant("B", quota=8), Tenant("C", quota=8)], jobs, "4x8", 5.0)
    expected = simulate(instance, asked(make_scheduler(name)))
    simulation = Simulation(instance)
    assert len(expected.events) > 2 * len(simulation.arrays.events)
    player = make_scheduler(name).player(simulation)
    assert player is not None
    for pause in range(1, 30):
        player.play(pause * 150.0)
        if pause % 3 == 0:
            simulation.drain()
    player.play()
    assert simulation.log().digest() == expected.digest()


@pytest.mark.parametrize("name", ["kueue-reclaim", "drf", "kai"])
def test_more_jobs_than_the_log_holds_may_arrive_before_the_first_decision(name: str) -> None:
    jobs = [(0.0, "AB"[i % 2], 1, 10.0 + i % 7, float(i % 3)) for i in range(1500)]
    instance = shared([Tenant("A", quota=16), Tenant("B", quota=16)], jobs, "4x8", 5.0)
    assert len(Simulation(instance).arrays.events) < len(jobs)
    assert not np.isnan(job_times(instance, play_both(instance, name))["finish_s"]).any()


# --- shares


def max_min_by_programs(demand: np.ndarray, weight: np.ndarray, gpus: int) -> np.ndarray:
    """Weighted max-min shares: raise the least share, fix those that cannot rise, and repeat."""
    count = len(demand)
    fixed = np.full(count, np.nan)
    while np.isnan(fixed).any():
        free = np.isnan(fixed)
        # variables x, t: maximise t with x_i >= w_i t for those not fixed
        rows = [[-1.0 * (j == i) for j in range(count)] + [weight[i]] for i in np.flatnonzero(free)]
        bounds = [(0, demand[i]) if free[i] else (fixed[i], fixed[i]) for i in range(count)] + [(0, None)]
        total = [[1.0] * count + [0.0]]
        best = linprog([0.0] * count + [-1.0], rows + total, [0.0] * len(rows) + [gpus], bounds=bounds)
        level = best.x[-1]
        full = free & (demand <= weight * level + 1e-9)
        done = full if full.any() else free
        fixed[done] = np.minimum(demand, weight * level)[done]
    return fixed


@settings(max_examples=40, deadline=None)
@given(
    demand=st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any),
    weights=st.lists(st.integers(1, 5), min_size=6, max_size=6),
)
def test_dominant_shares_are_those_of_linear_programs(demand: list[int], weights: list[int]) -> None:
    """Jobs of one GPU: rounding gives no tenant a job too many, and what the others lack is spread by weight."""
    names = [f"t{i}" for i in range(len(demand))]
    tree = [Tenant(name, weight=float(w)) for name, w in zip(names, weights, strict=False)]
    jobs = [(0.0, name, 1, 10.0, 0.0) for name, count in zip(names, demand, strict=True) for _ in range(count)]
    instance = shared(tree, jobs, "1x24")
    log = simulate(instance, make_scheduler("drf"))
    rows = log.events["job"][(log.events["gpu_count"] > 0) & (log.events["time_s"] == 0)]
    held = np.array([(instance.workload.attributes[TENANT][rows] == name).sum() for name in names])
    asks, weight = np.array(demand, float), np.array(weights[: len(demand)], float)
    exact = max_min_by_programs(asks, weight, 24)
    assert held.sum() == min(24, sum(demand))
    # Each tenant has at most one job beyond its level, so the level is at most (tenants / weight of those that lack
    # GPUs) below that of the programs.
    lacking = exact < asks - 1e-6
    lag = len(demand) / weight[lacking].sum() if lacking.any() else 0.0
    assert (held < exact + 1 + 1e-6).all()
    assert (held > exact - weight * lag - 1e-6).all()


def with_resource(instance: Instance, tree: Sequence[Tenant], needs: Sequence[int], amount: int) -> Instance:
    """The same jobs; each needs ``needs[i]`` of ``amount`` GB of memory."""
    attributes = {**instance.workload.attributes, "memory_gb": np.array(needs)}
    workload = instance.workload.unchecked_replace(attributes=attributes)
    tenants = Tenants(tuple(tree), resources=(Resource("memory_gb", amount),))
    return Instance(instance.cluster, workload, instance.network, instance.semantics, tenants=tenants)


def begun(instance: Instance, spec: str, time_s: float = 0.0) -> dict[str, int]:
    """Jobs of each tenant that have started by a time, by the compiled loop and by ``decide``."""
    log = play_both(instance, spec)
    rows = log.events["job"][(log.events["gpu_count"] > 0) & (log.events["time_s"] <= time_s)]
    names, counts = np.unique(instance.workload.attributes[TENANT][rows], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_the_example_of_two_users_of_drf() -> None:
    """9 GPUs (the paper's CPUs), 18 GB: jobs of A need <1, 4>, those of B <3, 1>; by hand 3 and 2 jobs run.

    A's dominant share is that of the memory, 3 x 4 / 18, B's that of the GPUs, 2 x 3 / 9: both are 2/3. Without the
    memory, A would get 6 GPUs.
    """
    tree = Tenant("A"), Tenant("B")
    jobs = [(0.0, name, gpus, 10.0, 0.0) for name, gpus in (("A", 1), ("B", 3)) for _ in range(9)]
    plain = shared(tree, jobs, "1x9")
    assert begun(plain, "drf") == {"A": 6, "B": 1}
    both = with_resource(plain, tree, [4] * 9 + [1] * 9, 18)
    assert begun(both, "drf") == {"A": 3, "B": 2}
    assert begun(both, "fair") == begun(plain, "fair")
    scarce = with_resource(plain, tree, [4] * 9 + [1] * 9, 12)  # 12 GB: 2 x 4 + 2 leave too little for a third A
    assert begun(scarce, "drf") == {"A": 2, "B": 2}
    heavy = Tenant("A", weight=9.0), Tenant("B")
    assert begun(with_resource(plain, heavy, [4] * 9 + [1] * 9, 18), "drf") == {"A": 4, "B": 1}


@settings(max_examples=40, deadline=None)
@given(
    needs=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=2, max_size=4),
    weights=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    memory=st.integers(20, 200),
)
def test_dominant_shares_of_two_resources_equal_a_linear_program(
    needs: list[tuple[int, int]], weights: list[int], memory: int
) -> None:
    """max t, x_i s_i = w_i t, sum of x_i d_ir <= C_r: whole jobs reach this level up to one job of each tenant."""
    gpus = 40
    names = [f"t{i}" for i in range(len(needs))]
    tree = [Tenant(name, weight=float(w)) for name, w in zip(names, weights, strict=False)]
    jobs = [(0.0, name, gang, 10.0, 0.0) for name, (gang, _) in zip(names, needs, strict=True) for _ in range(gpus)]
    each = [gb for _, gb in needs for _ in range(gpus)]
    found = begun(with_resource(shared(tree, jobs, f"1x{gpus}"), tree, each, memory), "drf")
    demand, total = np.array(needs, float), np.array([gpus, memory], float)
    weight = np.array(weights[: len(needs)], float)
    per_job = (demand / total).max(axis=1) / weight  # dominant share / weight of one job
    count = len(needs)
    equal = np.hstack([np.diag(per_job), -np.ones((count, 1))])
    best = linprog(
        [0.0] * count + [-1.0], np.hstack([demand.T, np.zeros((2, 1))]), total, equal, np.zeros(count),
        bounds=[(0, None)] * (count + 1),
    )  # fmt: skip
    level = best.x[-1]
    held = np.array([found.get(name, 0) for name in names])
    assert (demand.T @ held <= total + 1e-9).all()
    assert (held * per_job).min() <= level + 1e-9
    speed = (demand / per_job[:, None]).sum(axis=0)  # use of each resource at level 1
    lag = per_job.max() + (demand.max(axis=0) / np.where(speed > 0, speed, np.inf)).max()
    assert (held * per_job).min() >= level - lag - 1e-9


def test_resources_that_jobs_do_not_tell_or_that_are_too_small_are_refused() -> None:
    tree = [Tenant("A")]
    plain = shared(tree, [(0.0, "A", 1, 10.0, 0.0)], "1x4")
    with pytest.raises(ScenarioError, match=r"tenants\.resources: unknown attribute 'memory_gb'"):
        Instance(plain.cluster, plain.workload, tenants=Tenants(tuple(tree), resources=(Resource("memory_gb", 4),)))
    for bad in (5, -1, 1.5):
        with pytest.raises(WorkloadError, match=f"job 0: memory_gb is {bad}: give a whole number from 0 to 4"):
            with_resource(plain, tree, [bad], 4)  # type: ignore[list-item]
    for amount in (0, 1.5, float("nan"), 2**53 + 1):
        with pytest.raises(ScenarioError, match=f"amount is {amount}: give a whole number from 1 to 9007199254740992"):
            Resource("memory_gb", amount)  # type: ignore[arg-type]


def test_bytes_count_like_gigabytes() -> None:
    """2**53 bytes on 16,384 GPUs: bytes x GPUs are more than 64 bits hold."""
    tree = Tenant("A"), Tenant("B")
    plain = shared(tree, [(0.0, name, 1024, 10.0, 0.0) for name in "A" * 16 + "B" * 16], "1x16384")
    few, many = (
        begun(with_resource(plain, tree, [100 * unit] * 16 + [10 * unit] * 16, 1024 * unit), "drf")
        for unit in (1, 2**43)
    )
    assert few == many == {"A": 6, "B": 10}


def test_orders_of_the_fair_and_the_capacity_scheduler() -> None:
    """8 GPUs free at 9; A holds 2 of 2, B 0 of 4, C 0 of 0 with weight 9: by hand, the first starts at 9."""
    tree = [Tenant("A", quota=2), Tenant("B", quota=4), Tenant("C", weight=9.0)]
    jobs = [(0, "A", 2, 99, 0), (0, "A", 8, 9, 0), *[(1, name, 1, 50, 0) for name in "ABC" for _ in range(8)]]
    started = {}
    for name in ("drf", "fair", "capacity"):
        instance = shared(tree, jobs, "1x10")
        log = simulate(instance, make_scheduler(name))
        rows = log.events["job"][(log.events["gpu_count"] > 0) & (log.events["time_s"] == 9)]
        started[name] = "".join(instance.workload.attributes[TENANT][rows].tolist())
    # drf: B 0, C 0 (B is listed first), then C's 1/9 < B's 1; C keeps being first up to 8/9
    assert started["drf"] == "B" + "CCCCCCC"
    # fair: B below its minimum 4 first, until it holds 4; then C, whose GPUs count 1/9
    assert started["fair"] == "BBBB" + "CCCC"
    # capacity: B/4 below A/2 until both hold their quota, ties to A; queues without quota come last
    assert started["capacity"] == "BBBB" + "AB" + "BA"


def test_caps_hold_and_do_not_block_others() -> None:
    tree = [Tenant("A", most=3), Tenant("B")]
    jobs = [(0.0, name, 1, 10.0, 0.0) for name in "AB" for _ in range(9)]
    for spec in ("drf", "drf:strict=true", "fair", "capacity", "kueue", "volcano", "kai"):
        instance = shared(tree, jobs, "1x8")
        log = simulate(instance, make_scheduler(spec))
        rows = log.events["job"][(log.events["gpu_count"] > 0) & (log.events["time_s"] == 0)]
        assert sorted(instance.workload.attributes[TENANT][rows].tolist()) == ["A"] * 3 + ["B"] * 5, spec


# --- Volcano and KAI


def deserved(policy: int, tree: Sequence[Tenant], requests: Sequence[float], gpus: int) -> list[float]:
    """What each of the tenants, which are all below the root, deserves [GPU]."""
    instance = shared(tree, [(0, tenant.name, 1, 1, 0) for tenant in tree], f"1x{gpus}")
    queues = build(instance, 1, {"policy": policy})
    queues.tenants["deserved"][0] = gpus
    queues.tenants["request"][1:] = requests
    (over_quota if policy == KAI else proportion)(queues.parameter, 0)
    found: list[float] = queues.tenants["deserved"][1:].tolist()
    return found


def test_kai_gives_quotas_and_then_whole_gpus_by_weight() -> None:
    """100 GPUs: quotas 20, 20, 5; the rest of 55 is 36.67 + 18.33, so the last GPU goes to the larger fraction."""
    tree = [Tenant("A", quota=20, weight=2.0), Tenant("B", quota=20), Tenant("C", quota=10)]
    assert deserved(KAI, tree, (60, 60, 5), 100) == [57, 38, 5]
    # A asks for 30 only: in the second round B gets what is left
    assert deserved(KAI, tree, (30, 90, 5), 100) == [30, 65, 5]


def test_volcano_fills_in_proportion_to_weights() -> None:
    """100 GPUs, weights 2, 1, 1: 50 + 25 + 5 of 25; then 10 of 13.33 + 6.67; then 3.33 for B."""
    tree = [Tenant("A", weight=2.0), Tenant("B"), Tenant("C")]
    assert deserved(VOLCANO, tree, (60, 60, 5), 100) == pytest.approx([60, 35, 5])


@settings(max_examples=40, deadline=None)
@given(
    demand=st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any),
    weights=st.lists(st.integers(1, 5), min_size=6, max_size=6),
)
def test_volcano_deserves_what_linear_programs_say(demand: list[int], weights: list[int]) -> None:
    tree = [Tenant(f"t{i}", weight=float(w)) for i, w in enumerate(weights[: len(demand)])]
    exact = max_min_by_programs(np.array(demand, float), np.array(weights[: len(demand)], float), 24)
    assert deserved(VOLCANO, tree, demand, 24) == pytest.approx(exact.tolist(), abs=1e-6)


@settings(max_examples=60)
@given(instance=runs())
def test_single_gpus_are_reclaimed_up_to_the_fair_share(instance: Instance) -> None:
    """With jobs of one GPU, no job waits under kai while its queue is below its fair share."""
    rows, names = instance.workload.jobs, instance.workload.attributes[TENANT].tolist()
    assert instance.tenants is not None
    tree = instance.tenants.tree
    jobs = [
        (float(at), name, 1, float(s), 0.0)
        for at, name, s in zip(rows["arrival_s"], names, rows["duration_s"], strict=True)
        for _ in range(2)
    ]
    instance = shared(tree, jobs, f"1x{instance.cluster.gpus}")
    names = instance.workload.attributes[TENANT].tolist()
    log = simulate(instance, make_scheduler("kai"))
    for _, held, waiting, started in held_after(instance, log):
        asks = {t.name: sum(names[row] == t.name for row in waiting) for t in tree}
        fair = fair_shares(tree, {name: held[name] + asks[name] for name in asks}, instance.cluster.gpus)
        if not started:
            assert all(held[name] >= fair[name] for name in asks if asks[name])


def test_volcano_leaves_losers_what_they_deserve() -> None:
    """8 GPUs, equal weights. B gets A's newest jobs of the lowest class, up to 4 GPUs, not 5.

    At 9 B requests 1, so A deserves 7 and cannot lose 2. From 10 on B requests 4 or more, and each deserves 4.
    """
    tree = [Tenant("A"), Tenant("B")]
    jobs = [(0, "A", 2, 99, 0), (1, "A", 2, 99, 5), (2, "A", 2, 99, 0), (3, "A", 2, 99, 0)]
    jobs += [(9, "B", 1, 60, 0), (10, "B", 3, 60, 0), (11, "B", 1, 60, 0)]
    instance = shared(tree, jobs, "1x8")
    assert preempted(instance, "volcano") == [3, 2]
    assert preempted(instance, "volcano:reclaim=false") == []
    # A's jobs wait, as it holds what it deserves; the last job of B waits for a GPU
    times = job_times(instance, simulate(instance, make_scheduler("volcano")))
    assert times["first_start_s"].tolist() == [0.0, 1.0, 2.0, 3.0, 10.0, 10.0, 70.0]


@pytest.mark.parametrize("spec", ["volcano", "kai"])
def test_a_higher_class_preempts_inside_its_queue(spec: str) -> None:
    jobs = [(0, "A", 4, 99, 0), (5, "A", 4, 9, 1)]
    assert preempted(shared([Tenant("A", quota=4)], jobs, "1x4"), spec) == [0]
    assert preempted(shared([Tenant("A", quota=4)], jobs, "1x4"), f"{spec}:within=false") == []


# --- pooling


def test_pooling_never_waits_longer_in_total_than_partitions() -> None:
    """Two M/M/4 queues that lend nothing wait as Erlang's formula says; one M/M/8 queue waits less."""
    rng = np.random.default_rng(5)
    count, rate = 20_000, 3.2  # of each tenant; run times of mean 1 s
    apart, pooled = [], []
    for _ in range(10):
        arrival = {name: np.cumsum(rng.exponential(1 / rate, count)) for name in "AB"}
        jobs = [
            (float(at), name, 1, float(s), 0.0)
            for name in "AB"
            for at, s in zip(arrival[name], rng.exponential(1.0, count), strict=True)
        ]
        walled = [Tenant("A", quota=4, lend=0), Tenant("B", quota=4, lend=0)]
        instance = shared(walled, jobs, "1x8")
        wait = job_times(instance, simulate(instance, make_scheduler("kueue")))["queueing_s"]
        names, rows = instance.workload.attributes[TENANT], instance.workload.jobs
        for name in "AB":  # each partition is a queue of its own
            own = rows[names == name]
            expected = recursion(own["arrival_s"], own["duration_s"], 4)
            np.testing.assert_allclose(wait[names == name], expected, rtol=1e-9, atol=1e-6)
        lent = shared([Tenant("A", quota=4), Tenant("B", quota=4)], jobs, "1x8")
        pool = job_times(lent, simulate(lent, make_scheduler("fifo")))["queueing_s"]
        assert pool.sum() < wait.sum()
        apart.append(float(wait.mean()))
        pooled.append(float(pool.mean()))
    for means, servers in ((apart, 4), (pooled, 8)):
        offered = rate * servers / 4
        theory = erlang_c(servers, offered) / (servers - offered)
        error = float(np.std(means, ddof=1)) / math.sqrt(len(means))
        assert abs(np.mean(means) - theory) < 4 * error, (servers, np.mean(means), error, theory)
        assert 4 * error < 0.3 * theory


# --- the same everywhere


def busy() -> Instance:
    """Sixty jobs of three queues on sixteen GPUs, drawn as whole numbers."""
    rng = np.random.default_rng(3)
    tree = [
        Tenant("D", quota=12, lend=6), Tenant("A", "D", quota=4, weight=2.0), Tenant("B", "D", quota=8),
        Tenant("C", quota=4, borrow=8),
    ]  # fmt: skip
    columns = [rng.integers(0, 300, 60), rng.choice([1, 2, 4], 60), rng.integers(10, 60, 60), rng.integers(0, 3, 60)]
    names = rng.choice(["A", "B", "C"], 60).tolist()
    rows = zip(*(c.tolist() for c in columns), names, strict=True)
    return shared(tree, [(float(a), name, g, float(s), float(p)) for a, g, s, p, name in rows], "4x4", 5.0)


@pytest.mark.parametrize("spec", GOLDEN)
def test_logs_are_the_golden_ones(spec: str) -> None:
    assert simulate(busy(), make_scheduler(spec)).digest()[:16] == GOLDEN[spec]


def test_a_workload_without_tenants_is_one_queue() -> None:
    instance = shared([Tenant("A")], [(float(i), "A", 1 + i % 4, 30.0, 0.0) for i in range(30)], "1x8")
    alone = Instance(
        instance.cluster,
        instance.workload.unchecked_replace(attributes={}),
        instance.network,
        instance.semantics,
    )
    expected = simulate(alone, make_scheduler("fifo-skip")).digest()
    for name in ("kueue", "drf", "fair", "capacity", "volcano", "kai"):
        assert simulate(alone, make_scheduler(name)).digest() == expected, name
