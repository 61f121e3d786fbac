"""The delay tuner: its network and file, evolution, search for static timers, training, and the shipped tuner."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import plain_python_digests
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.agents.learned_timers import LearnedTimers, shipped
from gpusched_env.agents.timer_network import INPUTS, TimerNetwork
from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.delay_timers.columns import CLASS_COLUMNS, CLUSTER_COLUMNS
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.reproduce.dally_tuner.grid import pair_action, pairs, rows
from gpusched_env.reproduce.dally_tuner.problems import (
    INSENSITIVE,
    TEST_SEEDS,
    TRAINING_SEEDS,
    VALIDATION_SEEDS,
    static_waits,
)
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from studies.delay_timers.cloning import clone
from studies.delay_timers.evolution import Evolution, _centred_ranks
from studies.delay_timers.playing import drawn, play_network, play_static, score
from studies.delay_timers.static_timers import Scoring, best_pair, best_per_class
from studies.delay_timers.tuner import TunerConfig, train

ROOT = Path(__file__).parents[2]


def random_network(seed: int = 0, width: int = 8) -> TimerNetwork:
    rng = np.random.default_rng(seed)
    return TimerNetwork(
        [(rng.normal(size=(INPUTS, width)), rng.normal(size=width)), (rng.normal(size=(width, 2)), rng.normal(size=2))]
    )


def observation(seed: int = 0, classes: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "classes": rng.random((classes, len(CLASS_COLUMNS))).astype(np.float32),
        "cluster": rng.random(len(CLUSTER_COLUMNS)).astype(np.float32),
    }


# --- the network


def test_timers_of_a_class_depend_on_its_own_columns_and_the_clusters_only() -> None:
    network, seen = random_network(), observation()
    action = network.act(seen)
    assert action.shape == (6, 2)
    order = np.random.default_rng(1).permutation(6)
    np.testing.assert_array_equal(network.act(seen | {"classes": seen["classes"][order]}), action[order])
    np.testing.assert_allclose(network.act(seen | {"classes": seen["classes"][:2]}), action[:2], rtol=0, atol=1e-12)


def test_the_forward_pass_is_a_two_layer_perceptron() -> None:
    network, seen = random_network(), observation()
    (w0, b0), (w1, b1) = network.layers
    for number in range(6):
        x = np.concatenate([seen["classes"][number], seen["cluster"]]).astype(np.float64)
        hidden = [np.tanh(b0[j] + sum(x[i] * w0[i, j] for i in range(INPUTS))) for j in range(8)]
        expected = np.clip([b1[k] + sum(hidden[j] * w1[j, k] for j in range(8)) for k in (0, 1)], -1, 1)
        np.testing.assert_allclose(network.act(seen)[number], expected, rtol=0, atol=6e-7)  # rounded


def test_weights_round_trip_through_a_vector() -> None:
    network = random_network()
    assert network.with_vector(network.vector).digest() == network.digest()
    assert len(network.vector) == (INPUTS + 1) * 8 + 9 * 2


def test_a_constant_network_ignores_its_input() -> None:
    network = TimerNetwork.constant((0.25, -1.0))
    assert (network.act(observation(3)) == [0.25, -1.0]).all()


def test_a_network_round_trips_through_a_file_and_equal_networks_give_equal_files(tmp_path: Path) -> None:
    network = random_network()
    network.about = {"learner": "none"}
    for name in ("one", "two"):
        network.save(tmp_path / f"{name}.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    again = TimerNetwork.load(tmp_path / "one.npz")
    np.testing.assert_array_equal(again.act(observation()), network.act(observation()))
    assert (again.classes, again.residual, again.interval_s, again.about) == (
        list(network.classes), False, 1_800.0, {"learner": "none"},
    )  # fmt: skip


def altered(source: Path, target: Path, name: str, change) -> None:
    """Copy an archive with one entry changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            new.writestr(entry, change(data) if entry == name else data)


def test_an_inconsistent_file_is_refused(tmp_path: Path) -> None:
    random_network().save(tmp_path / "good.npz")
    bad = tmp_path / "bad.npz"

    def other_weights(data: bytes) -> bytes:
        stream = io.BytesIO()
        np.save(stream, np.load(io.BytesIO(data)) + 1.0)
        return stream.getvalue()

    altered(tmp_path / "good.npz", bad, "weights_0.npy", other_weights)
    with pytest.raises(SchedulerError, match="SHA-256"):
        TimerNetwork.load(bad)
    bad.write_bytes((tmp_path / "good.npz").read_bytes()[:500])
    with pytest.raises(SchedulerError, match=r"bad\.npz: not a delay tuner"):
        TimerNetwork.load(bad)
    with pytest.raises(SchedulerError, match="cannot be read"):
        TimerNetwork.load(tmp_path / "missing.npz")
    np.savez(bad, metadata=np.array([object()], dtype=object))
    with pytest.raises(SchedulerError, match="not a delay tuner"):
        TimerNetwork.load(bad)  # pickles are not loaded


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GpuschedError, match="must have 41 inputs"):
        TimerNetwork([(np.zeros((3, 2)), np.zeros(2))])
    with pytest.raises(GpuschedError, match="gives 3 numbers per class"):
        TimerNetwork([(np.zeros((INPUTS, 3)), np.zeros(3))])
    with pytest.raises(GpuschedError, match="not finite"):
        TimerNetwork([(np.full((INPUTS, 2), np.nan), np.zeros(2))])


