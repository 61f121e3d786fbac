"""The digests of the battery, in parts: arithmetic, draws, instances, runs and environments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from gpusched_env.portability.problems import ENVIRONMENTS, KINDS, SEED, schedulers_of, small_scenario

LENGTH: Final = 12  # hexadecimal digits of a digest
STEPS: Final = 200  # of an episode
JOBS: Final = 300  # of a generator's draw
DRAWS: Final = 3

Digests = Iterator[tuple[str, str]]  # what was computed, and the digest of its bits


def digest(*parts: Any) -> str:
    """Hash arrays and plain values; a float stands for its exact value."""
    found = hashlib.sha256()
    for part in parts:
        data = part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        found.update(data)
        found.update(b"\0")
    return found.hexdigest()[:LENGTH]


def arithmetic() -> Digests:
    """Elementary functions on 10,000 arguments each, one by one and over arrays."""
    from gpusched_env.portable import arrays, elementary, normal

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
    """Workloads of every generator."""
    from gpusched_env.traces.generators.synthetic import GENERATORS, generate_workload

    for name in GENERATORS:
        found = [generate_workload(name, SEED + draw, JOBS).fingerprint() for draw in range(DRAWS)]
        yield name, digest(*found)


def instances() -> Digests:
    """Problems of every registered scenario: jobs, rates, ideal times and bounds."""
    from gpusched_env.metrics import lower_bounds
    from gpusched_env.scenarios import get_scenario, list_scenarios

    for name in list_scenarios():
        instance = get_scenario(name).instance(SEED)
        yield name, digest(instance.fingerprint(), sorted(lower_bounds(instance, None).items()))


def runs(kind: str) -> Digests:
    """Event logs and metrics of every scheduler that plays a kind of scenario."""
    from gpusched_env.baselines import make_scheduler
    from gpusched_env.errors import GpuschedError
    from gpusched_env.metrics import summarise
    from gpusched_env.simulator import simulate

    instance = small_scenario(kind).instance(SEED)
    for spec in schedulers_of(kind):
        try:
            log = simulate(instance, make_scheduler(spec), seed=SEED)
            yield spec, digest(log.digest(), sorted(summarise(instance, log).items()))
        except GpuschedError:  # some gangs are too large for some schedulers, on every machine
            yield spec, "refused"


def environments() -> Digests:
    """Observations, masks and rewards of episodes with random actions."""
    import gymnasium as gym

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


def intervals() -> Digests:
    """What tables show of ten numbers: means, intervals and ratios, to the digits that are printed."""
    from gpusched_env.metrics import mean_interval, paired_ratio

    ours, theirs = ([1.0 + (k * step % 11) / 7 for k in range(10)] for step in (3, 5))
    for name, found in (("mean", mean_interval(ours)), ("ratio", paired_ratio(ours, theirs))):
        yield name, digest(*(f"{value:.6g}" for value in (found.mean, found.low, found.high)))


PARTS: Final[dict[str, Callable[[], Digests]]] = {
    "arithmetic": arithmetic,
    "draws": draws,
    "instances": instances,
    **{f"runs, {kind}": partial(runs, kind) for kind in KINDS},
    "environments": environments,
    "intervals": intervals,
}
