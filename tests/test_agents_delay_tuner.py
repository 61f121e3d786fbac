"""The delay tuner: its network and file, evolution, static search, and what a trained one must do."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.agents.timer_evolution import Evolution, _centred_ranks
from gpusched_env.agents.timer_network import INPUTS, TimerNetwork
from gpusched_env.envs.delay_columns import CLASS_COLUMNS, CLUSTER_COLUMNS
from gpusched_env.errors import GpuschedError, SchedulerError


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


def test_a_class_is_judged_by_its_own_columns_and_the_clusters() -> None:
    network, seen = random_network(), observation()
    action = network.act(seen)
    assert action.shape == (6, 2)
    order = np.random.default_rng(1).permutation(6)
    np.testing.assert_array_equal(network.act(seen | {"classes": seen["classes"][order]}), action[order])
    np.testing.assert_allclose(network.act(seen | {"classes": seen["classes"][:2]}), action[:2], rtol=0, atol=1e-12)


def test_the_forward_pass_is_that_of_the_textbook() -> None:
    network, seen = random_network(), observation()
    (w0, b0), (w1, b1) = network.layers
    for number in range(6):
        x = np.concatenate([seen["classes"][number], seen["cluster"]]).astype(np.float64)
        hidden = [np.tanh(b0[j] + sum(x[i] * w0[i, j] for i in range(INPUTS))) for j in range(8)]
        expected = np.clip([b1[k] + sum(hidden[j] * w1[j, k] for j in range(8)) for k in (0, 1)], -1, 1)
        np.testing.assert_allclose(network.act(seen)[number], expected, rtol=0, atol=1e-12)


def test_a_vector_holds_all_weights() -> None:
    network = random_network()
    assert network.with_vector(network.vector).digest() == network.digest()
    assert len(network.vector) == (INPUTS + 1) * 8 + 9 * 2


def test_a_constant_network_says_the_same_whatever_it_sees() -> None:
    network = TimerNetwork.constant((0.25, -1.0))
    assert (network.act(observation(3)) == [0.25, -1.0]).all()


def test_a_file_gives_the_network_back_and_equal_networks_equal_files(tmp_path: Path) -> None:
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


def test_a_file_that_does_not_hold_what_it_says_is_refused(tmp_path: Path) -> None:
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
        TimerNetwork.load(bad)  # a pickle is not even looked at


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GpuschedError, match="must take 41"):
        TimerNetwork([(np.zeros((3, 2)), np.zeros(2))])
    with pytest.raises(GpuschedError, match="gives 3 numbers a class"):
        TimerNetwork([(np.zeros((INPUTS, 3)), np.zeros(3))])
    with pytest.raises(GpuschedError, match="not finite"):
        TimerNetwork([(np.full((INPUTS, 2), np.nan), np.zeros(2))])


# --- evolution


def test_evolution_finds_the_foot_of_a_bowl_under_noise_that_all_draws_share() -> None:
    target = np.linspace(-1, 1, 10)

    def score(x: np.ndarray, generation: int) -> float:
        luck = np.random.default_rng(generation).normal() * 100.0
        return float(((x - target) ** 2).sum()) + luck

    found = Evolution(sigma=0.1, pairs=10, step=1.0, seed=1).improve(np.zeros(10), score, 150)
    assert np.abs(found - target).max() < 0.25
    assert np.abs(target).max() == 1.0


def test_evolution_stands_still_where_nothing_matters() -> None:
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
