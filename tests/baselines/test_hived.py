"""HiveD: cells by hand, and its guarantee against clusters apart, by random sequences and through whole runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import first_starts, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.hived.cells import Cell, Cells, digits, sizes_of
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import PREEMPT, RESUME
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.problem.tenants import PRIORITY, Tenant, Tenants
from gpusched_env.problem.workload import Workload

SIZES = (1, 2, 4, 8)


def tenants_instance(
    jobs: list[tuple[str, float, int, float, float]], quotas: dict[str, int], cluster: str = "2x4/1", **rules: float
) -> Instance:
    """Jobs of (tenant, arrival, GPUs, seconds, priority class); tenants own ``quotas`` GPUs."""
    owner, arrival, gpus, duration, classes = zip(*jobs, strict=True)
    workload = Workload.from_columns(arrival, gpus, duration)
    attributes = {"tenant": np.array(owner), PRIORITY: np.array(classes)}
    workload = Workload(workload.jobs, workload.profiles, attributes=attributes)
    tree = Tenants(tuple(Tenant(name, quota=quota) for name, quota in quotas.items()))
    semantics = Semantics(**({"checkpoint_s": 0.0, "restore_s": 0.0} | rules))
    return Instance(Cluster.parse(cluster), workload, Network("none"), semantics, tenants=tree)


def test_levels_follow_from_the_cluster() -> None:
    assert sizes_of(Cluster.parse("8x8s2/4")) == (1, 2, 4, 8, 32)
    assert sizes_of(Cluster.parse("4x3")) == (1, 3, 12)
    assert digits(13, SIZES) == [1, 0, 1, 1]
    for cluster in ("2x8,2x4", "2x8/2,4x8/4", "2x8/2@V100,2x8/2@A100"):
        with pytest.raises(SchedulerError, match="hived: cells need"):
            sizes_of(Cluster.parse(cluster))


def test_a_smaller_last_rack_is_servers() -> None:
    free = Cells.whole((1, 2, 4, 8), 8 + 4 + 2 + 1).free
    assert free == [{14}, {6}, {2}, {0}]


def test_buddies_by_hand() -> None:
    """16 GPUs. A tenant with a cell of 8 and one of 2 takes 2, 2 and 1: its pair, then parts of its cell of 8."""
    cluster = Cells.whole(SIZES, 16)
    tenant = Cells(SIZES, digits(10, SIZES), cluster)
    busy = {(3, 1): 0, (2, 1): 0}  # low-priority jobs hold a GPU of all cells but these

    def cost(cell: tuple[int, int]) -> int:
        return busy.get(cell, 1)

    assert tenant.take(1, cost) == (1, 4)  # its pair: cell 1 of 8, then the first parts
    assert cluster.free == [set(), {5}, {3}, {0}]
    assert tenant.take(1, cost) == (1, 2)  # of its cell of 8: cell 0, and there the idle cell of 4
    assert tenant.take(0, cost) == (0, 6)
    assert (tenant.free, tenant.bound) == ([{7}, set(), {0}, set()], {(1, 4), (3, 0)})
    assert tenant.take(3, cost) is None
    for cell in ((0, 6), (1, 2), (1, 4)):
        tenant.give(cell)
    assert (tenant.free, tenant.bound, tenant.spare) == ([set()] * 4, set(), [0, 1, 0, 1])
    assert cluster.free == [set(), set(), set(), {0, 1}]


def gpus_of(sizes: tuple[int, ...], cell: Cell) -> set[int]:
    return set(range(sizes[cell[0]] * cell[1], sizes[cell[0]] * (cell[1] + 1)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_tenant_finds_a_cell_whenever_its_own_cells_have_one(data: st.DataObject) -> None:
    """The definition of sharing safety: a request fails only if no cell that the tenant owns has a free part for it."""
    sizes = data.draw(st.sampled_from([SIZES, (1, 3, 12), (1, 2, 8, 16), (1,)]))
    gpus = data.draw(st.integers(1, 3 * sizes[-1]))
    cluster, quotas = Cells.whole(sizes, gpus), list[int]()
    for _ in range(data.draw(st.integers(1, 3))):
        quotas.append(data.draw(st.integers(0, gpus - sum(quotas))))
    tenants = [Cells(sizes, digits(quota, sizes), cluster) for quota in quotas]
    held: list[tuple[int, Cell]] = []
    costs = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 9, (len(sizes), gpus))
    for _ in range(data.draw(st.integers(1, 40))):
        if held and data.draw(st.booleans()):
            owner, cell = held.pop(data.draw(st.integers(0, len(held) - 1)))
            tenants[owner].give(cell)
        owner, level = data.draw(st.integers(0, len(quotas) - 1)), data.draw(st.integers(0, len(sizes) - 1))
        found = tenants[owner].take(level, lambda cell: int(costs[cell]))
        used = set().union(*(gpus_of(sizes, cell) for who, cell in held if who == owner))
        if found is not None:
            held.append((owner, found))
            assert found[0] == level
        else:
            assert not any(tenants[owner].spare[level:])
            for own in tenants[owner].bound:
                inside = sorted(gpus_of(sizes, own))
                parts = [set(inside[i : i + sizes[level]]) for i in range(0, len(inside), sizes[level])]
                assert own[0] < level or all(part & used for part in parts)
        everything = [gpu for _, cell in held for gpu in gpus_of(sizes, cell)]
        assert len(set(everything)) == len(everything) and max(everything, default=0) < gpus  # noqa: PT018
        for tenant, quota in zip(tenants, quotas, strict=True):
            kinds = [cell[0] for cell in tenant.bound]
            assert [kinds.count(k) + tenant.spare[k] for k in range(len(sizes))] == digits(quota, sizes)


@pytest.mark.parametrize("owned", [(0, 0, 2), (2, 1, 1), (4, 2, 0), (8, 0, 0), (2, 3, 0), (0, 2, 1)])
def test_every_sequence_of_requests_within_what_is_owned_succeeds(owned: tuple[int, int, int]) -> None:
    """All states of 8 GPUs that cells of 1, 2 and 4 can reach; where several cells are free, the first or the last."""
    sizes = (1, 2, 4)
    seen, todo = set(), [frozenset[Cell]()]
    while todo:
        held = todo.pop()
        for level, sign in itertools.product(range(3), (1, -1)):
            if sum(cell[0] == level for cell in held) == owned[level]:
                continue
            cells = Cells(sizes, [0, 0, 0])
            taken = set().union(*(gpus_of(sizes, cell) for cell in held))
            for k in reversed(range(3)):  # maximal free cells
                outer = set().union(*(gpus_of(sizes, (j, i)) for j in range(k + 1, 3) for i in cells.free[j]))
                every = {i: gpus_of(sizes, (k, i)) for i in range(8 // sizes[k])}
                cells.free[k] = {i for i, one in every.items() if not one & (taken | outer)}
            found = cells.take(level, lambda cell, sign=sign: sign * cell[1])
            assert found is not None, (held, level)
            state = held | {found}
            for left in [state, *(state - {cell} for cell in state)]:
                if left not in seen:
                    seen.add(left)
                    todo.append(left)
    assert len(seen) >= 4


def test_a_tenant_gets_its_server_at_once_and_the_victims_are_those_of_the_cell_with_fewest() -> None:
    """Two servers of 4. Low-priority jobs of 3, 1 and 2 GPUs: server 0 is full, server 1 has 2. A's job takes that."""
    jobs = [("low", 0, 3, 100, 0), ("low", 0, 2, 100, 0), ("low", 0, 1, 100, 0), ("a", 10, 4, 50, 0)]
    instance = tenants_instance(jobs, {"low": 0, "a": 4})
    log = play(instance, "hived")
    times = job_times(instance, log)
    assert times["finish_s"].tolist() == [100, 150, 100, 60]
    assert log.events["job"][log.events["kind"] == PREEMPT].tolist() == [1]


