"""Gavel's packed policies:
programs over pairs against independent formulations, and pairs that share GPUs in rounds.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers import play
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from gpusched_env.baselines.gavel.objectives import max_min_fairness, min_total_duration
from gpusched_env.baselines.gavel.packing import Gandiva, fifo_packed
from gpusched_env.baselines.gavel.pairs import solve_packed
from gpusched_env.baselines.gavel.policies import POLICIES, Settings
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.rounds import NONE, Rounds
from gpusched_env.baselines.gavel.scheduler import Gavel
from gpusched_env.baselines.srtf import ShortestRemainingFirst
from gpusched_env.errors import ScenarioError, SchedulerError
from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario, scenario_from_dict
from gpusched_env.sharing import GavelPairs, Sharing
from gpusched_env.sharing.interference import Interference
from gpusched_env.simulator import Until, simulate
from gpusched_env.traces.profile_tables import load_measured
from studies.reproduce.gavel import pair_ends
from tests.baselines.test_gavel import FREE, admitted, drawn, instance, jct_s

PACKED = sorted(name for name, policy in POLICIES.items() if policy.packed)


@dataclass(frozen=True)
class Told(Interference):
    """Slowdowns by profile, [P, P] or [P, P, T]."""

    xi: Any

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        told = np.array(self.xi, float)[np.ix_(classes[:, 0], classes[:, 0])]
        return told if told.ndim == 3 else np.repeat(told[:, :, None], len(gpu_types), axis=2)

    def as_dict(self) -> dict[str, Any]:
        return {}


def shared(problem: Instance, xi: Any, **rules: Any) -> Instance:
    semantics = Semantics(**(FREE | {"pace_until_lease": True} | rules))
    return Instance(problem.cluster, problem.workload, problem.network, semantics, Sharing(2, Told(xi)))


def drawn_shared(seed: int, jobs: int = 25, **rules: Any) -> Instance:
    plain = drawn(seed, jobs)
    rng = np.random.default_rng(seed)
    xi = 1.0 + rng.exponential(0.4, (jobs, jobs, 3))
    xi[rng.random((jobs, jobs, 3)) < 0.2] = np.inf
    return shared(plain, xi, **rules)


def packed_problem(seed: int, jobs: int = 9) -> Problem:
    """Jobs of four kinds; some kinds cannot run on some types, and some pairs cannot share GPUs of any type."""
    rng = np.random.default_rng(seed)
    models = rng.uniform(0.2, 5.0, (4, 3)) * (rng.random((4, 3)) < 0.8)
    models[:, 0] = np.maximum(models[:, 0], 0.5)
    beside = rng.uniform(0.3, 1.0, (4, 4, 3)) * (rng.random((4, 4, 1)) < 0.8)
    sizes = rng.choice([1, 1, 2], 4)
    kinds = rng.integers(0, 4, jobs)
    pairs = np.array([(a, b) for b in range(jobs) for a in range(b) if sizes[kinds[a]] == sizes[kinds[b]]])
    pairs = pairs.reshape(-1, 2)
    a, b = kinds[pairs].T
    rates = np.stack([models[a] * beside[a, b], models[b] * beside[b, a]], axis=1)
    rates = rates * (rates > 0).all(axis=1, keepdims=True)
    plain = Problem.of(
        models[kinds], rng.integers(1, 4, 3), gangs=sizes[kinds], weights=rng.choice([1.0, 5.0], jobs),
        steps_left=rng.lognormal(6.0, 1.0, jobs), age_s=rng.uniform(0.0, 300.0, jobs),
    )  # fmt: skip
    return dataclasses.replace(plain, pairs=pairs, pair_rates=rates, kinds=kinds)


def best_level(problem: Problem, scale: np.ndarray) -> float:
    """Largest t with scale_m thr(m) >= t over all pairs, dense and unpruned, by an interior-point solver."""
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    jobs, types = problem.rates.shape
    rates = [(problem.rates[m] > 0, {m: problem.rates[m]}, problem.gangs[m]) for m in range(jobs)]
    for (a, b), both in zip(problem.pairs.tolist(), problem.pair_rates, strict=True):
        rates.append(((both > 0).all(axis=0), {a: both[0], b: both[1]}, problem.gangs[a]))
    columns = [(entry, r) for entry in rates for r in range(types) if entry[0][r]]
    rows, limits = np.zeros((2 * jobs + types, len(columns) + 1)), np.zeros(2 * jobs + types)
    limits[:jobs], limits[jobs : jobs + types] = 1.0, problem.gpus
    for k, ((_, members, gang), r) in enumerate(columns):
        rows[jobs + r, k] = gang
        for m, rate in members.items():
            rows[m, k] = 1.0
            rows[jobs + types + m, k] = -scale[m] * rate[r]
    rows[jobs + types :, -1] = 1.0
    found = linprog(-np.eye(len(columns) + 1)[-1], rows, limits, method="highs-ipm")
    assert found.status == 0
    return -float(found.fun)


def thr(problem: Problem, shares: np.ndarray) -> np.ndarray:
    """Throughputs, and a check that the shares are feasible."""
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    jobs = len(problem.gangs)
    alone, paired = shares[:jobs], shares[jobs:]
    time, found = alone.sum(axis=1), (problem.rates * alone).sum(axis=1)
    demand = problem.gangs @ alone
    for k in (0, 1):
        np.add.at(time, problem.pairs[:, k], paired.sum(axis=1))
        np.add.at(found, problem.pairs[:, k], (problem.pair_rates[:, k] * paired).sum(axis=1))
    if len(paired):
        demand = demand + problem.gangs[problem.pairs[:, 0]] @ paired
    assert (shares >= 0).all()
    assert (time <= 1 + 1e-7).all()
    assert (demand <= problem.gpus * (1 + 1e-7)).all()
    return found


@pytest.mark.parametrize(("solver", "rel"), [("by kind of partner", 1e-6), ("pruned", 1e-6), ("interior", 2e-6)])
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_programs_over_pairs_reach_the_optimum_over_all_pairs(solver: str, rel: float, seed: int) -> None:
    if solver == "interior":
        pytest.importorskip("ecos")
    problem = packed_problem(seed)
    for objective, scale in (
        (max_min_fairness, problem.fairness_scale()),
        (min_total_duration, 1.0 / problem.steps_left),
    ):
        if solver == "interior":
            shares = solve_packed(problem, partial(objective, tie_break="interior"), as_published=True)
        else:
            shares = solve_packed(problem, objective, 200 if solver == "pruned" else 0)
        assert shares is not None
        assert float((scale * thr(problem, shares)).min()) == pytest.approx(best_level(problem, scale), rel=rel)


@pytest.mark.parametrize("most_in_pairs", [0, 200])
def test_jobs_of_one_kind_do_not_share_gpus_with_themselves(most_in_pairs: int) -> None:
    """Three equal jobs on one GPU: a pair has rates 0.7 + 0.7;
    each job is in two of three pairs, for a third of the time each.
    """
    problem = Problem.of([[1.0]] * 3, [1])
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    problem = dataclasses.replace(problem, pairs=pairs, pair_rates=np.full((3, 2, 1), 0.7), kinds=np.zeros(3, int))
    shares = solve_packed(problem, max_min_fairness, most_in_pairs)
    assert shares is not None
    assert shares[:, 0] == pytest.approx([0, 0, 0, 1 / 3, 1 / 3, 1 / 3], abs=1e-7)
    alone = Problem.of([[1.0]], [1])
    alone = dataclasses.replace(
        alone, pairs=np.empty((0, 2), int), pair_rates=np.empty((0, 2, 1)), kinds=np.zeros(1, int)
    )
    assert solve_packed(alone, max_min_fairness, most_in_pairs) == pytest.approx(np.ones((1, 1)))


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(PACKED))
def test_packed_shares_are_feasible_and_no_worse_than_alone(seed: int, policy: str) -> None:
    problem = packed_problem(seed)
    shares = POLICIES[policy].build(Settings(("V100", "P100", "K80")))(problem)
    assert shares is not None
    packed = thr(problem, shares)
    if policy != "gandiva":  # it also gives pairs time on types that they cannot share
        assert problem.pair_rates is not None
        assert (shares[len(problem.gangs) :][(problem.pair_rates == 0).any(axis=1)] == 0).all()
    if policy in ("max_min_fairness_packed", "max_min_fairness_water_filling_packed"):
        found = max_min_fairness(problem)
        assert found is not None
        assert (problem.fairness_scale() * packed).min() >= found.value * (1 - 1e-6)


# --- policies without a program


def paired(rates: list[list[float]], gpus: list[int], shares_of: float) -> Problem:
    """All pairs; each member has a given share of its rate alone."""
    table = np.array(rates)
    pairs = np.array([(a, b) for b in range(len(rates)) for a in range(b)])
    return dataclasses.replace(
        Problem.of(rates, gpus), pairs=pairs, pair_rates=table[pairs] * shares_of, kinds=np.arange(len(rates))
    )


def test_gandiva_keeps_losing_pairs_and_dissolves_pairs_that_do_not_fit() -> None:
    """Normalised rates .4 + .4, .3 + .3, .1 + .1 sum to 1.6, so the pair stays."""
    problem = paired([[2.0, 2.0, 2.0]] * 2, [1, 0, 0], 1.0)
    assert problem.pair_rates is not None
    losing = dataclasses.replace(problem, pair_rates=2.0 * np.array([[[0.4, 0.3, 0.1]] * 2]))
    policy = Gandiva()
    assert policy(losing).tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    partners = dict(policy._partner)
    policy._group = lambda *told: None  # type: ignore[method-assign]  # no new pairs
    assert policy(losing)[2].tolist() == [1, 0, 0]
    assert policy._partner == partners
    assert losing.pair_rates is not None
    small = dataclasses.replace(losing, pair_rates=losing.pair_rates * [1.0, 1.0, 0.0])
    assert policy(small).tolist() == [[0.5, 0, 0], [0.5, 0, 0], [0, 0, 0]]
    assert not policy._partner
    policy._partner = partners
    slow = dataclasses.replace(losing, pair_rates=losing.pair_rates * 0.6)  # .96 in all
    policy(slow)
    assert not policy._partner


def test_gandiva_shares_gpus_only_where_jobs_want_more_than_there_are() -> None:
    enough = paired([[1.0]] * 3, [3], 0.9)
    assert Gandiva()(enough).tolist() == [[1.0]] * 3 + [[0.0]] * 3
    few = Gandiva(3)(paired([[1.0]] * 3, [1], 0.9))
    assert sorted(few[:3, 0]) == [0.0, 0.0, 0.5]
    assert sorted(few[3:, 0]) == [0.0, 0.0, 0.5]


def test_waiting_jobs_join_their_best_running_partners() -> None:
    """Jobs 0 and 1 run. Job 2 joins its best partner 1; job 3 gains only 1.4 beside 0, and no later job may join."""
    problem = paired([[1.0]] * 5, [2], 0.7)
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    rates = problem.pair_rates.copy()
    number = {tuple(pair): k for k, pair in enumerate(problem.pairs.tolist())}
    rates[number[0, 2]], rates[number[1, 2]], rates[number[0, 4]] = 0.8, 0.9, 0.95
    shares = fifo_packed(dataclasses.replace(problem, pair_rates=rates), [0])
    assert np.flatnonzero(shares[:, 0]).tolist() == [0, 5 + number[1, 2]]
    none = fifo_packed(dataclasses.replace(problem, pair_rates=rates * 0.5), [0])
    assert np.flatnonzero(none[:, 0]).tolist() == [0, 1]


# --- rounds


def packed(gpus: list[int], gangs: list[int], **rules: Any) -> tuple[Rounds, np.ndarray]:
    """Rounds in which each job of a pair has a rate of 0.6."""
    return admitted(gpus, gangs, pair_rates=lambda rows, others: np.full((len(rows), 2, len(gpus)), 0.6), **rules)


def test_a_pair_is_one_entry_of_the_round_for_both_jobs() -> None:
    rounds, rows = packed([1, 1], [1] * 3)
    assert rounds.members.tolist() == [[0, -1], [1, -1], [0, 1], [2, -1], [0, 2], [1, 2]]  # by arrival
    shares = np.zeros((6, 2))
    shares[3, 0], shares[2, 0] = 0.9, 0.1  # of job 2, and of the pair 0, 1; both on the first type
    rounds.plan(shares)
    assert rounds.choose(rows).tolist() == [0, 0, 1]  # job 2 fills the other type
    assert [rounds.partner(row) for row in range(3)] == [1, 0, -1]
    rounds.book(rows, np.array([0, 0, 1]), np.array([100.0, 360.0, 360.0]))
    # the longer of both times, counted once
    assert rounds._time_s[:, 0].tolist() == [180.0, 180.0, 540.0, 180.0, 180.0, 180.0]
    assert rounds.choose(rows).tolist() == [0, 0, 1]  # .9 against .1 of the time
    rounds.keep(np.array([0, 2]))
    assert rounds.members.tolist() == [[0, -1], [2, -1], [0, 2]]
    with pytest.raises(KeyError):  # what was chosen before had other numbers
        rounds.partner(2)
    assert NONE not in rounds.choose(rows[[0, 2]])
    rounds.admit(rows[1:2], np.ones((1, 2)), np.ones(1, int))
    with pytest.raises(KeyError):
        rounds.partner(2)
    late, rows = packed([1], [1, 2])
    assert late.members.tolist() == [[0, -1], [1, -1]]  # pairs have gangs of one size
    assert late.choose(rows).tolist() == [0, NONE]


def test_pairs_without_a_share_fill_in_the_published_simulator() -> None:
    def chosen(fill_by_pairs: bool) -> list[int]:
        rounds, rows = packed([1], [1, 1], fill_by_pairs=fill_by_pairs)
        rounds.plan(np.zeros((3, 1)))
        rounds._deficit_s[:2] = -1.0  # both jobs have run without a share, the pair has not
        result: list[int] = rounds.choose(rows).tolist()
        return result

    assert chosen(True) == [0, 0]
    assert chosen(False) == [0, NONE]


@pytest.mark.parametrize(("compat", "together"), [(True, 300.0), (False, 500 / 3)])
def test_rates_of_a_pair_hold_for_the_round(compat: bool, together: float) -> None:
    """Alone 10 steps a second, together 6 each; 1,000 and 1,800 steps: the second job stays at 6 after 166.67 s."""
    problem = shared(instance([0, 0], [1, 1], [1_000, 1_800], [[10]] * 2, "1x1@V100"), [[10 / 6] * 2] * 2)
    log = play(problem, Gavel("max_min_fairness_packed", gavel_compat=compat))
    own = job_times(problem, log)["finish_s"]
    assert own == pytest.approx([500 / 3, 300.0])
    told = pair_ends(problem, log) if compat else own
    assert told == pytest.approx([together, 300.0])


def test_after_its_partner_ends_a_job_is_faster_from_the_next_round_on() -> None:
    """2,160 steps until 360 s at 6 a second, then 240 more at 10."""
    problem = shared(instance([0, 0], [1, 1], [1_000, 2_400], [[10]] * 2, "1x1@V100"), [[10 / 6] * 2] * 2)
    log = play(problem, Gavel("max_min_fairness_packed", gavel_compat=True))
    assert job_times(problem, log)["finish_s"] == pytest.approx([500 / 3, 384.0])
    assert pair_ends(problem, log) == pytest.approx([360.0, 384.0])
    at_once = shared(
        instance([0, 0], [1, 1], [1_000, 2_400], [[10]] * 2, "1x1@V100"), [[10 / 6] * 2] * 2, pace_until_lease=False
    )
    log = play(at_once, Gavel("max_min_fairness_packed", gavel_compat=True))
    assert job_times(at_once, log)["finish_s"] == pytest.approx([500 / 3, 500 / 3 + 140.0])
    assert pair_ends(at_once, log) == pytest.approx([500 / 3, 500 / 3 + 140.0])


def test_a_pair_without_gain_takes_turns() -> None:
    slow = shared(instance([0, 0], [1, 1], [3_600, 3_600], [[10]] * 2, "1x1@V100"), [[2.5] * 2] * 2)
    alone = instance([0, 0], [1, 1], [3_600, 3_600], [[10]] * 2, "1x1@V100")
    finish_s = job_times(slow, simulate(slow, Gavel("max_min_fairness_packed")))["finish_s"]
    assert finish_s.tolist() == jct_s(alone, Gavel("max_min_fairness_perf"))


@settings(max_examples=10)
@example(seed=24, policy="min_total_duration_packed", rules={}, compat=False, whole_steps=False)  # rates of leases
@given(
    seed=st.integers(0, 1_000),
    policy=st.sampled_from(PACKED),
    rules=st.sampled_from([{}, {"checkpoint_s": 30.0, "restore_s": 30.0}]),
    compat=st.booleans(),
    whole_steps=st.booleans(),
)
def test_every_job_ends_and_pairs_hold_the_same_gpus(
    seed: int, policy: str, rules: dict[str, float], compat: bool, whole_steps: bool
) -> None:
    problem = drawn_shared(seed, **rules)
    # play validates rates, GPUs and work
    log = play(problem, Gavel(policy, gavel_compat=compat, whole_steps=whole_steps))
    assert not np.isnan(job_times(problem, log)["finish_s"]).any()
    told = pair_ends(problem, log)
    own = job_times(problem, log)["finish_s"]
    assert (told >= own).all()
    assert (told <= own + 360.0 + sum(rules.values())).all()


def most_on_a_gpu(log: EventLog) -> int:
    on_gpu: dict[int, set[int]] = {}
    gangs: dict[int, list[int]] = {}
    most = 0
    for event in log.events:
        job = int(event["job"])
        if event["kind"] in (START, RESUME):
            gangs[job] = log.gpus[event["gpu_at"] : event["gpu_at"] + event["gpu_count"]].tolist()
            for gpu in gangs[job]:
                on_gpu.setdefault(gpu, set()).add(job)
                most = max(most, len(on_gpu[gpu]))
        elif event["kind"] in (COMPLETE, RELEASE):
            for gpu in gangs[job]:
                on_gpu[gpu].remove(job)
    return most


@pytest.mark.parametrize("policy", PACKED)
def test_packed_policies_pack_under_load_and_repeat(policy: str) -> None:
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.5, 4.0, (14, 2)).tolist()
    plain = instance(np.arange(14) * 50.0, [1] * 14, rng.uniform(500, 4_000, 14).tolist(), rates, "1x2@V100,1x1@K80")
    problem = shared(plain, np.full((14, 14), 1.2))
    logs = [simulate(problem, Gavel(policy)) for _ in range(2)]
    assert logs[0].digest() == logs[1].digest()
    assert most_on_a_gpu(logs[0]) == 2


def test_the_parameter_that_holds_rates_is_a_bool() -> None:
    with pytest.raises(ScenarioError, match=r"semantics\.pace_until_lease is 1: it must be true or false"):
        Semantics(pace_until_lease=1)  # type: ignore[arg-type]
    assert "pace_until_lease" not in Semantics().as_dict()


def test_packed_policies_need_a_scenario_with_sharing() -> None:
    with pytest.raises(SchedulerError, match="no jobs may share GPUs here; take a scenario with sharing"):
        simulate(drawn(1), Gavel("gandiva"))


# --- the scenario


def test_pairs_measured_by_gavel_are_allowed_and_all_others_forbidden() -> None:
    plain = get_scenario("gavel-continuous-v1:jobs=300,gangs=mixed")
    scenario = get_scenario("gavel-continuous-v1:jobs=300,gangs=mixed,sharing=true")
    assert scenario_from_dict(scenario.as_dict(), "x").fingerprint() == scenario.fingerprint() != plain.fingerprint()
    problem = scenario.instance(0)
    assert problem.workload.fingerprint() == plain.instance(0).workload.fingerprint()
    tables, table = problem.sharing_tables, load_measured("gavel")
    assert tables is not None
    names = problem.workload.profiles.rows["name"][problem.classes[:, 0]]
    fits = 0
    for a, b, t in np.ndindex(tables.interference.shape):
        both = [
            table.packed[problem.cluster.gpu_types[t]].get(pair, 0.0)
            for pair in [(names[a], names[b]), (names[b], names[a])]
        ]
        if (problem.classes[[a, b], 1] == 1).all() and all(both):
            assert tables.interference[a, b, t] == pytest.approx(max(1.0 / both[0], 1.0))
            fits += 1
        else:
            assert tables.interference[a, b, t] == np.inf
    assert 0 < fits < tables.interference.size
    with pytest.raises(ScenarioError, match="it must be a text"):
        GavelPairs(3)  # type: ignore[arg-type]


def test_runs_end_with_the_jobs_that_are_measured() -> None:
    """The log of a stopped run is a prefix of the whole log, so completion times of measured jobs are equal."""
    problem = drawn(2, 40)
    whole, cut = simulate(problem, Gavel()), simulate(problem, Gavel(), until=Until(2, 8, 360.0))
    player = ShortestRemainingFirst()
    assert len(simulate(problem, player, until=Until(2, 8, 0.0)).events) < len(simulate(problem, player).events)
    assert 0 < len(cut.events) < len(whole.events)
    assert (whole.events[: len(cut.events)] == cut.events).all()
    times = [job_times(problem, log)["jct_s"][2:8] for log in (whole, cut)]
    assert (times[0] == times[1]).all()
    assert cut.events["time_s"][-1] >= job_times(problem, cut)["finish_s"][2:8].max()
