"""Placement rules by load, against a recount from the event log and a plain implementation of each rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers import begin, check_counts, random_workload, state_bytes, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.core.planning import Walk, plan_starts
from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.network import Contention, Network, TopologySpec, build_topology
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.simulator import ClusterView, Outcome, Preempt, Simulation, Start

CLUSTERS = (
    Cluster([NodeGroup(6, 3, nodes_per_rack=2)]),
    Cluster([NodeGroup(4, 2, nodes_per_rack=2), NodeGroup(2, 5)]),
    Cluster([NodeGroup(3, 4)]),
    Cluster([NodeGroup(12, 2, nodes_per_rack=2)]),
)


def loaded(seed: int) -> Simulation:
    """A run in its middle: gangs of several machines contend, and other gangs have ended."""
    rng = np.random.default_rng(seed)
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    ecmp = str(rng.choice(["ideal", "hashed"]))
    network = Network(
        "topology",
        topology=TopologySpec("leaf-spine", oversubscription=2.0, uplinks=2),
        contention=Contention("maxmin", ecmp=ecmp),
    )
    jobs = random_workload(rng, 30, max(cluster.gpus // 2, 2), spacing_s=40.0)
    rules = Semantics(checkpoint_s=20.0, least_busy_lambda=float(rng.choice([1.0, 1.0, 1.7, 4.0])))
    simulation = Simulation(Instance(cluster, jobs, network, rules), seed)
    for _ in range(int(rng.integers(5, 60))):
        if simulation.advance() is not Outcome.DECIDE:
            break
        view = ClusterView(simulation)
        for job in view.waiting:
            if rng.random() < 0.6:
                simulation.apply(Start(int(job), str(rng.choice(["random", "spread", "pack"]))))
        for job in view.running:
            if rng.random() < 0.1:
                simulation.apply(Preempt(int(job)))
    return simulation


def held_by_log(log: EventLog, gpus: int, now_s: float) -> np.ndarray:
    """Seconds for which each GPU was held, summed in order of the releases."""
    held, since, gang = np.zeros(gpus), np.full(gpus, np.nan), {}
    for number, event in enumerate(log.events):
        if event["kind"] in (START, RESUME):
            gang[event["job"]] = log.gang(number)
            since[log.gang(number)] = event["time_s"]
        elif event["kind"] in (COMPLETE, RELEASE):
            own = gang.pop(event["job"])
            held[own] += event["time_s"] - since[own]
            since[own] = np.nan
    return held + np.nan_to_num(now_s - since)


def communicating(simulation: Simulation) -> list[set[int]]:
    """Machines of each gang that uses links: on several machines and not being checkpointed."""
    view = ClusterView(simulation)
    rows = view.running[~view.checkpointing]
    spans = [set(simulation.instance.cluster.node_of_gpu[view.holders == row].tolist()) for row in rows]
    return [machines for machines in spans if len(machines) > 1]


def loads(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Gangs on the port of each machine and on the uplinks of each rack; hashed uplinks count once for each member."""
    cluster = simulation.instance.cluster
    gangs = communicating(simulation)
    ports = np.array([sum(node in machines for machines in gangs) for node in range(len(cluster.nodes))])
    flows, names = ClusterView(simulation).network.flows(), simulation.instance.links["name"]
    spine = np.array(["spine" in name for name in names.tolist()])
    racks = [sum(flows[spine & np.char.startswith(names, f"rack{rack} ")]) for rack in range(len(cluster.racks))]
    return ports, np.array(racks)


def best(rows: Sequence[int], free: np.ndarray, left: int, load: np.ndarray) -> int:
    """Least load; ties:
    the fewest free GPUs that hold the rest of the gang, else the most free GPUs; then the first.
    """
    return min(rows, key=lambda i: (load[i], free[i] < left, free[i] if free[i] >= left else -free[i], i))


