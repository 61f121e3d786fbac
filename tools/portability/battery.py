"""The digests of the battery, in parts: arithmetic, draws, instances, runs and environments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import lower_bounds, mean_interval, paired_ratio, summarise
from gpusched_env.portable import arrays, elementary, normal
from gpusched_env.scenarios import WorkloadSpec, get_scenario, list_scenarios
from gpusched_env.simulator import simulate
from gpusched_env.traces.generators.synthetic import GENERATORS, generate_workload
from tools.portability.episodes import alone, together
from tools.portability.problems import (
    ENVIRONMENTS,
    EPISODES,
    KINDS,
    SEED,
    mixed_scenarios,
    schedulers_of,
    small_scenario,
)

LENGTH: Final = 12  # hexadecimal digits of a digest
STEPS: Final = 200  # maximum number of steps of an episode of ``environments``
JOBS: Final = 300  # in a draw of a generator
DRAWS: Final = 3  # draws of a generator, and of a kind of scenario in ``runs``
LONG: Final = ("rounds", "pairs")  # kinds that are drawn only once, because linear programs take seconds
EPISODE_STEPS: Final = 300  # maximum number of steps of an episode; most episodes end before
BATCH: Final = 3  # environments
BATCH_STEPS: Final = 180
BATCH_LIMIT: Final = 45  # steps after which an episode of a batch is truncated; some end before
TWIN_BATCH: Final = {"envs": 2, "steps": 16, "limit": 7}
TIMER_JOBS: Final = 12
TIMER_STEPS: Final = 70  # of a batch
TIMER_HORIZON_S: Final = 16 * 3_600.0  # [s]

Digests = Iterator[tuple[str, str]]  # pairs of a name and the digest of the bits


def digest(*parts: Any) -> str:
    """Hash arrays and plain values; floats are hashed exactly."""
    found = hashlib.sha256()
    for part in parts:
        data = part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        found.update(data)
        found.update(b"\0")
    return found.hexdigest()[:LENGTH]


def arithmetic() -> Digests:
    """Elementary functions of 10,000 numbers each, one by one and as arrays."""
    spread = (np.arange(10_000) + 0.5) / 10_000
    wide = 200.0 * spread - 100.0
    arguments = {
        "exp": wide, "expm1": wide, "log": 1e6 * spread, "log1p": 10.0 * spread - 0.9, "log2": 1e6 * spread,
        "sin": 6.0 * spread, "cos": 6.0 * spread, "normal_quantile": spread,
    }  # fmt: skip
    for name, values in arguments.items():
        function = getattr(normal if name == "normal_quantile" else elementary, name)
        one_by_one = np.array([function(value) for value in values.tolist()])
        together = getattr(arrays, name)(values) if hasattr(arrays, name) else one_by_one
        yield name, digest(one_by_one, together)
    yield "power", digest(arrays.power(10.0 * spread, wide / 20.0))
    yield "interpolated", digest(arrays.interpolated(wide, np.array([-50.0, 1 / 3, 7.0]), np.array([0.1, 5.0, -1.0])))


def draws() -> Digests:
    """Workloads of every generator, and the times that are drawn for the jobs of one."""
    for name in GENERATORS:
        found = [generate_workload(name, SEED + draw, JOBS).fingerprint() for draw in range(DRAWS)]
        yield name, digest(*found)
    later = WorkloadSpec("synthetic:philly", jobs=JOBS, noise={}, start_latency="container")
    yield "noise", digest(later.draw(SEED, None, 64, ("V100",)).fingerprint())


def instances() -> Digests:
    """Problems of every registered scenario: jobs, rates, ideal times and bounds."""
    for name in list_scenarios():
        instance = get_scenario(name).instance(SEED)
        yield name, digest(instance.fingerprint(), sorted(lower_bounds(instance, (0, len(instance.workload))).items()))


def runs(kind: str, draws: int = 1, jobs: int | None = None) -> Digests:
    """Event logs and metrics of every scheduler on a kind of scenario."""
    for seed in range(SEED, SEED + draws):
        instance = small_scenario(kind, jobs).instance(seed)
        for spec in schedulers_of(kind):
            name = spec if seed == SEED else f"{spec}, seed {seed}"
            try:
                log = simulate(instance, make_scheduler(spec), seed=seed)
                yield name, digest(log.digest(), sorted(summarise(instance, log).items()))
            except GpuschedError:  # on every machine, some schedulers refuse some gangs as too large
                yield name, "refused"


def environments() -> Digests:
    """Observations, masks and rewards of episodes with random actions."""
    for name in ENVIRONMENTS:
        env = gym.make(f"gpusched_env:{name}")
        generator = np.random.default_rng(SEED)
        observation, info = env.reset(seed=SEED)
        seen = [digest(*(observation[key] for key in sorted(observation)))]
        for _ in range(STEPS):
            if "action_mask" in info:
                action: Any = int(generator.choice(np.flatnonzero(info["action_mask"])))
            else:
                action = 2.0 * generator.random(env.action_space.shape) - 1.0
            observation, reward, terminated, truncated, info = env.step(action)
            seen.append(digest(float(reward), *(observation[key] for key in sorted(observation))))
            if terminated or truncated:
                break
        env.close()
        yield name, digest(*seen)


def episodes() -> Digests:
    """Whole episodes with every kind of action, first with forced waits skipped, then with all waits played."""
    for name, (kind, jobs, options) in EPISODES.items():
        for skips in (True, False):
            seen = alone(
                "gpusched/Cluster-v0", EPISODE_STEPS, scenario=small_scenario(kind, jobs), skip_forced_waits=skips,
                step_limit=EPISODE_STEPS, **options,
            )  # fmt: skip
            yield name if skips else f"{name}, every wait", digest(*seen)


def batches(mode: AutoresetMode, envs: int = BATCH, steps: int = BATCH_STEPS, limit: int = BATCH_LIMIT) -> Digests:
    """Batches in which some episodes end with their last job and others at the step limit."""
    for name, (kind, jobs, options) in EPISODES.items():
        seen = together(
            "gpusched/Cluster-v0", envs, steps, mode, scenario=small_scenario(kind, jobs), step_limit=limit,
            keep_logs=True, **options,
        )  # fmt: skip
        yield name, digest(*seen)
    seen = together(
        "gpusched/Cluster-v0", envs, steps, mode, scenario=mixed_scenarios(envs), step_limit=limit, threads=2
    )  # fmt: skip
    yield "different clusters", digest(*seen)


def timers() -> Digests:
    """Episodes and batches of the delay timers, with absolute timers and with multiples of the hand tuner's."""
    scenario = small_scenario("delays", TIMER_JOBS)
    for kind in ("absolute", "residual"):
        options: dict[str, Any] = {"scenario": scenario, "mode": kind, "horizon_s": TIMER_HORIZON_S}
        yield kind, digest(*alone("gpusched/DelayTimers-v0", EPISODE_STEPS, **options))
        for mode in AutoresetMode:
            seen = together("gpusched/DelayTimers-v0", BATCH, TIMER_STEPS, mode, **options)
            yield f"{kind}, batch, {mode.value}", digest(*seen)