def test_cells_wait_for_checkpoints_and_nobody_else_gets_their_gpus() -> None:
    jobs = [("low", 0, 4, 100, 0), ("low", 0, 4, 100, 0), ("low", 1, 1, 7, 0), ("a", 10, 2, 50, 0), ("a", 11, 2, 9, -1)]
    instance = tenants_instance(jobs, {"low": 0, "a": 4}, checkpoint_s=5.0)
    assert first_starts(instance, "hived") == [0, 0, 15, 15, 22]


def test_a_job_whose_node_fails_takes_another_cell() -> None:
    """Node 0 is down from 10 to 1,000 s: the job starts again on node 1, whose low-priority job goes."""
    plain = tenants_instance([("a", 0, 4, 50, 0), ("low", 0, 4, 500, 0)], {"a": 4, "low": 0})
    outages = Outages(np.array([(0, 10.0, 1_000.0, 0)], OUTAGE_DTYPE))
    rest = (plain.cluster, plain.workload, plain.network, plain.semantics)
    instance = Instance(*rest, tenants=plain.tenants, outages=outages)
    log = play(instance, "hived")
    assert job_times(instance, log)["finish_s"].tolist() == [60, 550]
    assert log.gang(int(np.flatnonzero(log.events["kind"] == RESUME)[0])).tolist() == [4, 5, 6, 7]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["2x8s2/1", "3x4/2", "4x4"]))
def test_jobs_within_the_quota_start_at_once(seed: int, cluster: str) -> None:
    """Each of two tenants runs one gang at a time, of the size of its cell, among many low-priority jobs."""
    rng = np.random.default_rng(seed)
    machines = Cluster.parse(cluster)
    sizes = [int(size) for size in rng.choice([size for size in sizes_of(machines) if 2 * size <= machines.gpus], 2)]
    jobs = [
        ("low", float(rng.integers(0, 99)), int(rng.integers(1, 6)), float(rng.integers(1, 60)), 0) for _ in range(25)
    ]
    for name, size in zip("ab", sizes, strict=True):
        at = 0.0
        for _ in range(6):
            at, last = at + float(rng.integers(1, 20)), float(rng.integers(1, 20))
            jobs.append((name, at, size, last, 0))
            at += last
    instance = tenants_instance(jobs, {"low": 0, "a": sizes[0], "b": sizes[1]}, cluster)
    starts, arrival = first_starts(instance, "hived"), instance.workload.jobs["arrival_s"]
    mine = instance.workload.attributes["tenant"] != "low"
    assert (np.array(starts)[mine] == arrival[mine]).all()


def test_quotas_that_do_not_fit_and_jobs_beyond_them_are_errors() -> None:
    with pytest.raises(SchedulerError, match="quotas of 9 GPUs on a cluster of 8"):
        play(tenants_instance([("a", 0, 1, 1, 0)], {"a": 9}), "hived")
    with pytest.raises(SchedulerError, match="tenant 'a': job 0 asks for 4 GPUs, but its quota is 3"):
        play(tenants_instance([("a", 0, 4, 1, 0)], {"a": 3}), "hived")