def by_contention(simulation: Simulation, gang: int) -> list[int]:
    """GPUs of the rule "contention", by a plain implementation."""
    cluster, view = simulation.instance.cluster, ClusterView(simulation)
    free, rack_of = view.free_by_node.astype(int), cluster.nodes["rack"]
    ports, uplinks = loads(simulation)
    free_gpus = [np.flatnonzero((view.holders < 0) & (cluster.node_of_gpu == n)).tolist() for n in range(len(free))]
    found: list[int] = []

    def take(rows: Sequence[int], count: int, load: np.ndarray) -> None:
        while count:
            node = best([n for n in rows if free[n]], free, count, load)
            part = min(count, free[node])
            found.extend(free_gpus[node][:part])
            free[node] -= part
            count -= part

    nodes = range(len(free))
    if free.max() >= gang:
        take([n for n in nodes if free[n] >= gang], gang, np.zeros(len(free)))
        return found
    racks = range(len(cluster.racks))
    by_rack = np.bincount(rack_of, free, minlength=len(cluster.racks)).astype(int)
    inside = {rack: [n for n in nodes if rack_of[n] == rack] for rack in racks}
    enough = [rack for rack in racks if by_rack[rack] >= gang]
    if enough:  # the load of the busiest port that is needed: the least level with enough room at or below it
        busiest = {r: min(p for p in ports if sum(free[n] for n in inside[r] if ports[n] <= p) >= gang) for r in enough}
        take(inside[min(enough, key=lambda r: (busiest[r], by_rack[r], r))], gang, ports)
        return found
    left = gang
    while left:
        rack = best([r for r in racks if by_rack[r]], by_rack, left, uplinks)
        part = min(left, by_rack[rack])
        take(inside[rack], part, ports)
        by_rack[rack] -= part
        left -= part
    return found


@settings(max_examples=120)
@given(st.integers(0, 10**6))
def test_every_rule_equals_its_plain_statement(seed: int) -> None:
    simulation = loaded(seed)
    cluster, view = simulation.instance.cluster, ClusterView(simulation)
    held = held_by_log(simulation.log(), cluster.gpus, simulation.now_s)
    free = np.flatnonzero(view.holders < 0)
    mean = np.bincount(cluster.node_of_gpu, held) / cluster.nodes["gpus"]
    for job in view.waiting.tolist():
        gang = int(view.gpus[job])
        before = state_bytes(simulation)
        asked = {
            rule: view.where(job, rule) for rule in ("least-busy", "least-busy-servers", "contention", "random-servers")
        }
        assert state_bytes(simulation) == before
        if gang > len(free):
            assert not any(asked.values())
            continue
        ranked = sorted(free.tolist(), key=lambda gpu: (held[gpu], gpu))
        assert asked["least-busy"] == tuple(ranked[:gang])
        order = np.lexsort([np.arange(len(mean)), np.round(mean, 9)])
        wanted = min(gang * simulation.instance.semantics.least_busy_lambda, cluster.gpus)
        servers = order[: int(np.searchsorted(np.cumsum(cluster.nodes["gpus"][order]), wanted)) + 1]
        inside = [gpu for gpu in ranked if cluster.node_of_gpu[gpu] in servers]
        assert asked["least-busy-servers"] == (tuple(inside[:gang]) if len(inside) >= gang else ())
        assert asked["contention"] == tuple(by_contention(simulation, gang))
        taken = np.bincount(cluster.node_of_gpu[list(asked["random-servers"])], minlength=len(mean))
        assert ((taken > 0) & (taken < view.free_by_node)).sum() <= 1
        assert set(asked["random-servers"]) <= set(free.tolist())


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["contention", "least-busy", "least-busy-servers", "random-servers"]))
def test_a_start_takes_the_gpus_that_where_returns(seed: int, rule: str) -> None:
    simulation = loaded(seed)
    view = ClusterView(simulation)
    for job in view.waiting.tolist():
        gpus = view.where(job, rule)
        assert (simulation.apply(Start(job, rule)) == "") == bool(gpus)
        check_counts(simulation)
        assert np.flatnonzero(view.holders == job).tolist() == sorted(gpus)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_without_other_gangs_contention_is_pack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    busy = rng.permutation(cluster.gpus)[: rng.integers(cluster.gpus)].tolist()
    gangs = [1] * len(busy) + [int(rng.integers(1, cluster.gpus - len(busy) + 1))]
    simulation = begin(unit_instance([0.0] * len(gangs), gangs, [9.0] * len(gangs), cluster))
    for job, gpu in enumerate(busy):
        simulation.apply(Start(job, gpus=(gpu,)))
    view = ClusterView(simulation)
    assert view.where(len(busy), "contention") == view.where(len(busy), "pack")


