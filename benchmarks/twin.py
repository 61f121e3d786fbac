"""A comparison on a twin: seconds for a month of 100,000 jobs under 20 policies.

    python benchmarks/twin.py [--jobs 100000] [--workers 2]

Jobs are those of ``gpusched twin example``, on machines that are enlarged with their number. Kernels are compiled
before the clock starts; processes are started while it runs.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Final

from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.support.commands import run_script
from gpusched_env.twin.comparing import Setting, compare_policies, play_policy, settings_of
from gpusched_env.twin.example import JOBS, example_jobs, example_twin
from gpusched_env.twin.model import Pool
from gpusched_env.twin.summary import comparison_rows, sentences

TARGET_S: Final = 30.0
POLICIES: Final = (
    "slurm", "slurm:backfill=none", "slurm:backfill=easy", "slurm-multifactor", "slurm-multifactor:backfill=easy",
    "slurm:age_weight=1000,qos_weight=1000", "slurm:fair_share_weight=1000", "slurm:size_weight=1000",
    "slurm:qos_weight=1000", "slurm:bf_interval_s=300", "slurm:bf_max_job_test=500", "fifo", "fifo-skip", "sjf",
    "srtf", "las", "tiresias", "dally", "learned",
)  # fmt: skip


@dataclass
class Settings:
    """Measure a comparison."""

    jobs: int = 100_000
    """Jobs of the log."""
    workers: int = 2
    """Processes."""
    each: bool = False
    """Also play each policy alone and print its CPU seconds, in which other processes do not count."""


def main(settings: Settings) -> None:
    """Print the seconds."""
    twin = example_twin()
    (group,) = twin.pools[0].groups
    nodes = group.count * settings.jobs // JOBS
    twin = dataclasses.replace(twin, pools=(Pool("gpu", (NodeGroup(nodes, group.gpus, group.gpu_type),), ("gpu",)),))
    jobs = example_jobs(settings.jobs, gpus=twin.gpus)
    small = Setting("small", twin, example_jobs(200, gpus=twin.gpus))
    for policy in ("current", *POLICIES):
        play_policy(small, policy)  # compiles
    (today,) = settings_of(twin, jobs)
    if settings.each:
        before = time.process_time()
        for policy in ("current", *POLICIES):
            begin = time.process_time()
            play_policy(today, policy)
            print(f"{policy}: {time.process_time() - begin:.2f} CPU s")
        print(f"all, one after another: {time.process_time() - before:.1f} CPU s")
    begin = time.perf_counter()
    found = compare_policies([today], POLICIES, settings.workers)
    rows = comparison_rows(found)
    sentences(found)
    seconds = time.perf_counter() - begin
    days = float(jobs.jobs["arrival_s"].max()) / 86_400
    print(f"{settings.jobs:,} jobs of {days:.1f} days on {twin.gpus:,} GPUs, {len(rows) - 1} policies: {seconds:.1f} s")
    print(f"target {TARGET_S:g} s: {'met' if seconds <= TARGET_S else 'missed'}")


if __name__ == "__main__":
    run_script(main)
