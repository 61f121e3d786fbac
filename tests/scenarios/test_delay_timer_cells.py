"""Scenarios in which the right delay timers differ, and the cells of the tuner that must suit them all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError
from gpusched_env.metrics import summarise
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.scenarios import get_scenario
from gpusched_env.scenarios.dally import GANGS
from gpusched_env.simulator import simulate
from gpusched_env.traces.transform import offered_load
from studies.delay_timers.cells import (
    BETWEEN_CELLS,
    LOADS,
    NETWORKS,
    TEST_CELLS,
    TEST_SEEDS,
    TRAINING_CELLS,
    TRAINING_SEEDS,
    VALIDATION_CELLS,
    VALIDATION_SEEDS,
    TimerCell,
)
from studies.delay_timers.cells import GANGS as KINDS

SPLITS = {"training": TRAINING_CELLS, "validation": VALIDATION_CELLS, "test": TEST_CELLS}
EVERY = [cell for cells in SPLITS.values() for cell in cells]


@pytest.mark.parametrize("cell", [cell for cell in EVERY if cell.preset == "suite"], ids=lambda cell: cell.label)
def test_a_draw_has_the_load_the_gangs_and_the_network_of_its_cell(cell: TimerCell) -> None:
    network, load, gangs = cell.label.split()
    instance = cell.problem().instance(0)
    assert offered_load(instance.workload, instance.cluster.gpus) == pytest.approx(float(load))
    demands = {int(size) for size in GANGS[gangs]}
    assert set(np.unique(instance.workload.jobs["gpus"]).tolist()) == demands
    rack = int(instance.cluster.racks["gpus"].max())
    assert (rack, instance.cluster.gpus) == (32, 256)
    assert (max(demands) > rack) == (gangs == "above")
    costs = (instance.iteration_s[:, RACK] / instance.iteration_s[:, MACHINE]).max()
    assert costs == 1.0 if network == "free" else costs > 1.1
    if network in ("8", "20"):  # above 4:1, the four machines of a rack can send more than one machine's port
        gang = instance.classes[:, 1] == 12
        if gang.any():
            assert (instance.iteration_s[gang, NETWORK] > instance.iteration_s[gang, RACK]).all()


def test_the_three_sets_of_cells_share_no_cell_and_each_spans_all_networks_loads_and_gangs() -> None:
    prints = [cell.problem().fingerprint() for cell in EVERY]
    assert len(set(prints)) == len(prints)
    assert len({cell.label for cell in EVERY}) == len(EVERY)
    seeds = (*TRAINING_SEEDS, *VALIDATION_SEEDS, *TEST_SEEDS)
    assert len(set(seeds)) == len(seeds)
    for cells in SPLITS.values():
        own = [cell.label.split() for cell in cells if cell.preset == "suite" and cell not in BETWEEN_CELLS]
        assert len(own) == len(NETWORKS) * len(LOADS) * len(KINDS) / 3
        for part, known in enumerate((NETWORKS, [f"{load:g}" for load in LOADS], KINDS)):
            assert {label[part] for label in own} == set(known)
        assert {cell.scenario.partition(":")[0] for cell in cells if cell.preset == "authors"} == {"dally-authors-v1"}
    grid = {cell.label for cell in EVERY if cell.preset == "suite"} - {cell.label for cell in BETWEEN_CELLS}
    assert grid == {f"{a} {b:g} {c}" for a, b, c in itertools.product(NETWORKS, LOADS, KINDS)}


def test_the_scenario_of_the_authors_has_other_rates_and_links_under_the_same_name() -> None:
    plain = get_scenario("dally-authors-v1")
    assert plain == get_scenario("dally-authors-v1:mean_gap_s=1461,links=nvswitch,jobs=411")
    assert plain.workload.parameters == {}
    batch = get_scenario("dally-authors-v1:mean_gap_s=0,jobs=50").instance(0)
    assert (batch.workload.jobs["arrival_s"] == 0.0).all()
    assert len(batch.workload) == 50
    slow = get_scenario("dally-authors-v1:links=congested-50").instance(0)
    gang = slow.classes[:, 1] == 16
    assert slow.iteration_s[gang, NETWORK].max() > plain.instance(0).iteration_s[gang, NETWORK].max()
    with pytest.raises(ScenarioError, match="links is 'wifi'; give nvswitch or"):
        get_scenario("dally-authors-v1:links=wifi")


def test_no_fixed_timers_suit_every_cell() -> None:
    """Without waiting, jobs finish sooner on a free network, and much later on a congested one."""

    def mean_jct_s(network: str, waits: str) -> float:
        instance = get_scenario(f"dally-cells-v0:network={network},load=1.1,gangs=below,jobs=300").instance(0)
        log = simulate(instance, make_scheduler(f"dally:tuner=off,rack_wait={waits},nw_wait={waits}"))
        return float(summarise(instance, log)["mean_jct_s"])

    assert mean_jct_s("free", "0") < 0.9 * mean_jct_s("free", "inf")
    assert mean_jct_s("20", "inf") < 0.5 * mean_jct_s("20", "0")
