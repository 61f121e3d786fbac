"""Every registered environment conforms to Gymnasium, stable-baselines3 and sb3-contrib."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cost import lines_run
from gymnasium.utils.env_checker import check_env
from helpers import linked_scenario

import gpusched_env
from gpusched_env.envs.registration import ENVIRONMENTS, register_environments
from gpusched_env.envs.rendering import RENDER_MODES
from tests.envs.rollouts import told

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "preemption-and-delays": dict(running_window=8, delays_s=(60.0, 600.0), rules=("pack", "consolidate", "random")),
    "no-preemption": dict(running_window=0),
    "mask": dict(mask_in_observation=True, queue_order="shortest", running_order="start", clairvoyant=True),
    "blind": dict(clairvoyant=False, reward={"jct": 1.0, "fairness": 0.1}),
    "leases": dict(running_window=4, lease_s=120.0),
    "links": dict(scenario=linked_scenario(), running_window=4, rules=("pack", "spread")),
}
# Variants that contradict an id: best benefit and orders by run time need run times, partners need jobs that share
# GPUs, sizes need elastic jobs, tenant_window needs tenants, and rounds alone end a wait.
CONTRADICTIONS = {
    ("gpusched/Sharing-v0", "blind"),
    ("gpusched/Sharing-v0", "links"),
    ("gpusched/Elastic-v0", "preemption-and-delays"),
    ("gpusched/Elastic-v0", "blind"),
    ("gpusched/Elastic-v0", "links"),
    ("gpusched/Tenants-v0", "blind"),
    ("gpusched/Tenants-v0", "links"),
    ("gpusched/Pretraining-v0", "links"),
}
CASES = [(name, variant) for variant in VARIANTS for name in ENVIRONMENTS if (name, variant) not in CONTRADICTIONS]


def make(name: str = "gpusched/Cluster-v0", **options: Any) -> gym.Env:
    """Make an environment with small windows; the scenario is small unless the id fixes one."""
    return gym.make(name, **({"scenario": "tiny-v1", "queue_window": 6} | ENVIRONMENTS[name] | options))


def assert_equal(one: Any, other: Any) -> None:
    np.testing.assert_equal(one, other)  # walks through lists, dicts and arrays; NaN equals NaN


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_gymnasiums_checker_passes_without_warnings(name: str, variant: str) -> None:
    env = make(name, **VARIANTS[variant])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("mode", RENDER_MODES)
def test_gymnasiums_checker_accepts_rendering(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # of pygame, without a screen
    pytest.importorskip("pygame")  # the checker tries all modes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(render_mode=mode).unwrapped, skip_render_check=False)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_stable_baselines3s_checker_warns_of_unconventional_shapes_only(name: str, variant: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checker.check_env(make(name, **VARIANTS[variant]).unwrapped)
    assert [str(w.message) for w in caught if "unconventional shape" not in str(w.message)] == []


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_same_seed_same_rollout(name: str, variant: str) -> None:
    env = make(name, **VARIANTS[variant])
    first = told(env, 5)
    assert_equal(first, told(env, 5))
    assert_equal(first, told(make(name, **VARIANTS[variant]), 5))
    with pytest.raises(AssertionError):
        assert_equal(first, told(env, 6))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_fresh_environment_pickles(name: str) -> None:
    env = make(name)
    assert_equal(told(pickle.loads(pickle.dumps(env)), 3), told(env, 3))


def test_a_copy_shares_what_never_changes_and_nothing_else() -> None:
    env = make()
    _, info = env.reset(seed=3)
    for _ in range(4):
        info = env.step(int(np.flatnonzero(info["action_mask"])[0]))[-1]
    base, twin = env.unwrapped, copy.deepcopy(env).unwrapped
    assert twin.simulation.instance is base.simulation.instance
    assert twin.scenario is base.scenario
    assert twin.windows is base.windows
    ours, its = base.simulation.arrays, twin.simulation.arrays
    for name in ours.fields:
        one, other = getattr(ours, name), getattr(its, name)
        assert one is not other
        assert one.tobytes() == other.tobytes()
        assert not np.shares_memory(one, other)
    for name in base.encoder.batch.arrays.own:
        one, other = getattr(base.encoder.batch.arrays, name), getattr(twin.encoder.batch.arrays, name)
        assert not np.shares_memory(one, other)
    base.action_space.seed(1), twin.action_space.seed(1)
    base.np_random.integers(100)
    assert base.action_space.sample() == twin.action_space.sample()
    assert base.np_random.bit_generator.state != twin.np_random.bit_generator.state


def test_a_copy_costs_no_more_with_more_jobs() -> None:
    """A copy of instance and scenario, too, executes 14,000 lines, and more where there are more jobs."""
    lines = []
    for scenario in ("tiny-v1", "philly-64-v1"):
        env = make(scenario=scenario).unwrapped
        _, info = env.reset(seed=200_000)
        for _ in range(12):
            info = env.step(int(np.flatnonzero(info["action_mask"])[0]))[-1]
        copy.deepcopy(env)
        lines.append(lines_run(copy.deepcopy, env))
    assert abs(lines[0] - lines[1]) < 200
    assert max(lines) < 9_000


def run(code: str) -> subprocess.CompletedProcess[str]:
    root = Path(gpusched_env.__file__).parents[1]
    return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)


def test_make_needs_no_prefix_after_the_import_which_is_cheap() -> None:
    result = run(
        "import sys, gpusched_env, gymnasium\n"
        "assert not {'numba', 'scipy', 'torch', 'matplotlib'} & set(sys.modules), 'an expensive import'\n"
        "env = gymnasium.make('gpusched/Cluster-v0', scenario='tiny-v1')\n"
        "print(env.reset(seed=0)[1]['seed'])"
    )
    assert (result.returncode, result.stdout.strip()) == (0, "0"), result.stderr


def test_the_import_costs_what_gymnasiums_import_costs() -> None:
    result = run(
        "import sys, gymnasium\n"
        "before = set(sys.modules)\n"
        "import gpusched_env\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["gpusched_env", "gpusched_env.envs", "gpusched_env.envs.registration"]


def test_registering_twice_changes_nothing() -> None:
    before = {name: gym.registry[name] for name in ENVIRONMENTS}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_environments()
    assert all(gym.registry[name] is spec for name, spec in before.items())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_maskable_ppo_learns_without_a_wrapper() -> None:
    sb3 = pytest.importorskip("sb3_contrib")
    model = sb3.MaskablePPO("MultiInputPolicy", make(), n_steps=64, batch_size=32, n_epochs=1, device="cpu", seed=0)
    model.learn(128)
    env = make()
    observation, info = env.reset(seed=200_000)
    action, _ = model.predict(observation, action_masks=info["action_mask"].astype(bool))
    assert info["action_mask"][action] == 1
