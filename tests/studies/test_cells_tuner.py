"""The tuner for cells of all kinds: costs of placements, CMA-ES, its training, and the shipped file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.agents.learned_timers import LearnedTimers, shipped
from gpusched_env.agents.timer_network import TimerNetwork, input_names
from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.delay_timers.actions import TimerActions, timer_action
from gpusched_env.delay_timers.columns import COST_COLUMNS
from gpusched_env.delay_timers.costs import PlacementCosts, uplink_share
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import NETWORK, RACK
from gpusched_env.reproduce.dally_cells import TEST_CELLS, TRAINING_CELLS, VALIDATION_CELLS
from gpusched_env.reproduce.dally_tuner.grid import pair_action
from gpusched_env.reproduce.dally_tuner.problems import TEST_SEEDS, static_waits
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from studies.delay_timers.cells_tuner import (
    HIDDEN,
    OUTPUTS,
    TABLE_GRID_S,
    CellsConfig,
    Table,
    loss,
    network_of,
    pair_waits,
    start_and_scale,
    train,
)
from studies.delay_timers.playing import play_network, play_static, score
from studies.index_search.cma import cma_es

SMALL = "dally-cells-v0:network={},load=1.1,gangs={},jobs=200"


# --- costs of placements


@pytest.mark.parametrize(("network", "share"), [("free", 1.0), ("1", 1.0), ("4", 0.25), ("20", 0.05)])
def test_slowdowns_are_those_of_the_jobs_that_have_arrived(network: str, share: float) -> None:
    instance = get_scenario(SMALL.format(network, "above")).instance(0)
    assert uplink_share(instance) == pytest.approx(share)
    actions = TimerActions(instance.cluster)
    costs = PlacementCosts(instance, actions)
    before = costs.observe(0)
    assert (before[:, :2] == 1.0).all()  # nothing has arrived, so nothing is known
    arrived = 50
    seen = costs.observe(arrived)
    jobs = instance.workload.jobs[:arrived]
    for number in range(actions.count):
        own = np.flatnonzero(actions.class_of[jobs["gpus"]] == number)
        if not len(own):
            assert (seen[number, :-1] == before[number, :-1]).all()
            continue
        expected = []
        for row in own:
            demand, kind = int(jobs["gpus"][row]), instance.job_class[row]
            machine, rack, _ = instance.iteration_s[kind, :3, 0]
            compute, communication = instance.compute_s[kind, RACK, 0], instance.communication_s[kind, RACK, 0]
            busy = max(instance.iteration_s[kind, NETWORK, 0], compute + communication / share)
            tier = RACK if demand <= 32 else NETWORK
            expected.append(
                (
                    rack / machine if demand <= 8 else 1.0,
                    1.0 if demand > 32 else busy / (machine if demand <= 8 else rack),
                    1.0 - instance.compute_s[kind, tier, 0] / instance.iteration_s[kind, tier, 0],
                    8 % demand / 8 if demand <= 8 else 0.0,
                    32 % demand / 32 if demand <= 32 else 0.0,
                )
            )
        means = np.mean(expected, axis=0)
        means[:2] = 1.0 - 1.0 / means[:2]
        np.testing.assert_allclose(seen[number, :-1], means, rtol=0, atol=1e-6)
    gangs = jobs["gpus"][jobs["gpus"] > 1]
    assert seen[:, -1] == pytest.approx(gangs[gangs > 32].sum() / gangs.sum())
    assert (costs.observe(arrived) == seen).all()


def test_costs_are_an_array_of_the_environment_on_request_only() -> None:
    plain, told = (DelayTimersEnv(SMALL.format("4", "below"), costs=costs) for costs in (False, True))
    seen = {name: env.reset(seed=0)[0] for name, env in (("plain", plain), ("told", told))}
    assert seen["plain"].keys() == {"classes", "cluster"}
    assert seen["told"].keys() == {"classes", "cluster", "costs"}
    action = np.zeros(plain.timers.shape, np.float32)
    for _ in range(30):
        one, other = plain.step(action)[0], told.step(action)[0]
        assert told.observation_space.contains(other)
        assert all((one[name] == other[name]).all() for name in one)
    assert other["costs"].shape == (6, len(COST_COLUMNS))


# --- the search


def test_cma_es_finds_the_minimum_of_an_ellipsoid_with_correlated_axes() -> None:
    pytest.importorskip("cmaes")
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    curvature = turned @ np.diag(10.0 ** np.arange(-1, 5)) @ turned.T
    search = cma_es(np.full(6, 3.0), np.geomspace(0.1, 10.0, 6), samples=10, seed=1)
    for _ in range(400):
        search.tell([(x, float(x @ curvature @ x)) for x in [search.ask() for _ in range(10)]])
    assert float(search.mean @ curvature @ search.mean) < 1e-8


def test_the_first_samples_of_cma_es_have_the_given_scales() -> None:
    pytest.importorskip("cmaes")
    scales = np.array([0.1, 1.0, 10.0])
    search = cma_es(np.full(3, 5.0), scales, samples=10, seed=1)
    drawn = np.array([search.ask() for _ in range(4_000)])
    np.testing.assert_allclose(drawn.std(axis=0), scales, rtol=0.05)


def test_the_network_has_the_weights_of_the_vector_and_no_others() -> None:
    start, scale = start_and_scale()
    assert len(start) == len(scale) == sum(map(len, HIDDEN)) + 2 * len(OUTPUTS)
    vector = np.arange(1.0, len(start) + 1.0)
    network = network_of(vector)
    (weights, biases), (outputs, ends) = network.layers
    assert (weights != 0).sum() + (biases != 0).sum() == sum(map(len, HIDDEN))
    np.testing.assert_array_equal(np.concatenate([outputs, [ends]]).ravel(), vector[-2 * len(OUTPUTS) :])
    names = input_names(costs=True)
    assert len(set(names)) == len(names) == len(weights)
    assert weights[names.index("slowdown_network"), 0] == vector[0]


def test_a_table_gives_the_excess_of_the_pair_that_a_network_chooses() -> None:
    rng = np.random.default_rng(0)
    size, cells, inputs = len(TABLE_GRID_S), 3, len(input_names(costs=True))
    shares = rng.dirichlet(np.ones(6), size=(cells, 2))
    table = Table(
        np.array(TABLE_GRID_S), rng.random((cells, size, size, 2)), rng.random((cells, 6, inputs)), shares, np.array(0)
    )
    for i, rack_s in enumerate(TABLE_GRID_S):
        for j, network_s in enumerate(TABLE_GRID_S):
            network = TimerNetwork.constant(pair_action((rack_s, network_s)), costs=True)
            np.testing.assert_allclose(table.expected(network), table.excess[:, i, j], rtol=0, atol=1e-9)
    between = TimerNetwork.constant((float(timer_action([900.0])[0] + timer_action([3600.0])[0]) / 2, -1.0), costs=True)
    middle = (table.excess[:, 1, 0] + table.excess[:, 2, 0]) / 2
    np.testing.assert_allclose(table.expected(between), middle, rtol=0, atol=1e-9)


def test_the_timers_of_a_pair_are_those_of_its_action() -> None:
    instance = get_scenario(SMALL.format("4", "above")).instance(0)
    for pair in ((0.0, 0.0), (900.0, 3_600.0), (21_600.0, math.inf), (math.inf, 0.0)):
        np.testing.assert_allclose(pair_waits(instance, pair), static_waits(instance, pair_action(pair)), rtol=1e-9)


def test_the_score_counts_the_excess_over_two_percent_twice() -> None:
    assert loss(np.array([[0.01, 0.01]])) == pytest.approx(0.01)
    assert loss(np.array([[0.12, 0.0]])) == pytest.approx(0.6 * (0.12 + 0.10))
    assert loss(np.array([[0.0, 0.12], [0.0, 0.0]])) == pytest.approx(0.4 * (0.12 + 0.10) / 2)


def test_training_can_be_repeated_and_writes_a_card(tmp_path: Path) -> None:
    pytest.importorskip("cmaes")
    files = [train(CellsConfig(quick=True, output=tmp_path / name), told=lambda text: None) for name in "ab"]
    one, other = (TimerNetwork.load(path) for path in files)
    assert one.digest() == other.digest()
    assert one.costs
    assert {"simulated_jobs", "cpu_hours", "training_cells", "intended_use", "limits"} <= one.about.keys()
    assert len((tmp_path / "a" / "learning.csv").read_text().splitlines()) == 2


def test_numbers_that_cannot_work_are_refused() -> None:
    with pytest.raises(GpuschedError, match="generations is 0: it must be at least 1"):
        CellsConfig(generations=0)
    with pytest.raises(GpuschedError, match="there are 10 training and 5 validation seeds"):
        CellsConfig(training_seeds=11)


# --- the shipped tuner


def test_the_shipped_tuner_is_small_and_says_how_it_was_made() -> None:
    assert shipped("cells").stat().st_size < 2_000_000
    network = TimerNetwork.load(shipped("cells"))
    assert network.digest() == "cacca4486e38d00a18a901bea5355bd79cb5251cdff8ef7aeb46754d1b17a799"
    about = network.about
    known = {cell.scenario: cell.problem().fingerprint() for cell in (*TRAINING_CELLS, *VALIDATION_CELLS)}
    assert {**about["training_cells"], **about["validation_cells"]}.items() <= known.items()
    assert not {*about["training_cells"], *about["validation_cells"]} & {cell.scenario for cell in TEST_CELLS}
    assert not {*about["training_seeds"], *about["validation_seeds"]} & {*TEST_SEEDS}
    assert {"simulated_jobs", "cpu_hours", "intended_use", "limits", "version"} <= about.keys()


@pytest.mark.parametrize(
    ("scenario", "preset", "of_hand", "of_no_wait"),
    [
        ("dally-cells-v0:network=free,load=1.1,gangs=below,jobs=400", "suite", 0.95, 1.03),
        ("dally-cells-v0:network=20,load=1.1,gangs=below,jobs=400", "suite", 1.03, 0.5),
        ("dally-authors-v1:mean_gap_s=900,jobs=300", "authors", 0.9, 0.2),
    ],
)
def test_the_shipped_tuner_is_near_the_better_of_hand_tuner_and_no_wait_or_beyond(
    scenario: str, preset: str, of_hand: float, of_no_wait: float
) -> None:
    """It waits where the network is slow, and hardly waits where it costs nothing."""
    ratios = []
    for seed in TEST_SEEDS[:2]:
        instance = get_scenario(scenario).instance(seed)
        learned = play_network(instance, seed, TimerNetwork.load(shipped("cells")), preset=preset).mean_jct_s
        no_wait = play_static(instance, seed, static_waits(instance, (-1.0, -1.0)), preset=preset).mean_jct_s
        by_hand = DelayRun(instance, Dally(preset=preset), seed)
        by_hand.play()
        ratios.append((learned / score(by_hand).mean_jct_s, learned / no_wait))
    hand, none = np.mean(ratios, axis=0)
    assert hand < of_hand
    assert none < of_no_wait


def test_the_shipped_tuner_plays_by_name_and_in_the_environment_with_the_same_log() -> None:
    instance = get_scenario(SMALL.format("4", "above")).instance(3)
    logs = [simulate(instance, make_scheduler("dally:tuner=learned,timers=cells")).digest() for _ in range(2)]
    assert logs[0] == logs[1]
    network = LearnedTimers.load("cells").network
    env = DelayTimersEnv(SMALL.format("4", "above"), interval_s=network.interval_s, costs=True)
    seen, _ = env.reset(seed=3)
    over = False
    while not over:
        seen, _, terminated, truncated, _ = env.step(network.act(seen))
        over = terminated or truncated
    assert env.event_log().digest() == logs[0]
