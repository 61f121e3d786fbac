"""Gangs that train LLMs: what their parallel groups send over which links, counted by hand and by brute force."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_play import AtOnce, Gang, gpus_of, started

from gpusched_env.errors import WorkloadError
from gpusched_env.network import NETWORK_PRESETS, Contention, Network, TopologySpec, build_topology
from gpusched_env.network.plans import nearest_nodes, planned_s
from gpusched_env.problem.cluster import NETWORK, RACK, Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import MEASURED_DTYPE, PLAN_DTYPE, Profiles, Workload
from gpusched_env.simulator import Simulation
from gpusched_env.traces.profile_tables.llm import Request, best_plan, llm_profiles, make_run

H100 = dict(gpu_GBps=370.8, nic_GBps=8 * 48.5, nics=8)
ROW = dict(name="m", batch=1, gradient_bytes=1e9, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=14.44)
BYTES = ("tp_bytes", "dp_bytes", "pp_bytes", "ep_bytes")
SIZES = ("tp", "cp", "ep", "dp", "pp", "order")


def plan_of(**fields: float) -> Any:
    """A row of PLAN_DTYPE; what is left out is 1 GPU, order 0 or no bytes."""
    row = np.zeros(1, PLAN_DTYPE)
    for name in SIZES[:-1]:
        row[name] = 1
    for name, value in fields.items():
        row[name] = value
    row["gpus"] = row["tp"] * row["cp"] * row["dp"] * row["pp"]
    return row[0]


def profiles_of(*plans: Any, measured_s: float = 0.12) -> Profiles:
    """A profile for each plan; a measured row says what replaces its communication on one machine."""
    made = Profiles.from_rows([ROW | {"name": f"m{i}"} for i in range(len(plans))])
    table = np.array(list(plans), PLAN_DTYPE)
    table["profile"] = np.arange(len(plans))
    rows = [(i, 0, plan["gpus"], 0, 14.44, measured_s) for i, plan in enumerate(plans)]
    return Profiles(made.rows, made.compute_s, made.gpu_types, np.array(rows, MEASURED_DTYPE), plans=table)


def play(cluster: str, plans: list[Any], gangs: list[Gang], spec: TopologySpec, ecmp: str = "ideal") -> Simulation:
    """All gangs running at once."""
    machines = Cluster.parse(cluster)
    jobs = Workload.from_columns(
        np.zeros(len(gangs)), [sum(gang.values()) for gang in gangs], iterations=[1000.0] * len(gangs),
        profiles=profiles_of(*plans), profile=list(range(len(plans))),
    )  # fmt: skip
    net = Network("topology", topology=spec, contention=Contention("maxmin", ecmp=ecmp))
    return started(Instance(machines, jobs, net), AtOnce(gpus_of(machines, gangs)))


def seconds(simulation: Simulation, jobs: int) -> list[float]:
    """Communication of an iteration of each gang while all run [s]."""
    paces = simulation.view_for(AtOnce([])).network.iteration_s(np.arange(jobs))
    return (paces - 14.44).tolist()


def carried(simulation: Simulation, row: int = 0) -> dict[str, float]:
    """Bytes of a gang on each link."""
    sim, found = simulation.arrays, {}
    replica = sim.replicas[sim.jobs[row]["replica"]]
    use = replica["first_use"]
    while use >= 0:
        link = sim.uses[use]["link"]
        found[str(simulation.instance.links["name"][link])] = sim.uses[use]["weight"] * replica["wire_bytes"]
        use = sim.uses[use]["next_of_replica"]
    return found


def coordinates(plan: Any) -> list[tuple[int, int, int, int]]:
    """(t, c, d, p) of each rank: nested loops, the innermost group last."""
    tp, cp, dp, pp = (int(plan[name]) for name in ("tp", "cp", "dp", "pp"))
    if plan["order"] == 0:
        return [(t, c, d, p) for p in range(pp) for d in range(dp) for c in range(cp) for t in range(tp)]
    return [(t, c, d, p) for d in range(dp) for p in range(pp) for c in range(cp) for t in range(tp)]


def leaving(plan: Any, machine: list[int], inside: set[int]) -> float:
    """Bytes out of a subtree of machines, counted GPU by GPU as section 2.2 of the specification says."""
    out = 0.0
    of = coordinates(plan)
    gone = [one not in inside for one in machine]
    rank_at = {place: rank for rank, place in enumerate(of)}
    stages: dict[int, list[int]] = {}
    rings: dict[tuple[int, int], list[int]] = {}
    tensors: dict[tuple[int, int, int], list[int]] = {}
    for rank, (t, c, d, p) in enumerate(of):
        stages.setdefault(p, []).append(rank)
        rings.setdefault((t, p), []).append(rank)
        tensors.setdefault((c, d, p), []).append(rank)
        for step in (1, -1):
            neighbour = rank_at[t, c, d, (p + step) % int(plan["pp"])]
            out += (not gone[rank]) * gone[neighbour] * plan["pp_bytes"] / 2
    for ring in rings.values():
        for here, there in zip(ring, ring[1:] + ring[:1], strict=True):
            out += (not gone[here]) * gone[there] * plan["dp_bytes"]
    ep, tp = int(plan["ep"]), int(plan["tp"])
    for ranks in stages.values():
        for first in range(0, len(ranks), ep):
            for here, there in itertools.permutations(ranks[first : first + ep], 2):
                out += (not gone[here]) * gone[there] * plan["ep_bytes"] / (ep - 1)
    for ranks in tensors.values():
        servers = sorted({machine[rank] for rank in ranks})
        for here, there in zip(servers, servers[1:] + servers[:1], strict=True):
            if tp > 1 and here in inside and there not in inside:
                out += plan["tp_bytes"] * tp / (tp - 1) * (len(servers) - 1) / len(servers)
    return out


@st.composite
def placed(draw: st.DrawFn) -> tuple[Any, Gang]:
    """A plan and a placement on 8 machines of 8 GPUs, mostly fragmented."""
    tp, cp, dp, pp = (draw(st.sampled_from([1, 2, 3, 4])) for _ in range(4))
    while tp * cp * dp * pp > 48:
        pp, dp = (pp - 1, dp) if pp > 1 else (pp, dp - 1)
    stage = tp * cp * dp
    ep = draw(st.sampled_from([n for n in range(1, stage + 1) if stage % n == 0]))
    weights = {name: draw(st.sampled_from([0.0, 1.0, 3e9, 8.5e11])) for name in BYTES}
    plan = plan_of(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, order=draw(st.integers(0, 1)), **weights)
    gpus = draw(st.permutations(range(64)))[: plan["gpus"]]
    return plan, dict(sorted(Counter(gpu // 8 for gpu in gpus).items()))


@given(placed(), st.sampled_from(["leaf-spine", "three-tier", "rail-optimised"]))
@settings(max_examples=60, deadline=None)
def test_each_link_carries_what_brute_force_counts(case: tuple[Any, Gang], kind: str) -> None:
    plan, gang = case
    pods = dict(racks_per_pod=2, pod_oversubscription=4.0) if kind == "three-tier" else {}
    spec = TopologySpec(kind, oversubscription=2.0, **pods, **H100)
    simulation = play("8x8/2", [plan], [gang], spec)
    machine = [node for node, gpus in gang.items() for _ in range(gpus)]
    found = carried(simulation)
    topology = simulation.instance.topology
    assert topology is not None
    times, counted = [0.0], 0
    for name, capacity, members, _ in topology.links.tolist():
        inside = below(simulation, name)
        expected = leaving(plan, machine, inside) if len(gang) > 1 else 0.0
        assert found.get(name, 0.0) == pytest.approx(expected, rel=1e-9, abs=1e-3)
        counted += expected > 0
        times.append(expected / capacity / members)
        if len(inside) == 1:
            times.append(expected / (H100["nic_GBps"] * 1e9 * gang.get(min(inside), 8) / 8))
    assert len(found) >= counted
    assert seconds(simulation, 1)[0] == pytest.approx(max(times) if len(gang) > 1 else 0.12, rel=1e-9, abs=1e-9)
    if len(gang) > 1:
        assert planned_s(topology, plan, np.array(machine)) == pytest.approx(max(times), rel=1e-9, abs=1e-12)


def below(simulation: Simulation, link: str) -> set[int]:
    """Machines below a link, by names: 8 machines in racks of 2, in pods of 2 racks."""
    lower = link.split(" -- ", 1)[0]
    number = int("".join(filter(str.isdigit, lower)))
    width = {"server": 1, "rack": 2, "pod": 4}[lower.rstrip("0123456789")]
    return set(range(number * width, (number + 1) * width))


def test_both_directions_of_hashed_links_carry_the_same_bytes() -> None:
    plan = plan_of(tp=2, cp=2, ep=4, dp=2, pp=4, dp_bytes=1e9, pp_bytes=2e9, ep_bytes=3e9, tp_bytes=5e9)
    gang = {0: 3, 1: 8, 2: 7, 5: 6, 7: 8}
    spec = TopologySpec("leaf-spine", uplinks=4, **H100)
    one, hashed = (play("8x8/2", [plan], [gang], spec, ecmp) for ecmp in ("ideal", "hashed"))
    whole, parts = carried(one), Counter[str]()
    for name, value in carried(hashed).items():
        parts[name.split(" #")[0]] += value
    for name, value in whole.items():
        ends = name.split(" -- ")
        assert parts[f"{ends[0]} -> {ends[1]}"] == pytest.approx(value, rel=1e-9)
        assert parts[f"{ends[1]} -> {ends[0]}"] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("order", "expected"), [(0, {1: 0.35, 4: 1.42, 7: 2.48}), (1, {1: 0.37, 4: 1.47, 7: 2.58})])
def test_405b_on_1024_gpus_over_the_uplinks_of_racks(order: int, expected: dict[int, float]) -> None:
    """The example of the specification: a rack holds a stage (order 0) or a replica (order 1)."""
    plan = plan_of(tp=8, cp=2, dp=8, pp=8, order=order, dp_bytes=35.7e9, pp_bytes=17.2e9)
    gang = dict.fromkeys(range(128), 8)
    for oversubscription, over_uplinks_s in expected.items():
        spec = TopologySpec("leaf-spine", oversubscription=float(oversubscription), **H100)
        simulation = play("128x8/16", [plan], [gang], spec)
        uplink = max(value for name, value in carried(simulation).items() if name.startswith("rack"))
        assert uplink / (16 * 8 * 48.5e9 / oversubscription) == pytest.approx(over_uplinks_s, abs=0.005)
        assert seconds(simulation, 1)[0] == pytest.approx(max((35.7 + 17.2) / 48.5, over_uplinks_s), abs=0.005)


def test_two_gangs_that_are_interleaved_over_racks() -> None:
    """64 H100 each, 14.44 + 0.12 s an iteration alone, 14.68 s where both need a full uplink."""
    dp_bytes = 0.12 * 48.5e9 * 2  # two members of each ring on a server share its NICs
    mixed = [dict.fromkeys(range(first, 16, 2), 8) for first in (0, 1)]  # 4 servers of each in both racks
    stages, replicas = (plan_of(tp=4, cp=2, dp=dp, pp=8 // dp, dp_bytes=dp_bytes) for dp in (2, 8))
    # One of 4 edges of a ring leaves a rack, with as many bytes as leave a server: 8 NICs' worth at 8:1. A stage stays
    # in its rack: it is on two servers in a row.
    for plan, over, alone_s, both_s in (
        (stages, 16, 0.12, 0.12),
        (replicas, 8, 0.12, 0.24),
        (replicas, 16, 0.24, 0.48),
    ):
        spec = TopologySpec("leaf-spine", oversubscription=float(over), **H100)
        assert seconds(play("16x8/8", [plan], mixed[:1], spec), 1) == pytest.approx([alone_s])
        assert seconds(play("16x8/8", [plan] * 2, mixed, spec), 2) == pytest.approx([both_s] * 2)
    ring = profiles_of(stages, stages, measured_s=0.12)  # without plans, the measured row and a ring over both racks
    ring = Profiles(ring.rows, ring.compute_s, ring.gpu_types, ring.measured)
    machines = Cluster.parse("16x8/8")
    jobs = Workload.from_columns([0.0] * 2, [64] * 2, iterations=[10.0] * 2, profiles=ring, profile=[0, 1])
    spec = TopologySpec("leaf-spine", oversubscription=16.0, **H100)
    instance = Instance(machines, jobs, Network("topology", topology=spec, contention=Contention("maxmin")))
    both = started(instance, AtOnce(gpus_of(machines, mixed)))
    assert seconds(both, 2) == pytest.approx([0.24] * 2)


@pytest.mark.parametrize(("tp", "GBps"), [(16, 257), (32, 226)])
def test_tensor_groups_over_servers_have_the_hierarchical_price(tp: int, GBps: float) -> None:
    """A bytes, (G-1)/G of them over NVLink and (S-1)/(S G) over a NIC; the part on NVLink is compute."""
    volume = 1e10
    plan = plan_of(tp=tp, dp=1, tp_bytes=volume * (tp - 1) / tp)
    gang = dict.fromkeys(range(tp // 8), 8)
    net = Network("topology", topology=TopologySpec("single-switch", **H100), tp_machines=4)
    machines = Cluster.parse("4x8")
    jobs = Workload.from_columns([0.0], [tp], iterations=[10.0], profiles=profiles_of(plan))
    simulation = started(Instance(machines, jobs, net), AtOnce(gpus_of(machines, [gang])))
    over_nics = seconds(simulation, 1)[0]
    assert over_nics == pytest.approx(volume * (tp // 8 - 1) / (tp * 48.5e9))
    rate = volume * (tp - 1) / tp / (volume * 7 / 8 / 370.8e9 + over_nics)
    assert rate / 1e9 == pytest.approx(GBps, abs=1)
    with pytest.raises(WorkloadError, match=rf"tensor-parallel groups of {tp} GPUs.*tp_machines"):
        Instance(Cluster.parse("32x1"), jobs, net)


def test_a_gang_alone_on_its_ideal_placement_takes_the_ideal_time() -> None:
    plan = plan_of(tp=4, cp=1, dp=4, pp=2, ep=8, dp_bytes=1e10, pp_bytes=2e9, ep_bytes=8e10)
    spec = TopologySpec("leaf-spine", oversubscription=4.0, **H100)
    for gang, tier in (({0: 8, 1: 8, 2: 8, 3: 8}, RACK), ({0: 8, 1: 8, 4: 8, 5: 8}, NETWORK)):
        simulation = play("8x8/4", [plan], [gang], spec)
        instance = simulation.instance
        assert seconds(simulation, 1)[0] == pytest.approx(instance.communication_s[0, tier, 0], rel=1e-12)
        nodes = nearest_nodes(instance.cluster, 32, tier)
        assert Counter(nodes.tolist()) == gang


def test_a_gang_without_bytes_sends_nothing() -> None:
    simulation = play("8x8/4", [plan_of(dp=16)], [{0: 8, 1: 8}], TopologySpec("leaf-spine", **H100))
    assert carried(simulation) == {}
    assert seconds(simulation, 1) == [0.0]


def test_plans_are_saved_and_checked(tmp_path: Any) -> None:
    profiles = profiles_of(plan_of(tp=2, dp=4, dp_bytes=1.0))
    workload = Workload.from_columns([0.0], [8], iterations=[1.0], profiles=profiles)
    workload.save(tmp_path / "w.npz")
    again = Workload.load(tmp_path / "w.npz")
    assert again.profiles.plans.tobytes() == profiles.plans.tobytes()
    assert again.fingerprint() == workload.fingerprint()
    bare = Profiles(profiles.rows, profiles.compute_s, profiles.gpu_types, profiles.measured)
    assert workload.fingerprint() != workload.unchecked_replace(profiles=bare).fingerprint()
    for field, value in (("ep", 3), ("pp", 2)):
        wrong = profiles.plans.copy()
        wrong[field] = value
        with pytest.raises(WorkloadError, match=rf"'m0', plans: tp 2.*{field} {value}"):
            Profiles(profiles.rows, profiles.compute_s, profiles.gpu_types, plans=wrong)


def test_the_largest_gang_of_a_graph_finds_room_for_its_uses() -> None:
    topology = build_topology(TopologySpec("fat-tree", **H100), Cluster.parse("16x8/2"))
    plan = plan_of(tp=1, ep=128, dp=128, ep_bytes=1e9, dp_bytes=1e9)
    machine = np.arange(128) // 8
    for ecmp in ("ideal", "hashed"):
        gang = dict.fromkeys(range(16), 8)
        simulation = play("16x8/2", [plan], [gang], TopologySpec("fat-tree", **H100), ecmp)
        assert seconds(simulation, 1)[0] >= planned_s(topology, plan, machine) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "cluster", "port_GBps", "nics_GBps", "above_GBps"),
    [
        ("b200-8x400", "16x8/4@B200", 721.8, 8 * 48.5, 4 * 8 * 48.5),
        ("b300-8x800", "16x8/4@B300", 721.8, 8 * 97.0, 4 * 8 * 97.0),
        ("gb200-nvl72", "4x72s18/2@GB200", 721.8, 72 * 48.5, 2 * 72 * 48.5),
        ("llama3-roce", "768x8/2@H100", 370.8, 8 * 48.5, 384 * 8 * 48.5 / 7),
        ("rail-only", "16x8/4@H100", 370.8, 8 * 48.5, 8 * 48.5),
    ],
)
def test_presets_of_2026(name: str, cluster: str, port_GBps: float, nics_GBps: float, above_GBps: float) -> None:
    topology = build_topology(NETWORK_PRESETS[name].topology, Cluster.parse(cluster))
    link = topology.links[-1]
    found = topology.gpu_Bps, topology.nic_Bps, link["capacity"] * link["members"]
    assert np.divide(found, 1e9) == pytest.approx((port_GBps, nics_GBps, above_GBps))


def test_a_gang_in_an_nvlink_domain_uses_no_link() -> None:
    plan = plan_of(tp=8, dp=4, pp=2, dp_bytes=1e10, pp_bytes=2e9)
    spec = NETWORK_PRESETS["gb200-nvl72"].topology
    inside, across = (play("4x72s18", [plan], [gang], spec) for gang in ({0: 64}, {0: 36, 1: 28}))
    assert (carried(inside), seconds(inside, 1)) == ({}, pytest.approx([0.12]))
    # ranks 36 to 63 are places 4 to 31 of stage 1: one ring edge of each of 8 rings and 28 pairs of stages cross
    assert carried(across)["server0 -- rack0"] == pytest.approx(leaving(plan, [0] * 36 + [1] * 28, {0}))


@pytest.mark.parametrize(
    ("compute_s", "dp_bytes", "pp_bytes", "gain"),
    [(7.395, 5.29e9, 6.44e9, 0.0054), (0.8536, 1.172e9, 1.933e9, 0.0132)],  # Llama 70B and Nemotron 15B at batch 96
)
def test_whole_pipelines_in_a_minipod_gain_what_arnold_measured(
    compute_s: float, dp_bytes: float, pp_bytes: float, gain: float
) -> None:
    """96 GPUs on two minipods, 8 + 4 servers against 7 + 5, where a pipeline of 4 servers is in both: 0.5 to 5 %.

    Uplinks are 8:1 and busy with another such gang. At 4:1 with three others it gains 0.26 and 0.66 %; alone, 0.
    """
    plan = plan_of(tp=8, dp=3, pp=4, order=1, dp_bytes=dp_bytes, pp_bytes=pp_bytes)
    spec = TopologySpec("leaf-spine", oversubscription=8.0, **H100)

    def iteration_s(first: int, others: int) -> float:
        split, left, gangs = [first, 6, 6, 6][: 1 + others], [0, 26], []
        for servers in split:
            gang = [*range(left[0], left[0] + servers), *range(left[1], left[1] + 12 - servers)]
            left = [left[0] + servers, left[1] + 12 - servers]
            gangs.append(dict.fromkeys(gang, 8))
        return compute_s + seconds(play("52x8/26", [plan] * len(gangs), gangs, spec), len(gangs))[0]

    assert iteration_s(7, 0) == iteration_s(8, 0)
    found = iteration_s(7, 1) / iteration_s(8, 1) - 1.0
    assert 0.005 < found < 0.05
    assert found == pytest.approx(gain, abs=0.0005)


def test_an_anchored_gang_takes_its_time_on_links() -> None:
    """DeepSeek-V3 on 512 H100: rows correct the formula by 1.7 to 1.8, which holds for bytes as for seconds."""
    made = llm_profiles([Request("deepseek-v3-nomtp", 4096, (512,))])
    best = best_plan(make_run("deepseek-v3-nomtp", "H100", 4096), 512)
    assert best is not None
    workload = Workload.from_columns([0.0], [512], iterations=[9.0], profiles=made)
    network = Network().with_topology(NETWORK_PRESETS["h100-8x400"].topology)
    instance = Instance(Cluster.parse("64x8@H100"), workload, network)
    assert instance.ideal_s == pytest.approx([9 * best.seconds], rel=0.02)
