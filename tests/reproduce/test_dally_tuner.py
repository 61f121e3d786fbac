"""The contest of delay timers: its seeds, and ratios and verdicts that follow from runs."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.evaluation import RunResult
from gpusched_env.problem.instance import SchedulerInfo
from gpusched_env.reproduce import Results, load_card
from gpusched_env.reproduce.dally_tuner.contenders import (
    BEST_PAIR,
    BY_CLASS,
    CONTENDERS,
    FREE,
    HAND,
    LEARNED,
    NO_WAIT,
    ORACLE,
    PROBLEMS,
    SANITY,
    best_static,
    statics,
)
from gpusched_env.reproduce.dally_tuner.grid import COARSE_GRID_S, GRID_S
from gpusched_env.reproduce.dally_tuner.problems import NON_STATIONARY, STATIONARY, TEST_SEEDS, TRAINED
from gpusched_env.reproduce.expressions import Missing

CARD = load_card("dally-tuner")
P99 = "p99_jct_s"


def results(times: dict[tuple[str, str, str], list[float]]) -> Results:
    """Runs by (problem, contender, pair) with these mean JCTs, one a seed; p99 is ten times as long."""
    labels, runs = [], []
    for (problem, contender, pair), values_s in times.items():
        for seed, value in enumerate(values_s):
            labels.append({"problem": problem, "contender": contender} | ({"pair": pair} if pair else {}))
            metrics = {"mean_jct_s": value, P99: 10 * value}
            runs.append(RunResult(problem, "", seed, SchedulerInfo(contender, {}, False), metrics, metrics, ""))
    return Results(labels, runs)


def test_all_runs_are_on_test_seeds_and_quick_is_a_part() -> None:
    card = load_card("dally-tuner")
    runs = card.runs(False)
    assert {run.seed for run in runs} == set(TEST_SEEDS)
    by_label = {(run.seed, *sorted(run.labels.items())): run.scheduler for run in runs}
    assert len(by_label) == len(runs) == 20 * (len(PROBLEMS) * (len(CONTENDERS) + 1 + len(COARSE_GRID_S) ** 2) + 4)
    quick = card.runs(True)
    assert len(quick) < 200
    assert all(by_label[run.seed, *sorted(run.labels.items())] == run.scheduler for run in quick)
    for spec in {run.scheduler for run in runs}:
        make_scheduler(spec)
    for run in runs:
        free = run.labels["contender"] == FREE or run.labels["problem"] == "insensitive"
        assert (run.problem.network.model == "none") == free


def test_the_problems_of_the_protocol_are_there() -> None:
    assert set(TRAINED) - {"insensitive"} == set(STATIONARY) | set(NON_STATIONARY)
    assert set(statics()["problems"]) == set(PROBLEMS)
    assert set(COARSE_GRID_S) < set(GRID_S)
    for label in PROBLEMS:
        own = statics()["problems"][label]
        assert own["by_class"]["score"] <= own["pair"]["score"]  # the search starts from the pair
        assert best_static(label) in (BEST_PAIR, BY_CLASS)
        assert not set(statics()["seeds"]) & set(TEST_SEEDS)


def test_the_oracle_takes_the_best_static_timers_of_each_seed() -> None:
    found = results(
        {
            ("drift .9", ORACLE, "0 + 0"): [1.0, 9.0, 5.0],
            ("drift .9", ORACLE, "0 + inf"): [2.0, 3.0, 6.0],
            ("drift .9", NO_WAIT, ""): [7.0, 7.0, 4.0],
            ("drift .9", HAND, ""): [0.5, 0.5, 0.5],  # not static
        }
    )
    place = CARD.scope(found)
    assert place.value("of('drift .9', ORACLE)").tolist() == [1.0, 3.0, 4.0]
    assert place.value("of('drift .9', ORACLE, 'p99_jct_s')").tolist() == [10.0, 30.0, 40.0]
    assert place.value("ratio('drift .9', ORACLE, HAND)").mean == pytest.approx(16 / 3)
    with pytest.raises(Missing):
        place.value("ratio('batch', ORACLE, HAND)")


@pytest.mark.parametrize(("gain", "holds"), [(0.90, True), (1.001, False)])
def test_verdicts_follow_from_the_intervals(gain: float, holds: bool) -> None:
    noise = np.random.default_rng(0).normal(1.0, 1e-3, 20)
    hand = np.linspace(1.0, 3.0, 20)
    for label, asked in (("drift .9", "5% below"), ("poisson .9", "not above")):
        table = {(label, name, ""): hand for name in CONTENDERS} | {(label, FREE, ""): 0.8 * hand}
        found = CARD.findings(results(table | {(label, LEARNED, ""): gain * noise * hand}))
        said = {finding.claim: finding.holds for finding in found}
        assert [said[claim] for claim in said if claim.startswith("(a)")] == [holds]
        assert [said[claim] for claim in said if asked in claim and claim.startswith("asked")] == [holds]
        assert [said[claim] for claim in said if claim.startswith("(d)")] == [True]
        assert [said[claim] for claim in said if claim.startswith("possible")] == [True]
        expected = {"(b)": True} if label in STATIONARY else {"(c)": holds}
        assert {claim[:3]: value for claim, value in said.items() if claim[:3] in ("(b)", "(c)")} == expected


def test_sanity_checks_losses_and_gains() -> None:
    for learned, holds in ((1.005, True), (0.98, False), (1.02, False)):
        table = {("insensitive", SANITY["insensitive"], ""): [1.0, 1.0], ("insensitive", LEARNED, ""): [learned] * 2}
        assert [finding.holds for finding in CARD.findings(results(table))] == [holds]
