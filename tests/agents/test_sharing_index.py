"""The sharing index: each term of its score by hand, what it equals without sharing, and the loop = ``decide``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import plain_python_digests, random_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.agents.sharing_index import TERMS, SharingIndex, SharingRule
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Outcome, Simulation, simulate
from gpusched_env.traces.profile_tables import load_fitted
from studies.index_search.saving import save_sharing
from studies.index_search.sharing_index import rule_of
from tests.baselines.test_sjf_bsbf import check_rules, models_instance, shared


class Decided(SharingIndex):
    """Played by ``decide``."""

    def player(self, simulation: Simulation) -> None:
        return None


def rule(gang: float = 0.0, **weights: float) -> SharingRule:
    """A rule whose other weights are 0."""
    return SharingRule(gang, tuple(weights.get(name, 0.0) for name in TERMS))


def random_rule(seed: int) -> SharingRule:
    return rule_of(np.random.default_rng(seed).normal(0.0, 0.7, 1 + len(TERMS)))


def ends(instance: Instance, rule: SharingRule) -> list[float]:
    times: list[float] = job_times(instance, simulate(instance, SharingIndex.playing(rule)))["finish_s"].tolist()
    return times


def digests() -> list[str]:
    """Logs of some instances; printed by a process without compilation, too."""
    return [
        simulate(models_instance(seed), SharingIndex.playing(random_rule(seed))).digest() for seed in range(3)
    ]  # fmt: skip


def test_compiled_and_plain_python_give_the_same_logs() -> None:
    assert plain_python_digests("tests.agents.test_sharing_index") == digests()


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_the_compiled_loop_makes_the_decisions_of_decide(seed: int) -> None:
    """Logs keep the rules of sharing: at most two jobs on a GPU, never a preemption, free GPUs first."""
    instance, chosen = models_instance(seed % 97), random_rule(seed)
    fast, slow = (simulate(instance, policy.playing(chosen)) for policy in (SharingIndex, Decided))
    assert fast.digest() == slow.digest()
    check_rules(instance, fast)


@pytest.mark.parametrize("seed", range(3))
def test_pauses_at_arrivals_change_nothing(seed: int) -> None:
    instance, chosen = models_instance(seed), random_rule(seed)
    simulation = Simulation(instance)
    player = SharingIndex.playing(chosen).player(simulation)
    assert player is not None
    for time_s in np.unique(instance.workload.jobs["arrival_s"])[1::2]:
        assert player.play(float(time_s)) is Outcome.DECIDE
    assert player.play() is Outcome.DONE
    assert simulation.log().digest() == simulate(instance, SharingIndex.playing(chosen)).digest()


@pytest.mark.parametrize("seed", [1, 2])
def test_without_sharing_it_is_sjf(seed: int) -> None:
    instance = random_instance(seed)
    assert (
        simulate(instance, SharingIndex.playing(rule())).digest() == simulate(instance, make_scheduler("sjf")).digest()
    )


# One GPU, xi 1.2: B (20 s) arrives when A (100 s) has 90 s left. T_seq = 100 s; T_con = 45 + (1 - 1 / 2.4) x 24 = 59 s.
TWO = ([0, 10], [1, 1], [100, 20], "1x1")
SHARES, WAITS = [104.0, 34.0], [100.0, 120.0]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"bias": 0.1}, SHARES),
        ({"bias": 0.0}, WAITS),
        ({"benefit": 1.0, "bias": -0.52}, SHARES),  # ln(100 / 59) = 0.528
        ({"benefit": 1.0, "bias": -0.53}, WAITS),
        ({"longer": 1.0, "bias": -1.50}, SHARES),  # ln(90 / 20) = 1.504
        ({"longer": 1.0, "bias": -1.51}, WAITS),
        ({"slowed": -1.0, "bias": 0.19}, SHARES),  # ln(1.2) = 0.182
        ({"slowed": -1.0, "bias": 0.18}, WAITS),
        ({"crowd": 1.0, "bias": -0.49}, SHARES),  # B waits for as many GPUs as there are: 1 / 2
        ({"crowd": 1.0, "bias": -0.51}, WAITS),
    ],
)
def test_a_job_joins_if_its_score_is_above_0(weights: dict[str, float], expected: list[float]) -> None:
    assert ends(shared(*TWO, xi=1.2), rule(**weights)) == pytest.approx(expected)


def test_a_job_joins_larger_gangs_first() -> None:
    """Gangs of one and of three GPUs run; a job of one GPU joins the larger one, and slows it down."""
    instance = shared([0, 1, 10], [1, 3, 1], [100, 100, 20], "1x4", xi=1.2)
    assert ends(instance, rule(bias=0.1, larger=1.0)) == pytest.approx([100, 105, 34])
    assert ends(instance, rule(bias=2.0, larger=-1.0)) == pytest.approx([104, 101, 34])


def test_a_gang_that_is_slowed_down_already_loses_nothing_by_another_partner() -> None:
    """A holds two GPUs and has 90 s left when C arrives, which needs 90 s: C joins only if B slows A down already."""
    chosen = rule(bias=0.1, slowed=-1.0, longer=1.0)
    # Alone, ln(90 / 90) + 0.1 - ln(1.2) < 0. B (1 s) has joined at 9 s, so A has 90.17 s left, and C costs it nothing.
    alone, beside = ([0, 10], [2, 1], [100, 90]), ([0, 9, 10], [2, 1, 1], [100, 1, 90])
    for (arrival, gpus, seconds), start_s in ((alone, 100.0), (beside, 10.0)):
        instance = shared(arrival, gpus, seconds, "1x2", xi=1.2)
        starts = job_times(instance, simulate(instance, SharingIndex.playing(chosen)))["first_start_s"]
        assert starts[-1] == start_s


def test_a_job_splits_its_batch_unless_that_costs_too_much() -> None:
    """As in the example of SJF-BSBF: only a quarter of the batch fits beside the running job, and takes longer."""
    table = load_fitted("bsbf")
    profiles, rows = table.for_jobs(["bert", "imagenet"], [4, 200], [1, 1])
    jobs = Workload.from_columns([0, 10], [1, 1], [1010.0, 100.0], profiles=profiles, profile=rows)
    instance = Instance(Cluster.parse("1x1@T4"), jobs, Network("none"), None, Sharing(2, 1.2))
    for weight, steps in ((0.0, [1, 4]), (-100.0, [1, 1])):
        log = simulate(instance, SharingIndex.playing(rule(bias=1.0, split=weight)))
        assert log.events["sub_steps"][log.events["kind"] == START].tolist() == steps


def test_the_gang_size_counts_in_the_order() -> None:
    """All GPUs are busy until 10 s. Then a gang of four (100 s) goes before two jobs of one GPU (110 s), or after."""
    instance = shared([0, 1, 1, 1], [4, 4, 1, 1], [10, 100, 110, 110], "1x4", xi=None)
    assert ends(instance, rule()) == pytest.approx([10, 110, 220, 220])
    assert ends(instance, rule(gang=1.0)) == pytest.approx([10, 220, 120, 120])


def test_a_saved_rule_is_read_again_and_a_damaged_one_refused(tmp_path: Path) -> None:
    chosen, file = random_rule(1), tmp_path / "rule.npz"
    save_sharing(chosen, file, {"seed": 1})
    assert SharingIndex(path=str(file)).rule == chosen
    assert make_scheduler("learned", path=str(file)) == SharingIndex(path=str(file))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(SchedulerError, match=str(file)):
        SharingRule.load(file)
    with pytest.raises(SchedulerError, match="either agent"):
        SharingIndex()


def test_the_search_begins_at_the_test_of_sjf_bsbf() -> None:
    found: Any = dataclasses.asdict(rule_of(np.zeros(1 + len(TERMS))))
    assert found == dataclasses.asdict(SharingRule())
