"""Slots inside machines: notation, tiers of placements, and results that slots must not change."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from helpers import mixed_profiles, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st
from network_play import AtOnce, network

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ClusterError, ScenarioError, ScheduleError
from gpusched_env.metrics import validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, SLOT, TIERS, Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario, load_scenario, save_scenario
from gpusched_env.simulator import simulate
from gpusched_env.traces import assign_profiles

ROOM = "2x4s2/1@A,3x6s3/2@B,1x2@C"  # 28 GPUs: slots of two and of two, and a machine without slots


def test_slots_are_written_after_the_gpus_of_a_node() -> None:
    cluster = Cluster.parse("32x8s2/8")
    assert cluster.groups == (NodeGroup(32, 8, nodes_per_rack=8, slots=2),)
    assert cluster.slot_gpus.tolist() == [4] * 32
    assert cluster.describe() == "256 GPUs: 32 nodes x 8 V100 in 2 slots in 4 racks"
    assert Cluster.parse("4x8s4@A100, 2x4").slots.tolist() == [4, 4, 4, 4, 1, 1]


@pytest.mark.parametrize(("gpus", "slots"), [(8, 3), (8, 0), (8, 16), (128, 64), (8, True), (8, 2.0)])
def test_unequal_and_impossible_slots_are_refused(gpus: int, slots: int) -> None:
    with pytest.raises(ClusterError, match=r"cluster\.slots is"):
        NodeGroup(1, gpus, slots=slots)


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_slots_survive_a_scenario_file_and_change_its_fingerprint(tmp_path: Path, suffix: str) -> None:
    plain = get_scenario("tiny-v1")
    slotted = plain.replace(groups=(NodeGroup(2, 4, slots=2),))
    path = tmp_path / f"scenario{suffix}"
    if suffix == ".json":
        save_scenario(slotted, path)
    else:
        with pytest.raises(ScenarioError, match=r"scenario\.toml: scenarios are written as JSON; name a \.json file"):
            save_scenario(slotted, path)
        path.write_text(
            'name = "tiny"\ndescription = ""\ngroups = [{count = 2, gpus = 4, slots = 2}]\n'
            '[workload]\nsource = "synthetic:poisson"\n'
        )
    assert load_scenario(path).groups == slotted.groups
    assert "slots" not in plain.as_dict()["groups"][0]
    assert slotted.fingerprint() != plain.fingerprint()
    assert slotted.instance(0).fingerprint() != plain.instance(0).fingerprint()


def tier_by_definition(cluster: Cluster, gpus: tuple[int, ...]) -> int:
    node = cluster.node_of_gpu[list(gpus)]
    if len(set(cluster.nodes["rack"][node].tolist())) > 1:
        return NETWORK
    if len(set(node.tolist())) > 1:
        return RACK
    size, count = int(cluster.nodes["gpus"][node[0]]), int(cluster.slots[node[0]])
    starts = range(int(cluster.nodes["first_gpu"][node[0]]), int(cluster.nodes["first_gpu"][node[0]]) + size)
    slots = [set(starts[k * size // count : (k + 1) * size // count]) for k in range(count)]
    return SLOT if count > 1 and any(set(gpus) <= slot for slot in slots) else MACHINE


@settings(max_examples=40)
@given(data=st.data())
def test_the_tier_of_any_placement_follows_from_its_gpus(data: st.DataObject) -> None:
    """Gangs on random GPUs in random order; the validator recounts the tiers of the log with separate code."""
    cluster = Cluster.parse(ROOM)
    order = data.draw(st.permutations(range(cluster.gpus)))
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    ends = [*itertools.accumulate(sizes, initial=0)]
    places = [tuple(order[a:b]) for a, b in itertools.pairwise(ends) if b <= cluster.gpus]
    instance = unit_of_types(cluster, [len(place) for place in places])
    log = simulate(instance, AtOnce(places))
    validate(instance, log)
    starts = log.events[log.events["gpu_count"] > 0]
    assert starts["tier"].tolist() == [tier_by_definition(cluster, places[job]) for job in starts["job"]]


def unit_of_types(cluster: Cluster, sizes: list[int]) -> Instance:
    workload = Workload.from_columns([0.0] * len(sizes), sizes, [1.0] * len(sizes))
    named = assign_profiles(workload, "unit", np.random.default_rng(0), cluster.gpu_types)
    return Instance(cluster, named, Network("none"))


def test_a_wrong_slot_tier_is_refused() -> None:
    instance = unit_instance([0], [2], [10], "1x4s2")
    log = simulate(instance, AtOnce([(0, 2)]))
    log.events["tier"][log.events["gpu_count"] > 0] = SLOT
    with pytest.raises(ScheduleError, match="not on the tier"):
        validate(instance, log)


@pytest.mark.parametrize(
    "net", [Network(), Network("tiers"), network("none"), network("maxmin", kind="leaf-spine", oversubscription=4.0)]
)
def test_a_slot_costs_what_its_machine_costs(net: Network) -> None:
    """The same gangs on the same GPUs of machines with and without slots: equal times, different tiers."""
    rng = np.random.default_rng(3)
    sizes, duration_s = rng.integers(1, 9, 40), rng.lognormal(3.0, 1.0, 40)
    logs = []
    for text in ("4x8/2", "4x8s2/2"):
        workload = Workload.from_columns(
            np.arange(40.0), sizes, duration_s, profiles=mixed_profiles(),
            profile=np.arange(40) % 3,
        )  # fmt: skip
        instance = Instance(Cluster.parse(text), workload, net, Semantics())
        assert instance.iteration_s.shape[1] == len(instance.cluster.tiers) == (4 if "s" in text else 3)
        log = simulate(instance, make_scheduler("srtf"))
        validate(instance, log)
        logs.append(log)
    plain, slotted = logs
    others = [name for name in plain.events.dtype.names or () if name != "tier"]
    for name in others:
        assert plain.events[name].tolist() == slotted.events[name].tolist()
    assert set(plain.events["tier"]) <= {-1, *range(len(TIERS))}
    inside = slotted.events["tier"] == SLOT
    assert inside.any()
    assert (plain.events["tier"][inside] == MACHINE).all()
    assert (plain.events["tier"][~inside] == slotted.events["tier"][~inside]).all()


def test_the_tightest_tier_may_be_a_slot() -> None:
    cluster = Cluster.parse("4x8s2/2")
    assert cluster.tightest_tier(np.array([1, 4, 5, 8, 9, 16, 17])).tolist() == [
        SLOT, SLOT, MACHINE, MACHINE, RACK, RACK, NETWORK,
    ]  # fmt: skip
