"""Worked examples of the papers, and of five jobs on four GPUs, to the second."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import finish, instance_i, play, unit_instance

from gpusched_env.baselines.list_policies.gittins import index_of, published_sizes
from gpusched_env.baselines.tiresias import Tiresias
from gpusched_env.metrics import job_times
from gpusched_env.simulator import Simulation, Start


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("fifo", [10, 14, 20, 16, 34]),
        ("fifo-skip", [10, 27, 7, 12, 23]),
        ("fifo-easy", [10, 14, 7, 9, 34]),
        ("sjf:strict=true", [16, 4, 10, 6, 26]),
        ("sjf", [16, 4, 10, 6, 24]),
        ("ssf", [16, 4, 10, 6, 24]),
        ("lpt", [10, 27, 7, 12, 23]),
        ("lpt:strict=true", [10, 27, 7, 29, 23]),
        ("srtf", [16, 4, 10, 6, 24]),
        ("srsf", [13, 26, 7, 4, 23]),
    ],
)
def test_instance_i(spec: str, expected: list) -> None:
    assert finish(instance_i(), spec) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("srsf", [2, 10, 16]),
        ("las-2d:round_s=1", [5, 14, 16]),
        ("las-2d:round_s=2", [2, 14, 16]),
        ("srtf", [2, 16, 8]),
    ],
)
def test_the_toy_of_tiresias(spec: str, expected: list) -> None:
    instance = unit_instance([0, 0, 0], [2, 1, 2], [2, 8, 6], "1x2")
    assert finish(instance, spec) == expected


@pytest.mark.parametrize(("cost", "expected"), [(0.0, [350, 150]), (30.0, [410, 180])])
def test_demotion_with_and_without_the_cost_of_preemption(cost: float, expected: list) -> None:
    instance = unit_instance([0, 100], [4, 4], [300, 50], "1x4", checkpoint_s=cost, restore_s=cost)
    assert finish(instance, "tiresias:thresholds=400") == expected


def gittins_index(sizes: list[float], attained: list[float], quantum: float) -> list[float]:
    """Gittins index of jobs of a certain attained service, by the kernel."""
    own = Tiresias("gittins", history=tuple(sizes)).begin(Simulation(instance_i()), alone=False)
    return [index_of(own, one, quantum) for one in attained]


@pytest.mark.parametrize(
    ("attained", "quantum", "expected"),
    [(0, 4, 1 / 12), (0, 8, 0.1), (0, 12, 1 / 8), (2, 4, 0.1), (4, 4, 1 / 8), (4, 8, 1 / 6), (8, 4, 1 / 4)],
)
def test_gittins_indices(attained: float, quantum: float, expected: float) -> None:
    assert gittins_index([4.0, 8.0, 12.0], [attained], quantum) == pytest.approx([expected], rel=1e-12)


def test_gittins_index_of_an_endless_quantum_counts_the_largest_sample() -> None:
    """attained + (largest - attained) may round below the largest
    sample, so an endless quantum is not stored as a difference.
    """
    sample = published_sizes()
    attained = np.random.default_rng(1).uniform(7_200.0, sample[-2], 3_000)
    rounded_below = attained + (sample[-1] - attained) < sample[-1]
    assert rounded_below.any()
    index = gittins_index(sample.tolist(), attained.tolist(), math.inf)
    for a, found in zip(attained.tolist(), index, strict=True):
        left = sample[sample > a] - a
        assert found == pytest.approx(len(left) / math.fsum(left), rel=1e-9)


def test_gittins_index_of_the_last_queue_and_beyond_all_samples() -> None:
    endless = gittins_index([4.0, 8.0, 12.0], [0.0, 4.0, 12.0, 20.0], math.inf)
    assert endless == pytest.approx([3 / 24, 2 / 12, 0.0, 0.0])


def two_switches() -> Simulation:
    """Two switches of two machines with four GPUs each; one machine below each switch is free."""
    instance = unit_instance([0, 0, 1], [4, 4, 8], [100, 100, 10], "4x4/2")
    simulation = Simulation(instance)
    simulation.advance()
    assert simulation.apply(Start(0, gpus=(0, 1, 2, 3))) == ""
    assert simulation.apply(Start(1, gpus=(8, 9, 10, 11))) == ""
    simulation.advance()
    return simulation


def test_yarn_waits_although_eight_gpus_are_free() -> None:
    simulation = two_switches()
    assert simulation.apply(Start(2, "yarn")) == "the placement rule finds no place now"
    assert simulation.apply(Start(2, "rack")) == "the placement rule finds no place now"


def test_best_fit_crosses_the_switches() -> None:
    simulation = two_switches()
    assert simulation.apply(Start(2, "pack")) == ""
    log = simulation.log()
    assert log.events["tier"][-1] == 2
    assert sorted(log.gang(len(log.events) - 1).tolist()) == [4, 5, 6, 7, 12, 13, 14, 15]


def test_yarn_placement_through_a_whole_run() -> None:
    """FIFO with YARN's placement: the eight-GPU job starts when one switch is free, at 100 s."""
    instance = unit_instance([0, 0, 0, 1], [4, 3, 2, 8], [100, 500, 500, 10], "4x4/2")
    log = play(instance, "fifo:placement=yarn")
    # first fit: job 0 on machine 0, job 1 on machine 1, job 2 on machine 2; switch 0 is free at 500
    assert job_times(instance, log)["first_start_s"].tolist() == [0, 0, 0, 500]