def test_contention_avoids_a_shared_port() -> None:
    """Two free GPUs on each of four machines; a gang holds two on the first two. The next goes to the other two."""
    network = Network("topology", topology=TopologySpec("single-switch"), contention=Contention("maxmin"))
    jobs = random_workload(np.random.default_rng(0), 2, 1)
    jobs.jobs["gpus"] = [4, 4]
    jobs.jobs["arrival_s"] = 0.0
    simulation = begin(Instance(Cluster.parse("4x4/4"), jobs, network))
    view = ClusterView(simulation)
    assert simulation.apply(Start(0, gpus=(0, 1, 4, 5))) == ""
    assert view.where(1, "contention") == (8, 9, 10, 11)
    cluster = Cluster([NodeGroup(2, 4, nodes_per_rack=4), NodeGroup(2, 3, nodes_per_rack=4)])
    jobs.jobs["gpus"] = [4, 4]
    simulation = begin(Instance(Cluster(cluster.groups), jobs, network))
    assert simulation.apply(Start(0, gpus=(0, 1, 4, 5))) == ""
    assert ClusterView(simulation).where(1, "pack") == (2, 3, 6, 7)  # best fit of the first rack
    assert ClusterView(simulation).where(1, "contention") == (8, 9, 10, 11)  # no gang on these ports


@pytest.mark.parametrize("ecmp", ["ideal", "hashed"])
def test_contention_avoids_a_shared_uplink(ecmp: str) -> None:
    """Four racks of 4 GPUs; a gang holds one in each of the first two. A gang of six takes the third rack and two GPUs
    of the fourth; best fit would take the first."""
    network = Network("topology", topology=TopologySpec("leaf-spine"), contention=Contention("maxmin", ecmp=ecmp))
    jobs = random_workload(np.random.default_rng(0), 2, 1)
    jobs.jobs["gpus"], jobs.jobs["arrival_s"] = [2, 6], 0.0
    simulation = begin(Instance(Cluster.parse("8x2/2"), jobs, network))
    assert simulation.apply(Start(0, gpus=(0, 4))) == ""
    view = ClusterView(simulation)
    assert view.where(1, "pack") == (8, 9, 10, 11, 2, 3)
    assert view.where(1, "contention") == (8, 9, 10, 11, 12, 13)


def test_random_servers_are_drawn_uniformly() -> None:
    """Chi-square of the first of five machines, 4 degrees of freedom."""
    counts = np.zeros(5)
    for seed in range(1_000):
        simulation = begin(unit_instance([0.0], [3], [1.0], "5x2"), seed)
        simulation.apply(Start(0, "random-servers"))
        chosen = simulation.arrays.chosen[:3]
        assert chosen[1] == chosen[0] + 1
        counts[chosen[0] // 2] += 1
    assert ((counts - 200) ** 2 / 200).sum() < 23.5


@pytest.mark.parametrize("rule", ["contention", "least-busy", "random-servers", "most-free"])
def test_gangs_placed_in_one_list_schedule_get_disjoint_gpus(rule: str) -> None:
    simulation = begin(unit_instance([0.0] * 3, [3, 2, 4], [9.0] * 3, "4x2/2"))
    order, starts = np.arange(3, dtype=np.int32), np.zeros(3, np.int32)
    walk = Walk(order=order, rules=np.full(3, RULE_NUMBER[rule], np.int32), verdicts=starts)
    number = plan_starts(simulation.arrays, walk, 3, False)
    assert number == 2  # 3 + 2 of 8 GPUs; 4 do not fit
    for job in starts[:number].tolist():
        assert simulation.apply(Start(job, rule)) == ""
    check_counts(simulation)


def test_uplinks_are_the_narrowest_common_links() -> None:
    three = build_topology(
        TopologySpec("three-tier", oversubscription=2.0, racks_per_pod=2, pod_oversubscription=4.0),
        Cluster.parse("8x8/2"),
    )
    names = three.links["name"].tolist()
    assert [names[link] for link in three.uplinks] == [f"rack{r} -- pod{r // 2}" for r in range(4)]
    one = build_topology(TopologySpec("single-switch"), Cluster.parse("4x8/2"))
    assert one.uplinks.tolist() == [-1]
