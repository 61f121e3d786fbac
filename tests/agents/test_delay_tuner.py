"""The delay tuner of the package: its network and file, its plays, and the timers that a spec gives."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import plain_python_digests

from gpusched_env.agents.learned_timers import INPUTS, LearnedTimers, TimerNetwork, shipped
from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.delay_timers.columns import CLASS_COLUMNS, CLUSTER_COLUMNS, COST_COLUMNS
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from studies.delay_timers.cells import (
    TEST_CELLS,
    TEST_SEEDS,
    TRAINING_CELLS,
    VALIDATION_CELLS,
    pair_action,
    rows,
    static_waits,
)
from studies.delay_timers.tuner import play

ROOT = Path(__file__).parents[2]
SMALL = "dally-cells-v0:network=4,load=1.1,gangs=above,jobs=200"


def random_network(seed: int = 0, width: int = 8) -> TimerNetwork:
    rng = np.random.default_rng(seed)
    return TimerNetwork(
        [
            (rng.normal(size=(len(INPUTS), width)), rng.normal(size=width)),
            (rng.normal(size=(width, 2)), rng.normal(size=2)),
        ]
    )


def observation(seed: int = 0, classes: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "classes": rng.random((classes, len(CLASS_COLUMNS))).astype(np.float32),
        "cluster": rng.random(len(CLUSTER_COLUMNS)).astype(np.float32),
        "costs": rng.random((classes, len(COST_COLUMNS))).astype(np.float32),
    }


# --- the network


def test_timers_of_a_class_depend_on_its_own_columns_and_the_clusters_only() -> None:
    network, seen = random_network(), observation()
    action = network.act(seen)
    assert action.shape == (6, 2)
    order = np.random.default_rng(1).permutation(6)
    mixed = {name: seen[name][order] for name in ("classes", "costs")}
    np.testing.assert_array_equal(network.act(seen | mixed), action[order])
    few = {name: seen[name][:2] for name in ("classes", "costs")}
    np.testing.assert_allclose(network.act(seen | few), action[:2], rtol=0, atol=1e-12)


def test_the_forward_pass_is_a_two_layer_perceptron() -> None:
    network, seen = random_network(), observation()
    (w0, b0), (w1, b1) = network.layers
    for number in range(6):
        x = np.concatenate([seen["classes"][number], seen["cluster"], seen["costs"][number]]).astype(np.float64)
        hidden = [np.tanh(b0[j] + sum(x[i] * w0[i, j] for i in range(len(INPUTS)))) for j in range(8)]
        expected = np.clip([b1[k] + sum(hidden[j] * w1[j, k] for j in range(8)) for k in (0, 1)], -1, 1)
        np.testing.assert_allclose(network.act(seen)[number], expected, rtol=0, atol=6e-7)  # rounded


def test_a_network_round_trips_through_a_file_and_equal_networks_give_equal_files(tmp_path: Path) -> None:
    network = random_network()
    network.about = {"learner": "none"}
    for name in ("one", "two"):
        network.save(tmp_path / f"{name}.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    again = TimerNetwork.load(tmp_path / "one.npz")
    np.testing.assert_array_equal(again.act(observation()), network.act(observation()))
    assert (again.classes, again.interval_s, again.about) == (list(network.classes), 1_800.0, {"learner": "none"})


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
    altered(tmp_path / "good.npz", bad, "metadata.npy", lambda data: data.replace(b"smallest", b"smaLLest"))
    with pytest.raises(SchedulerError, match="trained on other observations"):
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
    with pytest.raises(GpuschedError, match="must have 47 inputs"):
        TimerNetwork([(np.zeros((3, 2)), np.zeros(2))])
    with pytest.raises(GpuschedError, match="gives 3 numbers per class"):
        TimerNetwork([(np.zeros((len(INPUTS), 3)), np.zeros(3))])


# --- the shipped tuner


def test_the_shipped_tuner_is_small_and_says_how_it_was_made() -> None:
    assert shipped().stat().st_size < 10_000
    about = TimerNetwork.load(shipped()).about
    known = {cell.scenario: cell.problem().fingerprint() for cell in (*TRAINING_CELLS, *VALIDATION_CELLS)}
    assert {**about["training_cells"], **about["validation_cells"]} == known
    assert not known.keys() & {cell.scenario for cell in TEST_CELLS}
    assert not {*about["training_seeds"], *about["validation_seeds"]} & {*TEST_SEEDS}
    assert {"simulated_jobs", "intended_use", "limits", "version"} <= about.keys()


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
        learned = play(preset, instance, LearnedTimers.load())
        others = play(preset, instance), play(preset, instance, pair=(0.0, 0.0))
        ratios.append([np.exp(learned[0] - other[0]) for other in others])
    hand, none = np.mean(ratios, axis=0)
    assert hand < of_hand
    assert none < of_no_wait


def test_the_shipped_tuner_plays_by_name_by_file_and_in_the_environment_with_the_same_log() -> None:
    instance = get_scenario(SMALL).instance(3)
    by_name, by_file = (
        simulate(instance, make_scheduler(f"dally:tuner=learned{more}")).digest()
        for more in ("", f",timers={shipped()}")
    )
    assert by_name == by_file
    network = TimerNetwork.load(shipped())
    env = DelayTimersEnv(SMALL, interval_s=network.interval_s, costs=True)
    seen, _ = env.reset(seed=3)
    over = False
    while not over:
        seen, _, terminated, truncated, _ = env.step(network.act(seen))
        over = terminated or truncated
    assert env.event_log().digest() == by_name


def test_the_shipped_tuner_plays_without_torch() -> None:
    code = (
        "import sys; from gpusched_env.baselines import make_scheduler;"
        "from gpusched_env.scenarios import get_scenario;"
        "from gpusched_env.simulator import simulate;"
        f"simulate(get_scenario({SMALL!r}).instance(0), make_scheduler('dally:tuner=learned'));"
        "assert not {'torch', 'stable_baselines3', 'optuna', 'cmaes'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def digests() -> list[str]:
    """Digests of two runs of the shipped tuner."""
    return [
        simulate(get_scenario(name).instance(1_000), make_scheduler("dally:tuner=learned")).digest()
        for name in ("dally-drift-v1:jobs=30", "dally-batch-v1:jobs=30")
    ]


def test_plain_python_plays_the_shipped_tuner_alike() -> None:
    assert plain_python_digests("tests.agents.test_delay_tuner") == digests()


# --- static timers


def test_a_constant_action_and_its_table_give_the_same_timers() -> None:
    instance = get_scenario(SMALL).instance(0)
    rng = np.random.default_rng(0)
    for action in (
        np.full((6, 2), -1.0),
        np.full((6, 2), 1.0),
        pair_action((900.0, np.inf)),
        rng.uniform(-1, 1, (6, 2)),
    ):
        run = DelayRun(instance, Dally(tuner="static", timers=rows(action, instance)))
        np.testing.assert_array_equal(run.waits_s[2:], static_waits(instance, action)[2:])


def test_the_network_timer_of_a_pair_begins_after_the_rack_timer_if_a_machine_can_hold_the_gang() -> None:
    waits_s = static_waits(get_scenario(SMALL).instance(0), pair_action((3_600.0, 900.0)))
    np.testing.assert_allclose(waits_s[8], [3_600.0, 4_500.0], rtol=1e-9)
    np.testing.assert_allclose(waits_s[9, 1], 900.0, rtol=1e-9)


@pytest.mark.parametrize("text", ["8:900", "8:900:-1", "8:1:2/4:1:2", "no/such/file.json"])
def test_a_malformed_table_of_timers_is_refused(text: str) -> None:
    with pytest.raises(SchedulerError, match="timers"):
        DelayRun(get_scenario(SMALL).instance(0), make_scheduler("dally", tuner="static", timers=text))
