"""At the step limit the environment plays the remaining jobs itself: a return is that of a complete schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers import small_scenario
from network_play import instance_of, network

from gpusched_env.baselines import make_scheduler
from gpusched_env.core import state
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.cluster_vector_env import ClusterVectorEnv
from gpusched_env.event_log import ARRIVAL, COMPLETE, LEASE_END, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import summarise, validate
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.simulator import simulate
from tools.portability.problems import EPISODES
from tools.portability.problems import small_scenario as scenario_of_kind

SEED = 200_000
SCALES = {"jct": "mean_jct_s", "slowdown": "mean_slowdown", "fairness": "rho_mean"}


def infeasible(mask: np.ndarray) -> int:
    return int(np.flatnonzero(mask == 0)[0])


def play(env: ClusterEnv, choose: Any, seed: int = SEED) -> tuple[list[float], bool, bool, list[dict[str, Any]]]:
    """Play an episode; return the rewards, how it ended, and the infos."""
    _, info = env.reset(seed=seed)
    rewards, infos, terminated, truncated = [], [], False, False
    while not (terminated or truncated):
        observation, reward, terminated, truncated, info = env.step(choose(info["action_mask"]))
        assert env.observation_space.contains(observation)
        rewards.append(float(reward))
        infos.append(info)
    return rewards, terminated, truncated, infos


def at_random(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda mask: int(rng.choice(np.flatnonzero(mask)))


@pytest.mark.parametrize("rule", ["pack", "spread", "consolidate"])
@pytest.mark.parametrize("rounds_s", [0.0, 300.0])
def test_an_agent_that_only_errs_plays_fifo_and_pays_for_each_error(rule: str, rounds_s: float) -> None:
    scenario = small_scenario(40, semantics=Semantics(round_s=rounds_s))
    env = ClusterEnv(scenario, step_limit=20, rules=(rule, "pack"), refusal_cost=0.25)
    rewards, terminated, truncated, infos = play(env, infeasible)
    assert (terminated, truncated, len(rewards)) == (True, True, 20)
    assert rewards[:-1] == [-0.25] * 19
    instance = env.simulation.instance
    fifo = simulate(instance, make_scheduler("fifo", placement=rule))
    assert infos[-1]["digest"] == fifo.digest()
    assert infos[-1]["refusals"] == 20
    assert infos[-1]["dt"] == pytest.approx(fifo.events[-1]["time_s"] - fifo.events[0]["time_s"])
    mean_jct_s = summarise(instance, fifo)["mean_jct_s"]
    assert rewards[-1] == pytest.approx(-0.25 - mean_jct_s / instance.ideal_s.mean(), rel=1e-9)


def test_an_agent_that_obeys_the_mask_pays_no_refusal() -> None:
    returns = []
    for cost in (0.0, 0.01, 100.0):
        env = ClusterEnv("tiny-v1", refusal_cost=cost)
        returns.append(sum(play(env, at_random(3))[0]))
    assert len(set(returns)) == 1


# A schedule is complete if every job runs, so agents that may refuse jobs are in tests/envs/test_deadlines.py.
@pytest.mark.parametrize("name", [name for name, (_, _, options) in EPISODES.items() if "more_actions" not in options])
def test_every_return_is_that_of_a_complete_schedule(name: str) -> None:
    """After any number of random steps, in every kind of scenario."""
    kind, jobs, options = EPISODES[name]
    weights = dict.fromkeys(("jct", "slowdown", "makespan", "fairness"), 1.0)
    ends = set()
    for limit in (1, 7, 25):
        env = ClusterEnv(scenario_of_kind(kind, jobs), step_limit=limit, **(options | {"reward": weights}))
        env.reset(seed=SEED)
        first_decision_s = env.simulation.now_s
        rewards, terminated, truncated, infos = play(env, at_random(limit))
        ends.add((terminated, truncated))
        instance, log = env.simulation.instance, env.event_log()
        validate(instance, log)
        assert (log.events["kind"] == COMPLETE).sum() == len(instance.workload)
        metrics = infos[-1]["metrics"]
        assert all(math.isfinite(metrics[name]) for name in (*SCALES.values(), "makespan_s", "utilisation"))
        paid = {name: sum(info["rewards"][name] for info in infos) for name in weights}
        ideal, gpus = instance.ideal_s, instance.workload.jobs["gpus"]
        assert paid["jct"] == pytest.approx(-metrics["mean_jct_s"] / ideal.mean(), rel=1e-9)
        assert paid["slowdown"] == pytest.approx(-metrics["mean_slowdown"], rel=1e-9)
        assert paid["fairness"] == pytest.approx(-metrics["rho_mean"], rel=1e-9)
        end_s = env.simulation.now_s - first_decision_s
        assert paid["makespan"] == pytest.approx(-end_s / ((ideal * gpus).sum() / instance.cluster.gpus), rel=1e-9)
        assert sum(rewards) == pytest.approx(sum(paid.values()), rel=1e-9)
        assert np.flatnonzero(env.mask).tolist() == [env.windows.wait_action]
        assert not env.encoder.take()[0]["queue"].any()
    assert (True, True) in ends
    assert ends <= {(True, True), (True, False)}


def test_the_rest_is_played_without_preemption_and_leases_are_renewed() -> None:
    env = ClusterEnv(small_scenario(40), lease_s=600.0, step_limit=8)
    play(env, infeasible)
    events = env.event_log().events
    assert (events["kind"] == LEASE_END).sum() > 10
    assert not np.isin(events["kind"], (PREEMPT, RELEASE, RESUME)).any()
    unleased = ClusterEnv(small_scenario(40), step_limit=8)
    play(unleased, infeasible)
    assert events[events["kind"] != LEASE_END].tobytes() == unleased.event_log().events.tobytes()


def test_gangs_that_the_agent_has_preempted_are_resumed() -> None:
    env = ClusterEnv(small_scenario(40), least_run_s=0.0, step_limit=60)
    _, info = env.reset(seed=SEED)
    over = False
    while not over:
        feasible = np.flatnonzero(info["action_mask"])
        stops = feasible[(feasible >= env.windows.first_preemption) & (feasible < env.windows.wait_action)]
        _, _, terminated, over, info = env.step(int(stops[0] if len(stops) else feasible[0]))
    assert terminated
    kinds = env.event_log().events["kind"]
    assert (kinds == PREEMPT).sum() == (kinds == RESUME).sum() > 3
    validate(env.simulation.instance, env.event_log())


def test_a_job_for_which_the_first_rule_has_no_place_starts_by_the_next_one_when_nothing_runs() -> None:
    """A gang of 3 fits into no rack of 2 GPUs; it blocks the job behind it."""
    demand = {"1": 0.7, "3": 0.3}
    spec = WorkloadSpec(
        "synthetic:poisson", {"rate_per_s": 0.01, "mean_duration_s": 400.0, "demand": demand}, profiles="unit", jobs=20
    )
    scenario = Scenario("racks", "", (NodeGroup(3, 2, nodes_per_rack=1),), spec)
    env = ClusterEnv(scenario, rules=("rack", "pack"), step_limit=1)
    play(env, infeasible)
    events, gpus = env.event_log().events, env.simulation.instance.workload.jobs["gpus"]
    running, order = 0, []
    for event in events:
        if event["kind"] == START:
            assert running == 0 or gpus[event["job"]] == 1
            order.append(int(event["job"]))
        running += {START: 1, COMPLETE: -1, ARRIVAL: 0}[int(event["kind"])]
    assert order == list(range(20))
    assert (gpus == 3).sum() > 2


def test_the_time_limit_ends_the_rest_too() -> None:
    scenario = small_scenario(40, semantics=Semantics(time_limit_s=40_000.0))
    for limit in (3, 10_000):
        env = ClusterEnv(scenario, step_limit=limit, running_window=0)
        _, terminated, truncated, infos = play(env, lambda mask: int(np.flatnonzero(mask)[0]))
        assert (terminated, truncated) == (False, True)
        assert env.simulation.now_s == 40_000.0
        assert 0 < infos[-1]["metrics"]["finished"] < 40


def test_a_run_that_ends_within_the_limit_is_terminated_only() -> None:
    env = ClusterEnv("tiny-v1", running_window=0)
    rewards, terminated, truncated, infos = play(env, lambda mask: int(np.flatnonzero(mask)[0]))
    assert (terminated, truncated) == (True, False)
    exactly = ClusterEnv("tiny-v1", running_window=0, step_limit=len(rewards))
    again = play(exactly, lambda mask: int(np.flatnonzero(mask)[0]))
    assert again[:3] == (rewards, True, False)
    assert again[3][-1]["digest"] == infos[-1]["digest"]


class Stalling(Scenario):
    """Two gangs that contend for links until no whole iteration fits into a slot."""

    def instance(self, seed: int) -> Instance:
        net = network(gpu_latency_s=0.0, nic_latency_s=0.0)
        gangs = [{0: 4, 1: 4}] * 2
        return instance_of("2x8", gangs, net, slot_s=0.07, round_s=self.semantics.round_s)[0]


@pytest.mark.parametrize("round_s", [0.0, 7.0])
def test_jobs_that_never_finish_are_a_truncation_only(round_s: float) -> None:
    net = network(gpu_latency_s=0.0, nic_latency_s=0.0)
    spec = WorkloadSpec("synthetic:batch", profiles="unit", jobs=2)
    stalling = Stalling("stalling", "", (NodeGroup(2, 8),), spec, net, semantics=Semantics(round_s=round_s))
    env = ClusterEnv(stalling, rules=("spread",), step_limit=3)
    _, terminated, truncated, infos = play(env, infeasible, 0)
    assert (terminated, truncated, len(infos)) == (False, True, 3)
    assert infos[-1]["metrics"]["finished"] == 0


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("buffer", [4, 5, 16])
def test_small_log_buffers_change_nothing(buffer: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = dict(scenario=small_scenario(30), step_limit=12, lease_s=900.0)

    def told(keep_logs: bool) -> Iterator[Any]:
        envs = ClusterVectorEnv(3, autoreset_mode=mode, keep_logs=keep_logs, **options)
        rng = np.random.default_rng(1)
        seen, infos = envs.reset(seed=5)
        for _ in range(60):
            actions = np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in infos["action_mask"]])
            if rng.random() < 0.3:
                actions[0] = infeasible(infos["action_mask"][0])
            seen, rewards, terminated, truncated, infos = envs.step(actions)
            ended = infos.get("final_info", infos)
            yield seen, rewards, terminated, truncated, infos["dt"], infos["refusals"], ended.get("rewards")
            for b in np.flatnonzero(truncated).tolist() if keep_logs else ():
                digests.append(ended["digest"][b])

    def alone() -> list[Any]:
        env = ClusterEnv(**options)
        return [play(env, infeasible, 5), play(env, at_random(1), 6)]

    digests: list[str] = []
    usual, single = list(told(True)), alone()
    kept, digests = digests, []
    assert len(kept) >= 12
    monkeypatch.setattr(state, "EVENT_BUFFER", buffer)
    np.testing.assert_equal(list(told(True)), usual)
    assert digests == kept
    np.testing.assert_equal(list(told(False)), usual)
    np.testing.assert_equal(alone(), single)
