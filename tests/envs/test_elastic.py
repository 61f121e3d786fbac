"""The environment where actions choose the sizes of elastic jobs: masks, observations and logs match the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpusched_env.agents.teachers import actions_of
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.simulator import Preempt, Resize, Start

JOBS = 14
WIDE: dict[str, Any] = dict(
    queue_window=4, running_window=5, rules=("pack", "spread", "consolidate", "random"), sizes=(1, 2, 3, 6, 8, 16),
    running_order="longest", least_run_s=0.0, skip_forced_waits=False,
)  # fmt: skip


def crowded(checkpoint_s: float = 0.0) -> Scenario:
    """Elastic jobs on two racks of two nodes of four GPUs, each with every size from 1 to 16."""
    return Scenario(
        name="crowded",
        description="",
        groups=(NodeGroup(4, 4, nodes_per_rack=2),),
        workload=WorkloadSpec(
            "synthetic:poisson", {"rate_per_s": 0.01, "mean_duration_s": 1_500.0}, max_gpus=8, jobs=JOBS,
            elastic={"rule": "amdahl", "serial": 0.1, "step": 1, "most": 16},
        ),
        semantics=Semantics(checkpoint_s=checkpoint_s, restore_s=20.0),
    )  # fmt: skip


def effect(env: ClusterEnv, decision: Start | Resize | Preempt) -> bool:
    """Whether the simulator accepts a decision, and it changes something."""
    copy = env.simulation.rehearsal()
    before = len(list(copy.log().lines()))
    return copy.apply(decision) == "" and len(list(copy.log().lines())) > before


def draw(env: ClusterEnv, rng: np.random.Generator) -> int:
    """A feasible action, mostly one of starts, resizes, preemptions and waits with equal probability."""
    feasible = np.flatnonzero(env.mask)
    w = env.windows
    kinds = np.searchsorted([w.first_resize, w.first_preemption, w.wait_action], feasible, side="right")
    return int(rng.choice(feasible[kinds == rng.choice(np.unique(kinds))]))


@pytest.mark.parametrize("checkpoint_s", [0.0, 30.0])
def test_the_mask_marks_exactly_the_decisions_that_are_accepted_and_change_something(checkpoint_s: float) -> None:
    env = ClusterEnv(crowded(checkpoint_s), **(WIDE | {"migration": True}))
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    marked: dict[type, int] = {}
    for step in range(340):
        for action in range(env.windows.wait_action) if step % 3 == 0 else ():
            decision = env.encoder.decision_of(action)
            assert decision is not None
            if decision.job < 0:
                assert not env.mask[action]
                continue
            assert bool(env.mask[action]) == effect(env, decision), (step, decision)
            if env.mask[action]:
                marked[type(decision)] = marked.get(type(decision), 0) + 1
                assert env.encoder.action_of(decision) == action
        _, _, terminated, _, info = env.step(draw(env, rng))
        assert info["refusals"] == 0
        if terminated:
            env.reset(seed=step)
    assert min(marked[Start], marked[Resize], marked[Preempt]) > 100


def test_a_gang_is_resized_only_after_its_least_run_and_also_while_no_job_waits() -> None:
    env = ClusterEnv(crowded(), **(WIDE | {"least_run_s": 300.0, "delays_s": (100.0, 300.0)}))
    env.reset(seed=2)
    windows = env.windows
    resizes = slice(windows.first_resize, windows.first_preemption)
    while not env.mask[: windows.first_resize].any():
        env.step(windows.wait_action)
    env.step(int(np.argmax(env.mask[: windows.first_resize])))
    assert not len(np.flatnonzero(env.encoder.queue_slots >= 0))
    started_s = env.simulation.now_s
    env.step(windows.wait_action + 1)
    assert env.simulation.now_s < started_s + 300
    assert not env.mask[resizes].any()
    while env.simulation.now_s < started_s + 300:
        env.step(windows.wait_action + 2)
    gang = env.simulation.arrays.jobs["gpus"][env.encoder.running_slots[0]]
    if env.simulation.instance.sizes.count[env.encoder.running_slots[0]] > 1:
        assert gang > 0
        assert env.mask[resizes].any()


def test_observations_show_the_sizes_of_jobs() -> None:
    env = ClusterEnv(crowded(), **WIDE)
    sizes, rng = env.windows.sizes, np.random.default_rng(6)
    observation, _ = env.reset(seed=6)
    shown = 0
    for _ in range(200):
        instance, jobs = env.simulation.instance, env.simulation.arrays.jobs
        view = env.simulation.view_for(make_scheduler("srtf"))
        for name, slots, first, step in (
            ("queue_sizes", env.encoder.queue_slots, 0, env.windows.slot_starts),
            ("running_sizes", env.encoder.running_slots, env.windows.first_resize, env.windows.slot_resizes),
        ):
            rows = observation[name].reshape(len(slots), len(sizes), -1)
            assert not rows[slots < 0].any()
            for slot in np.flatnonzero(slots >= 0):
                job = int(slots[slot])
                own, rates = view.sizes(job).tolist(), view.size_rates(job)
                mask = env.mask[first + slot * step : first + (slot + 1) * step].reshape(-1, len(sizes))
                named = [own.index(size) for size in sizes if size in own]
                left = view.remaining_s(np.array([job]))[0] / jobs["ideal_s"][job] * jobs["iterations"][job]
                for s, size in enumerate(sizes):
                    if size not in own:
                        assert not rows[slot, s].any()
                        continue
                    shown += 1
                    i = own.index(size)
                    at = named.index(i)
                    less = (own[named[at - 1]], rates[named[at - 1]]) if at else (0, 0.0)
                    gain = (rates[i] - less[1]) / (size - less[0]) / (rates[named[0]] / own[named[0]])
                    expected = [
                        size / instance.cluster.gpus, rates[i] / rates.max(), np.clip(gain, 0, 1),
                        scaled_time(left / rates[i]), float(jobs["gpus"][job] == size), float(mask[:, s].any()),
                    ]  # fmt: skip
                    np.testing.assert_allclose(rows[slot, s], expected, rtol=1e-5, atol=1e-6)
        observation, _, over, _, _ = env.step(draw(env, rng))
        if over:
            observation, _ = env.reset()
    assert shown > 500


def test_decisions_without_an_action_are_refused_with_the_remedy() -> None:
    env = ClusterEnv(crowded(), **(WIDE | {"sizes": (1, 2)}))
    env.reset(seed=1)
    job = int(env.encoder.queue_slots[0])
    with pytest.raises(GpuschedError, match="sizes that include 5"):
        env.encoder.action_of(Start(job, size=5))
    with pytest.raises(GpuschedError, match="explicit GPUs"):
        env.encoder.action_of(Resize(job, 2, gpus=(0, 1)))


def test_a_teachers_decision_stands_for_the_nearest_size() -> None:
    windows = Windows(queue_window=2, running_window=2, rules=("pack", "spread"), sizes=(1, 2, 6))
    queue, running = np.array([7, 8]), np.array([3, -1])
    assert actions_of(Start(8, "spread", size=5), windows, queue, running) == [6 + 3 + 2]
    assert actions_of(Start(8, gpus=(0, 1, 2, 3)), windows, queue, running) == [6 + 1, 6 + 3 + 1]  # 2 and 6 tie
    assert actions_of(Resize(3, 6, "pack"), windows, queue, running) == [12 + 2]
    assert actions_of(Resize(9, 6, "pack"), windows, queue, running) == []
    assert actions_of(Preempt(3), windows, queue, running) == [windows.first_preemption]
    rigid = Windows(queue_window=2, running_window=2)
    assert actions_of(Resize(3, 6), rigid, queue, running) == []
