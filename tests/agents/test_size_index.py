"""The size index: worths on worked numbers, what each weight does, its files, and the shipped agent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import random_workload

from gpusched_env.agents.size_index import SizeIndex, SizeWeights, worths
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.traces.elastic import amdahl, make_elastic
from studies.index_search.saving import save_sizes
from studies.index_search.size_index import NAMES, START, Settings, score, search, weights_of


def problem(seed: int, **rules: float) -> Instance:
    jobs = random_workload(np.random.default_rng(seed), 20, 8)
    return Instance(Cluster.parse("4x4"), make_elastic(jobs, amdahl(0.1), most=8), semantics=Semantics(**rules))


def test_worths_on_worked_numbers() -> None:
    """Speeds 1, 1.5, 1.4, 3 on 1, 2, 3, 4 GPUs: on 2 GPUs, two more add .75 each, though the next one adds nothing."""
    sizes, speeds = np.array([0, 1, 2, 3, 4]), np.array([0.0, 1.0, 1.5, 1.4, 3.0])
    assert worths(sizes, speeds, SizeWeights()).tolist() == pytest.approx([1.0, 2 / 3, 0.75, 1.6])
    spread = worths(sizes, speeds, SizeWeights(spread=1.0, start=np.log(5.0)))
    assert spread.tolist() == pytest.approx([5.0, 2 / 3, 0.375, 1.6 / 3])


def test_with_a_large_spread_it_is_max_min() -> None:
    """If GPUs lose their worth fast enough, and all jobs have the same sizes, the one with the fewest gets the next."""
    draws = np.random.default_rng(0)
    jobs = Workload.from_columns(np.cumsum(draws.exponential(60.0, 20)), [1] * 20, draws.lognormal(6.0, 1.0, 20))
    instance = Instance(Cluster.parse("4x4"), make_elastic(jobs, amdahl(0.1), most=8))
    expected = simulate(instance, make_scheduler("max-min"))
    index = SizeIndex.playing(SizeWeights(spread=50.0, start=100.0))
    assert simulate(instance, index).digest() == expected.digest()


@pytest.mark.parametrize("clairvoyant", [False, True])
def test_it_plays_by_the_rules(clairvoyant: bool) -> None:
    weights = SizeWeights(work=0.5, age=0.2, pace=-0.1, spread=0.5, start=1.0, keep=1.0, clairvoyant=clairvoyant)
    for seed in range(3):
        instance = problem(seed)
        log = simulate(instance, SizeIndex.playing(weights))
        validate(instance, log)
        assert SizeIndex.playing(weights).clairvoyant is clairvoyant


def test_short_jobs_first_if_their_time_left_counts() -> None:
    """A large weight of the time left, which is known, gives a smaller mean JCT than its opposite."""
    means = [
        np.mean(
            [
                job_times(problem(seed), simulate(problem(seed), SizeIndex.playing(weights)))["jct_s"].mean()
                for seed in range(4)
            ]
        )
        for weights in (SizeWeights(work=1.0, clairvoyant=True), SizeWeights(work=-1.0, clairvoyant=True))
    ]
    assert means[0] < 0.9 * means[1]


def test_weights_are_saved_and_played_by_path(tmp_path: Path) -> None:
    weights = SizeWeights(work=0.1, keep=2.0)
    save_sizes(weights, tmp_path / "model.npz", {})
    assert SizeWeights.load(tmp_path / "model.npz") == weights
    played = make_scheduler(f"learned:path={tmp_path / 'model.npz'}")
    assert isinstance(played, SizeIndex)
    assert played.rule == weights
    with pytest.raises(SchedulerError, match="either the name of an agent or the path"):
        SizeIndex()
    with pytest.raises(SchedulerError, match=r"none\.npz: cannot be read"):
        SizeIndex(path=str(tmp_path / "none.npz"))


def test_a_search_saves_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cmaes")
    small = get_scenario("pollux-64-v0:jobs=6")
    monkeypatch.setattr("studies.index_search.size_index.get_scenario", lambda name: small)
    found = SizeWeights.load(search(Settings(tmp_path, generations=2, population=4, batch=1, final=1)))
    assert found == weights_of(np.array([getattr(found, name) for name in NAMES]), False)
    instances = [small.instance(seed) for seed in range(2)]
    assert score(found, instances) < score(START, instances) + 0.2


def test_the_shipped_agent_beats_max_min() -> None:
    """On two report seeds; the card has twenty."""
    scenario = get_scenario("pollux-64-v0")
    ratios = []
    for seed in (200_000, 200_001):
        instance = scenario.instance(seed)
        own, rival = (
            job_times(instance, simulate(instance, make_scheduler(spec)))["jct_s"].mean()
            for spec in ("learned:elastic", "max-min")
        )
        ratios.append(own / rival)
    assert max(ratios) < 1.0
