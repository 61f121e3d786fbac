"""Index policies: classes of jobs, the compiled loop = ``decide``, moves, files, and no look into the future."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import (
    linked_scenario,
    mixed_profiles,
    plain_python_digests,
    play,
    preemptions,
    random_instance,
    two_types,
    unit_instance,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.agents.checkpoints import write_checkpoint
from gpusched_env.agents.index_policy.ranking import score_of
from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import job_times
from gpusched_env.prediction.levels import LEVELS, STARTS_S, level_at, levels_of
from gpusched_env.problem.cluster import MACHINE, RACK, Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Simulation, Start, simulate
from studies.index_search.index_policy import FLOOR, START_VECTOR, prior_of, rule_of
from studies.unseen_logs.oracles import known_order


class Decided(IndexPolicy):
    """Played by ``decide``."""

    def player(self, simulation: Simulation) -> None:
        return None


def random_rule(seed: int, **changes: Any) -> IndexRule:
    """A rule and a prior near those at which a search begins."""
    rng = np.random.default_rng(seed)
    rule = rule_of(START_VECTOR + rng.normal(0.0, 0.5, len(START_VECTOR)), rng.uniform(0.1, 1.0, LEVELS))
    return dataclasses.replace(rule, **changes)


def instances() -> list[Instance]:
    """Tiers, links, GPU types, rounds, and free preemption."""
    return [
        random_instance(1),
        random_instance(2, checkpoint_s=0.0, restore_s=0.0),
        random_instance(3, round_s=60.0),
        random_instance(4, cluster=two_types()),
        linked_scenario().instance(5),
    ]


def digests() -> list[str]:
    """Logs of all instances; printed by a process without compilation, too."""
    return [
        simulate(instance, IndexPolicy.playing(random_rule(number))).digest()
        for number, instance in enumerate(instances())
    ]


def test_compiled_and_plain_python_give_the_same_logs() -> None:
    assert plain_python_digests("tests.agents.test_index_policy") == digests()


@given(st.integers(0, 2**31), st.sampled_from([0.0, 5.0]), st.sampled_from([1.0, 1e9]))
@settings(max_examples=25, deadline=None)
def test_the_compiled_loop_makes_the_decisions_of_decide(seed: int, hold: float, move_factor: float) -> None:
    rule = random_rule(seed, hold=hold, move_factor=move_factor)
    for instance in (random_instance(seed % 97, jobs=30), linked_scenario(jobs=25).instance(seed % 89)):
        fast, slow = play(instance, IndexPolicy.playing(rule)), play(instance, Decided.playing(rule))
        assert fast.digest() == slow.digest()


def test_levels_are_those_of_the_history() -> None:
    seconds = [0.0, 3.9, 4.0, 4.9, 5.0, 100.0, 1e7]
    assert [level_at(one) for one in seconds] == levels_of(np.array(seconds)).tolist() == [0, 0, 1, 1, 2, 15, 61]


def test_a_job_of_a_class_of_short_jobs_overtakes_one_of_long_jobs() -> None:
    """One machine of one GPU. Of 30 jobs with a limit of 100 s, each ran for 70 s; of 30 with 10,000 s, for 5,000 s.
    Then one of each waits behind a job, the long one submitted first. Without limits, the order is that of submission.
    """
    gap_s, count = 6_000.0, 60
    arrivals = [gap_s * number for number in range(count)] + [gap_s * count + extra for extra in (0.0, 1.0, 2.0)]
    limits = [100.0, 10_000.0] * (count // 2) + [10_000.0, 10_000.0, 100.0]
    durations = [70.0 if limit == 100.0 else 5_000.0 for limit in limits]
    jobs = unit_instance(arrivals, [1] * (count + 3), durations, "1x1", checkpoint_s=0.0, restore_s=0.0)
    told = Instance(jobs.cluster, jobs.workload.unchecked_columns(estimate_s=np.array(limits)), None, jobs.semantics)
    rule = IndexRule(hold=100.0)
    ends = [job_times(one, play(one, IndexPolicy.playing(rule)))["finish_s"] for one in (jobs, told)]
    begin_s = arrivals[-3]
    assert (ends[0][-3:] - begin_s).tolist() == [5_000.0, 10_000.0, 10_070.0]
    assert (ends[1][-3:] - begin_s).tolist() == [5_000.0, 10_070.0, 5_070.0]


def limited_instance(seed: int, jobs: int = 60) -> Instance:
    """Random jobs whose limits say something about their run times."""
    instance = random_instance(seed, jobs=jobs)
    limits_s = instance.workload.jobs["duration_s"] * np.random.default_rng(seed).uniform(1.0, 3.0, jobs)
    workload = instance.workload.unchecked_columns(estimate_s=limits_s)
    return Instance(instance.cluster, workload, None, instance.semantics)


@given(st.integers(0, 2**31), st.integers(1, 119), st.sampled_from(["nested", "limit", "none"]))
@settings(max_examples=20, deadline=None)
def test_who_takes_over_in_the_middle_of_a_run_knows_what_the_one_before_knew(
    seed: int, points: int, predictor: str
) -> None:
    """Also if the run is a copy, or the arrays of the policy are."""
    instance = limited_instance(seed % 1_000)

    def new() -> IndexPolicy:
        return IndexPolicy.playing(random_rule(seed), predictor=predictor)

    whole, part = Simulation(instance), Simulation(instance)
    whole.run(new())
    player = new().player(part)
    assert player is not None
    player.play(float(np.quantile(whole.arrays.jobs["finish_s"], points / 120.0)))
    player.assist()
    known = player.own
    for run, own in ((part, new().begin(part, False)), (copy.deepcopy(part), copy.deepcopy(known))):
        own.history = None
        new().assist(run, own)
        assert own.class_of.tolist() == known.class_of.tolist()
        assert own.index_s.tolist() == known.index_s.tolist()


def test_an_unknown_predictor_is_refused() -> None:
    with pytest.raises(SchedulerError, match="unknown predictor 'limits': did you mean 'limit'"):
        IndexPolicy.playing(IndexRule(), predictor="limits")
    with pytest.raises(SchedulerError, match="unknown predictor 'limits': did you mean 'limit'"):
        make_scheduler("learned:general,predictor=limits")


def test_a_predictor_that_is_given_up_is_told() -> None:
    """Limits by lot tell nothing, and that is said; without a predictor, none is given up."""
    rng = np.random.default_rng(0)
    case = unit_instance(np.cumsum(rng.exponential(65.0, 1500)), [1] * 1500, rng.lognormal(5.0, 1.0, 1500))
    limits = case.workload.unchecked_columns(estimate_s=rng.lognormal(5.0, 2.0, 1500))
    case = Instance(case.cluster, limits, case.network, case.semantics)
    policy, silent = (IndexPolicy.playing(IndexRule(), predictor=name) for name in ("limit", "none"))
    for one in (policy, silent):
        play(case, one)
    assert silent.notes == {}
    ((words, jobs),) = policy.notes.items()
    assert words.startswith("given up: predictions of limit in ")
    assert 0 < jobs < 1500


def test_jobs_that_have_not_arrived_change_nothing() -> None:
    """The log up to an arrival is that of a workload without this job and those after it."""
    whole = random_instance(7, jobs=40)
    cut_s = float(whole.workload.jobs["arrival_s"][25])
    first = whole.workload.select(np.flatnonzero(whole.workload.jobs["arrival_s"] < cut_s))
    part = Instance(whole.cluster, first, None, whole.semantics)
    rule = random_rule(3)

    def until_cut(instance: Instance) -> list[Any]:
        events = play(instance, IndexPolicy.playing(rule)).events
        return [tuple(event) for event in events[events["time_s"] < cut_s][["time_s", "kind", "job"]]]

    assert until_cut(whole) == until_cut(part)
    assert len(until_cut(part)) > 25


def test_a_gang_moves_when_a_tighter_placement_is_free() -> None:
    """Two machines of four GPUs. Two gangs of three leave one GPU on each, on which a gang of two spreads when it has
    waited for as long as that is expected to cost, if each job runs for 20,000 s: then it has nearly 20,000 s left.
    When the second gang of three ends, there is room on its machine: the gang of two moves there and stays.
    """
    jobs = Workload.from_columns(
        [0.0, 0.0, 1.0], [3, 3, 2], [9_000.0, 2_400.0, 6_000.0], profiles=mixed_profiles(), profile=[2, 2, 1]
    )
    instance = Instance(Cluster.parse("2x4"), jobs)
    level = level_at(20_000.0)
    rule = IndexRule(hold=100.0, prior=np.where(np.arange(LEVELS) == level, 1.0, 1e-12), patience=0.25)
    excess = (
        instance.iteration_s[instance.job_class[2], RACK, 0] / instance.ideal_iteration_s[instance.job_class[2]] - 1
    )
    wait_s = 0.25 * excess * (STARTS_S[level] + STARTS_S[level + 1]) / 2
    assert 30.0 < wait_s < 2_000.0
    log = play(instance, IndexPolicy.playing(rule))
    mine = log.events[log.events["job"] == 2]
    assert mine["kind"].tolist() == [ARRIVAL, START, PREEMPT, RELEASE, RESUME, COMPLETE]
    assert mine["time_s"][1] == pytest.approx(1.0 + wait_s)
    assert mine["tier"][[1, 4]].tolist() == [RACK, MACHINE]
    ended_s = log.events["time_s"][(log.events["job"] == 1) & (log.events["kind"] == COMPLETE)][0]
    assert mine["time_s"][2] == ended_s
    assert preemptions(play(instance, IndexPolicy.playing(dataclasses.replace(rule, move_factor=1e9)))) == 0
    # A checkpoint that takes no time frees the GPUs at once: the gang goes on at the same time.
    free = Instance(Cluster.parse("2x4"), jobs, None, Semantics(checkpoint_s=0.0))
    for policy in (IndexPolicy, Decided):
        mine = play(free, policy.playing(rule)).events
        moved = mine[(mine["job"] == 2) & np.isin(mine["kind"], [PREEMPT, RESUME])]
        assert moved["time_s"].tolist() == [2_400.0, 2_400.0]


def test_the_score_is_gpus_times_gittins_index_by_hand() -> None:
    """All jobs end in the first level, from 0 to 4 s: each of 4 GPUs costs 2 s; to start, one must save and restore."""
    shares = np.full((1, LEVELS), 1e-12)
    shares[0, 0] = 1.0
    simulation = Simulation(unit_instance([0.0], [4], [100.0], "1x4", checkpoint_s=5.0, restore_s=3.0))
    plan = IndexPolicy.playing(IndexRule(prior=shares[0], gang=1.5, hold=1.0)).begin(simulation, True)
    simulation.advance()
    assert score_of(simulation.arrays, plan, 0, 0) == pytest.approx(8.0 * (2.0 + 5.0 + 3.0))
    assert simulation.apply(Start(0, "pack")) == ""
    assert score_of(simulation.arrays, plan, 0, 0) == pytest.approx(8.0 * 2.0 / 2.0)


def test_a_promoted_gang_is_asked_again_while_nothing_arrives_or_ends() -> None:
    """A gang holds all 4 GPUs, jobs of one GPU wait, and nobody arrives then. As the gang goes on, fewer completions
    are expected of it: the small jobs, which end soon, do not wait for its end.
    """
    runs = [500.0] * 40 + [200_000.0] + [800.0] * 4
    arrivals = [1_000.0 * number for number in range(40)] + [41_000.0 + number for number in range(5)]
    gangs = [1] * 40 + [4] + [1] * 4
    instance = unit_instance(arrivals, gangs, runs, "1x4", checkpoint_s=0.0, restore_s=0.0)
    finish_s = job_times(instance, play(instance, IndexPolicy.playing(IndexRule())))["finish_s"]
    assert finish_s[-4:].max() < 100_000.0 < finish_s[40]


def test_a_saved_rule_is_read_again_and_a_damaged_one_refused(tmp_path: Path) -> None:
    rule, file = random_rule(1), tmp_path / "rule.npz"
    rule.save(file, {"seed": 1})
    again = IndexPolicy(path=str(file))
    for one in dataclasses.fields(IndexRule):
        assert np.array_equal(getattr(again.rule, one.name), getattr(rule, one.name))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(SchedulerError, match=str(file)):
        IndexRule.load(file)
    with pytest.raises(SchedulerError, match="either agent"):
        IndexPolicy()
    with pytest.raises(SchedulerError, match=r"move_factor is 0\.5"):
        IndexRule(move_factor=0.5)


def test_a_file_of_the_former_form_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "old.npz", {"format": "gpusched-index-policy-1"}, {"linear": np.zeros(5)})
    with pytest.raises(SchedulerError, match=r"old\.npz: format 'gpusched-index-policy-1' is not .*train an index"):
        make_scheduler(f"learned:path={tmp_path / 'old.npz'}")


def test_the_vector_of_the_search_is_a_rule() -> None:
    rule = rule_of(START_VECTOR)
    assert (rule.gang, rule.hold, rule.patience, rule.move_factor) == (1.0, 1.0, 1.0, 1.0)
    assert rule_of(START_VECTOR + 0.5).patience == pytest.approx(2.0)


def test_a_prior_is_the_mean_of_distributions_and_leaves_out_no_level() -> None:
    prior = prior_of([np.full(10, 100.0), np.full(1_000, 1e5)])
    assert abs(prior.sum() - 1.0) < 1e-12
    assert abs(prior[10:20].sum() - 0.5) < 0.01
    assert prior.min() == FLOOR / LEVELS


def started_first(gangs: list[int], seconds: list[float], gpus: int) -> set[int]:
    """Jobs that an index policy with true run times starts at time 0, when all have arrived."""
    instance = unit_instance([0.0] * len(gangs), gangs, seconds, f"1x{gpus}")
    events = play(instance, known_order()).events
    return set(events["job"][(events["time_s"] == 0.0) & (events["kind"] == START)].tolist())


def test_a_gang_that_does_not_fit_comes_first_if_it_promises_more_completions() -> None:
    """On 4 GPUs, a job of 1 x 4,000 GPU seconds comes before a gang of 4 x 1,500; but both orders end in 5,500 s, and
    the gang before it completes one job after 1,500 s. Three such jobs complete more per second than the gang.
    """
    assert started_first([1, 4], [4_000.0, 1_500.0], 4) == {1}
    assert started_first([1, 1, 1, 4], [4_000.0] * 3 + [1_500.0], 4) == {0, 1, 2}
    assert started_first([1, 8, 4], [4_000.0, 1_500.0, 9_000.0], 12) == {0, 1}  # it fits beside the first


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 7, 8]), st.integers(20, 34)), min_size=1, max_size=6), st.integers(8, 9)
)
@settings(max_examples=150, deadline=None)
def test_what_starts_is_worth_half_of_the_best_set(jobs: list[tuple[int, int]], gpus: int) -> None:
    """Worth are completions per second, and run times the middles of levels, which the policy knows exactly."""
    gangs = [gang for gang, _ in jobs]
    seconds = [float(STARTS_S[level] + STARTS_S[level + 1]) / 2 for _, level in jobs]
    sets = (
        chosen for k in range(len(jobs) + 1) for chosen in itertools.combinations(range(len(jobs)), k)
        if sum(gangs[job] for job in chosen) <= gpus
    )  # fmt: skip
    best = max(sum(1.0 / seconds[job] for job in chosen) for chosen in sets)
    worth = sum(1.0 / seconds[job] for job in started_first(gangs, seconds, gpus))
    assert worth >= best / 2 * (1.0 - 1e-9)
