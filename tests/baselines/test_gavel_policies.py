"""Gavel's policies: worked examples, an independent formulation on random problems, and properties of all policies."""

from __future__ import annotations

import dataclasses
import pickle
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from allox_reference import allocate
from gavel_reference import feasible_set, filled_levels, least_rho, least_scaled, solve
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.gavel.entities import Entity, fill_by_entity
from gpusched_env.baselines.gavel.objectives import (
    bisected_total_duration,
    finish_time_fairness,
    max_min_fairness,
    max_sum_throughput,
    max_throughput_by_cost,
    min_total_duration,
    water_filling,
)
from gpusched_env.baselines.gavel.pairs import packed_entries, worth_sharing
from gpusched_env.baselines.gavel.policies import POLICIES, Settings
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import Entries, Optimum, Program
from gpusched_env.baselines.gavel.queues import AlloX, FifoAsCoded, assign, fifo_perf

TYPES = ("V100", "P100", "K80")
QUEUES = "allox", "fifo", "fifo_stored"
UNPACKED = sorted(name for name, policy in POLICIES.items() if not policy.packed and name not in QUEUES)


def got(found: Optimum | None) -> Optimum:
    assert found is not None
    return found


def drawn(seed: int, jobs: int = 12) -> Problem:
    """Few models, so that jobs tie; some cannot run on some types; about as many GPUs as the jobs demand."""
    rng = np.random.default_rng(seed)
    models = rng.uniform(0.2, 5.0, (4, 3)) * (rng.random((4, 3)) < 0.8)
    models[:, 0] = np.maximum(models[:, 0], 0.5)
    return Problem.of(
        models[rng.integers(0, 4, jobs)],
        rng.integers(2, 9, 3),
        gangs=rng.choice([1, 2], jobs),
        weights=rng.choice([1.0, 5.0], jobs),
        steps_left=rng.lognormal(6.0, 1.5, jobs),
        age_s=rng.uniform(0.0, 500.0, jobs) * (rng.random(jobs) < 0.7),
        slack_s=rng.uniform(1e3, 1e4, jobs),
        prices=rng.uniform(0.1, 1.0, 3),
    )


def beside(problem: Problem, pairs: np.ndarray, rates: np.ndarray) -> Entries:
    """Every job alone, and the pairs that sharing helps."""
    shared = dataclasses.replace(problem, pairs=pairs, pair_rates=rates)
    return packed_entries(shared, worth_sharing(shared, False))


def check_feasible(problem: Problem, shares: np.ndarray, everywhere: bool = False) -> None:
    assert (shares >= 0).all()
    assert (shares.sum(axis=1) <= 1 + 1e-8).all()
    assert (problem.gangs @ shares <= problem.gpus * (1 + 1e-8)).all()
    assert everywhere or (shares[problem.rates == 0] == 0).all()


# --- worked examples


def test_las_of_two_and_of_three_jobs() -> None:
    two = got(max_min_fairness(Problem.of([[4, 1], [3, 1]], [1, 1])))
    assert two.value == pytest.approx(1.0, abs=1e-9)
    assert two.shares == pytest.approx(np.full((2, 2), 0.5), abs=1e-7)
    problem = Problem.of([[4, 1], [3, 1], [1, 1]], [1, 1])
    assert problem.proportional.tolist() == [2.5, 2.0, 1.0]
    three = got(max_min_fairness(problem))
    assert three.value == pytest.approx(32 / 39, abs=1e-9)
    assert three.shares == pytest.approx(np.array([[20, 0], [19, 7], [0, 32]]) / 39, abs=1e-7)


def test_las_with_weights_and_with_gangs() -> None:
    heavy = got(max_min_fairness(Problem.of([[4, 1], [3, 1]], [1, 1], weights=[1, 2])))
    assert heavy.value == pytest.approx(11 / 17, abs=1e-9)
    assert heavy.shares == pytest.approx(np.array([[0.2058824, 0.7941176], [0.7941176, 0.2058824]]), abs=1e-6)
    gangs = Problem.of([[4, 1], [6, 2]], [2, 2], gangs=[1, 2])
    assert gangs.proportional.tolist() == [2.5, 4.0]
    assert got(max_min_fairness(gangs)).value == pytest.approx(1.6, abs=1e-9)
    alike = Problem.of([[4, 1], [3, 1]], [1, 1]).agnostic()
    assert got(max_min_fairness(alike)).value == pytest.approx(1.0, abs=1e-9)


