"""Loads of links at any time, computed from a log, and the busiest moment of a run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers import Script, instance_i, linked_scenario
from hypothesis import given, settings
from hypothesis import strategies as st
from network_play import instance_of, network

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.busiest import busiest_moment
from gpusched_env.evaluation.link_loads import link_loads
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Outcome, Simulation, Start, simulate


def test_two_gangs_on_the_same_ports() -> None:
    """12 GB/s on each port while a gang uses it, shared or not; nothing before and after."""
    gangs = [{0: 4, 1: 4}, {0: 4, 1: 4}]
    instance, scheduler = instance_of("3x8", gangs, network(), iterations=[500.0, 1000.0], arrival=[10.0, 20.0])
    log = simulate(instance, scheduler)
    end = float(log.events["time_s"][-1])
    loads = link_loads(instance, log, [0.0, 15.0, end, 25.0, end - 1.0, -3.0])
    both = [12e9, 12e9, 0.0]
    expected = [[0.0] * 3, both, [0.0] * 3, both, both, [0.0] * 3]
    np.testing.assert_allclose(loads, expected, rtol=1e-12)


@settings(max_examples=10)
@given(
    st.integers(0, 100), st.sampled_from(["srtf", "las", "fifo-skip:placement=random"]), st.sampled_from([0.0, 300.0])
)
def test_loads_from_the_log_equal_those_of_the_run(seed: int, spec: str, round_s: float) -> None:
    scenario = get_scenario("leaf-spine-256-v1")
    scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=30))
    drawn = scenario.instance(seed)
    rules = dataclasses.replace(drawn.semantics, round_s=round_s)
    instance = Instance(drawn.cluster, drawn.workload, drawn.network, rules)
    scheduler = make_scheduler(spec)
    simulation = Simulation(instance, seed)
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    times, seen = [], []
    while simulation.advance() is Outcome.DECIDE:
        for decision in scheduler.decide(view):
            simulation.apply(decision)
        times.append(simulation.now_s)
        seen.append(ClusterView(simulation).network.loads_Bps())
    last = {time: at for at, time in enumerate(times)}  # the state after the last event at each time
    shuffled = np.random.default_rng(seed).permutation(sorted(last))
    found = link_loads(instance, simulation.log(), shuffled)
    for time, loads in zip(shuffled.tolist(), found, strict=True):
        np.testing.assert_array_equal(loads, seen[last[time]])


def test_refusals() -> None:
    instance, scheduler = instance_of("2x8", [{0: 4, 1: 4}], network())
    log = simulate(instance, scheduler)
    with pytest.raises(GpuschedError, match="a time is NaN"):
        link_loads(instance, log, [np.nan])
    plain = get_scenario("tiny-v1").instance(0)
    with pytest.raises(GpuschedError, match="priced by tiers"):
        link_loads(plain, simulate(plain, make_scheduler("fifo")), [0.0])
    other, _ = instance_of("2x8", [{0: 2, 1: 4}], network())
    with pytest.raises(GpuschedError, match="event 1 of the log cannot be played again: the number of explicit GPUs"):
        link_loads(other, log, [1.0])


def two_gangs(ecmp: str) -> Instance:
    """Two gangs over the same two racks, the second from 5 s on;
    ports of 1 GB/s, two uplinks of 1 GB/s a rack, and buses.
    """
    row = dict(name="m", batch=1, gradient_bytes=1e9, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=0.1)
    profiles = Profiles.from_rows([row])
    workload = Workload.from_columns([0.0, 5.0], [2, 2], iterations=[100.0, 1.0], profiles=profiles, profile=[0, 0])
    topology = TopologySpec(nic_GBps=1.0, uplinks=2, host_bus_GBps=8.0)
    network = Network("topology", topology=topology, contention=Contention(ecmp=ecmp))
    return Instance(Cluster.parse("4x1/2"), workload, network)


SCRIPT = {0.0: [Start(0, gpus=(0, 2))], 5.0: [Start(1, gpus=(1, 3))]}


def test_two_gangs_over_the_same_uplinks() -> None:
    instance = two_gangs("ideal")
    assert instance.topology is not None
    assert len(instance.links) == len(instance.topology.links) + 4  # the buses
    moment = busiest_moment(instance, Script(SCRIPT))
    assert moment.time_s == 5.0
    assert moment.loads.tolist() == [1.0] * 6  # four ports and two bundles of uplinks, all full


def test_the_fullest_member_of_a_bundle_counts() -> None:
    instance = two_gangs("hashed")
    assert instance.topology is not None
    moment = busiest_moment(instance, Script({0.0: SCRIPT[0.0]}, then="count"))
    links = instance.topology.links
    assert len(moment.loads) == len(links) == 2 * 4 + 2 * 2  # one row for each direction
    assert moment.loads[links["tier"] == 1].tolist() == [1.0] * 4  # one edge fills one of two members


def test_observing_links_changes_nothing_and_needs_links() -> None:
    instance = linked_scenario(jobs=20).instance(1)
    before = simulate(instance, make_scheduler("srtf")).digest()
    first, again = (busiest_moment(instance, make_scheduler("srtf")) for _ in range(2))
    assert first.time_s == again.time_s
    assert np.array_equal(first.loads, again.loads)
    assert simulate(instance, make_scheduler("srtf")).digest() == before
    with pytest.raises(GpuschedError, match="priced by tiers"):
        busiest_moment(instance_i(), make_scheduler("fifo"))
