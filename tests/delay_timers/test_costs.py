"""The costs of placements that an agent of delay timers may observe."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.delay_timers.actions import TimerActions
from gpusched_env.delay_timers.columns import COST_COLUMNS
from gpusched_env.delay_timers.costs import placement_costs, uplink_share
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.problem.cluster import NETWORK, RACK
from gpusched_env.scenarios import get_scenario

SMALL = "dally-cells-v0:network={},load=1.1,gangs={},jobs=200"


@pytest.mark.parametrize(("network", "share"), [("free", 1.0), ("1", 1.0), ("4", 0.25), ("20", 0.05)])
def test_slowdowns_are_those_of_the_jobs_that_have_arrived(network: str, share: float) -> None:
    instance = get_scenario(SMALL.format(network, "above")).instance(0)
    assert uplink_share(instance) == pytest.approx(share)
    actions = TimerActions(instance.cluster)
    costs = placement_costs(instance, actions)
    before = costs[0]
    assert (before[:, :2] == 1.0).all()  # nothing has arrived, so nothing is known
    arrived = 50
    seen = costs[arrived]
    jobs = instance.workload.jobs[:arrived]
    for number in range(actions.count):
        own = np.flatnonzero(actions.class_of[jobs["gpus"]] == number)
        if not len(own):
            assert (seen[number, :-1] == before[number, :-1]).all()
            continue
        expected = []
        for row in own:
            demand, kind = int(jobs["gpus"][row]), instance.job_class[row]
            machine, rack, _ = instance.iteration_s[kind, :3, 0]
            compute, communication = instance.compute_s[kind, RACK, 0], instance.communication_s[kind, RACK, 0]
            busy = max(instance.iteration_s[kind, NETWORK, 0], compute + communication / share)
            tier = RACK if demand <= 32 else NETWORK
            expected.append(
                (
                    rack / machine if demand <= 8 else 1.0,
                    1.0 if demand > 32 else busy / (machine if demand <= 8 else rack),
                    1.0 - instance.compute_s[kind, tier, 0] / instance.iteration_s[kind, tier, 0],
                    8 % demand / 8 if demand <= 8 else 0.0,
                    32 % demand / 32 if demand <= 32 else 0.0,
                )
            )
        means = np.mean(expected, axis=0)
        means[:2] = 1.0 - 1.0 / means[:2]
        np.testing.assert_allclose(seen[number, :-1], means, rtol=0, atol=1e-6)
    gangs = jobs["gpus"][jobs["gpus"] > 1]
    assert seen[:, -1] == pytest.approx(gangs[gangs > 32].sum() / gangs.sum())


def test_costs_are_an_array_of_the_environment_on_request_only() -> None:
    plain, told = (DelayTimersEnv(SMALL.format("4", "below"), costs=costs) for costs in (False, True))
    seen = {name: env.reset(seed=0)[0] for name, env in (("plain", plain), ("told", told))}
    assert seen["plain"].keys() == {"classes", "cluster"}
    assert seen["told"].keys() == {"classes", "cluster", "costs"}
    action = np.zeros(plain.timers.shape, np.float32)
    for _ in range(30):
        one, other = plain.step(action)[0], told.step(action)[0]
        assert told.observation_space.contains(other)
        assert all((one[name] == other[name]).all() for name in one)
    assert other["costs"].shape == (6, len(COST_COLUMNS))
