"""Topologies and contention in scenarios: files, presets, messages, fingerprints, and the scenarios with links."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from helpers import check_refused_or_built, linked_scenario, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.errors import ScenarioError
from gpusched_env.event_log import RATE, START
from gpusched_env.metrics import summarise
from gpusched_env.network import NETWORK_PRESETS, Contention, Network, TopologySpec
from gpusched_env.scenarios import (
    Scenario,
    get_scenario,
    load_scenario,
    ring_all_reduce,
    save_scenario,
    scenario_from_dict,
)
from gpusched_env.scenarios.ring_all_reduce import SERVERS
from gpusched_env.simulator import Simulation, Start
from tests.scenarios.test_scenarios import json_values

TINY = get_scenario("tiny-v1").as_dict()


def linked(topology: dict[str, Any] | None = None, contention: dict[str, Any] | None = None) -> dict[str, Any]:
    network: dict[str, Any] = {"model": "topology", "topology": topology or {}, "contention": contention or {}}
    return TINY | {"network": network}


networks = st.builds(
    lambda topology, **fields: Network(topology=TopologySpec(), **fields).with_topology(topology),
    model=st.just("topology"),
    topology=st.builds(
        TopologySpec,
        kind=st.just("leaf-spine"),
        gpu_GBps=st.floats(0.1, 1e3),
        nic_latency_s=st.floats(0, 1),
        nics=st.integers(1, 8),
        host_bus_GBps=st.none() | st.floats(0.1, 100),
        oversubscription=st.floats(1, 100),
        uplinks=st.integers(1, 64),
    )
    | st.sampled_from([preset.topology for preset in NETWORK_PRESETS.values()]),
    contention=st.builds(
        Contention,
        model=st.sampled_from(["none", "maxmin", "kway", "flat", "budget"]),
        duty=st.sampled_from(["always", "const", "solo"]),
        ecmp=st.sampled_from(["ideal", "hashed"]),
        path_seed=st.integers(0, 2**31 - 1),
        xi1=st.floats(0, 1),
        alpha=st.floats(0, 10),
        shared_loss=st.floats(0, 0.9),
    ),
    collective=st.sampled_from(["ring", "best"]),
    reduction_GBps=st.none() | st.floats(0.1, 1e3),
    machine_overhead_s=st.floats(0, 1),
)


@settings(max_examples=80)
@given(networks)
def test_any_network_round_trips_through_json(network: Network) -> None:
    scenario = get_scenario("tiny-v1").replace(network=network)
    again = scenario_from_dict(json.loads(json.dumps(scenario.as_dict())))
    assert again == scenario
    assert again.fingerprint() == scenario.fingerprint()


def test_files_contain_only_fields_that_are_set() -> None:
    network = Network("topology", topology=TopologySpec(uplinks=2), contention=Contention("kway", xi1=0.5))
    written = get_scenario("tiny-v1").replace(network=network).as_dict()["network"]
    assert written == {
        "model": "topology",
        "topology": {"kind": "leaf-spine", "uplinks": 2},
        "contention": {"model": "kway", "xi1": 0.5},
    }


fields = [("topology", item.name) for item in dataclasses.fields(TopologySpec)]
fields += [("contention", item.name) for item in dataclasses.fields(Contention)]


@settings(max_examples=300)
@given(st.sampled_from(fields), json_values | st.sampled_from([math.inf, math.nan, -1, 0, 1e300, "table", "graph"]))
def test_any_wrong_value_is_refused_or_builds_a_scenario(field: tuple[str, str], value: object) -> None:
    data = linked()
    data["network"][field[0]][field[1]] = value
    check_refused_or_built(data)


@pytest.mark.parametrize(
    ("topology", "contention", "words"),
    [
        ({"kind": "leaf-spin"}, {}, ["network.topology", "did you mean 'leaf-spine'"]),
        ({"uplink": 3}, {}, ["network.topology", "did you mean 'uplinks'"]),
        ({"uplinks": 3.5}, {}, ["network.topology.uplinks is 3.5", "whole number"]),
        ({"uplinks": 0}, {}, ["network.topology", "uplinks is 0"]),
        ({"nic_GBps": -1}, {}, ["network.topology", "nic_GBps is -1.0", "above 0"]),
        ({"kind": "single-switch", "oversubscription": 4}, {}, ["does not use it", "leave it out"]),
        ({"kind": "graph"}, {}, ["topology.path is missing"]),
        ({"preset": "oversub"}, {}, ["network.topology.preset", "did you mean 'oversub4'"]),
        ({"preset": "oversub4", "uplinks": "2"}, {}, ["network.topology.uplinks is '2'"]),
        ({}, {"model": "maxmim"}, ["network.contention", "did you mean 'maxmin'"]),
        ({}, {"alpha": math.inf}, ["contention.alpha is inf"]),
        ({}, {"xi1": 2}, ["contention.xi1 is 2.0", "0 to 1"]),
        ({}, {"model": "table"}, ["contention.ratios", "path"]),
    ],
)
def test_messages_name_field_and_remedy(topology: dict[str, Any], contention: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_from_dict(linked(topology, contention), "s.json")
    for word in ["s.json", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"model": "topology"}, "topology: give one"),
        ({"model": "topology", "topology": "oversub4"}, "topology: 'oversub4' must be a table of fields"),
        ({"model": "topology", "topology": {}, "reduction_GBps": 0}, "reduction_GBps is 0.0: it must be above 0"),
        ({"model": "topology", "topology": {}, "machine_overhead_s": -1}, "machine_overhead_s is -1.0"),
        ({"model": "none", "collective": "best"}, "collective has no effect without links"),
        ({"model": "none", "contention": {}}, "share links only where there are links"),
    ],
)
def test_contradictory_parts_are_refused(network: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        scenario_from_dict(TINY | {"network": network})


def test_toml_with_a_preset_is_the_preset_with_changes(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'name = "mine"\ndescription = ""\n[[groups]]\ncount = 8\ngpus = 8\nnodes_per_rack = 2\n'
        '[workload]\nsource = "synthetic:batch"\njobs = 3\n'
        '[network]\nmodel = "topology"\n[network.topology]\npreset = "oversub4"\noversubscription = 8\n'
        '[network.contention]\nmodel = "kway"\nxi1 = 0.5\n'
    )
    network = load_scenario(file).network
    assert network.topology == dataclasses.replace(NETWORK_PRESETS["oversub4"].topology, oversubscription=8.0)
    assert network.contention == Contention("kway", xi1=0.5)
    assert len(load_scenario(file).instance(0).links) == 8 + 4
    save_scenario(load_scenario(file), tmp_path / "s.json")  # the preset's fields are written out
    assert load_scenario(tmp_path / "s.json").network == network


def two_leaves(path: Path, GBps: float) -> str:
    graph = nx.Graph()
    for server in range(2):
        graph.add_node(f"h{server}", server=server)
        graph.add_edge(f"h{server}", f"leaf{server}", GBps=12.0)
    graph.add_edge("leaf0", "leaf1", GBps=GBps)
    path.parent.mkdir(exist_ok=True)
    nx.write_graphml(graph, path)
    return str(path)


def test_the_fingerprint_of_a_file_depends_on_its_bytes_not_on_its_path(tmp_path: Path) -> None:
    def on(path: str) -> Scenario:
        network = Network("topology", topology=TopologySpec("graph", path=path), contention=Contention())
        return get_scenario("tiny-v1").replace(network=network)

    here, there = two_leaves(tmp_path / "a" / "g.graphml", 6.0), two_leaves(tmp_path / "b" / "other.graphml", 6.0)
    faster = two_leaves(tmp_path / "c" / "g.graphml", 7.0)
    assert on(here).fingerprint() == on(there).fingerprint()
    assert on(here).instance(0).fingerprint() == on(there).instance(0).fingerprint()
    assert on(here).fingerprint() != on(faster).fingerprint()
    assert on(here).instance(0).fingerprint() != on(faster).instance(0).fingerprint()
    assert on(here).as_dict()["network"]["topology"]["path"] == here
    for absent in ("absent.graphml", "a\0.graphml"):
        with pytest.raises(ScenarioError, match=r"graphml: cannot be read"):
            on(str(tmp_path / absent)).fingerprint()


def test_the_fingerprint_of_a_table_of_ratios_depends_on_its_bytes(tmp_path: Path) -> None:
    def beside(path: Path, ratio: float) -> Scenario:
        path.write_text(f"model_a,model_b,ratio\nunit,unit,{ratio}\n")
        contention = Contention("table", ratios=str(path))
        return get_scenario("tiny-v1").replace(
            network=Network("topology", topology=TopologySpec(), contention=contention)
        )

    here, there, other = (beside(tmp_path / f"{i}.csv", ratio) for i, ratio in enumerate((0.5, 0.5, 0.6)))
    assert here.fingerprint() == there.fingerprint() != other.fingerprint()
    assert here.instance(0).fingerprint() == there.instance(0).fingerprint() != other.instance(0).fingerprint()


def test_contention_is_part_of_the_fingerprint() -> None:
    base = linked_scenario()
    changed = [
        linked_scenario("kway"),
        linked_scenario("none"),
        linked_scenario(duty="solo"),
        linked_scenario(path_seed=1),
        base.replace(network=dataclasses.replace(base.network, topology=TopologySpec(nic_GBps=1.0))),
        base.replace(network=dataclasses.replace(base.network, collective="best")),
    ]
    assert len({scenario.fingerprint() for scenario in [base, *changed]}) == len(changed) + 1


def test_ring_all_reduce_is_the_paper_s_set_up() -> None:
    scenario = get_scenario("rar-160-v0")
    instance = scenario.instance(200_000)
    jobs = instance.workload.jobs
    assert (len(jobs), int(jobs["gpus"].sum()), float(jobs["arrival_s"].max())) == (160, 644, 0.0)
    assert instance.cluster.nodes["gpus"].tolist() == list(SERVERS)
    assert instance.cluster.gpus == 300
    assert len(instance.links) == 20
    strengths = [ring_all_reduce(extra) for extra in (0.15, 0.6)]
    assert [each.network.contention.extra for each in strengths] == [0.15, 0.6]
    assert strengths[1].fingerprint() == scenario.fingerprint() != strengths[0].fingerprint()
    assert ring_all_reduce(servers=(8, 4)).cluster.nodes["gpus"].tolist() == [8, 4]


@pytest.mark.parametrize("extra", [0.15, 0.6])
def test_a_gang_pays_its_budget_in_whole_iterations_and_one_server_costs_nothing(extra: float) -> None:
    """By hand: alone on w servers a gang uses (w - 1) / 7 of its overhead budget of one half; slots of one second."""
    instance = ring_all_reduce(extra).instance(3)
    gangs = instance.workload.jobs["gpus"]
    drawn_s = instance.workload.profiles.compute_s[instance.workload.jobs["profile"], 0]
    together, apart = np.flatnonzero(gangs == 8)[:2].tolist()
    simulation = Simulation(instance)
    simulation.advance()
    first = instance.cluster.nodes["first_gpu"]
    assert simulation.apply(Start(together, gpus=tuple(range(first[3], first[3] + 8)))) == ""
    assert simulation.apply(Start(apart, gpus=tuple(first[[5, 6, 7, 9, 10, 11, 13, 14]].tolist()))) == ""
    simulation.advance()
    events = simulation.log().events
    assert (events["kind"] == START).sum() == 2
    told = {int(e["job"]): float(e["value"]) for e in events[events["kind"] == RATE]}
    assert told[together] == 1.0 / math.floor(1.0 / drawn_s[together])
    assert told[apart] == 1.0 / math.floor(1.0 / (drawn_s[apart] * (1.0 + 0.5 * extra / (1.0 - extra))))


def test_placement_matters_on_congested_links() -> None:
    """Purpose of the scenarios: scattering gangs, or ignoring shared links, costs time by contention alone."""
    scenario = get_scenario("leaf-spine-256-v1")
    scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=250))
    alone = scenario.replace(network=dataclasses.replace(scenario.network, contention=Contention("none")))
    specs = ("fifo-skip", "fifo-skip:placement=random", "ssf", "ada-srsf")
    packed, scattered, blind, aware = (mean_jct_s(scenario, spec) for spec in specs)
    assert scattered > 2.0 * packed
    assert aware < 0.92 * blind
    packed, scattered, blind, aware = (mean_jct_s(alone, spec) for spec in specs)
    assert scattered < 1.1 * packed
    assert aware > 0.97 * blind


def mean_jct_s(scenario: Scenario, spec: str) -> float:
    """Mean over six draws of 250 jobs, which differ by a quarter."""
    found = []
    for seed in range(200_000, 200_006):
        instance = scenario.instance(seed)
        found.append(summarise(instance, play(instance, spec))["mean_jct_s"])
    return sum(found) / len(found)
