"""Hadar: prices, placements and rounds against worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from hadar_cases import Job, asked, case, competitive_alpha, nodes
from helpers import finish, play, preemptions

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.gavel.scheduler import Gavel
from gpusched_env.baselines.hadar.prices import PriceRange, price_table
from gpusched_env.baselines.hadar.scheduler import Hadar
from gpusched_env.baselines.hadar.search import Round
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START
from gpusched_env.metrics import job_times
from gpusched_env.scenarios import FAMILIES
from gpusched_env.simulator import ClusterView


class Watched(Hadar):
    """Record the input and the result of every round."""

    def reset(self, view: ClusterView) -> None:
        super().reset(view)
        self.rounds: list[Round] = []

    def _question(self, view, rows):  # type: ignore[no-untyped-def]
        self.rounds.append(super()._question(view, rows))
        return self.rounds[-1]


J1 = Job(2, 2_880, (4, 2))
J2 = Job(1, 1_440, (4, 1))


def watch(instance, **parameters) -> Watched:  # type: ignore[no-untyped-def]
    scheduler = Watched(**parameters)
    play(instance, scheduler)
    return scheduler


def test_price_of_a_node_that_fills() -> None:
    table = price_table(PriceRange(0.01, 1.0), np.array([4]))
    assert table[0] == pytest.approx([0.01, 0.0316228, 0.1, 0.3162278, 1.0], rel=1e-6)
    assert 2 * competitive_alpha(PriceRange(0.001, 1.0)) == pytest.approx(13.815511, rel=1e-7)
    assert competitive_alpha(PriceRange(0.5, 1.0)) == 1.0


@pytest.mark.parametrize("dp_max", [0, 12], ids=["greedy", "exact"])
def test_two_jobs_on_two_types(dp_max: int) -> None:
    """The job of higher density takes the fast node.
    The other job starts on the slow one and moves when the fast one is free.
    """
    instance = case(nodes((2, "V100"), (2, "P100")), [J1, J2])
    scheduler = watch(instance, dp_max=dp_max)
    first = scheduler.rounds[0]
    assert first.jobs["row"].tolist() == [1, 0]
    assert first.counts.tolist() == [[1, 0], [0, 2]]
    assert first.jobs["payoff"] == pytest.approx([0.999, 0.492])
    assert first.prices[0, :2] == pytest.approx([0.001, 0.0316228], rel=1e-6)
    assert finish(instance, Hadar(dp_max=dp_max)) == [900.0, 360.0]


@pytest.mark.parametrize("dp_max", [0, 12], ids=["greedy", "exact"])
def test_a_gang_on_mixed_types_runs_at_its_slowest(dp_max: int) -> None:
    instance = case(nodes((2, "V100"), (1, "P100")), [J1, J2])
    scheduler = watch(instance, dp_max=dp_max)
    first = scheduler.rounds[0]
    assert first.counts.tolist() == [[1, 0], [1, 1]]
    assert first.jobs["payoff"][1] == pytest.approx(0.3695089, rel=1e-6)
    assert finish(instance, Hadar(dp_max=dp_max)) == [900.0, 360.0]


SPREAD = Job(2, 2_880, (4, 2), spread=(2, 1))


def test_the_guard_refuses_a_slow_spread_placement() -> None:
    """A spread placement costs more than the gang is worth;
    at a quarter of its best rate it is refused even if it is free.
    """
    instance = case(nodes((2, "V100"), (1, "P100")), [SPREAD, J2])
    scheduler = watch(instance)
    assert scheduler.rounds[0].counts.tolist() == [[1, 0], [0, 0]]
    assert finish(instance, Hadar()) == [1_080.0, 360.0]
    for work_conserving, counts in ((False, [0, 0]), (True, [1, 1])):
        first = watch(instance, spread_guard=0.0, work_conserving=work_conserving).rounds[0]
        assert first.counts[1].tolist() == counts
    assert first.jobs["payoff"][1] == pytest.approx(0.25)
    assert finish(instance, Hadar(spread_guard=0.0)) == [990.0, 360.0]


def test_the_guard_lets_a_job_spread_after_its_patience() -> None:
    """Two one-GPU jobs of two hours hold a GPU of each node; the gang is spread after its patience and stays spread."""
    long = Job(1, 28_800, (4, 4))
    instance = case(nodes((2, "V100"), (2, "V100")), [long, long, Job(2, 28_800, (4, 2), spread=(1, 1))])
    starts = {}
    for patience in (720.0, 3_600.0, 1e9):
        log = play(instance, Hadar(guard_patience_s=patience, order="arrival"))
        starts[patience] = log.events["time_s"][(log.events["job"] == 2) & (log.events["kind"] == START)].tolist()
        assert preemptions(log) == (patience < 7_200)  # it moves to one node when the others end
    assert starts == {720.0: [720.0], 3_600.0: [3_600.0], 1e9: [7_200.0]}


def test_the_exact_search_beats_the_greedy_one() -> None:
    """One node of two GPUs:
    a small job that arrived 240 s ago has the higher density, but the large job is worth more.
    """
    rates = [[[1.0]] * 3] * 2
    greedy, exact = (asked(nodes((2, "V100")), [(1, 360, 360, -240), (2, 360, 360, 0)], rates) for _ in range(2))
    greedy.greedy()
    exact.exact()
    assert greedy.counts.tolist() == [[1], [0]]
    assert exact.counts.tolist() == [[0], [2]]
    assert greedy.jobs["payoff"].sum() == pytest.approx(0.5994)
    assert exact.jobs["payoff"].sum() == pytest.approx(0.9988)
    assert greedy.prices[0] == pytest.approx([0.0006, 0.6 / 1_000**0.5, 0.6])


def test_a_job_larger_than_every_type_runs_on_mixed_types() -> None:
    instance = case(nodes((2, "V100"), (2, "P100")), [Job(4, 7_200, (4, 2))])
    assert finish(instance, Hadar()) == [3_600.0]
    with pytest.raises(SchedulerError, match=r"job 0 needs 4 GPUs .* any one GPU type, and mixed is off"):
        finish(instance, Hadar(mixed=False))
    with pytest.raises(SchedulerError, match=r"job 0 demands 4 GPUs, and no GPU type"):
        finish(instance, Gavel("max_min_fairness_perf"))


@pytest.mark.parametrize("spread", [0.4, 4.0])
def test_a_gang_larger_than_a_machine_is_spread_at_once(spread: float) -> None:
    """No better place exists: its rate is compared with its rate on the empty cluster."""
    instance = case(nodes((4, "V100"), (4, "V100")), [Job(8, 1_440, (4, 2), spread=(spread, spread))])
    assert finish(instance, Hadar()) == [pytest.approx(1_440 / spread)]


def test_utilities_pull_in_opposite_directions() -> None:
    """The default has the least makespan and the worst mean JCT; shortest remaining time first is the opposite."""
    scenario = FAMILIES["hadar-60gpu-v1"].plain(spread="free", restore_s=0.0)
    instance = scenario.instance(scenario.seeds.report[0])
    spans, means = [], []
    for utility in ("effective_throughput_normalised", "effective_throughput_raw", "inverse_remaining"):
        times = job_times(instance, play(instance, Hadar(utility)))
        spans.append(float(times["finish_s"].max()))
        means.append(float(times["jct_s"].mean()))
    assert spans == sorted(spans)
    assert means == sorted(means, reverse=True)


def test_the_utility_is_part_of_the_name() -> None:
    assert make_scheduler("hadar").name == "hadar-normalised"
    assert make_scheduler("hadar").clairvoyant
    assert make_scheduler("hadar:utility=inverse_remaining").name == "hadar-remaining"
