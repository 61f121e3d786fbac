"""KAI's fair shares and reclaims against a reference from its source, on trees of queues; siblings in Volcano."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st
from kai_reference import allows, divide, fair_shares

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.queues.state import KAI
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.tenants import Tenant
from gpusched_env.problem.workload import TENANT
from gpusched_env.simulator import simulate
from tests.baselines.test_tenants import deserved, last_start, preempted, shared

DEPARTMENT = [Tenant("d", quota=4), Tenant("a", "d", quota=2), Tenant("b", "d", quota=2)]


@pytest.mark.parametrize("spec", ["kai", "volcano"])
def test_siblings_below_a_full_parent_reclaim_from_each_other(spec: str) -> None:
    """b gets a GPU of a: their parent gives and gets it, so that it stays within its share."""
    jobs = [(0, "a", 1, 1000, 0)] * 4 + [(10, "b", 1, 100, 0)]
    assert last_start(shared(DEPARTMENT, jobs, "4x1"), spec) == 10.0


def test_kai_grants_the_quota_also_from_a_large_gang() -> None:
    """a holds 8 of 8 GPUs in one job. b gets its quota of 4, although a then holds none of its own."""
    tree = [Tenant("a", quota=4), Tenant("b", quota=4)]
    assert last_start(shared(tree, [(0, "a", 8, 1000, 0), (10, "b", 4, 100, 0)], "1x8"), "kai") == 10.0
    # a job of 5 GPUs is more than b deserves
    assert last_start(shared(tree, [(0, "a", 8, 1000, 0), (10, "b", 5, 100, 0)], "1x8"), "kai") == 1000.0


def test_kai_passes_over_a_queue_that_the_winner_would_overtake() -> None:
    """Department w, beyond its share of 2, gets a GPU of s1, which then holds 3 times its share; w holds twice its own.

    Of the queues beyond their shares, s2 has the job of the lowest priority, but without this gang it would hold none.
    t, whose gang is larger than its share, only asks.
    """
    tree = [Tenant("w", quota=2), Tenant("s1", quota=1), Tenant("s2", quota=2), Tenant("t", quota=5)]
    tree += [Tenant("x", "w", quota=1), Tenant("y", "w", quota=1)]
    jobs = [(0, "s2", 3, 1000, 0), *[(0, "s1", 1, 1000, 1)] * 4, (0, "x", 3, 1000, 2), (5, "t", 6, 1000, 0)]
    instance = shared(tree, [*jobs, (10, "y", 1, 100, 0)], "1x10")
    assert last_start(instance, "kai") == 10.0
    assert set(preempted(instance, "kai")) < {1, 2, 3, 4}


def test_volcano_tries_again_when_an_arrival_changes_the_shares() -> None:
    """At 5 a deserves 6 of 8 GPUs and cannot lose 4. From 7 on c asks for 5, a deserves 3, and b gets its 2 GPUs."""
    tree = [Tenant("a"), Tenant("b"), Tenant("c")]
    jobs = [(0, "a", 4, 1000, 0)] * 2 + [(5, "b", 2, 50, 0), (7, "c", 5, 50, 0)]
    instance = shared(tree, jobs, "1x8")
    times = job_times(instance, simulate(instance, make_scheduler("volcano")))["first_start_s"]
    assert times[:3].tolist() == [0.0, 0.0, 7.0]


def test_kai_stops_when_nobody_asks_for_less_than_its_share() -> None:
    """6 GPUs by 3 : 1 : 5. A asks for its share of 2 exactly, so the GPU left goes to B's fraction 2/3, not C's 1/3."""
    tree = [Tenant("A", weight=3.0), Tenant("B"), Tenant("C", weight=5.0)]
    assert deserved(KAI, tree, (2, 9, 9), 6) == [2, 1, 3]


@settings(max_examples=100)
@given(data=st.data())
def test_kai_divides_as_its_source_does(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    tree = [
        Tenant(f"t{i}", quota=data.draw(st.integers(0, 5)), weight=float(data.draw(st.integers(1, 7))))
        for i in range(count)
    ]
    request = {t.name: data.draw(st.integers(1, 20)) for t in tree}
    gpus = data.draw(st.integers(1, 40))
    expected = divide(gpus, tree, {t.name: t.quota for t in tree}, request)
    assert deserved(KAI, tree, list(request.values()), gpus) == list(expected.values())


@st.composite
def trees(draw: st.DrawFn, largest: int = 4) -> Instance:
    """Two departments of two queues each, and a queue beside them; jobs of whole seconds on too few GPUs."""
    tree = [Tenant("d", quota=draw(st.integers(0, 6)), weight=float(draw(st.integers(1, 3)))), Tenant("e")]
    for name, parent in (("a", "d"), ("b", "d"), ("c", "e"), ("f", "e"), ("g", "")):
        quota, weight = draw(st.integers(0, 3)), float(draw(st.integers(1, 3)))
        tree.append(Tenant(name, parent, quota=quota, weight=weight))
    job = st.tuples(
        st.integers(0, 25), st.sampled_from("abcfg"), st.integers(1, largest), st.integers(5, 60), st.just(0.0)
    )  # fmt: skip
    jobs = draw(st.lists(job, min_size=4, max_size=25))
    gpus = draw(st.integers(largest, 12))
    return shared(tree, [(float(at), who, n, float(s), p) for at, who, n, s, p in jobs], f"1x{gpus}")


@settings(max_examples=100)
@given(instance=trees())
def test_kai_reclaims_only_what_its_source_allows(instance: Instance) -> None:
    log = play(instance, "kai:within=false")
    assert instance.tenants is not None
    tree = instance.tenants.tree
    names, gangs = instance.workload.attributes[TENANT].tolist(), instance.workload.jobs["gpus"].tolist()
    held, asks = dict.fromkeys("abcfg", 0), dict.fromkeys("abcfg", 0)
    victims: list[tuple[str, int]] = []
    for event in log.events:
        row = int(event["job"])
        if event["kind"] == ARRIVAL:
            asks[names[row]] += gangs[row]
        elif event["kind"] == COMPLETE:
            held[names[row]] -= gangs[row]
            asks[names[row]] -= gangs[row]
        elif event["kind"] == PREEMPT:
            victims.append((names[row], gangs[row]))
        elif event["gpu_count"] > 0:
            if victims:
                fair = fair_shares(tree, asks, instance.cluster.gpus)
                assert allows(tree, held, fair, names[row], gangs[row], victims)
            for name, size in victims:
                held[name] -= size
            victims = []
            held[names[row]] += gangs[row]


@settings(max_examples=100)
@given(instance=trees(largest=1))
def test_kai_reclaims_each_gpu_that_its_source_allows(instance: Instance) -> None:
    """With jobs of one GPU: after an arrival that starts nothing, no waiting job may reclaim any running one."""
    log = simulate(instance, make_scheduler("kai"))
    assert instance.tenants is not None
    tree = instance.tenants.tree
    names = instance.workload.attributes[TENANT].tolist()
    held, asks = dict.fromkeys("abcfg", 0), dict.fromkeys("abcfg", 0)
    times = log.events["time_s"]
    for time_s in np.unique(times).tolist():
        moved = False
        for event in log.events[times == time_s]:
            name, kind = names[int(event["job"])], int(event["kind"])
            asks[name] += int(kind == ARRIVAL) - int(kind == COMPLETE)
            held[name] += int(event["gpu_count"] > 0) - int(kind in (COMPLETE, PREEMPT))
            moved |= kind not in (ARRIVAL, COMPLETE)
        fair = fair_shares(tree, asks, instance.cluster.gpus)
        for winner in [name for name in held if asks[name] > held[name] and not moved]:
            assert sum(held.values()) == instance.cluster.gpus
            losers = [name for name in held if held[name] > 0 and name != winner]
            assert not any(allows(tree, held, fair, winner, 1, [(loser, 1)]) for loser in losers), (time_s, winner)


@settings(max_examples=25)
@given(instance=trees(), checkpoint_s=st.sampled_from([0.0, 3.0]))
@pytest.mark.parametrize("spec", ["kai", "volcano"])
def test_trees_play_alike_in_the_compiled_loop(spec: str, instance: Instance, checkpoint_s: float) -> None:
    semantics = dataclasses.replace(instance.semantics, checkpoint_s=checkpoint_s)
    instance = Instance(instance.cluster, instance.workload, instance.network, semantics, tenants=instance.tenants)
    preempted(instance, spec)
