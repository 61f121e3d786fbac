"""The makespan index: who gets which type by hand, moves, bounds, and its errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import play, random_instance, random_workload, two_types
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


@pytest.mark.parametrize(("price", "expected"), [(2.5, [60, 200, 180]), (1.0, [105, 200, 90])])
def test_a_job_in_time_moves_only_to_a_cheaper_type(price: float, expected: list[float]) -> None:
    """Two GPUs of type A, one of B. The job of 200 s needs A. The job of 90 s is in time on B, and chooses next.

    If A is dear, it stays on B though A is free from 60 s on. If not, it takes A, and the job of 60 s, which has run on
    B for 90 s then, follows it.
    """
    instance = twice_as_fast([0, 0, 0], [60, 200, 90], Cluster([NodeGroup(1, 2, "A"), NodeGroup(1, 1, "B")]))
    assert ends(instance, index({"A": price, "B": 1.0})) == expected


def test_prices_say_who_leaves_a_dear_type_to_others() -> None:
    """Both jobs are in time everywhere. The longer one chooses first: the cheaper type, which prices decide."""
    instance = twice_as_fast([0, 0], [44, 45])
    assert ends(instance, index({"A": 3.0, "B": 1.0}, limit=9.0)) == [44.0, 90.0]
    assert ends(instance, index({"A": 1.0, "B": 1.0}, limit=9.0))[1] == 45.0


def test_all_jobs_choose_again_after_a_period() -> None:
    """A job of 40 s runs on A when one of 100 s arrives; they change places at the next period, which is at 20 s."""
    instance = twice_as_fast([0, 5], [40, 100])
    assert ends(instance, index({"A": 1.0, "B": 1.0}, period_s=20.0)) == [60.0, pytest.approx(112.5)]
    log = play(instance, index({"A": 1.0, "B": 1.0}, period_s=20.0))
    assert log.events["time_s"][log.events["kind"] == START].tolist() == [0.0, 5.0]


@given(st.integers(0, 2**31), st.sampled_from([0.0, 30.0]))
@settings(max_examples=10, deadline=None)
def test_every_log_is_valid(seed: int, checkpoint_s: float) -> None:
    """Jobs arrive over time, some gangs span machines, types may be unable, and checkpoints may take time."""
    cluster = two_types()
    jobs = random_workload(np.random.default_rng(seed), 25, 4, cluster.gpu_types)  # a type has four GPUs at least
    instance = Instance(cluster, jobs, None, Semantics(checkpoint_s=checkpoint_s))
    weights, _ = weights_of([(seed >> k) % 3 - 1.0 for k in range(6)])
    log = play(instance, MakespanIndex.playing(weights, {"A": 0.6, "B": 0.4}))
    assert job_times(instance, log)["finish_s"].max() >= lower_bounds(instance)["makespan_s"] - 1e-6


def test_where_the_longest_job_sets_the_makespan_it_is_near_the_bound() -> None:
    instance = get_scenario("hadar-60gpu-v1").instance(0)
    scheduler = MakespanIndex.playing(*weights_of([0.0] * 6))
    makespan_s = job_times(instance, simulate(instance, scheduler))["finish_s"].max()
    assert makespan_s < 1.002 * lower_bounds(instance)["makespan_s"]


def test_a_gang_that_needs_several_types_is_named() -> None:
    with pytest.raises(SchedulerError, match="fits on the GPUs of no single type"):
        simulate(random_instance(0, 40, two_types()), index({"A": 0.6, "B": 0.4}))


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
