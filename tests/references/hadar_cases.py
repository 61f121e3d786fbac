"""Small clusters and jobs with given rates, for the tests of Hadar.

``asked`` prices with the package, as the question of a round; tests/baselines/test_hadar.py computes prices by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusched_env.baselines.hadar.prices import ASKING_DTYPE, Paces, PriceRange, price_range, price_table, utility_at
from gpusched_env.baselines.hadar.search import Round
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, RACK, Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload

TYPES = ("V100", "P100", "K80")


class Job(NamedTuple):
    """A gang, its work, and its rates [1/s] by GPU type, together and (if given) spread."""

    gpus: int
    iterations: float
    rates: Sequence[float]
    spread: Sequence[float] | None = None
    arrival_s: float = 0.0


def nodes(*groups: tuple[int, str]) -> Cluster:
    """One node for each (GPUs, type)."""
    return Cluster([NodeGroup(1, gpus, gpu_type) for gpus, gpu_type in groups])


def case(cluster: Cluster, jobs: Sequence[Job], **rules: float) -> Instance:
    """An instance with one model for each job; preemption is free unless ``rules`` say otherwise."""
    types = TYPES[: len(jobs[0].rates)]
    rows = [
        dict(name=f"m{i}", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0,
             compute_s=[1 / rate for rate in job.rates])
        for i, job in enumerate(jobs)
    ]  # fmt: skip
    measured = []
    for i, job in enumerate(jobs):
        for column in range(len(types)):
            measured.append((i, column, job.gpus, MACHINE, 1 / job.rates[column], 0.0))
            if job.spread is not None and job.gpus > 1:
                measured.append((i, column, job.gpus, RACK, 1 / job.spread[column], 0.0))
    plain = Profiles.from_rows(rows, types)
    profiles = Profiles(plain.rows, plain.compute_s, types, np.array(measured, MEASURED_DTYPE))
    workload = Workload.from_columns(
        [job.arrival_s for job in jobs], [job.gpus for job in jobs], iterations=[job.iterations for job in jobs],
        profiles=profiles, profile=range(len(jobs)),
    )  # fmt: skip
    return Instance(cluster, workload, Network("none"), Semantics(**({"checkpoint_s": 0.0, "restore_s": 0.0} | rules)))


def asked(cluster: Cluster, rows: list[tuple], rates: list, **changes: float) -> Round:
    """A round of jobs (gang, iterations left, worth, since), one class for each job, with rates by tier and type."""
    jobs = np.zeros(len(rows), ASKING_DTYPE)
    for i, (gpus, remaining, worth, since_s) in enumerate(rows):
        jobs[i]["gpus"], jobs[i]["remaining"], jobs[i]["worth"], jobs[i]["since_s"] = gpus, remaining, worth, since_s
    jobs["job_class"] = jobs["row"] = np.arange(len(rows))
    jobs["tier"] = cluster.tightest_tier(jobs["gpus"])
    table = np.ascontiguousarray(rates, float)
    now_s, round_s = changes.get("now_s", 0.0), 360.0
    best = table.max(axis=(1, 2))
    paces = Paces(jobs["remaining"] / best, jobs["remaining"] / np.where(table > 0, table, np.inf).min(axis=(1, 2)))
    prices = price_range(jobs, paces, cluster.gpus, now_s, round_s)
    jobs = jobs[np.argsort(-utility_at(jobs, now_s + paces.fastest_s) / jobs["gpus"], kind="stable")]
    return Round(jobs, table, cluster.nodes, price_table(prices, cluster.nodes["gpus"]), now_s, round_s, True)


def competitive_alpha(prices: PriceRange) -> float:
    """Alpha of the bound: the admitted jobs have at least 1 / (2 alpha) of the best utility (for small gangs)."""
    return max(1.0, math.log(prices.highest / prices.lowest))
