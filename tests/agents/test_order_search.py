"""The order search: what it equals without a search, a schedule that it improves, and its files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers import finish, random_instance, unit_instance

from gpusched_env.agents.order_search import DEFAULTS, NAMES, OrderSearch
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from studies.index_search.orders import has_room, makespan_s, weights_of
from studies.index_search.saving import save_weights

LPT = "lpt:placement=consolidate,strict=true"


def search(rehearsals: int = 100, **weights: float) -> OrderSearch:
    values = dict(zip(NAMES, DEFAULTS, strict=True)) | weights
    return OrderSearch.playing(tuple(values[name] for name in NAMES), rehearsals=rehearsals)


def five_jobs() -> Instance:
    """Two GPUs, jobs of 3, 3, 2, 2 and 2 s: the longest first ends at 7 s, the best order at 6 s."""
    return unit_instance([0] * 5, [1] * 5, [3, 3, 2, 2, 2], "1x2")


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(SchedulerError, match="order search: unknown setting 'rehearsal': did you mean 'rehearsals'"):
        OrderSearch.playing(DEFAULTS, rehearsal=3)


@pytest.mark.parametrize("seed", [0, 1])
def test_with_one_rehearsal_it_is_the_longest_job_first(seed: int) -> None:
    instance = get_scenario("rar-160-v0").instance(seed)
    assert simulate(instance, search(1)).digest() == simulate(instance, make_scheduler(LPT)).digest()


def test_it_finds_the_best_schedule_of_five_jobs() -> None:
    assert max(finish(five_jobs(), LPT)) == 7
    assert max(finish(five_jobs(), search(noise=0.3))) == 6
    assert has_room(unit_instance([0, 0], [1, 1], [3, 2], "1x2")) is False  # no job waits


@pytest.mark.parametrize("seed", range(6))
def test_a_search_is_never_worse_than_its_first_order_if_all_jobs_are_there(seed: int) -> None:
    columns = np.random.default_rng(seed)
    instance = unit_instance([0] * 12, columns.integers(1, 5, 12), columns.integers(1, 30, 12), "2x4")
    weights = weights_of(columns.normal(size=len(NAMES)))
    assert makespan_s(weights, instance, 40) <= makespan_s(weights, instance, 1)


def test_a_search_begins_anew_when_jobs_arrive_and_finishes_all_jobs() -> None:
    for seed in range(3):
        instance = random_instance(seed)
        assert np.isfinite(finish(instance, search(5))).all()


def test_runs_repeat_and_seeds_differ(tmp_path: Path) -> None:
    save_weights(OrderSearch, tmp_path / "w.npz", DEFAULTS, {})
    spec = f"learned:path={tmp_path / 'w.npz'},rehearsals=30"
    made = make_scheduler(spec)
    assert isinstance(made, OrderSearch)
    assert (made.rule, made.rehearsals, made.clairvoyant) == (DEFAULTS, 30, True)
    instance = get_scenario("rar-160-v0").instance(19)
    digest = simulate(instance, made).digest()
    assert simulate(instance, made).digest() == digest
    assert simulate(instance, pickle.loads(pickle.dumps(made))).digest() == digest
    assert simulate(instance, make_scheduler(f"{spec},seed=1")).digest() != digest


def test_wrong_parameters_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="order search: give either agent or path"):
        OrderSearch()
    with pytest.raises(SchedulerError, match="rehearsals is 0: it must be at least 1"):
        OrderSearch(path="any.npz", rehearsals=0)
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(SchedulerError, match=r"bad\.npz: not an order search"):
        OrderSearch(path=str(tmp_path / "bad.npz"))


def test_weights_stay_in_their_ranges() -> None:
    assert weights_of(np.zeros(len(NAMES))) == DEFAULTS
    far = dict(zip(NAMES, weights_of(np.full(len(NAMES), -9.0)), strict=True))
    assert (far["pack"], far["skip"]) == (0.0, 0.0)
    assert min(far["spread"], far["noise"], far["jump"]) > 0
