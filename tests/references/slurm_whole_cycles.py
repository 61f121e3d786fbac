"""Slurm's backfill cycles without the shortcut that ends them behind the last job that can start.

Not a reference of Slurm: the package without one shortcut. What its cycles do is tested by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.slurm import backfill
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.tenants import TENANT, Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate

SPECS = (
    "slurm:bf_interval_s=0", "slurm:backfill=easy", "slurm:bf_max_job_test=15,bf_interval_s=5",
    "slurm-multifactor:bf_max_job_user=4,bf_max_job_start=2", "slurm:gpu_weight=100,bf_min_prio_reserve=30",
)  # fmt: skip


def cases() -> Iterator[Instance]:
    """Long queues, with and without a limit of a tenant."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        jobs = 70
        duration = rng.integers(60, 4000, jobs).astype(float)
        workload = Workload.from_columns(
            np.sort(rng.integers(0, 600, jobs)), rng.choice([1, 1, 2, 4, 9], jobs), duration,
            estimate_s=np.ceil(duration * rng.uniform(1, 4, jobs)), attributes={TENANT: rng.choice(["a", "b"], jobs)},
        )  # fmt: skip
        tenants = Tenants((Tenant("a", most=12), Tenant("b"))) if seed == 2 else None
        yield Instance(Cluster.parse("2x8"), workload, semantics=Semantics(checkpoint_s=0.0), tenants=tenants)


def logs() -> list[str]:
    """Digests of the event logs."""
    return [simulate(case, make_scheduler(spec)).digest() for spec in SPECS for case in cases()]


def digests() -> list[str]:
    """Digests without the shortcut; only plain Python can do without it."""
    backfill.drop_blocked = lambda *_: None  # type: ignore[assignment]
    return logs()
