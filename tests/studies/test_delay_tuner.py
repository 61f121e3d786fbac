"""The search for the delay tuner: the table on which it runs, its optimiser, and that it can be repeated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpusched_env.agents.learned_timers import INPUTS, TimerNetwork, shipped
from gpusched_env.delay_timers.actions import timer_action
from gpusched_env.errors import GpuschedError
from studies.delay_timers.cells import TRAINING_CELLS, VALIDATION_CELLS, pair_action
from studies.delay_timers.tuner import (
    HIDDEN,
    OUTPUTS,
    TABLE_GRID_S,
    Settings,
    Table,
    card,
    loss,
    network_of,
    start_and_scale,
    train,
)
from studies.index_search.cma import cma_es


def constant(action: tuple[float, float]) -> TimerNetwork:
    return TimerNetwork([(np.zeros((len(INPUTS), 2)), np.array(action))])


@pytest.mark.parametrize("separable", [False, True])
def test_cma_es_finds_the_minimum_of_an_ellipsoid(separable: bool) -> None:
    """With correlated axes, unless the covariance is diagonal."""
    pytest.importorskip("cmaes")
    turned, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))
    turned = np.eye(6) if separable else turned
    curvature = turned @ np.diag(10.0 ** np.arange(-1, 5)) @ turned.T
    start = np.full(6, 3.0)
    search = cma_es(start, 1.0, samples=10, seed=1, separable=separable)
    for _ in range(400):
        search.tell([(x, float(x @ curvature @ x)) for x in [search.ask() for _ in range(10)]])
    assert float(search.mean @ curvature @ search.mean) < 1e-8
    assert (start == 3.0).all()


def test_the_network_has_the_weights_of_the_vector_and_no_others() -> None:
    start, scale = start_and_scale()
    assert len(start) == len(scale) == sum(map(len, HIDDEN)) + 2 * len(OUTPUTS)
    vector = np.arange(1.0, len(start) + 1.0)
    network = network_of(vector)
    (weights, biases), (outputs, ends) = network.layers
    assert (weights != 0).sum() + (biases != 0).sum() == sum(map(len, HIDDEN))
    np.testing.assert_array_equal(np.concatenate([outputs, [ends]]).ravel(), vector[-2 * len(OUTPUTS) :])
    assert len(set(INPUTS)) == len(INPUTS) == len(weights)
    assert weights[INPUTS.index("slowdown_network"), 0] == vector[0]


def test_a_table_gives_the_excess_of_the_pair_that_a_network_chooses() -> None:
    rng = np.random.default_rng(0)
    size, cells, inputs = len(TABLE_GRID_S), 3, len(INPUTS)
    shares = rng.dirichlet(np.ones(6), size=(cells, 2))
    table = Table(
        np.array(TABLE_GRID_S), rng.random((cells, size, size, 2)), rng.random((cells, 6, inputs)), shares, np.array(0)
    )
    for i, rack_s in enumerate(TABLE_GRID_S):
        for j, network_s in enumerate(TABLE_GRID_S):
            network = constant(pair_action((rack_s, network_s)))
            np.testing.assert_allclose(table.expected(network), table.excess[:, i, j], rtol=0, atol=1e-4)
    between = constant((float(timer_action([900.0])[0] + timer_action([3600.0])[0]) / 2, -1.0))
    middle = (table.excess[:, 1, 0] + table.excess[:, 2, 0]) / 2
    np.testing.assert_allclose(table.expected(between), middle, rtol=0, atol=1e-4)


def test_the_score_counts_the_excess_over_two_percent_twice() -> None:
    assert loss(np.array([[0.01, 0.01]])) == pytest.approx(0.01)
    assert loss(np.array([[0.12, 0.0]])) == pytest.approx(0.6 * (0.12 + 0.10))
    assert loss(np.array([[0.0, 0.12], [0.0, 0.0]])) == pytest.approx(0.4 * (0.12 + 0.10) / 2)


def test_training_can_be_repeated_to_the_last_byte(tmp_path: Path) -> None:
    pytest.importorskip("cmaes")
    one, other = (train(Settings(quick=True, output=tmp_path / name)) for name in "ab")
    assert one.read_bytes() == other.read_bytes()
    again = train(Settings(quick=True, output=tmp_path / "a"))  # from the same table
    assert again.read_bytes() == other.read_bytes()
    network = TimerNetwork.load(one)
    assert {"simulated_jobs", "training_cells", "intended_use", "limits"} <= network.about.keys()
    assert all((np.round(part, 4) == part).all() for layer in network.layers for part in layer)
    assert len((tmp_path / "a" / "learning.csv").read_text().splitlines()) == 2


def test_the_shipped_file_is_of_the_command_without_options() -> None:
    about = TimerNetwork.load(shipped()).about
    made = {"version": about["version"]}  # by which version is a fact of the file
    assert {**about, **card(Settings(), TRAINING_CELLS, VALIDATION_CELLS), **made} == about


def test_numbers_that_cannot_work_are_refused() -> None:
    with pytest.raises(GpuschedError, match="generations is 0: it must be at least 1"):
        Settings(generations=0)
    with pytest.raises(GpuschedError, match="there are 10 training and 5 validation seeds"):
        Settings(training_seeds=11)
