"""Index policies: evidence by hand, the compiled loop = ``decide``, moves, files, and no look into the future."""

from __future__ import annotations

import dataclasses
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

from gpusched_env.agents.index_policy.evidence import level_of, prediction_of, tell
from gpusched_env.agents.index_policy.rule import LEVELS, PREDICTIONS, THRESHOLDS_S, IndexRule
from gpusched_env.agents.index_policy.scheduler import IndexPolicy, allocate_index, neighbours
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import MACHINE, RACK, Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Simulation, simulate
from studies.index_search.index_policy import START as SEARCH_START
from studies.index_search.index_policy import rule_of, start_vector


class Decided(IndexPolicy):
    """Played by ``decide``."""

    def player(self, simulation: Simulation) -> None:
        return None


def random_rule(seed: int, **changes: Any) -> IndexRule:
    """A rule whose hidden units matter."""
    vector = start_vector(seed, 4)
    vector += np.random.default_rng(seed).normal(0.0, 0.5, len(vector))
    return dataclasses.replace(rule_of(vector), **changes)


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


def test_levels_are_half_doublings_from_a_minute_to_two_weeks() -> None:
    plan = allocate_index(random_instance(0), IndexRule())
    assert [level_of(plan, seconds) for seconds in (0.0, 63.9, 64.0, 95.9, 96.0, 128.0, 1e7)] == [
        0,
        0,
        1,
        1,
        2,
        3,
        LEVELS - 1,
    ]
    assert THRESHOLDS_S[:4] == (64.0, 96.0, 128.0, 192.0)


def test_neighbours_are_the_jobs_of_equal_size_next_in_the_order_of_submission() -> None:
    earlier, later = neighbours(np.array([1, 2, 1, 2, 4, 1]))
    assert earlier.tolist() == [-1, -1, 0, 1, -1, 2]
    assert later.tolist() == [2, 3, 5, -1, -1, -1]


def test_evidence_reaches_the_burst_and_the_series_and_no_further() -> None:
    """Submitted at 0, 1, 50, 51 and 5,000 s: two bursts of one series, and a job of another series."""
    instance = unit_instance([0.0, 1.0, 50.0, 51.0, 5_000.0], [1] * 5, [100.0] * 5)
    plan = allocate_index(instance, IndexRule(reach=8, burst_s=5.0, series_s=600.0))
    sim = Simulation(instance).arrays
    tell(sim, plan, 1, 7, 1)  # the second job shows evidence 7
    assert plan.told.tolist() == [[7, 7], [0, 0], [0, 7], [0, 7], [0, 0]]
    assert prediction_of(plan, 0) == 7
    assert prediction_of(plan, 2) == 7 + LEVELS, "of the series, not of the burst"
    assert prediction_of(plan, 4) == 0
    tell(sim, plan, 3, 10, 1)
    assert prediction_of(plan, 2) == 10, "its own burst counts alone"
    assert prediction_of(plan, 0) == 7
    tell(sim, plan, 1, 2, 0)  # the second job goes on to evidence 9
    assert prediction_of(plan, 0) == 9


def test_evidence_reaches_no_more_than_so_many_neighbours() -> None:
    instance = unit_instance([0.0] * 5, [1] * 5, [100.0] * 5)
    plan = allocate_index(instance, IndexRule(reach=1))
    tell(Simulation(instance).arrays, plan, 2, 3, 1)
    assert plan.tellers[:, 0].tolist() == [0, 1, 0, 1, 0]


def test_a_job_whose_burst_is_short_overtakes_one_whose_burst_is_long() -> None:
    """One machine of two GPUs. Of the first burst, of one GPU, a job has run for 70 s; of the second, of two GPUs, one
    for 5,000 s. Then one job of each burst waits, and the one of the second was submitted first.
    """
    arrivals, gpus, durations = [0.0, 200.0, 201.0, 202.0], [1, 2, 2, 1], [70.0, 5_000.0, 5_000.0, 70.0]
    instance = unit_instance(arrivals, gpus, durations, "1x2", checkpoint_s=0.0, restore_s=0.0)
    by_prediction = IndexRule(linear=np.array([0.0, 0.0, 1.0, 0.0, 0.0]), hold=100.0)
    by_row = IndexRule(hold=100.0)
    ends = [
        job_times(instance, play(instance, IndexPolicy.playing(rule)))["finish_s"] for rule in (by_prediction, by_row)
    ]
    assert ends[0].tolist() == [70.0, 5_200.0, 10_270.0, 5_270.0]
    assert ends[1].tolist() == [70.0, 5_200.0, 10_200.0, 10_270.0]


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
    """Two machines of four GPUs. Two gangs of three leave one GPU on each, on which a gang of two spreads after 40 s.
    When the second gang of three ends, there is room on its machine: the gang of two moves there and stays.
    """
    jobs = Workload.from_columns(
        [0.0, 0.0, 1.0], [3, 3, 2], [9_000.0, 2_400.0, 6_000.0], profiles=mixed_profiles(), profile=[2, 2, 1]
    )
    instance = Instance(Cluster.parse("2x4"), jobs)
    rule = IndexRule(hold=100.0, patience_s=np.array([[0.0, 40.0], [0.0, 40.0]]), move_factor=1.0)
    log = play(instance, IndexPolicy.playing(rule))
    mine = log.events[log.events["job"] == 2]
    assert mine["kind"].tolist() == [ARRIVAL, START, PREEMPT, RELEASE, RESUME, COMPLETE]
    assert mine["time_s"][1] == 41.0
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


def test_scores_of_a_linear_rule_by_hand() -> None:
    rule = IndexRule(
        linear=np.array([1.0, 0.5, 2.0, 7.0, 1.0]), bounds=np.array([3.0, 9.0]), heights=np.array([10.0, 20.0])
    )
    instance = unit_instance([0.0], [4], [100.0], "1x4")
    scores = rule.tables(instance).scores[0]
    assert scores.shape == (PREDICTIONS, LEVELS)
    assert scores[0, 0] == 2.0 + 7.0  # log2(4), no prediction
    assert scores[6, 2] == 2.0 + 0.5 * 1.0 + 3.0 * 2.0  # burst: predictions are 1 + the level, and two make a doubling
    assert scores[6 + LEVELS, 2] == 2.0 + 0.5 * 1.0 + 2.0 * 2.0  # series: without the extra weight of bursts
    # attained: 2 + (level - 1) / 2 doublings of 64 GPU s; it is 3 at level 3
    assert scores[1, 2] == 2.5
    assert scores[1, 3] == 2.0 + 0.75 + 10.0


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


def test_the_vector_of_the_search_is_a_rule() -> None:
    rule = rule_of(start_vector(0, 8))
    assert rule.inner.shape[1] == 8
    assert rule.hold == 2.0 * SEARCH_START["hold"][0]
    assert rule.bounds.tolist() == [4.0 * bound for bound in SEARCH_START["bounds"]]
    assert rule.least_run_s == 60.0 * 4.0 ** SEARCH_START["least_run_s"][0]
