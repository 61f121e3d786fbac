"""The observation with predictions shows what the ended jobs tell, and nothing of the future."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers import thirty_jobs
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.core.state import ACTIVE
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.cluster_vector_env import ClusterVectorEnv
from gpusched_env.envs.encoder import Encoder
from gpusched_env.envs.observation.outlook import OUTLOOK
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import ScenarioError
from gpusched_env.prediction import LEVELS, STARTS_S, History
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import Simulation

PREDICTORS = ("quantile", "nested")  # ranges of predictions, and distributions of its own
each = pytest.mark.parametrize("predictor", PREDICTORS)
OUTLOOKS = ("queue_outlook", "running_outlook")


def options(predictor: str) -> dict[str, Any]:
    return {"clairvoyant": False, "queue_order": "least-attained", "predictor": predictor}


def scenario(jobs: int = 150, load: float | None = 0.9) -> Scenario:
    found = get_scenario("philly-64-v1")
    told = dict(found.workload.parameters) | {"users": 8}
    return dataclasses.replace(
        found, workload=dataclasses.replace(found.workload, jobs=jobs, load=load, parameters=told)
    )


def scaled(seconds: float) -> float:
    return float(np.log1p(max(seconds, 0.0) / 60.0) / np.log1p(30 * 1440.0))


def expected(env: ClusterEnv, row: int, attained_s: float, gpus: int, history: History) -> list[float]:
    """Return the columns of a job, from the distribution of its class, by sums over the levels."""
    level = max(i for i in range(LEVELS) if STARTS_S[i] <= attained_s + 1e-6)
    kind = int(history.class_of[row])
    share = history.shares[kind, level:] / np.cumsum(history.shares[kind, level:])[-1]
    ends = np.append(STARTS_S[1:], 1.25 * STARTS_S[-1])[level:]
    left = ends - STARTS_S[level]
    middle = (STARTS_S[level:] + ends) / 2 - STARTS_S[level]
    quantiles = [left[min(int(np.searchsorted(share.cumsum(), q)), len(left) - 1)] for q in (0.1, 0.5, 0.9)]
    index = min(
        ((share * middle)[: k + 1].sum() + (1 - share[: k + 1].sum()) * left[k]) / share[: k + 1].sum()
        for k in range(len(left))
    )
    requested = float(history.known.limit_s[row]) - attained_s
    total = env.simulation.instance.cluster.gpus
    return [
        kind > 0,
        scaled(0.0 if np.isnan(requested) else requested),
        *map(scaled, quantiles),
        scaled(index * gpus / total),
    ]


def played(env: ClusterEnv, seed: int, steps: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    seen, info = env.reset(seed=seed)
    found = [seen]
    for _ in range(steps):
        seen, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        found.append(seen)
        if terminated or truncated:
            break
    return found


@each
def test_the_outlook_is_that_of_the_class_of_each_job(predictor: str) -> None:
    env = ClusterEnv(scenario(), **options(predictor))
    rng = np.random.default_rng(0)
    seen, info = env.reset(seed=5)
    classes = set()
    for _ in range(400):
        history = History(env.simulation.instance, predictor)
        history.follow(env.simulation.arrays)
        jobs, replicas = env.simulation.arrays.jobs, env.simulation.arrays.replicas
        for name, slots in zip(OUTLOOKS, (env.encoder.queue_slots, env.encoder.running_slots), strict=True):
            for k, row in enumerate(slots.tolist()):
                if row < 0:
                    assert not seen[name][k].any()
                    continue
                attained_s = float(jobs["service_s"][row])
                if (number := jobs["replica"][row]) >= 0:
                    gang = replicas[number]
                    ran_s = max(env.simulation.now_s - float(gang["since_s"]), 0.0)
                    attained_s = float(gang["service_s"]) + (ran_s if gang["phase"] == ACTIVE else 0.0)
                wanted = expected(env, row, attained_s, int(jobs["gpus"][row]), history)
                np.testing.assert_allclose(seen[name][k], wanted, atol=2e-6)
                classes.add(int(history.class_of[row]))
        seen, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        if terminated or truncated:
            break
    assert len(classes) > 4


@each
def test_a_batch_shows_what_single_environments_show(predictor: str) -> None:
    """Also after resets, in any order, and after a copy."""
    envs = ClusterVectorEnv(3, scenario(), **options(predictor))
    singles = [ClusterEnv(scenario(), **options(predictor)) for _ in range(3)]
    _, infos = envs.reset(seed=[4, 5, 6])
    masks = infos["action_mask"]
    for single, seed in zip(singles, (4, 5, 6), strict=True):
        single.reset(seed=seed)
    rng = np.random.default_rng(0)
    for step in range(700):
        if step == 300:
            envs.copy_environment(0, 2)
            singles[2] = copy.deepcopy(singles[0])
            masks = np.array([masks[0], masks[1], masks[0]])
        actions = np.array([int(rng.choice(np.flatnonzero(mask))) for mask in masks])
        seen, _, terminated, truncated, infos = envs.step(actions)
        masks = infos["action_mask"]
        for b, single in enumerate(singles):
            alone, *_ = single.step(int(actions[b]))
            if terminated[b] or truncated[b]:
                return
            for name in alone:
                np.testing.assert_array_equal(alone[name], seen[name][b])


@each
def test_the_future_of_a_snapshot_shows_the_same(predictor: str) -> None:
    env = ClusterEnv(scenario(), **options(predictor))
    before = played(env, 3, 200)
    snapshot = env.snapshot()
    ahead = []
    _, info = env.restore(snapshot)
    for _ in range(2):
        seen, info = env.restore(snapshot)
        np.testing.assert_equal(seen, before[-1])
        rng = np.random.default_rng(1)
        steps = []
        for _ in range(100):
            seen, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            steps.append(seen)
            if terminated or truncated:
                break
        ahead.append(steps)
        played(env, 4, 50)
    np.testing.assert_equal(ahead[0], ahead[1])


def observed(
    predictor: str, workload: Workload, actions: list[int] | None, steps: int
) -> tuple[Encoder, list[Any], list[int]]:
    """Play actions, or random ones; return the encoder, the outlooks that were shown, and the actions."""
    encoder = Encoder(Windows(**options(predictor)), Simulation(scenario(60, None).instance(3, workload)))
    rng, shown, made = np.random.default_rng(0), [], []
    for step in range(steps):
        seen, mask = encoder.take()
        shown.append([seen[name].copy() for name in OUTLOOKS])
        made.append(int(rng.choice(np.flatnonzero(mask))) if actions is None else actions[step])
        if encoder.step(made[-1]):
            break
    return encoder, shown, made


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(PREDICTORS), st.integers(0, 2**32 - 1), st.integers(20, 200))
def test_run_times_of_jobs_that_have_not_ended_show_nowhere(predictor: str, shuffle: int, steps: int) -> None:
    """Other run times of all jobs that have not ended by a step leave everything shown up to it as it is."""
    workload = scenario(60, None).instance(3).workload
    encoder, shown, made = observed(predictor, workload, None, steps)
    there = np.flatnonzero(~np.isfinite(encoder.simulation.arrays.jobs["finish_s"]))
    jobs = workload.jobs.copy()
    column = "iterations" if np.isnan(jobs["duration_s"]).all() else "duration_s"
    jobs[column][there] += np.random.default_rng(shuffle).permutation(jobs[column][there])  # none ends before
    _, again, _ = observed(predictor, dataclasses.replace(workload, jobs=jobs), made, steps)
    np.testing.assert_equal(again, shown)


def test_without_a_predictor_nothing_is_shown() -> None:
    env = ClusterEnv(thirty_jobs("philly-64-v1"))
    assert not set(OUTLOOKS) & set(env.observation_space)
    with pytest.raises(ScenarioError, match="unknown predictor 'quantil': did you mean 'quantile'"):
        ClusterEnv("tiny-v1", predictor="quantil")
    assert OUTLOOK.index == 5