# --- evolution


def test_evolution_finds_the_minimum_of_a_quadratic_under_common_noise() -> None:
    target = np.linspace(-1, 1, 10)

    def score(x: np.ndarray, generation: int) -> float:
        luck = np.random.default_rng(generation).normal() * 100.0
        return float(((x - target) ** 2).sum()) + luck

    found = Evolution(sigma=0.1, pairs=10, step=1.0, seed=1).improve(np.zeros(10), score, 150)
    assert np.abs(found - target).max() < 0.25
    assert np.abs(target).max() == 1.0


def test_evolution_does_not_move_on_a_constant_objective() -> None:
    found = Evolution().improve(np.ones(5), lambda x, generation: 3.0, 5)
    np.testing.assert_array_equal(found, np.ones(5))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_ranks_are_centred_and_keep_order(values: list[float]) -> None:
    ranks = _centred_ranks(np.array(values))
    assert ranks.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.abs(ranks).max() <= 1.0
    for i, one in enumerate(values):
        for j, other in enumerate(values):
            assert (one < other) <= (ranks[i] < ranks[j])


# --- static timers

SMALL = "dally-poisson-v1:load=0.9,jobs=60"


def test_a_constant_action_and_its_table_give_the_same_timers() -> None:
    instance = drawn(SMALL, 0)
    rng = np.random.default_rng(0)
    for action in (
        np.full((6, 2), -1.0),
        np.full((6, 2), 1.0),
        pair_action((900.0, np.inf)),
        rng.uniform(-1, 1, (6, 2)),
    ):
        run = DelayRun(instance, Dally(tuner="static", timers=rows(action, instance)))
        np.testing.assert_array_equal(run.waits_s[2:], static_waits(instance, action)[2:])


def test_the_grid_is_that_of_the_protocol() -> None:
    assert len(pairs()) == 81
    waits_s = static_waits(drawn(SMALL, 0), pair_action((3_600.0, 900.0)))
    np.testing.assert_allclose(waits_s[8], [3_600.0, 4_500.0], rtol=1e-9)
    np.testing.assert_allclose(waits_s[9, 1], 900.0, rtol=1e-9)


def test_the_search_returns_its_best_trial_and_counts_simulated_jobs() -> None:
    scoring = Scoring(SMALL, (0, 1))
    found = best_pair(scoring, (0.0, np.inf))
    scores = {pair: scoring(pair_action(pair)) for pair in pairs((0.0, np.inf))}
    assert found.score == min(scores.values())
    assert scores[0.0, 0.0] == 1.0  # relative to no wait
    assert found.simulated_jobs == 2 * 60 * (1 + 4)
    assert found.trials == 4


def test_a_search_over_classes_starts_from_the_given_action_and_is_repeatable() -> None:
    pytest.importorskip("optuna")
    start = [[-0.5, 0.5]] * 6
    found = [best_per_class(Scoring(SMALL, (0,)), start, trials=5) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].score <= Scoring(SMALL, (0,))(start)
    assert np.shape(found[0].action) == (6, 2)


# --- learners


def test_cloning_separates_problems_by_their_observations() -> None:
    teachers = {SMALL: np.full((6, 2), 0.5), "dally-batch-v1:jobs=60": np.tile([-0.75, 0.75], (6, 1))}
    network, jobs = clone(teachers, (0, 1), TimerNetwork.constant((0.0, 0.0)))
    assert jobs == 2 * 2 * 2 * 60
    for name, action in teachers.items():
        env = DelayTimersEnv(name)
        seen, _ = env.reset(seed=2)  # held out of training
        away = []
        for _ in range(40):
            said = network.act(seen)
            away.append(np.abs(said - action).mean())
            seen, _, terminated, _, _ = env.step(said)
            if terminated:
                break
        assert np.mean(away) < 0.3


