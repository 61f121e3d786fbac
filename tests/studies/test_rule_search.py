"""The search for rules, and ratios over the agents of several searches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.agents import measuring
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from studies.index_search.measure import Settings as Measured
from studies.index_search.measure import main, print_ratios, ratio_over_agents
from studies.index_search.rule_search import Settings, search, training_problems


def test_a_search_finds_the_minimum_and_counts_the_jobs_that_it_simulates() -> None:
    """A quadratic score whose minimum is (1, -2); each call simulates all jobs of its problems."""
    pytest.importorskip("cmaes")
    problems = training_problems("tiny-v1", 3)
    calls: list[int] = []

    def score(vector: np.ndarray, chosen: Sequence[Instance]) -> float:
        calls.append(len(chosen))
        return float(((vector - [1.0, -2.0]) ** 2).sum())

    settings = Settings(Path("rule.npz"), problems=3, generations=30, population=8, batch=2, sigma=0.5)
    best, spent = search(np.zeros(2), score, problems, settings)
    assert best == pytest.approx([1.0, -2.0], abs=0.05)
    assert spent["score"] == pytest.approx(0.0, abs=0.01)
    assert calls.count(2) == 30 * 8
    assert calls.count(3) == 3  # every ten generations
    jobs = len(problems[0].workload)  # tiny-v1 draws equally many for every seed
    assert spent["simulated_jobs"] == jobs * sum(calls)


def test_a_search_without_problems_is_refused() -> None:
    with pytest.raises(GpuschedError, match="give more with --problems"):
        search(np.zeros(2), lambda vector, chosen: 0.0, [], Settings(Path("rule.npz"), 0))


def test_training_problems_are_those_of_the_training_seeds() -> None:
    scenario = get_scenario("tiny-v1")
    expected = [scenario.instance(seed).fingerprint() for seed in range(scenario.seeds.train[0], 3)]
    assert [instance.fingerprint() for instance in training_problems("tiny-v1", 3)] == expected


def test_an_interval_over_agents_is_wider_if_agents_differ() -> None:
    """Agents that differ by a constant factor: the interval over problems alone would be a point."""
    ratios = np.array([[0.8] * 20, [1.0] * 20, [1.25] * 20])
    middle, low, high = ratio_over_agents(ratios)
    assert middle == pytest.approx(1.0)
    assert low == pytest.approx(0.8, abs=0.02)
    assert high == pytest.approx(1.25, abs=0.02)
    assert ratio_over_agents(np.full((3, 5), 0.9)) == pytest.approx((0.9, 0.9, 0.9))


def test_ratios_are_printed_for_each_agent_and_over_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--workers N``, played in one process."""
    workers: list[int] = []

    def played(scenario, schedulers, seeds, count):
        workers.append(count)
        return evaluate(scenario, schedulers, seeds)

    monkeypatch.setattr(measuring, "evaluate", played)
    print_ratios("tiny-v1", ["fifo", "sjf"], ["fifo"], ["mean_jct_s"], range(200_000, 200_003), workers=3)
    assert workers == [3, 3, 3]
    heading, line = capsys.readouterr().out.splitlines()
    assert heading == "mean_jct_s of agents / that of others, tiny-v1, seeds 200000:200003"
    assert line.startswith("  fifo: ")
    assert "each agent 1.0000, 0." in line  # a rival beside itself, and shorter jobs first


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(GpuschedError, match="unknown metric 'none'"):
        main(Measured(["a.npz"], "tiny-v1", ("fifo",), ("none",)))
