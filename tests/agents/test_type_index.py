"""The type index: what it equals without prices, what prices change, and its errors."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gpusched_env.agents.type_index import TypeIndex
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.metrics import job_times
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import simulate
from studies.index_search.saving import save_types

NONE = {"gang": 0.0, "advantage": 0.0, "speed": 0.0}
PRICES = {"V100": 0.44, "P100": 0.36, "K80": 0.2}


def small(jobs: int = 60) -> Scenario:
    scenario = get_scenario("hadar-60gpu-v1")
    return scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=jobs))


def index(folder: Path, prices: dict[str, float] = PRICES, **weights: float) -> TypeIndex:
    save_types(folder / "weights.npz", NONE | weights, prices, {})
    return TypeIndex(path=str(folder / "weights.npz"))


@pytest.mark.parametrize("seed", [0, 1])
def test_with_all_weights_0_it_is_sjf_on_the_fastest_type(tmp_path: Path, seed: int) -> None:
    instance = small().instance(seed)
    expected = simulate(instance, make_scheduler("sjf:placement=fastest-type"))
    assert simulate(instance, index(tmp_path)).digest() == expected.digest()


def test_prices_keep_slow_gpus_for_jobs_that_lose_little(tmp_path: Path) -> None:
    """With a weight, jobs that K80s slow down less are the ones that run there."""
    instance = small(480).instance(0)
    jct = {
        weight: job_times(instance, simulate(instance, index(tmp_path, advantage=weight)))["jct_s"].mean()
        for weight in (0.0, 3.0)
    }
    assert jct[3.0] < 0.95 * jct[0.0]


def test_a_type_without_a_price_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="no price for GPU type K80"):
        simulate(small().instance(0), index(tmp_path, {"V100": 0.5, "P100": 0.5}))


def test_missing_and_foreign_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="either the name of an agent or the path"):
        TypeIndex()
    with pytest.raises(SchedulerError, match=r"none\.npz: cannot be read"):
        TypeIndex(path=str(tmp_path / "none.npz"))
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(SchedulerError, match=r"bad\.npz: not the weights of a type index"):
        TypeIndex(path=str(tmp_path / "bad.npz"))