class Counted(Program):
    """A program that counts its solutions."""

    asked = 0

    def any_with(self, least: np.ndarray, tie_break: str = "vertex") -> Optimum | None:
        self.asked += 1
        return super().any_with(least, tie_break)


def test_makespan_directly_and_by_the_published_search() -> None:
    problem = Problem.of([[4, 1], [3, 1]], [1, 1], steps_left=[4_000, 2_000])
    direct = got(min_total_duration(problem))
    assert 1 / direct.value == pytest.approx(14_000 / 11, rel=1e-9)
    assert direct.shares[:, 0] == pytest.approx([5 / 7, 2 / 7], abs=1e-6)
    program = Counted(problem)
    searched = bisected_total_duration(problem, program)
    assert program.asked == 14
    assert 1 / got(searched).value == pytest.approx(1320.5811, abs=1e-4)


def test_the_published_search_widens_its_range() -> None:
    problem = Problem.of([[1.0]], [1], steps_left=[3e6])
    searched = bisected_total_duration(problem)
    assert 3e6 <= 1 / got(searched).value <= 3e6 * 1.05


def test_finish_time_fairness_of_two_jobs_on_a_gpu() -> None:
    fresh = Problem.of([[1], [1]], [1], steps_left=[100, 300])
    rate = (fresh.isolated * fresh.rates).sum(axis=1)
    equal = got(finish_time_fairness(fresh, np.zeros(2), rate))
    assert equal.value == pytest.approx(1.0, rel=1e-6)
    assert equal.shares == pytest.approx(np.full((2, 1), 0.5), abs=1e-5)
    old = Problem.of([[1], [1]], [1], steps_left=[60, 300], age_s=[100, 0])
    late = got(finish_time_fairness(old, np.array([80.0, 0.0]), rate))
    assert late.value == pytest.approx(1.0653312, abs=1e-6)
    assert late.shares[:, 0] == pytest.approx([0.5306624, 0.4693376], abs=1e-5)


@pytest.mark.filterwarnings("error")
def test_a_job_with_next_to_no_steps_left_may_get_no_share_without_a_warning() -> None:
    problem = Problem.of([[1], [1]], [1], steps_left=[1e-6, 300], age_s=[6498, 0])
    rate = (problem.isolated * problem.rates).sum(axis=1)
    assert got(finish_time_fairness(problem, np.array([5591.0, 0.0]), rate)).throughput == pytest.approx([0, 1])


@pytest.mark.parametrize(("ratio", "value"), [((6, 3), 15 / 23), ((4, 1.6), 0.5), ((7, 2.8), 0.7)])
def test_packing_two_jobs_on_a_gpu(ratio: tuple[float, float], value: float) -> None:
    problem = Problem.of([[10], [4]], [1])
    entries = beside(problem, np.array([[0, 1]]), np.array([[[ratio[0]], [ratio[1]]]]))
    found = got(max_min_fairness(problem, entries))
    assert found.value == pytest.approx(value, abs=1e-9)
    assert len(entries.members) == (2 if value == 0.5 else 3)  # .4 + .4 of alone: taking turns serves both better
    if value == 15 / 23:
        assert found.shares[:, 0] == pytest.approx([3 / 23, 0.0, 20 / 23], abs=1e-7)


def test_packed_policies_make_use_of_pairs() -> None:
    """Alone 10 steps a second, together 6 each. Makespan T: p T 6 = 1,000, p T 6 + b T 10 = 1,800, p + b = 1."""
    problem = Problem.of([[10], [10]], [1], steps_left=[1_000, 1_800])
    entries = beside(problem, np.array([[0, 1]]), np.array([[[6.0], [6.0]]]))
    assert got(max_min_fairness(problem, entries)).value == pytest.approx(0.6)
    assert got(water_filling(problem, entries)).value == pytest.approx(0.6)
    shortest = got(min_total_duration(problem, entries))
    assert 1 / shortest.value == pytest.approx(1_000 / 6 + 80, rel=1e-9)
    rate = (problem.isolated * problem.rates).sum(axis=1)
    alone = got(finish_time_fairness(problem, np.zeros(2), rate))
    packed = got(finish_time_fairness(problem, np.zeros(2), rate, entries))
    assert (alone.value, packed.value) == pytest.approx((1.0, 5 / 6), rel=1e-6)
    assert got(max_sum_throughput(problem, entries)).value == pytest.approx(12.0)