@pytest.mark.parametrize("learner", ["evolution", "ppo"])
def test_a_trained_tuner_plays_alike_in_the_runner_and_the_environment(tmp_path: Path, learner: str) -> None:
    pytest.importorskip("stable_baselines3")
    said: list[str] = []
    path = train(TunerConfig(learner=learner, quick=True, output=tmp_path), said.append)
    assert said[0].startswith("0: ")
    assert path.stat().st_size < 2_000_000
    network = TimerNetwork.load(path)
    assert network.about["learner"] == learner
    assert network.about["training_seeds"] == [0, 1]
    assert network.about["simulated_jobs"] > 0
    looks = [line.rsplit(",", 1) for line in (tmp_path / "learning.csv").read_text(encoding="utf-8").splitlines()[1:]]
    assert network.about["chosen_at"] == max(int(line.split(",")[0]) for line, kept in looks if kept == "1")
    assert str(tmp_path) not in json.dumps(network.about)  # a file has no path of the machine that wrote it
    spec = f"dally:tuner=learned,timers={path}"
    alone, apart = (evaluate(SMALL, [spec], [1_000, 1_001], workers=workers, progress=False) for workers in (1, 2))
    assert [run.digest for run in alone] == [run.digest for run in apart]
    env = DelayTimersEnv(SMALL, mode="residual" if network.residual else "absolute")
    seen, _ = env.reset(seed=1_000)
    terminated, info = False, {}
    while not terminated:
        seen, _, terminated, _, info = env.step(network.act(seen))
    assert info["digest"] == alone[0].digest


def test_settings_that_cannot_work_are_refused() -> None:
    for change in ({"generations": 0}, {"training_seeds": 11}, {"validation_seeds": 6}):
        with pytest.raises(GpuschedError, match="tuner"):
            TunerConfig(**change)


def test_training_validation_and_test_seeds_are_disjoint_and_enough() -> None:
    assert not {*TRAINING_SEEDS} & {*VALIDATION_SEEDS} | {*TRAINING_SEEDS, *VALIDATION_SEEDS} & {*TEST_SEEDS}
    assert len(TEST_SEEDS) >= 20
    assert min(TEST_SEEDS) >= 1_000


# --- the shipped tuner


def test_the_shipped_tuner_is_small_and_says_how_it_was_made() -> None:
    assert shipped().stat().st_size <= 2_000_000
    about = TimerNetwork.load(shipped()).about
    assert {"version", "scenarios", "training_seeds", "validation_seeds", "simulated_jobs"} <= about.keys()
    assert not {*about["training_seeds"], *about["validation_seeds"]} & {*TEST_SEEDS}


def test_the_shipped_tuner_plays_by_name_without_torch() -> None:
    code = (
        "import sys; from gpusched_env.baselines import make_scheduler;"
        "from gpusched_env.scenarios import get_scenario;"
        "from gpusched_env.simulator import simulate;"
        f"simulate(get_scenario({SMALL!r}).instance(0), make_scheduler('dally:tuner=learned'));"
        "assert not {'torch', 'stable_baselines3', 'optuna'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", TEST_SEEDS[:2])
def test_the_shipped_tuner_is_within_one_percent_of_no_wait_where_waiting_cannot_pay(seed: int) -> None:
    instance = drawn(INSENSITIVE, seed)
    network = TimerNetwork.load(shipped())
    no_wait = play_static(instance, seed, static_waits(instance, (-1.0, -1.0)))
    assert play_network(instance, seed, network).mean_jct_s == pytest.approx(no_wait.mean_jct_s, rel=0.01)


class Shuffled(LearnedTimers):
    """The same network with its observations shuffled."""

    def tune(self, run: DelayRun) -> None:
        rng = np.random.default_rng(int(run.simulation.now_s))
        seen = self._observer.observe(run.waits_s, run.simulation.now_s)
        mixed = {key: values[..., rng.permutation(values.shape[-1])] for key, values in seen.items()}
        self._actions.carry_out(self.network.act(mixed), run)


def test_the_shipped_tuner_is_worse_with_shuffled_observations() -> None:
    """Its timers depend on the state of the cluster."""
    network = TimerNetwork.load(shipped())
    ratios = []
    for label in ("batch", "drift .9", INSENSITIVE):
        for seed in VALIDATION_SEEDS:
            instance = drawn(label, seed)
            blind = DelayRun(instance, Dally(), timers=Shuffled(network))
            blind.play()
            ratios.append(score(blind).mean_jct_s / play_network(instance, seed, network).mean_jct_s)
    assert np.mean(ratios) > 1.003


def digests() -> list[str]:
    """Digests of two runs of the shipped tuner."""
    return [
        simulate(get_scenario(name).instance(1_000), make_scheduler("dally:tuner=learned")).digest()
        for name in ("dally-drift-v1:jobs=30", "dally-batch-v1:jobs=30")
    ]


def test_plain_python_plays_the_shipped_tuner_alike() -> None:
    assert plain_python_digests("tests.agents.test_delay_tuner") == digests()


@pytest.mark.parametrize("text", ["8:900", "8:900:-1", "8:1:2/4:1:2", "no/such/file.json"])
def test_a_malformed_table_of_timers_is_refused(text: str) -> None:
    with pytest.raises(SchedulerError, match="timers"):
        DelayRun(drawn(SMALL, 0), make_scheduler("dally", tuner="static", timers=text))