def twins() -> Digests:
    """Runs and batches that are short enough to run the kernels as plain Python."""
    for kind, (_, _, jobs) in KINDS.items():
        for name, found in runs(kind, jobs=jobs):
            yield f"{kind}, {name}", found
    for mode in AutoresetMode:
        for name, found in batches(mode, **TWIN_BATCH):
            yield f"batch, {mode.value}, {name}", found


def intervals() -> Digests:
    """Means, intervals and ratios of ten numbers, rounded to the digits that tables print."""
    ours, theirs = ([1.0 + (k * step % 11) / 7 for k in range(10)] for step in (3, 5))
    for name, found in (("mean", mean_interval(ours)), ("ratio", paired_ratio(ours, theirs))):
        yield name, digest(*(f"{value:.6g}" for value in (found.mean, found.low, found.high)))


PARTS: Final[dict[str, Callable[[], Digests]]] = {
    "arithmetic": arithmetic,
    "draws": draws,
    "instances": instances,
    **{f"runs, {kind}": partial(runs, kind, 1 if kind in LONG else DRAWS) for kind in KINDS},
    "environments": environments,
    "episodes": episodes,
    **{f"batches, {mode.value}": partial(batches, mode) for mode in AutoresetMode},
    "timers": timers,
    "twins": twins,
    "intervals": intervals,
}
