"""The makespan index: who gets which type by hand, moves, bounds, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import play, random_instance, two_types
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.agents.makespan_index import WEIGHTS, MakespanIndex, save_weights
from gpusched_env.agents.makespan_index_search import weights_of
from gpusched_env.baselines import make_scheduler
from gpusched_env.cluster import Cluster, NodeGroup
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START
from gpusched_env.instance import Instance, Semantics
from gpusched_env.metrics import job_times, lower_bounds
from gpusched_env.network import Network
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.workload import Profiles, Workload

PLAIN = {"limit": 1.0, "gang": 0.0, "hold": 0.0, "period_s": 1_000.0}
ONE_EACH = Cluster([NodeGroup(1, 1, "A"), NodeGroup(1, 1, "B")])


def index(prices: dict[str, float], **weights: float) -> MakespanIndex:
    return MakespanIndex.playing(PLAIN | weights, prices)


def twice_as_fast(arrival: list[float], seconds: list[float], cluster: Cluster = ONE_EACH) -> Instance:
    """Jobs of one GPU that need ``seconds`` on type A, and twice as long on B; preemption is free."""
    row = dict(name="a", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(1.0, 2.0))
    jobs = Workload.from_columns(
        arrival, [1] * len(seconds), seconds, profiles=Profiles.from_rows([row], ("A", "B")), profile=[0] * len(seconds)
    )
    return Instance(cluster, jobs, Network("none"), Semantics(checkpoint_s=0.0, restore_s=0.0))


def ends(instance: Instance, scheduler: MakespanIndex) -> list[float]:
    times: list[float] = job_times(instance, play(instance, scheduler))["finish_s"].tolist()
    return times


def test_the_longest_job_gets_the_fast_type_though_the_other_was_first() -> None:
    assert ends(twice_as_fast([0, 0], [40, 100]), index({"A": 2.0, "B": 1.0})) == [80.0, 100.0]


def test_a_job_that_would_end_late_moves_to_the_fast_type_when_that_is_free() -> None:
    """60 s on A are 120 s on B. At 100 s, 20 s are left on B; A is free, and needs 10 s."""
    assert ends(twice_as_fast([0, 0], [60, 100]), index({"A": 2.0, "B": 1.0})) == [110.0, 100.0]


def test_it_does_not_move_if_it_ends_in_time_where_it_is() -> None:
    instance = twice_as_fast([0, 0, 0], [60, 100, 90], Cluster([NodeGroup(1, 2, "A"), NodeGroup(1, 1, "B")]))
    assert ends(instance, index({"A": 2.0, "B": 1.0}, limit=2.5)) == [120.0, 100.0, 90.0]


def test_prices_say_who_leaves_a_dear_type_to_others() -> None:
    """Both jobs are in time everywhere. The longer one chooses first: the cheaper type, which its price decides."""
    instance = twice_as_fast([0, 0], [40, 45])
    assert ends(instance, index({"A": 3.0, "B": 1.0}, limit=9.0)) == [40.0, 90.0]
    assert ends(instance, index({"A": 1.0, "B": 1.0}, limit=9.0)) == [80.0, 45.0]


def test_all_jobs_choose_again_after_a_period() -> None:
    """A job of 40 s runs on A when one of 100 s arrives; they change places at the next period, which is at 20 s."""
    instance = twice_as_fast([0, 5], [40, 100])
    assert ends(instance, index({"A": 1.0, "B": 1.0}, period_s=20.0)) == [60.0, pytest.approx(112.5)]
    log = play(instance, index({"A": 1.0, "B": 1.0}, period_s=20.0))
    assert log.events["time_s"][log.events["kind"] == START].tolist() == [0.0, 5.0]


@given(st.integers(0, 2**31), st.sampled_from([0.0, 30.0]))
@settings(max_examples=15, deadline=None)
def test_every_log_is_valid(seed: int, checkpoint_s: float) -> None:
    """Jobs arrive over time, some gangs span machines, and checkpoints may take time."""
    instance = random_instance(seed % 101, 25, two_types(), checkpoint_s=checkpoint_s)
    weights, _ = weights_of([(seed >> k) % 3 - 1.0 for k in range(6)])
    log = play(instance, MakespanIndex.playing(weights, {"A": 0.6, "B": 0.4}))
    assert job_times(instance, log)["finish_s"].max() >= lower_bounds(instance)["makespan_s"] - 1e-6


def test_where_the_longest_job_sets_the_makespan_it_is_near_the_bound() -> None:
    instance = get_scenario("hadar-60gpu-v1").instance(0)
    scheduler = MakespanIndex.playing(*weights_of([0.0] * 6))
    makespan_s = job_times(instance, simulate(instance, scheduler))["finish_s"].max()
    assert makespan_s < 1.002 * lower_bounds(instance)["makespan_s"]


def test_a_type_without_a_price_is_named() -> None:
    with pytest.raises(SchedulerError, match="no price for GPU type B"):
        simulate(twice_as_fast([0], [1]), index({"A": 0.5}))


def test_weights_are_read_again_and_foreign_ones_refused(tmp_path: Path) -> None:
    weights, prices = weights_of([0.1 * k for k in range(6)])
    save_weights(tmp_path / "weights.npz", weights, prices, {})
    scheduler = make_scheduler("learned", path=str(tmp_path / "weights.npz"))
    assert isinstance(scheduler, MakespanIndex)
    assert (scheduler.weights, scheduler.prices) == (weights, prices)
    assert list(scheduler.weights) == list(WEIGHTS)
    with pytest.raises(SchedulerError, match="either the name of an agent or the path"):
        MakespanIndex()
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(SchedulerError, match=r"bad\.npz: not the weights of a makespan index"):
        MakespanIndex(path=str(tmp_path / "bad.npz"))
