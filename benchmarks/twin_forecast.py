"""Seconds for 1,000 futures of 5,000 queued jobs on 2,000 GPUs.

    python benchmarks/twin_forecast.py
    python benchmarks/twin_forecast.py --policy slurm-multifactor --arrivals

Compilation, which happens once, is not counted.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.twin.futures import Options, sampled_starts
from gpusched_env.twin.history import DAY_S, History
from gpusched_env.twin.settings import Plain
from gpusched_env.twin.snapshot import PresentJob, Snapshot

NOW_S = 30 * DAY_S


def past(rng: np.random.Generator, jobs: int = 20_000) -> Workload:
    """Return jobs of 50 users in 30 days; limits are 1 to 5 times the run times."""
    run_s = np.exp(rng.normal(8.5, 1.2, jobs))
    return Workload.from_columns(
        np.sort(rng.uniform(0, NOW_S, jobs)), 2 ** rng.integers(0, 5, jobs), run_s,
        estimate_s=np.ceil(run_s * rng.uniform(1, 5, jobs) / 3600) * 3600,
        attributes={"user": np.array([f"u{i}" for i in rng.integers(0, 50, jobs)])},
    )  # fmt: skip


def present(rng: np.random.Generator, history: Workload, gpus: int, queued: int) -> Snapshot:
    """Return a full cluster and a queue."""
    rows = iter(rng.integers(0, len(history), 100 * queued).tolist())
    jobs, free, waits = history.jobs, gpus, []
    runs = []
    for number, row in enumerate(rows):
        fields = {"limit_s": float(jobs["estimate_s"][row]), "user": str(history.attributes["user"][row])}
        gang = int(jobs["gpus"][row])
        if gang <= free:
            free -= gang
            start_s = NOW_S - float(jobs["duration_s"][row] * rng.random())
            runs.append(PresentJob(f"r{number}", gang, start_s, start_s, **fields))
        elif len(waits) < queued:
            waits.append(PresentJob(f"q{number}", gang, NOW_S - float(rng.uniform(0, DAY_S)), math.nan, **fields))
        else:
            break
    return Snapshot(NOW_S, tuple(runs), tuple(waits))


def main() -> None:
    """Print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="slurm")
    parser.add_argument("--futures", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=5000)
    parser.add_argument("--gpus", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cycle", type=float, default=Options.cycle_s, help="least time between cycles [s]; 0 = 30 s")
    parser.add_argument("--arrivals", action="store_true", help="jobs go on arriving")
    wanted = parser.parse_args()
    rng = np.random.default_rng(0)
    history = past(rng)
    snapshot = present(rng, history, wanted.gpus, wanted.queued)
    print(snapshot.describe())
    setting = Plain(Cluster.parse(f"{wanted.gpus // 8}x8"), wanted.policy)
    sampled_starts(
        snapshot, setting, History(history), Options(futures=2, arrivals=wanted.arrivals, cycle_s=wanted.cycle)
    )
    begin, cpu = time.perf_counter(), time.process_time()
    options = Options(futures=wanted.futures, arrivals=wanted.arrivals, cycle_s=wanted.cycle, threads=wanted.threads)
    starts = sampled_starts(snapshot, setting, History(history), options)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(
        f"{wanted.policy}: {wanted.futures:,} futures in {seconds:.1f} s, {cpu:.1f} s of CPU time, {wanted.threads} "
        f"threads; last start after {np.max(starts[np.isfinite(starts)]) / 3600:.1f} h"
    )


if __name__ == "__main__":
    main()