def test_pairs_of_unequal_gangs_or_that_do_not_fit_are_dropped() -> None:
    problem = Problem.of([[10, 5], [4, 2], [3, 3]], [2, 2], gangs=[1, 1, 2])
    rates = np.array([[[9.0, 0.0], [3.9, 1.9]], [[9.0, 4.0], [2.9, 2.9]]])
    entries = beside(problem, np.array([[0, 1], [0, 2]]), rates)
    assert entries.members.tolist() == [[0, -1], [1, -1], [2, -1], [0, 1]]
    assert entries.rates[3].tolist() == [[9.0, 0.0], [3.9, 0.0]]  # on the second type they do not fit together


def test_water_filling_raises_jobs_beyond_the_max_min_level() -> None:
    problem = Problem.of([[1], [1], [1]], [2], weights=[3, 1, 1])
    plain, filled = got(max_min_fairness(problem)), got(water_filling(problem))
    assert plain.value == pytest.approx(1 / 3, abs=1e-9)
    assert plain.shares[0] == pytest.approx(1.0, abs=1e-7)
    assert filled.shares[:, 0] == pytest.approx([1.0, 0.5, 0.5], abs=1e-6)


def test_costs_and_deadlines() -> None:
    """K80 is cheap; job 0 can meet its deadline only on V100;
    one infeasible deadline makes the policy ignore all deadlines.
    """
    cheap = Problem.of([[4, 1], [4, 1]], [1, 1], prices=[8.0, 1.0], steps_left=[40, 40], slack_s=[np.inf, np.inf])
    assert got(max_throughput_by_cost(cheap)).value == pytest.approx(1.5)  # both GPUs are used: 4 / 8 + 1 / 1
    urgent = dataclasses.replace(cheap, slack_s=np.array([10.0, np.inf]))
    found = got(max_throughput_by_cost(urgent, deadlines=True))
    assert found.throughput == pytest.approx([4.0, 1.0])
    for slack in (9.0, 0.0, -5.0):
        late = dataclasses.replace(cheap, slack_s=np.array([slack, np.inf]))
        assert got(max_throughput_by_cost(late, deadlines=True)).value == pytest.approx(1.5)


def test_allox_assigns_places_in_queues() -> None:
    """V100 runs job 0, then job 1; K80 runs job 2:
    the least total flow time is 4 + 9 + 9 = 22. Only the first job of each queue starts.
    """
    problem = Problem.of(1 / np.array([[4.0, 8], [5, 20], [6, 9]]), [1, 1])
    assert AlloX()(problem).tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    aged = dataclasses.replace(problem, age_s=np.array([5.0, 900.0, 30.0]))
    assert AlloX()(aged).tolist() == AlloX()(problem).tolist()


@pytest.mark.parametrize("jobs", range(3, 9))
def test_allox_serves_equal_jobs_in_their_order(jobs: int) -> None:
    """On two GPUs; the last job is shorter than the others, so it is among the first two."""
    policy, left, served = AlloX(), list(range(jobs)), []
    while left:
        steps = [1.0 if row == jobs - 1 else 3.0 for row in left]
        shares = policy(Problem.of([[1.0]] * len(left), [2], steps_left=steps, rows=left))[:, 0].tolist()
        served += [row for row, share in zip(left, shares, strict=True) if share and row not in served]
        left.remove(next(row for row in served if row in left))
    assert jobs - 1 in served[:2]
    assert [row for row in served if row < jobs - 1] == list(range(jobs - 1))


