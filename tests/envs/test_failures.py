"""Environments with failures: the array of crashes; runs equal direct ones, batches single ones, copies originals."""

import copy
import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import failing, linked_scenario, play, small_scenario, thirty_jobs
from scheduler_player import play_scheduler, wide_open

from gpusched_env import get_scenario
from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import FAIL
from gpusched_env.problem.failures import Failures
from tests.envs import test_growing
from tests.envs.test_growing import pair, together
from tests.envs.test_snapshots import played

SMALL: dict[str, Any] = dict(id="gpusched/Cluster-v0", queue_window=6, running_window=3, extras=("crashes",))
LLM = get_scenario("llm-1024-h100-v0")
CROWD = dataclasses.replace(LLM.workload, jobs=30, parameters={"mean_gap_s": 20.0})
PRETRAINING = failing(LLM.replace(workload=CROWD, tracked_window=None), 60.0, 4e4)
OPTIONS: dict[str, dict[str, Any]] = {
    "links": SMALL | dict(scenario=failing(linked_scenario()), rules=("contention", "spread")),
    "leases": SMALL | dict(scenario=failing("tiny-v1", 60.0), lease_s=120.0),
    "sizes": dict(id="gpusched/Elastic-v0", scenario=failing("pollux-64-v0:jobs=24")),
    "sharing": dict(id="gpusched/Sharing-v0", scenario=failing(thirty_jobs("bsbf-sim-240-v1")), extras=("crashes",)),
    "pretraining": dict(id="gpusched/Pretraining-v0", scenario=PRETRAINING, extras=("crashes",)),
    "family": dict(id="gpusched/Family-v0", scenario=failing("family-v1", 300.0), extras=("crashes",)),
}


@pytest.mark.parametrize("rate", [0.0, 20_000.0])
def test_the_array_equals_the_view(rate):
    scenario = get_scenario("tiny-v1").with_failures(Failures(rate, repair_s=600.0))
    env = gym.make("gpusched_env:gpusched/Cluster-v0", scenario=scenario, extras=("crashes",))
    observation, _ = env.reset(seed=200_000)
    rng, seen = np.random.default_rng(0), 0
    for _ in range(200):
        simulation = env.unwrapped.simulation
        rows = simulation.instance.outages.rows
        rows = rows[rows["start_s"] <= simulation.now_s]
        counts = np.bincount(rows["node"], minlength=2)
        down = np.bincount(rows["node"][rows["end_s"] > simulation.now_s], minlength=2)
        assert observation["crashes"] == pytest.approx(np.stack([down, counts / (4 + counts)], axis=1))
        seen = max(seen, len(rows))
        mask = env.unwrapped.action_masks()
        observation, _, ended, cut, _ = env.step(int(rng.choice(np.flatnonzero(mask))))
        if ended or cut:
            break
    assert (seen > 0) == (rate > 0)


@pytest.mark.parametrize(
    ("scenario", "specs"),
    [
        (failing(small_scenario(30)), ("fifo", "srtf", "slurm", "prudent", "tiresias", "las:round_s=120", "sjf-bsbf")),
        (failing(linked_scenario()), ("fifo-easy", "dally", "ada-srsf")),
        (PRETRAINING, ("fifo", "drf", "prudent")),
        (failing("pollux-64-v0:jobs=24"), ("optimus", "afs")),
    ],
    ids=["plain", "links", "pretraining", "sizes"],
)
def test_schedulers_play_alike_directly_and_through_the_environment(scenario, specs):
    instance = scenario.instance(3)
    env = wide_open(scenario, 3, rules=("pack", "consolidate", "rails"), tenant_window=4 if instance.tenants else 0)
    for spec in specs:
        direct = play(instance, spec, seed=3)
        assert FAIL in direct.events["kind"]
        assert play_scheduler(env, make_scheduler(spec), 3).digest() == direct.digest()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_batch_that_grows_equals_single_environments(name, monkeypatch):
    many, ones = pair(OPTIONS[name], 2)
    fails, compare = set(), test_growing.same

    def same(told, infos, b, *seen):
        compare(told, infos, b, *seen)
        fails.add(int(ones[b].simulation.arrays.world["fails"]))

    monkeypatch.setattr(test_growing, "same", same)
    together(many, ones, np.random.default_rng(1), 80, grow=0.2, resets=0.04)
    assert len(fails) > 1
    many.close()


@pytest.mark.parametrize("name", OPTIONS)
def test_snapshots_and_copies_go_on_alike(name):
    env = gym.make(**OPTIONS[name], disable_env_checker=True).unwrapped
    _, info = env.reset(seed=3)
    mask = played(env, info["action_mask"], np.random.default_rng(0), 40)[-1][4]["action_mask"]
    fails = int(env.simulation.arrays.world["fails"])
    snapshot, twin = env.snapshot(), copy.deepcopy(env)
    future = played(env, mask, np.random.default_rng(1), 150)
    assert env.simulation.arrays.world["fails"] > fails > 0
    np.testing.assert_equal(played(twin, mask, np.random.default_rng(1), 150), future)
    env.reset(seed=4)
    _, info = env.restore(snapshot)
    np.testing.assert_equal(played(env, info["action_mask"], np.random.default_rng(1), 150), future)
