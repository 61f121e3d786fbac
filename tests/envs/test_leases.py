"""``lease_s``: the agent is asked at the end of each lease; waiting renews the lease."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import linked_scenario, small_scenario
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import COMPLETE, LEASE_END, PREEMPT, RATE, RESUME, START
from gpusched_env.metrics import validate
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import Scenario, get_scenario

LEASE_S = 600.0


def episode(env: ClusterEnv, victims: bool = False) -> np.ndarray:
    """Start all jobs that fit, first slot first; with ``victims`` preempt gangs at the end of their lease."""
    _, info = env.reset(seed=200_000)
    over = False
    while not over:
        feasible = np.flatnonzero(info["action_mask"]).tolist()
        ended = env.simulation.view_for(make_scheduler("fifo")).lease_ended.tolist()
        first = env.windows.first_preemption
        preempting = [a for a in feasible if a in range(first, first + env.windows.running_window)]
        preempting = [a for a in preempting if env.encoder.running_slots[a - first] in ended]
        starts = [a for a in feasible if a < first]
        action = preempting[0] if victims and preempting else starts[0] if starts else env.windows.wait_action
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    validate(env.simulation.instance, env.event_log())
    return env.event_log().events


def without_lease_ends(events: np.ndarray) -> bytes:
    return events[events["kind"] != LEASE_END].tobytes()


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize(
    "scenario", [get_scenario("tiny-v1"), small_scenario(60), linked_scenario()], ids=lambda s: s.name
)
def test_an_agent_that_waits_renews_every_lease_at_no_cost(scenario: Scenario, skips: bool) -> None:
    options: dict[str, Any] = {"queue_window": 60, "skip_forced_waits": skips, "step_limit": 100_000}
    plain = episode(ClusterEnv(scenario, **options))
    leased = episode(ClusterEnv(scenario, lease_s=LEASE_S, **options))
    assert without_lease_ends(leased) == without_lease_ends(plain)
    ends = leased[leased["kind"] == LEASE_END]
    assert len(ends) > 0
    for job in np.unique(leased["job"]).tolist():
        own = leased[leased["job"] == job]
        start, end = (own["time_s"][own["kind"] == kind][0] for kind in (START, COMPLETE))
        expected = start + LEASE_S * np.arange(1, 1 + np.ceil((end - start) / LEASE_S - 1 - 1e-9))
        np.testing.assert_allclose(ends["time_s"][ends["job"] == job], expected)


def test_the_agent_may_take_the_gpus_back_when_a_lease_ends() -> None:
    scenario = small_scenario(60, semantics=Semantics(checkpoint_s=30.0, restore_s=30.0))
    options: dict[str, Any] = {"queue_window": 60, "running_window": 64, "migration": True, "step_limit": 100_000}
    events = episode(ClusterEnv(scenario, lease_s=LEASE_S, **options), victims=True)
    stops = events[events["kind"] == PREEMPT]
    assert len(stops) > 5
    for stop in stops:
        own = events[(events["job"] == stop["job"]) & (events["time_s"] <= stop["time_s"])]
        own = own[own["kind"] != RATE]
        assert own["kind"][-1] == PREEMPT
        assert own["kind"][-2] == LEASE_END
        assert own["time_s"][-1] == own["time_s"][-2]
        begin = own["time_s"][np.isin(own["kind"], (START, RESUME))][-1]
        leases = (stop["time_s"] - begin) / LEASE_S
        assert round(leases) >= 1
        assert leases == pytest.approx(round(leases))


def test_in_rounds_a_lease_ends_with_a_round() -> None:
    scenario = small_scenario(40, semantics=Semantics(round_s=240.0))
    events = episode(ClusterEnv(scenario, queue_window=60, lease_s=LEASE_S, step_limit=100_000))
    ends = events["time_s"][events["kind"] == LEASE_END]
    assert len(ends) > 0
    np.testing.assert_array_equal(ends % 240.0, 0.0)


def test_schedulers_grant_their_own_leases() -> None:
    env = wide_open(get_scenario("tiny-v1"), 200_000, lease_s=LEASE_S)
    with pytest.raises(SchedulerError, match="lease_s=None"):
        play_scheduler(env, make_scheduler("fifo"), 200_000)