def test_allox_gives_gangs_one_position_and_a_part_of_the_time() -> None:
    """Two GPUs. The gang of two has half of the time of the type, and takes no queue away: when the short job is over,
    the next job gets a GPU, too.
    """
    policy = AlloX()
    first = Problem.of([[1.0], [1.0]], [2], steps_left=[4, 3], gangs=[2, 1])
    assert policy(first).tolist() == [[0.5], [1.0]]
    later = Problem.of([[1.0], [1.0]], [2], steps_left=[4, 9], gangs=[2, 1], rows=[0, 2])
    assert policy(later).tolist() == [[0.5], [1.0]]


@pytest.mark.parametrize("seed", range(12))
def test_allox_is_that_of_the_published_code(seed: int) -> None:
    """Over ten problems in which jobs come and end; one GPU of each type, because the code leaves ties of GPUs open."""
    rng = np.random.default_rng(seed)
    alpha = float(rng.choice([0.2, 1.0]))
    policy, before, rows, age_s, come = AlloX(alpha), {}, [], [], 0
    run_s, gangs = rng.uniform(1.0, 90.0, (40, 3)), rng.choice([1, 1, 2], 40)
    for _ in range(10):
        more = int(rng.integers(1, 4))
        rows, age_s, come = (
            rows + list(range(come, come + more)),
            [age + 5.0 for age in age_s] + [0.0] * more,
            come + more,
        )
        told = {at: before[row] for at, row in enumerate(rows) if row in before}
        expected = allocate(run_s[rows].tolist(), age_s, gangs[rows].tolist(), [1, 1, 1], alpha, told)
        found = policy(Problem.of(1.0 / run_s[rows], [1, 1, 1], gangs=gangs[rows], rows=rows))
        assert found.tolist() == [expected[at] for at in range(len(rows))]
        before = {row: expected[at] for at, row in enumerate(rows)}
        kept = np.flatnonzero(rng.random(len(rows)) < 0.7).tolist()
        rows, age_s = [rows[at] for at in kept], [age_s[at] for at in kept]


def test_allox_keeps_its_assignments() -> None:
    policy = AlloX()
    first = Problem.of([[1.0, 0.5], [1.0, 0.5]], [1, 1], steps_left=[10, 10])
    policy(first)
    later = Problem.of([[1.0, 0.5], [0.1, 9.0]], [1, 1], steps_left=[9, 10], rows=[1, 7])
    held = policy(first)[1]
    assert policy(later)[0].tolist() == held.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_allox_finds_the_least_total_flow(seed: int) -> None:
    """Compared with all orders of five jobs on two machines."""
    rng = np.random.default_rng(seed)
    run_s = rng.uniform(1.0, 9.0, (5, 2))
    best, firsts = np.inf, set()
    for order in permutations(range(5)):
        for cut in range(6):
            flow, heads = 0.0, []
            for worker, queue in enumerate((order[:cut], order[cut:])):
                flow += sum((len(queue) - k) * run_s[job, worker] for k, job in enumerate(queue))
                heads += [(queue[0], worker)] if queue else []
            if flow < best:
                best, firsts = flow, set(heads)
    found = assign(Problem.of(1 / run_s, [1, 1]), np.arange(5), np.array([0, 1]))
    assert set(found) == firsts


@pytest.mark.parametrize("as_stored", [True, False])
def test_fifo_as_coded_takes_the_last_type_by_name(as_stored: bool) -> None:
    policy = FifoAsCoded(TYPES, as_stored=as_stored)
    problem = Problem.of(np.ones((5, 3)), [20, 1, 9])
    assert policy(problem).argmax(axis=1).tolist() == [0] * 5
    # jobs 1 and 2 end: the head of the queue gets their type
    later = Problem.of(np.ones((5, 3)), [20, 1, 9], rows=[0, 3, 4, 5, 6])
    assert policy(later).argmax(axis=1).tolist() == [0] * 5


def test_fifo_as_coded_overcommits_a_full_type_that_is_still_listed() -> None:
    """V100 has one GPU. When it is full the drawn type is removed from the list, and that is rarely V100."""
    both = np.array([
        [FifoAsCoded(TYPES, seed, as_stored)(Problem.of(np.ones((2, 3)), [1, 9, 9]))[:, 0].sum() for seed in range(40)]
        for as_stored in (True, False)
    ])  # fmt: skip
    assert (both[0] == 1).all()  # the other reading takes the next type by name
    assert set(both[1]) == {1, 2}


