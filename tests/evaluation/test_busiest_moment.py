"""The busiest moment of a run: two gangs by hand, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Script, instance_i, linked_scenario, simulate

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.busiest import busiest_moment
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Start


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
