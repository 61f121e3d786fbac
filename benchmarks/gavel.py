"""Cost of Gavel's optimisation programs: CPU seconds to compute the shares of 128 to 2,000 jobs on three GPU types.

    python benchmarks/gavel.py [--repeats 5] [--output FILE.json]

The jobs have the models, gang sizes and weights of ``synthetic:gavel``; the cluster has 36 GPUs of each type. One
process with one thread. Times are CPU seconds, so that other processes do not count; medians over repeats, each with
different jobs.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

import gpusched_env
from gpusched_env.baselines.gavel.objectives import max_min_fairness
from gpusched_env.baselines.gavel.pairs import solve_packed
from gpusched_env.baselines.gavel.policies import POLICIES, Settings
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.performance import type_rates
from gpusched_env.sharing import GavelPairs
from gpusched_env.support.commands import run_script
from gpusched_env.traces import generate_workload

CLUSTER: Final = "9x4@V100,9x4@P100,9x4@K80"
JOBS: Final = (128, 500, 1_000, 2_000)
PACKED_JOBS: Final = (64, 128, 192, 500)  # the last size only by kinds of partner
TARGETS_S: Final = {500: 0.15, 2_000: 1.0}  # of max_min_fairness_perf
MEASURED: Final = (
    "max_min_fairness_perf", "max_min_fairness", "max_min_fairness_water_filling_perf", "finish_time_fairness_perf",
    "min_total_duration_perf", "max_sum_throughput_perf", "max_sum_throughput_normalized_by_cost_perf", "fifo_perf",
)  # fmt: skip


@dataclass
class Options:
    """Measure the time of a solution of Gavel's programs."""

    repeats: int = 5
    """Problems of each size; the median is reported."""
    output: Path | None = None
    """JSON file for the results."""


def problem(jobs: int, seed: int) -> Problem:
    """Draw jobs in progress: 5 to 100 % of their work is left, and they arrived within the last two days."""
    cluster = Cluster.parse(CLUSTER)
    workload = generate_workload("gavel", seed, jobs, mean_gap_s=0.0, multi_gpu=True, priorities=True)
    instance = Instance(cluster, workload, Network("none"))
    rates = type_rates(instance.classes[:, 1], instance.iteration_s, cluster)[instance.job_class]
    rng = np.random.default_rng(seed)
    return Problem.of(
        rates,
        [36, 36, 36],
        instance.workload.jobs["gpus"],
        instance.workload.attributes["priority_weight"],
        instance.iterations * rng.uniform(0.05, 1.0, jobs),
        rng.uniform(0.0, 172_800.0, jobs),
        prices=[0.74, 0.43, 0.135],
    )


def seconds(policy: str, jobs: int, repeats: int) -> float:
    """Median CPU seconds of one solution [s]."""
    taken = []
    for seed in range(repeats):
        told = problem(jobs, seed)
        allocate = POLICIES[policy].build(Settings(("V100", "P100", "K80")))
        begin = time.process_time()
        shares = allocate(told)
        taken.append(time.process_time() - begin)
        assert shares is not None
    return statistics.median(taken)


def packed_problem(jobs: int, seed: int) -> Problem:
    """Draw one-GPU jobs of Gavel, with all pairs of them that fit into the memory of some GPU."""
    cluster = Cluster.parse(CLUSTER)
    workload = generate_workload("gavel", seed, jobs, mean_gap_s=0.0)
    instance = Instance(cluster, workload, Network("none"))
    kinds = instance.job_class
    rates = type_rates(instance.classes[:, 1], instance.iteration_s, cluster)[kinds]
    xi = GavelPairs().slowdowns(instance.classes, workload, cluster.gpu_types)
    second, first = np.tril_indices(jobs, -1)
    together = np.stack([rates[a] / xi[kinds[a], kinds[b]] for a, b in ((first, second), (second, first))], axis=1)
    fits = together.any(axis=(1, 2))
    pairs = np.column_stack([first, second])[fits]
    return dataclasses.replace(Problem.of(rates, [36, 36, 36]), pairs=pairs, pair_rates=together[fits], kinds=kinds)


def packed_seconds(jobs: int, most_in_pairs: int, repeats: int) -> float:
    """Median CPU seconds of one solution of max_min_fairness_packed [s]."""
    taken = []
    for seed in range(repeats):
        told = packed_problem(jobs, seed)
        begin = time.process_time()
        shares = solve_packed(told, max_min_fairness, most_in_pairs)
        taken.append(time.process_time() - begin)
        assert shares is not None
    return statistics.median(taken)


def main(options: Options) -> None:
    """Measure, print the tables, and print whether the targets are met."""
    console = Console()
    table = Table("policy", *(f"{jobs:,} jobs [ms]" for jobs in JOBS), title="CPU time of one solution")
    found: dict[str, Any] = {}
    for policy in MEASURED:
        found[policy] = {jobs: seconds(policy, jobs, options.repeats) for jobs in JOBS}
        table.add_row(policy, *(f"{1e3 * value:,.1f}" for value in found[policy].values()))
    console.print(table)
    packed = Table("by", *(f"{jobs:,} jobs [ms]" for jobs in PACKED_JOBS), title="max_min_fairness_packed, CPU time")
    found["max_min_fairness_packed"] = {}
    for name, most in (("pairs", PACKED_JOBS[-2]), ("kinds of partner", 0)):
        taken = {jobs: packed_seconds(jobs, most, options.repeats) for jobs in PACKED_JOBS if jobs <= most or most == 0}
        found["max_min_fairness_packed"][name] = taken
        packed.add_row(name, *(f"{1e3 * value:,.0f}" for value in taken.values()))
    console.print(packed)
    for jobs, target_s in TARGETS_S.items():
        value = found[MEASURED[0]][jobs]
        console.print(f"{jobs:,} jobs: {1e3 * value:.0f} ms, target {1e3 * target_s:.0f} ms, met: {value <= target_s}")
    if options.output is not None:
        options.output.write_text(json.dumps({"version": gpusched_env.__version__, "seconds": found}, indent=1) + "\n")


if __name__ == "__main__":
    run_script(main)