@pytest.mark.parametrize("as_stored", [True, False])
def test_fifo_as_coded_never_uses_a_type_of_rate_0(as_stored: bool) -> None:
    rates = np.array([[0.0, 1, 1], [1, 1, 1], [1, 1, 1]])
    found = FifoAsCoded(TYPES, as_stored=as_stored)(Problem.of(rates, [9, 9, 9]))
    assert found.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]  # job 0 is skipped
    policy = FifoAsCoded(TYPES, as_stored=as_stored)
    policy(Problem.of([[1.0, 1, 1]], [1, 0, 0]))
    inherited = policy(Problem.of([[0.0, 1, 1]], [1, 0, 0], rows=[1]))
    assert not inherited.any()


def test_fifo_as_coded_stops_at_a_gang_that_fits_nowhere() -> None:
    problem = Problem.of(np.ones((3, 3)), [2, 1, 1], gangs=[1, 3, 1])
    assert FifoAsCoded(TYPES)(problem).sum(axis=1).tolist() == [1, 0, 0]


def test_fifo_perf_takes_the_fastest_with_room_and_stops() -> None:
    problem = Problem.of([[1, 3, 2], [1, 3, 2], [4, 4, 1], [2, 0, 9], [1, 1, 1]], [1, 1, 1], gangs=[1, 1, 1, 2, 1])
    found = fifo_perf(problem, [2, 1, 0])
    assert found[:3].argmax(axis=1).tolist() == [1, 2, 0]
    assert not found[3:].any()  # the gang of two fits nowhere, and blocks the last


def test_fifo_perf_passes_over_a_job_that_runs_on_no_type_with_room() -> None:
    problem = Problem.of([[0.0, 0, 2], [0, 0, 2], [1, 1, 1]], [1, 1, 1])
    found = fifo_perf(problem, [2, 1, 0])
    assert found.tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_an_equal_share_is_also_of_types_where_a_job_cannot_run() -> None:
    problem = Problem.of([[1.0, 0], [1, 1]], [1, 1])
    assert problem.isolated.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("name", ["max_min_fairness", "finish_time_fairness", "min_total_duration"])
def test_as_published_agnostic_policies_plan_time_where_a_job_cannot_run(name: str) -> None:
    problem = Problem.of([[1.0, 0], [1, 1], [1, 1]], [1, 1], steps_left=[10, 10, 10])
    [plain, published] = [
        POLICIES[name].build(Settings(("V100", "K80"), everywhere=everywhere))(problem) for everywhere in (False, True)
    ]
    assert plain is not None
    assert published is not None
    assert plain[0, 1] == 0
    assert published.sum(axis=1) == pytest.approx(np.full(3, 2 / 3), abs=1e-6)


def test_isolated_shares() -> None:
    """10 jobs at 36:36:36: a third of each type, cut from 3.6 GPUs of each."""
    problem = Problem.of(np.ones((10, 3)), [36, 36, 36])
    assert problem.isolated == pytest.approx(np.full((10, 3), 1 / 3))
    crowded = Problem.of(np.ones((200, 3)), [36, 36, 36], gangs=np.full(200, 2))
    assert crowded.isolated == pytest.approx(np.full((200, 3), 0.09))


# --- an independent formulation


