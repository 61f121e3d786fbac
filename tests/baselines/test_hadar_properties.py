"""Properties of every round of Hadar on random inputs; optima are found by brute force."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hadar_cases import TYPES, Job, asked, case, competitive_alpha, nodes
from hadar_reference import best_round, best_schedule, find, rate_on
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from gpusched_env.baselines.hadar import scheduler as hadar
from gpusched_env.baselines.hadar.prices import PriceRange, price_table, set_utility
from gpusched_env.baselines.hadar.scheduler import Hadar
from gpusched_env.baselines.hadar.search import Round
from gpusched_env.metrics import job_times
from gpusched_env.scenarios import FAMILIES

RATES = st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0])


@st.composite
def questions(draw: st.DrawFn, most_jobs: int = 5, most_gpus: int = 4, zero: bool = False) -> Round:
    """A round of up to three nodes and five jobs with arbitrary rates; ``zero``: some rates are 0."""
    groups = draw(st.lists(st.tuples(st.integers(1, most_gpus), st.sampled_from(TYPES)), min_size=1, max_size=3))
    cluster = nodes(*groups)
    rates, rows = [], []
    for _ in range(draw(st.integers(1, most_jobs))):
        together = [draw(RATES) for _ in cluster.gpu_types]
        if zero and len(together) > 1 and draw(st.booleans()):
            together[draw(st.integers(0, len(together) - 1))] = 0.0
        spread = [draw(RATES) if rate else 0.0 for rate in together]
        rates.append([together, spread, spread])
        gang = draw(st.integers(1, min(cluster.gpus, 6)))
        rows.append((gang, draw(st.integers(1, 4_000)), draw(st.integers(1, 2_000)), -draw(st.integers(0, 2_000))))
    question = asked(cluster, rows, rates)
    question.jobs["least_rate"] = draw(st.sampled_from([0.0, 0.0, 1.0]))
    return question


def copied(question: Round, **changes: object) -> Round:
    return dataclasses.replace(question, **({"jobs": question.jobs.copy()} | changes))


@given(questions(zero=True))
def test_find_alloc_is_the_best_of_its_candidates(question: Round) -> None:
    for i in range(len(question.jobs)):
        for free in (question.free, question.free // 2, np.maximum(question.free - 1, 0)):
            payoff, counts = question.find(i, free)
            assert payoff == pytest.approx(find(question, i, free), rel=1e-12, abs=1e-15)
            if payoff > 0:
                assert counts.sum() == question.jobs["gpus"][i]
                assert (counts <= free).all()
                assert question.jobs["rate"][i] == rate_on(question, i, counts)


@given(questions(zero=True), st.booleans(), st.booleans(), st.booleans())
def test_grants_are_whole_gangs_within_capacity_and_pay(
    question: Round, mixed: bool, exact: bool, conserving: bool
) -> None:
    question = copied(question, mixed=mixed)
    question.exact() if exact else question.greedy()
    assert ((question.jobs["payoff"] > 0) == (question.counts.sum(axis=1) > 0)).all()
    if conserving:
        question.greedy(priced=False)
    total = question.counts.sum(axis=1)
    assert ((total == 0) | (total == question.jobs["gpus"])).all()
    assert (question.counts >= 0).all()
    assert (question.counts.sum(axis=0) + question.free == question.nodes["gpus"]).all()
    assert (question.free >= 0).all()
    for i, counts in enumerate(question.counts):
        kinds = question.nodes["gpu_type"][counts > 0]
        assert mixed or len(set(kinds.tolist())) <= 1
        assert (question.rates[question.jobs["job_class"][i], 0, kinds] > 0).all()


@given(questions(zero=True))
def test_no_job_can_pay_the_price_of_a_full_node(question: Round) -> None:
    """Prices alone keep every node within its capacity."""
    highest = question.prices[0, question.nodes["gpus"][0]] * (1 + 1e-9)  # up to rounding
    full = copied(question, prices=np.full_like(question.prices, highest))
    full.greedy()
    assert not full.counts.any()


@given(questions())
def test_the_search_finds_the_best_set_of_jobs_and_greedy_no_better_one(question: Round) -> None:
    def best(i: int, free: np.ndarray) -> float:
        if i == len(question.jobs):
            return 0.0
        payoff, counts = question.find(i, free)
        skip = best(i + 1, free)
        return max(skip, payoff + best(i + 1, free - counts)) if payoff > 0 else skip

    expected = best(0, question.free)
    searched, greedy = copied(question), copied(question)
    searched.exact()
    greedy.greedy()
    assert searched.jobs["payoff"].sum() == pytest.approx(expected, rel=1e-12)
    assert greedy.jobs["payoff"].sum() <= expected * (1 + 1e-12)


@given(questions())
def test_work_conserving_leaves_no_job_that_fits(question: Round) -> None:
    question.jobs["least_rate"] = 0.0
    question.greedy()
    question.greedy(priced=False)
    waiting = question.counts.sum(axis=1) == 0
    assert (question.jobs["gpus"][waiting] > question.free.sum()).all()


@given(
    st.lists(st.tuples(st.floats(1e-3, 1.0), *[st.floats(0.01, 1.0)] * 3), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from(TYPES)), min_size=1, max_size=3),
    st.sampled_from([10.0, 1_000.0]),
)
def test_the_dual_bounds_the_loss_of_any_order(
    jobs: list[tuple[float, ...]], groups: list[tuple[int, str]], ratio: float
) -> None:
    """One GPU and one round for each job, any rates and order: optimum <= alpha' x utility + price of an empty cluster.

    alpha' = c (ratio^(1/c) - 1) is ln(ratio) for nodes of many GPUs: a grant raises the dual by at most alpha' times
    its gain in utility, and the last prices are a dual solution.
    """
    cluster = nodes(*groups)
    kinds = cluster.nodes["gpu_type"]
    worth, rates = np.array(jobs)[:, 0], np.array(jobs)[:, 1 : 1 + len(cluster.gpu_types)]
    utilities = (worth[:, None] * rates)[:, kinds]  # an iteration ends after 1 / rate >= 1 s
    highest = float(utilities.max())
    prices = price_table(PriceRange(highest / ratio, highest), cluster.nodes["gpus"])
    question = asked(cluster, [(1, 1, w, 0) for w in worth], [[own] * 3 for own in rates.tolist()])
    order = question.jobs["row"]
    question.jobs["worth"] = worth[order]
    question = copied(question, prices=prices)
    question.greedy()
    node = np.argmax(question.counts, axis=1)
    got = utilities[order, node][question.jobs["payoff"] > 0].sum()
    each_gpu = np.repeat(utilities, cluster.nodes["gpus"], axis=1)
    optimum = each_gpu[linear_sum_assignment(each_gpu, maximize=True)].sum()
    alpha = max(size * (ratio ** (1 / size) - 1) for size, _ in groups)
    assert optimum <= max(alpha, 1.0) * got + cluster.gpus * highest / ratio + 1e-9


def test_gangs_as_large_as_the_cluster_may_exceed_the_bound() -> None:
    """A job of 2 of the 7 GPUs, whose fastest type has one GPU only, comes first. The job of 6 GPUs no longer fits."""
    cluster = nodes((1, "P100"), (3, "V100"), (3, "V100"))
    alone, wide = [8.0, 0.5], [0.5, 0.5]
    question = asked(cluster, [(2, 484, 103, -15), (6, 5, 1042, -291)], [[alone, wide, wide], [[2.0, 3.0], wide, wide]])
    prices = PriceRange(float(question.prices[0, 0]), float(question.prices[0, 1]))
    question.greedy()
    assert question.counts.sum(axis=1).tolist() == [2, 0]
    got = 103 / (484 / 0.5 + 15)
    assert best_round(question) > 2 * competitive_alpha(prices) * got


jobs_of_a_few_rounds = st.lists(
    st.builds(
        lambda gang, rounds, fast, slow: Job(gang, 360.0 * fast * rounds, (fast, slow)),
        st.integers(1, 3), st.integers(1, 2), st.sampled_from([2.0, 4.0]), st.sampled_from([1.0, 2.0]),
    ),
    min_size=1, max_size=3,
)  # fmt: skip


@settings(max_examples=25)
@given(jobs_of_a_few_rounds, st.sampled_from([(1, 2), (2, 1), (2, 2)]))
def test_a_run_is_within_the_bound_of_the_best_schedule(jobs: list[Job], sizes: tuple[int, int]) -> None:
    """The bound of the paper for the utility of a whole run: all jobs at time 0, against every schedule in rounds."""
    instance = case(nodes((sizes[0], "V100"), (sizes[1], "P100")), [j for j in jobs if j.gpus <= sum(sizes)] or [J_ONE])
    worth = instance.iterations / (1 / instance.iteration_s).max(axis=(1, 2))[instance.job_class]
    got = (worth / job_times(instance, play(instance, Hadar()))["jct_s"]).sum()
    assert got * 2 * np.log(1_000.0) >= best_schedule(instance, worth, 360.0)


J_ONE = Job(1, 720.0, (2.0, 1.0))


@pytest.mark.parametrize("utility", ["effective_throughput_normalised", "effective_throughput_raw"])
def test_decisions_do_not_depend_on_the_unit_of_utility(utility: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = FAMILIES["hadar-60gpu-v1"].plain(nodes=1, jobs=25).instance(1)
    plain = play(instance, Hadar(utility=utility)).digest()

    def scaled(jobs: np.ndarray, *arguments: object) -> None:
        set_utility(jobs, *arguments)  # type: ignore[arg-type]
        jobs["worth"] *= 1024.0  # a power of two rounds nothing

    monkeypatch.setattr(hadar, "set_utility", scaled)
    assert play(instance, Hadar(utility=utility)).digest() == plain


@pytest.mark.parametrize("rules", [{}, {"checkpoint_s": 50.0, "restore_s": 20.0}, {"round_s": 100.0}], ids=str)
@pytest.mark.parametrize("parameters", [{}, {"mixed": False}, {"work_conserving": False}, {"dp_max": 0}], ids=str)
def test_runs_are_valid_schedules_under_all_rules(rules: dict, parameters: dict) -> None:
    scenario = FAMILIES["hadar-60gpu-v1"].plain(nodes=2, jobs=40, arrivals="philly", mean_gap_s=600.0, gangs="large")
    scenario = scenario.replace(semantics=dataclasses.replace(scenario.semantics, **rules))
    instance = scenario.instance(3)
    log = play(instance, Hadar(**parameters))
    assert np.isfinite(job_times(instance, log)["finish_s"]).all()
