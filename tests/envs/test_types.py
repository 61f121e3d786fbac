"""The environment with several GPU types or copies of gangs: observations, and forks as decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.registry import ARRAYS
from gpusched_env.envs.observation.types import COPIES, TYPED
from gpusched_env.metrics import validate
from gpusched_env.simulator.view import ClairvoyantView, ClusterView

TYPE_TABLES = {one.name: one.columns for one in ARRAYS if one.group is TYPED}


def expected(env: ClusterEnv) -> dict[str, np.ndarray]:
    """Every column, in plain NumPy from the instance and the holders of the GPUs."""
    simulation, windows = env.simulation, env.windows
    instance, view = simulation.instance, ClairvoyantView(simulation)
    cluster, types = instance.cluster, len(instance.cluster.gpu_types)
    type_of_gpu = cluster.nodes["gpu_type"][cluster.node_of_gpu]
    holders, most = ClusterView(simulation).holders, instance.semantics.max_copies
    free = np.bincount(type_of_gpu[holders < 0], minlength=types)
    size = np.bincount(type_of_gpu, minlength=types)
    rates = view.type_rates(np.arange(view.arrived))
    rates = rates / np.maximum(rates.max(axis=1, keepdims=True), 1e-300)
    waiting = rates[view.waiting].mean(axis=0) if len(view.waiting) else np.zeros(types)
    able = np.isfinite(instance.iteration_s[:, 0])
    queue, forks = np.zeros((windows.queue_window, types, 2)), np.zeros((windows.queue_window, 1))
    running, copies = np.zeros((windows.running_window, types, 2)), np.zeros((windows.running_window, 2))
    for slot, job in enumerate(env.encoder.queue_slots.tolist()):
        if job >= 0:
            queue[slot] = np.stack([rates[job], (rates[job] > 0) & (free >= view.gpus[job])], axis=1)
            kind = instance.job_class[job]
            machines = (view.free_by_node >= view.gpus[job]) & able[kind, cluster.nodes["gpu_type"]]
            forks[slot] = min(machines.sum() / most, 1)
    for slot, job in enumerate(env.encoder.running_slots.tolist()):
        if job >= 0:
            held = np.bincount(type_of_gpu[holders == job], minlength=types)
            running[slot] = np.stack([rates[job], held / held.sum()], axis=1)
            replica = simulation.arrays.replicas[simulation.arrays.jobs["replica"][job]]
            now = instance.ideal_s[job] / instance.iterations[job] / replica["iteration_s"]
            copies[slot] = [held.sum() / view.gpus[job] / most, now / (1 + now)]
    own = cluster.nodes["gpu_type"]
    return {
        "queue_types": queue.reshape(-1, 2), "forks": forks, "running_types": running.reshape(-1, 2), "copies": copies,
        "node_types": np.stack([own / types, waiting[own]], axis=1),
        "types": np.stack([size / cluster.gpus, free / size, waiting], axis=1),
    }  # fmt: skip


CASES: dict[str, dict[str, Any]] = {
    "types": dict(scenario="hadar-60gpu-v1:jobs=40", rules=("fastest-type", "spread"), lease_s=360.0),
    "copies": dict(scenario="hadare-lab-v0:jobs=8", rules=("fork", "fastest-type"), lease_s=360.0),
}


@pytest.mark.parametrize("case", CASES)
def test_every_column_equals_its_definition(case: str) -> None:
    env = ClusterEnv(queue_window=6, running_window=4, **CASES[case])
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=1)
    seen: dict[str, list[np.ndarray]] = {key: [] for key in TYPE_TABLES}
    for _ in range(200):
        assert observation in env.observation_space
        for key, value in expected(env).items():
            assert observation[key] == pytest.approx(value, abs=2e-5), key
            seen[key].append(value)
        observation, _, over, truncated, info = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        assert info["refusals"] == 0
        if over or truncated:
            break
    validate(env.simulation.instance, env.event_log())
    for key, values in seen.items():  # a constant column would not be tested
        spread = np.ptp(np.concatenate(values), axis=0)
        still = {column.name for column, moves in zip(TYPE_TABLES[key], spread, strict=True) if not moves}
        assert still <= ({"gpus"} if key == "types" else set()), key  # equally many GPUs of each type


def test_forks_are_masked_as_the_simulator_accepts_them_and_are_observed() -> None:
    env = ClusterEnv(queue_window=3, running_window=3, **CASES["copies"])
    rng = np.random.default_rng(1)
    env.reset(seed=2)
    most = 0.0
    for _ in range(150):
        for action in range(env.windows.first_preemption):
            decision = env.encoder.decision_of(action)
            assert decision is not None
            assert bool(env.mask[action]) == (env.simulation.rehearsal().apply(decision) == "")
        observation, _, over, truncated, _ = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        most = max(most, float(observation["copies"][:, COPIES.copies].max()))
        if over or truncated:
            break
    assert most > 1 / env.scenario.semantics.max_copies