@pytest.mark.parametrize("seed", range(12))
def test_values_equal_those_of_an_independent_formulation(seed: int) -> None:
    problem = drawn(seed)
    scale = problem.fairness_scale()
    assert got(max_min_fairness(problem)).value == pytest.approx(least_scaled(problem, scale), rel=1e-6)
    alike = problem.agnostic()
    assert got(max_min_fairness(alike)).value == pytest.approx(least_scaled(alike, alike.fairness_scale()), rel=1e-6)
    longest = least_scaled(problem, 1e3 / problem.steps_left) / 1e3
    assert got(min_total_duration(problem)).value == pytest.approx(longest, rel=1e-6)
    jobs, types = problem.rates.shape
    size = feasible_set(problem)[-1]
    everything = np.zeros(size)
    everything[jobs * types : -1] = 1.0
    most = solve(problem, everything, np.zeros((1, size)), np.zeros(1))
    assert got(max_sum_throughput(problem)).value == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_finish_time_fairness_equals_plain_bisection(seed: int) -> None:
    problem = drawn(seed)
    rate = (problem.isolated * problem.rates).sum(axis=1)
    isolated_s = problem.age_s * np.random.default_rng(seed).uniform(0.2, 1.1, len(rate))
    found = got(finish_time_fairness(problem, isolated_s, rate))
    assert found.value == pytest.approx(least_rho(problem, isolated_s, rate), rel=1e-6)
    rho = (problem.age_s + problem.steps_left / found.throughput) / (isolated_s + problem.steps_left / rate)
    assert rho.max() == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_water_levels_equal_those_found_by_probes(seed: int) -> None:
    problem = drawn(seed, 8)
    found = got(water_filling(problem))
    levels = problem.fairness_scale() * found.throughput
    # A job that ends at the GPU's full time may be given more than its level by the solver, never less.
    assert (levels >= filled_levels(problem) * (1 - 1e-6)).all()
    assert levels.min() == pytest.approx(got(max_min_fairness(problem)).value, rel=1e-6)
    assert levels == pytest.approx(filled_levels(problem), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_two_stage_gives_the_same_value_and_no_less_in_sum(seed: int) -> None:
    problem = drawn(seed)
    scale = problem.fairness_scale()
    vertex, fuller = (got(max_min_fairness(problem, tie_break=how)) for how in ("vertex", "two_stage"))
    assert (scale * fuller.throughput).min() == pytest.approx(vertex.value, rel=1e-6)
    assert scale @ fuller.throughput >= scale @ vertex.throughput - 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_interior_and_vertex_solutions_have_the_same_value(seed: int) -> None:
    pytest.importorskip("ecos")
    problem = drawn(seed)
    rate = (problem.isolated * problem.rates).sum(axis=1)
    fair = partial(finish_time_fairness, isolated_s=problem.age_s * 0.7, isolated_rate=rate)
    for objective in (max_min_fairness, min_total_duration, fair):
        vertex, inside = got(objective(problem)), got(objective(problem, tie_break="interior"))
        check_feasible(problem, inside.shares)
        assert inside.value == pytest.approx(vertex.value, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_finish_time_fairness_by_age_and_agnostic_of_types_gives_equal_shares(seed: int) -> None:
    """More jobs than GPUs: equal shares use all GPUs, so no job may have more, whatever the ages."""
    pytest.importorskip("ecos")
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.2, 5.0, (12, 3))
    problem = Problem.of(rates, [3, 2, 4], age_s=rng.uniform(0, 500, 12), steps_left=rng.lognormal(6, 1.5, 12))
    by_age = Settings(TYPES, tie_break="interior", equal_share="age")
    shares = POLICIES["finish_time_fairness"].build(by_age)(problem)
    assert shares is not None
    equal = problem.isolated.sum(axis=1)
    assert shares.sum(axis=1) == pytest.approx(equal, abs=1e-4)
    by_steps = POLICIES["finish_time_fairness"].build(Settings(TYPES))(problem)
    assert by_steps is not None
    assert by_steps.sum(axis=1) != pytest.approx(equal, abs=0.01)


def test_interior_solutions_are_inside() -> None:
    """Neither type is scarce: a vertex solution gives a job time on one type only, an interior solution on both."""
    pytest.importorskip("ecos")
    problem = Problem.of([[1, 1]] * 2, [1, 4])
    inside = got(max_min_fairness(problem, tie_break="interior"))
    assert inside.shares == pytest.approx(inside.shares[::-1], abs=1e-6)
    assert (inside.shares > 0.1).all()


# --- properties


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(UNPACKED))
@example(seed=3128, policy="max_min_fairness_water_filling_tenants_fifo_perf")  # needs a slack above 1e-8
def test_shares_are_feasible(seed: int, policy: str) -> None:
    problem = drawn(seed)
    shares = POLICIES[policy].build(Settings(TYPES))(problem)
    assert shares is not None
    check_feasible(problem, shares, everywhere=policy == "isolated")


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_the_value_of_las_depends_on_neither_order_nor_units_nor_names(seed: int) -> None:
    problem = drawn(seed)
    value = got(max_min_fairness(problem)).value
    order = np.random.default_rng(seed).permutation(len(problem.gangs))
    mixed = dataclasses.replace(
        problem, rates=problem.rates[order], gangs=problem.gangs[order], weights=problem.weights[order]
    )
    assert got(max_min_fairness(mixed)).value == pytest.approx(value, rel=1e-7)
    units = dataclasses.replace(problem, rates=problem.rates * np.linspace(0.01, 50.0, len(order))[:, None])
    assert got(max_min_fairness(units)).value == pytest.approx(value, rel=1e-7)
    doubled = dataclasses.replace(problem, gpus=problem.gpus * 2)
    halves = dataclasses.replace(problem, rates=np.repeat(problem.rates, 2, axis=1), gpus=np.repeat(problem.gpus, 2))
    assert got(max_min_fairness(halves)).value == pytest.approx(got(max_min_fairness(doubled)).value, rel=1e-7)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_agnostic_shares_do_not_depend_on_rates(seed: int) -> None:
    problem = drawn(seed)
    faster = dataclasses.replace(problem, rates=problem.rates**2)
    for name in ("max_min_fairness", "max_min_fairness_water_filling"):
        allocate = POLICIES[name].build(Settings(TYPES))
        assert np.array_equal(allocate(problem), allocate(faster))  # type: ignore[arg-type]


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_packing_never_lowers_the_value(seed: int) -> None:
    problem = drawn(seed, 6)
    rng = np.random.default_rng(seed)
    pairs = np.array([(a, b) for a in range(6) for b in range(a)])
    rates = problem.rates[pairs] * rng.uniform(0.2, 0.95, (len(pairs), 2, 1))
    alone, packed = max_min_fairness(problem), max_min_fairness(problem, beside(problem, pairs, rates))
    assert got(packed).value >= got(alone).value * (1 - 1e-7)
    assert got(water_filling(problem)).value >= got(alone).value * (1 - 1e-6)


