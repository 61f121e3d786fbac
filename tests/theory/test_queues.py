"""One-GPU jobs under FIFO are M/M/c and M/G/1 queues: mean waits equal theory, and each wait equals a recursion."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from helpers import unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import simulate


def erlang_c(servers: int, offered: float) -> float:
    """Probability that an arrival waits in M/M/c (offered load in erlangs)."""
    blocking = 1.0
    for n in range(1, servers + 1):
        blocking = offered * blocking / (n + offered * blocking)
    return blocking / (1 - offered / servers * (1 - blocking))


def queue(rng: np.random.Generator, service: np.ndarray, rate: float, servers: int) -> Instance:
    arrival = np.cumsum(rng.exponential(1 / rate, len(service)))
    return unit_instance(arrival, [1] * len(service), service, f"1x{servers}")


def waits(instance: Instance) -> np.ndarray:
    return job_times(instance, simulate(instance, make_scheduler("fifo")))["queueing_s"]


def recursion(arrival: np.ndarray, service: np.ndarray, servers: int) -> np.ndarray:
    """Waits by the recursion of Kiefer and Wolfowitz: each job takes the server that is free first."""
    free = [0.0] * servers
    wait = []
    for at, seconds in zip(arrival.tolist(), service.tolist(), strict=True):
        start = max(at, free[0])
        wait.append(start - at)
        heapq.heapreplace(free, start + seconds)
    return np.array(wait)


def assert_every_wait(instance: Instance, wait: np.ndarray, servers: int) -> None:
    jobs = instance.workload.jobs
    np.testing.assert_allclose(wait, recursion(jobs["arrival_s"], jobs["duration_s"], servers), rtol=1e-9, atol=1e-7)


def assert_mean(per_seed: list[float], expected: float, widest: float) -> None:
    """The mean over independent runs is the expected one, and the interval is narrow enough to notice errors."""
    mean, error = np.mean(per_seed), np.std(per_seed, ddof=1) / math.sqrt(len(per_seed))
    assert 4 * error < widest * expected, f"4 standard errors {4 * error:.4f} around {mean:.4f}: the test sees nothing"
    assert abs(mean - expected) < 4 * error, f"{mean:.4f} +- {error:.4f}, theory {expected:.4f}"


@pytest.mark.parametrize(
    ("servers", "load", "jobs", "runs", "widest"),
    [(1, 0.5, 10_000, 16, 0.15), (8, 0.7, 20_000, 20, 0.15), (64, 0.9, 20_000, 24, 0.3)],
)
def test_mean_wait_is_erlang_c(servers: int, load: float, jobs: int, runs: int, widest: float) -> None:
    expected = erlang_c(servers, load * servers) / (servers * (1 - load))
    means = []
    for seed in range(runs):
        rng = np.random.default_rng([servers, seed])
        instance = queue(rng, rng.exponential(1.0, jobs), load * servers, servers)
        wait = waits(instance)
        if seed == 0:
            assert_every_wait(instance, wait, servers)
        means.append(wait[jobs // 10 :].mean())  # the queue fills before
    assert_mean(means, expected, widest)


@pytest.mark.parametrize(("servers", "load", "widest"), [(8, 0.7, 0.05), (64, 0.9, 0.15)])
def test_the_recursion_that_every_wait_is_compared_with_gives_erlang_c(
    servers: int, load: float, widest: float
) -> None:
    """The recursion is fast, so its interval is narrow; another test compares simulator and recursion wait by wait."""
    means = []
    for seed in range(20):
        rng = np.random.default_rng([23, servers, seed])
        arrival = np.cumsum(rng.exponential(1 / (load * servers), 100_000))
        means.append(recursion(arrival, rng.exponential(1.0, len(arrival)), servers)[5_000:].mean())
    assert_mean(means, erlang_c(servers, load * servers) / (servers * (1 - load)), widest)


def deterministic(rng: np.random.Generator, jobs: int) -> np.ndarray:
    return np.ones(jobs)


def hyperexponential(rng: np.random.Generator, jobs: int) -> np.ndarray:
    """Mean 1, second moment 5: nine of ten jobs have mean 5/9, the others 5."""
    return rng.exponential(np.where(rng.random(jobs) < 0.9, 5 / 9, 5.0))


@pytest.mark.parametrize(
    ("draw", "second_moment", "widest"),
    [(deterministic, 1.0, 0.1), (hyperexponential, 0.9 * 2 * (5 / 9) ** 2 + 0.1 * 2 * 25, 0.2)],
    ids=["deterministic", "hyperexponential"],
)
def test_mean_wait_is_pollaczek_khinchine(draw, second_moment: float, widest: float) -> None:
    load, jobs = 0.5, 10_000
    expected = load * second_moment / (2 * (1 - load))
    means = []
    for seed in range(16):
        rng = np.random.default_rng([17, seed])
        instance = queue(rng, draw(rng, jobs), load, 1)
        means.append(waits(instance)[500:].mean())
    assert_mean(means, expected, widest)


@pytest.mark.parametrize("servers", [1, 3, 128])
def test_every_wait_is_that_of_the_recursion(servers: int) -> None:
    """Includes runs in which the log buffer fills (128 servers: 1,024 events precede 576 starts)."""
    rng = np.random.default_rng(5)
    instance = queue(rng, rng.exponential(1.0, 3_000), 0.3 * servers, servers)
    assert_every_wait(instance, waits(instance), servers)
