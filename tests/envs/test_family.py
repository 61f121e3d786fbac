"""Problems without number: each seed of family-v1 is another problem, the same in every process and by its id."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.agents.ppo import Learner
from gpusched_env.agents.training import TrainingConfig
from gpusched_env.core.api import kernel
from gpusched_env.core.state import Run
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import SHARE, Column
from gpusched_env.envs.observation.registry import Shown, find_array, observation_array
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.errors import ScenarioError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Room
from gpusched_env.scenarios import Curriculum, Scenario, Variation, get_scenario, load_scenario, save_scenario
from gpusched_env.scenarios.variation import LARGE_GANGS, NAMES, RANGES, SMALL_GANGS
from gpusched_env.traces.transform import offered_load
from tests.envs.rollouts import told

FAMILY = "gpusched/Family-v0"
OPTIONS = ENVIRONMENTS[FAMILY]
DOCS = Path(__file__).parents[2] / "docs"
PROBLEMS = 2**31
SEEDS = (5, 9, 300, PROBLEMS - 1)  # 64, 96, 48 and 32 GPUs, of 1 to 3 types
PADDED = ("nodes", "node_types", "links", "types")


def family() -> Scenario:
    return get_scenario("family-v1")


def problem(seed: int) -> Scenario:
    return get_scenario(f"family-v1:problem={seed}")


# --- problems


def test_a_seed_is_the_same_problem_in_another_process_and_by_its_id() -> None:
    code = (
        "from gpusched_env.scenarios import get_scenario\n"
        f"for seed in {SEEDS}: print(get_scenario(f'family-v1:problem={{seed}}').instance(seed).fingerprint())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    scenario = family()
    assert [scenario.instance(seed).fingerprint() for seed in reversed(SEEDS)] == told[::-1]
    assert len(set(told)) == len(SEEDS)


def test_the_ranges_of_seeds_are_disjoint_and_hold_every_problem() -> None:
    seeds = family().seeds
    ends = sorted([seeds.train, seeds.validation, seeds.report])
    assert ends[0][0] == 0
    assert ends[-1][1] == PROBLEMS
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ends))
    own = problem(7).seeds
    assert own.report == (7, 8)
    assert own.train[0] >= PROBLEMS  # an agent that trains on one problem never sees the jobs of another's report


@settings(max_examples=60, deadline=None)
@given(st.integers(0, PROBLEMS - 1))
def test_every_problem_lies_within_the_distribution(seed: int) -> None:
    variation, found = Variation(), problem(seed)
    instance = found.instance(seed)
    cluster, topology = instance.cluster, instance.network.topology
    assert topology is not None
    assert len(cluster.racks) in variation.racks
    assert set(cluster.racks["nodes"].tolist()) <= set(variation.rack_nodes)
    assert set(cluster.nodes["gpus"].tolist()) <= set(variation.node_gpus)
    assert cluster.gpu_types in variation.gpu_types
    for rack in range(len(cluster.racks)):  # all nodes of a rack have one type
        assert len(set(cluster.nodes["gpu_type"][cluster.nodes["rack"] == rack].tolist())) == 1
    assert topology.oversubscription in variation.oversubscription
    assert offered_load(instance.workload, cluster.gpus) == pytest.approx(found.workload.load)
    parameters = found.workload.parameters
    for name, value in (
        ("load", found.workload.load),
        ("swing", parameters["swing"]),
        ("mean_duration_s", parameters["mean_duration_s"]),
        ("large_share", sum(parameters["demand"][size] for size in LARGE_GANGS)),
        ("checkpoint_s", instance.semantics.checkpoint_s),
        ("restore_s", instance.semantics.restore_s),
    ):
        least, most = getattr(variation, name)
        assert least <= value <= most * (1 + 1e-12), name
    assert len(instance.workload) == 300
    gangs = set(instance.workload.jobs["gpus"].tolist())
    assert gangs <= set(map(int, SMALL_GANGS | LARGE_GANGS))
    assert max(gangs) <= cluster.gpus // 3


def test_seeds_reach_every_choice_and_the_whole_of_each_range() -> None:
    variation = Variation()
    drawn = [variation.drawn(seed) for seed in range(2_000)]
    for name in NAMES:
        values = [one[name] for one in drawn]
        given = getattr(variation, name)
        if name in RANGES:
            share = (np.array(values) - given[0]) / (given[1] - given[0])
            counts = np.histogram(share, bins=10, range=(0.0, 1.0))[0]
        else:
            counts = np.array([values.count(choice) for choice in given])
        expected = len(drawn) / len(counts)
        assert counts.sum() == len(drawn)
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected), name


@pytest.mark.parametrize(("swing", "least", "most"), [(0.0, 0.9, 1.1), (0.95, 1.5, 3.0)])
def test_swing_makes_arrivals_bursty(swing: float, least: float, most: float) -> None:
    """The coefficient of variation of the gaps is 1 for Poisson arrivals, and larger for bursty ones."""
    scenario = family().replace(variation=Variation(swing=(swing, swing)))
    gaps = [np.diff(scenario.instance(seed).workload.jobs["arrival_s"]) for seed in range(20)]
    assert least < np.mean([one.std() / one.mean() for one in gaps]) < most


# --- play


@pytest.mark.parametrize("seed", SEEDS)
def test_the_id_of_a_problem_plays_bit_for_bit_as_the_family(seed: int) -> None:
    assert play(problem(seed).instance(seed), "srtf").digest() == play(family().instance(seed), "srtf").digest()
    env, fixed = gym.make(FAMILY), ClusterEnv(**(OPTIONS | {"scenario": f"family-v1:problem={seed}"}))
    np.testing.assert_equal(told(env, seed, 150), told(fixed, seed, 150))
    assert env.unwrapped.event_log().digest() == fixed.event_log().digest()  # type: ignore[attr-defined]


def test_any_scenario_can_have_room_for_larger_ones() -> None:
    """An agent of the family plays other scenarios with links, if they have room for the same sizes."""
    small = get_scenario("dally-poisson-v1").with_cluster(Cluster.parse("16x8/4")).replace(room=family().observed)
    assert small.observed == family().observed
    assert small.replace(room=Room(2, 5, 1)).observed == Room(16, 20, 1)
    assert get_scenario("tiny-v1").replace(room=family().observed).observed == Room(24, 0, 3)  # no links at all
    assert ClusterEnv(small).observation_space == ClusterEnv("family-v1").observation_space
    envs: Any = gym.make_vec("gpusched/Cluster-v0", num_envs=2, scenario=["family-v1", small])
    observation, _ = envs.reset(seed=0)
    assert not observation["nodes"][1, 16:].any()
    assert observation["nodes"][1, :16].any(axis=1).all()
    envs.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_a_problem_lacks_are_zero(seed: int) -> None:
    env = gym.make(FAMILY)
    told(env, SEEDS[1], 40)  # a problem with three types and many nodes before it
    said = told(env, seed, 80)
    instance = env.unwrapped.simulation.instance  # type: ignore[attr-defined]
    nodes, types = len(instance.cluster.nodes), len(instance.cluster.gpu_types)
    used = nodes, nodes, len(instance.links), types
    for observation in (said[0], *said[2::5]):
        for name, rows in zip(PADDED, used, strict=True):
            assert not observation[name][rows:].any(), name
            assert observation[name][:rows].any(axis=1).all() or name == "node_types", name  # type 0, nobody waits
        by_type = observation["queue_types"].reshape(-1, 3, 2)
        assert not by_type[:, types:].any()
        assert not observation["running_types"].reshape(-1, 3, 2)[:, types:].any()
    assert {name: len(array) for name, array in said[0].items() if name in PADDED} == {
        "nodes": 24, "node_types": 24, "links": 30, "types": 3,
    }  # fmt: skip


def test_arrays_of_users_have_no_rows_beyond_the_problem() -> None:
    """Their kernels may loop over all rows: a row for a node that the run lacks would be outside its arrays."""
    if find_array("empty_nodes") is None:

        @observation_array("empty_nodes", [Column("free", "1", SHARE)], rows="nodes")
        @kernel
        def empty_nodes(sim: Run, env: EnvArrays, out: Shown) -> None:
            for node in range(len(out.values)):
                out.values[node, 0] = 1.0 if sim.free[node] >= 0 else 0.0

    envs: Any = gym.make_vec(FAMILY, num_envs=len(SEEDS), extras=("empty_nodes",))
    single = gym.make(FAMILY, extras=("empty_nodes",))
    for seeds in (SEEDS, SEEDS[::-1]):
        observation, _ = envs.reset(seed=list(seeds))
        for b, seed in enumerate(seeds):
            nodes = len(problem(seed).cluster.nodes)
            shown = single.reset(seed=seed)[0]["empty_nodes"][:, 0]
            assert shown.tolist() == [1.0] * nodes + [0.0] * (24 - nodes)
            assert np.array_equal(observation["empty_nodes"][b, :, 0], shown)
    envs.close()


# --- training


def within(seed: int) -> bool:
    drawn = Variation().drawn(seed)
    return drawn["racks"] == 3 and 0.6 <= drawn["load"] <= 0.8 and drawn["gpu_types"] == ("A100",)


PART: dict[str, Any] = dict(racks=(3,), load=(0.6, 0.8), gpu_types=(("A100",),))


def test_training_seeds_can_be_those_of_a_part_of_the_problems() -> None:
    env: Any = gym.make(FAMILY).unwrapped
    envs: Any = gym.make_vec(FAMILY, num_envs=6)
    env.reset(seed=1)
    envs.reset(seed=1)
    for narrow in (True, False):
        for one in (env, envs):
            one.train_on(**(PART if narrow else {}))
        seeds = [env.reset()[1]["seed"] for _ in range(6)], envs.reset()[1]["seed"].tolist()
        first, end = family().seeds.train
        for drawn in seeds:
            assert len(set(drawn)) == 6
            assert all(first <= seed < end for seed in drawn)
            assert all(map(within, drawn)) == narrow
    assert env.reset(seed=SEEDS[0])[1]["seed"] == SEEDS[0]  # a given seed is never replaced


@settings(max_examples=30, deadline=None)
@given(st.integers(0, PROBLEMS - 1))
def test_a_part_holds_the_problems_whose_values_it_has(seed: int) -> None:
    variation = Variation()
    part = variation.narrowed(PART)
    assert variation.fits(np.array([seed]), part)[0] == within(seed)
    chosen = family().train_seed(np.random.default_rng(seed), part)
    assert within(chosen)
    assert variation.fits(np.array([chosen]), part)[0]
    assert variation.fits(np.array([seed]), variation.narrowed({})).all()


def test_a_curriculum_is_a_schedule_over_the_parameters() -> None:
    curriculum = Curriculum.parse("0.25:racks=3,load=0.6..0.8,gpu_types=A100;0.5:racks=3/4,oversubscription=1/2")
    assert curriculum == Curriculum(((0.25, PART), (0.5, {"racks": (3, 4), "oversubscription": (1.0, 2.0)})))
    assert [len(curriculum.at(share)) for share in (0.0, 0.24, 0.25, 0.49, 0.5, 1.0)] == [3, 3, 2, 2, 0, 0]
    two_types = {"gpu_types": (("A100",), ("A100", "T4"))}
    assert Curriculum.parse("1:gpu_types=A100/A100+T4").at(0.5) == two_types
    assert Curriculum.parse("") == Curriculum()
    for wrong in ("x:racks=3", "0.3:load=0.5", "0.3:racks=three", "0.5:racks=3;0.5:racks=4", "1.5:racks=3"):
        with pytest.raises(ScenarioError, match="curriculum"):
            Curriculum.parse(wrong)
    with pytest.raises(ScenarioError, match=r"curriculum '0\.5:racks=3,racks=4': racks is given twice; keep one"):
        Curriculum.parse("0.5:racks=3,racks=4")


def test_our_learner_follows_a_curriculum() -> None:
    text = "0.5:racks=3,load=0.6..0.8,gpu_types=A100"
    config = TrainingConfig(scenario="family-v1", rules=("pack",), workloads=2, steps=100, curriculum=text)
    learner = Learner(config, ClusterEnv("family-v1", queue_window=16, running_window=4, rules=("pack",)))
    assert all(map(within, learner.workloads))
    learner.done = 60
    assert not all(map(within, learner.draw(20)))


# --- files and refusals


TOML = """
name = "mine"
tracked_window = [10, 30]
[workload]
source = "synthetic:drift"
parameters = { period_s = 10.0 }
profiles = "sia-computed"
jobs = 40
[network]
model = "topology"
topology = { kind = "leaf-spine" }
[variation]
racks = [2, 3]
gpu_types = [["T4"], ["A100", "T4"]]
load = [0.4, 0.9]
"""


def test_files_say_what_varies(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TOML, encoding="utf-8")
    mine = get_scenario(str(tmp_path / "mine.toml"))
    assert mine.variation == Variation(racks=(2, 3), gpu_types=(("T4",), ("A100", "T4")), load=(0.4, 0.9))
    assert len({mine.instance(seed).cluster.gpus for seed in range(20)}) > 2
    for scenario in (mine, family(), problem(SEEDS[0]), get_scenario("tiny-v1").replace(room=Room(4, 0, 2))):
        save_scenario(scenario, tmp_path / "saved.json")
        again = load_scenario(tmp_path / "saved.json")
        assert again == scenario
        assert again.fingerprint() == scenario.fingerprint()
        assert again.instance(3).fingerprint() == scenario.instance(3).fingerprint()
    assert family().replace(variation=Variation(load=(0.6, 1.0))).fingerprint() != family().fingerprint()
    assert "variation" not in problem(0).as_dict()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (dict(racks=()), "at least one choice"),
        (dict(racks=(3, 3)), "each once"),
        (dict(racks=(0,)), "whole numbers of at least 1"),
        (dict(node_gpus=(2.5,)), "whole numbers of at least 1"),
        (dict(racks=(2, 6)), "at most one for each of 2 racks"),
        (dict(gpu_types=(("T4", "T4"),)), "different types"),
        (dict(oversubscription=(0.5,)), "finite numbers of at least 1"),
        (dict(load=(0.9, 0.5)), "least <= most"),
        (dict(load=(0.0, 0.5)), "above 0"),
        (dict(swing=(0.0, 1.5)), "<= 1"),
        (dict(restore_s=(0.0, float("inf"))), "finite"),
        (dict(large_share=(0.1,)), "the least and the most"),
    ],
)
def test_impossible_distributions_are_refused(changes: dict[str, Any], told: str) -> None:
    field = "gpu_types" if "2 racks" in told else next(iter(changes))
    with pytest.raises(ScenarioError, match=rf"variation\.{field} .*{told}"):
        Variation(**changes)


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (lambda: family().with_cluster(Cluster.parse("4x8")), "groups: the variation draws the cluster"),
        (lambda: family().with_workload("synthetic:philly"), "needs 'synthetic:drift'"),
        (lambda: family().replace(network=get_scenario("philly-64-v1").network), "needs a topology with uplinks"),
        (lambda: family().replace(semantics=get_scenario("tiny-v1").semantics), "semantics.checkpoint_s"),
        (lambda: family().part({"racks": (5,)}), r"variation.racks is \(5,\): give choices among \(3, 4, 6\)"),
        (lambda: family().part({"load": (0.1, 0.8)}), "give a range within"),
        (lambda: family().part({"loads": (0.1, 0.7)}), "did you mean 'load'"),
        (lambda: get_scenario("philly-64-v1").part({"load": (0.1, 0.8)}), "does not vary"),
        (lambda: family().train_seed(np.random.default_rng(0), Variation().narrowed({"load": (0.7, 0.7)})), "wider"),
        (lambda: get_scenario("family-v1:problem=-1"), "a whole number from 0 to"),
        (lambda: DelayTimersEnv("family-v1"), "timers suit one cluster"),
        (lambda: Room(-1, 0, 1), "room.nodes is -1"),
    ],
)
def test_what_a_varying_scenario_cannot_do_is_refused(refused: Any, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        refused()


def test_the_documentation_gives_the_distribution() -> None:
    rows = [line.split("|")[1:3] for line in (DOCS / "family.md").read_text(encoding="utf-8").splitlines()]
    told = {cells[0].strip(" `"): cells[1].strip() for cells in rows if len(cells) == 2}
    variation = Variation()
    for name in NAMES:
        given = getattr(variation, name)
        if name in RANGES:
            expected = f"{given[0]:,g} to {given[1]:,g}"
        elif name == "gpu_types":
            expected = "; ".join(", ".join(types) for types in given)
        else:
            expected = ", ".join(f"{choice:g}" for choice in given)
        assert told[name] == expected


@pytest.mark.parametrize("wrong", [{"racks": 3}, {"load": 0.7}, {"gpu_types": ("A100",)}, {"gpu_types": "A100"}])
def test_a_value_that_is_no_list_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=rf"variation\.{next(iter(wrong))} is .*give a tuple, such as"):
        Variation(**wrong)
    with pytest.raises(ScenarioError, match="give a tuple, such as"):
        gym.make(FAMILY).unwrapped.train_on(**wrong)  # type: ignore[attr-defined]


def test_another_variation_has_another_largest_cluster() -> None:
    small = family().replace(variation=Variation(racks=(3,)))
    assert small.groups == small.variation.largest() != family().groups