# --- entities


@pytest.mark.parametrize(
    ("gpus", "entities", "levels"),
    [
        # two jobs of weight 1/2 and one of weight 2, which has a whole GPU first
        (2, [Entity([0, 1]), Entity([2], 2.0)], [0.5, 0.5, 1.0]),
        (1, [Entity([0, 1]), Entity([2], 2.0)], [1 / 6, 1 / 6, 2 / 3]),
        # in order of arrival: 0 and 2 first, then 1 and 3
        (1, [Entity([0, 1], rule="fifo"), Entity([2, 3], rule="fifo")], [0.5, 0.0, 0.5, 0.0]),
        (3, [Entity([0, 1], rule="fifo"), Entity([2, 3], rule="fifo")], [1.0, 0.5, 1.0, 0.5]),
        # until job 2 has a GPU the other entity has half; of the remaining GPU job 3 gets as much as jobs 0 and 1
        # together
        (3, [Entity([0, 1]), Entity([2, 3], rule="fifo")], [0.75, 0.75, 1.0, 0.5]),
    ],
)
def test_entities_share_their_weight(gpus: int, entities: list[Entity], levels: list[float]) -> None:
    problem = Problem.of([[1.0]] * len(levels), [gpus])
    assert got(fill_by_entity(problem, entities)).throughput == pytest.approx(levels, abs=1e-6)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
@example(784)  # a slack of 1e-8 raises another job by 7e-5
def test_one_entity_for_each_job_equals_no_entities(seed: int) -> None:
    problem = drawn(seed, 7)
    own = [Entity([job], float(weight)) for job, weight in enumerate(problem.weights)]
    levels = problem.fairness_scale() * got(fill_by_entity(problem, own)).throughput
    assert np.sort(levels) == pytest.approx(np.sort(filled_levels(problem)), rel=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_can_be_pickled(name: str) -> None:
    """So a scheduler that has played can be sent to another process."""
    pickle.loads(pickle.dumps(POLICIES[name].build(Settings(TYPES))))
