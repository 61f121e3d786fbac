"""A synthetic log with a planted policy, on which a fit can be checked: jobs of users, played under known weights."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.accounting import ORIGIN, Accounts, export_run
from gpusched_env.portable import draws
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.support.files import write_whole
from gpusched_env.traces import generate_workload, scale_to_load
from gpusched_env.twin.model import Pool, Twin, grown_tree
from gpusched_env.twin.squeue import squeue_lines

__all__ = ["example_jobs", "example_twin"]

JOBS: Final = 20_000
POLICY: Final = (
    "slurm:age_weight=4000,fair_share_weight=10000,size_weight=3000,qos_weight=6000,backfill=conservative,"
    "bf_window_s=172800"
)
CLUSTER: Final = "24x8@A100"
QOS_CLASSES: Final = {"low": 0.0, "normal": 1.0, "high": 3.0}
_QOS_SHARES: Final = (("low", 0.3), ("normal", 0.6), ("high", 0.1))
_ACCOUNTS: Final = {"vision": 12, "language": 9, "robotics": 6, "theory": 4}  # users of each account
_LOAD: Final = 0.8
_MOST_GPUS: Final = 64
_LIMITS_H: Final = (1, 2, 4, 8, 12, 24, 48)  # [h] time limits that users choose
_DRAW: Final = 0x7717
README: Final = """\
A synthetic example, made by gpusched twin example: nothing in it belongs to a real cluster or person.

sacct.txt     the accounting table: {jobs:,} jobs
squeue.txt    the running and queued jobs at one busy moment of the log
slurm.conf    the machines and the partition; it tells no weights
planted.json  the policy under which the jobs were played, which a fit must find

gpusched twin fit slurm:{folder}/sacct.txt --conf {folder}/slurm.conf --output {folder}/twin.json
"""


def example_twin(policy: str = POLICY) -> Twin:
    """Return the twin by which the example is played: its machines, users and policy."""
    return Twin(
        "slurm:sacct.txt",
        policy,
        (Pool("gpu", Cluster.parse(CLUSTER).groups, ("gpu",)),),
        Tenants(tree=grown_tree(_leaves(), set())),
        ("account", "user"),
        dict(QOS_CLASSES),
        class_most=max(QOS_CLASSES.values()),
    )


def example_jobs(jobs: int = JOBS, seed: int = 0, gpus: int = 192) -> Workload:
    """Draw the jobs of the example: arrivals, gangs and run times like Philly's, users, QOS, and time limits.

    Times are whole seconds, so that a table of Slurm's tells them exactly. A limit is the next of a few round numbers
    of hours above 1 to 6 times the run time; longer jobs are cut at 48 h.
    """
    rng = np.random.default_rng([_DRAW, seed])
    drawn = generate_workload("philly", seed=seed, jobs=jobs, max_gpus=_MOST_GPUS)
    table = drawn.jobs.copy()
    limits_s = np.array(_LIMITS_H) * 3600.0
    table["duration_s"] = np.clip(np.rint(table["duration_s"]), 30.0, limits_s[-1])
    wanted_s = table["duration_s"] * draws.uniform(rng, 1.0, 6.0, jobs)
    table["estimate_s"] = limits_s[np.minimum(np.searchsorted(limits_s, wanted_s), len(limits_s) - 1)]
    names, ends = [name for name, _ in _QOS_SHARES], np.cumsum([share for _, share in _QOS_SHARES])
    qos = np.array(names)[np.minimum(np.searchsorted(ends, rng.random(jobs), side="right"), len(names) - 1)]
    users = _users(rng, jobs)
    attributes = {
        "account": np.array([leaf.split("/")[0] for leaf in _leaves()])[users],
        "user": np.array([leaf.split("/")[1] for leaf in _leaves()])[users],
        "qos": qos,
        "virtual_cluster": np.full(jobs, "gpu"),
    }
    workload = dataclasses.replace(drawn, jobs=table, attributes=attributes, name="example", source="synthetic")
    scaled = scale_to_load(workload, _LOAD, gpus)
    return scaled.unchecked_columns(arrival_s=np.rint(scaled.jobs["arrival_s"]))


def write_example(folder: Path, jobs: int = JOBS, seed: int = 0, policy: str = POLICY) -> Path:
    """Play the example; write its accounting table (returned), queue at a busy moment, configuration and policy."""
    twin = example_twin(policy)
    (problem,) = twin.problems(example_jobs(jobs, seed))
    log = simulate(problem.instance, make_scheduler(problem.spec))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpuschedError(f"{folder}: cannot be written ({error.strerror or error})") from error
    table = folder / "sacct.txt"
    export_run(problem.instance, log, "sacct", table)
    accounts = Accounts.of(problem.instance, log)
    moment_s = busy_moment_s(accounts)
    write_whole(folder / "squeue.txt", "".join(f"{line}\n" for line in squeue_lines(accounts, moment_s, ORIGIN)))
    (group,) = twin.pools[0].groups
    nodes = f"n[0-{group.count - 1}]"
    write_whole(
        folder / "slurm.conf",
        "GresTypes=gpu\nAccountingStorageTRES=gres/gpu\n"
        f"NodeName={nodes} CPUs=64 RealMemory=512000 Gres=gpu:{group.gpu_type.lower()}:{group.gpus}\n"
        f"PartitionName=gpu Nodes={nodes} Default=YES MaxTime=2-00:00:00\n",
    )
    planted = {"scheduler": policy, "classes": QOS_CLASSES, "seed": seed}
    write_whole(folder / "planted.json", json.dumps(planted, indent=2) + "\n")
    write_whole(folder / "README.txt", README.format(jobs=jobs, folder=folder))
    return table


def busy_moment_s(accounts: Accounts) -> float:
    """Return the full hour of the last third of the arrivals with the most waiting jobs, the first such one [s]."""
    last_s = float(accounts.arrival_s.max())
    hours = np.arange(math.floor(last_s * 2 / 3 / 3600), math.floor(last_s / 3600) + 1) * 3600.0
    arrived = np.searchsorted(np.sort(accounts.arrival_s), hours, side="right")
    started = np.searchsorted(np.sort(accounts.start_s), hours, side="right")
    return float(hours[int(np.argmax(arrived - started))])


def _leaves() -> list[str]:
    """Return the users as leaves of the tree, ``account/user``."""
    return [f"{account}/{account[0]}{number:02d}" for account, users in _ACCOUNTS.items() for number in range(users)]


def _users(rng: np.random.Generator, jobs: int) -> np.ndarray:
    """int64 [J]: number of the user of each job; users come in bursts, and the first ones of an account submit most."""
    weights = np.concatenate([1.0 / np.arange(1, users + 1) for users in _ACCOUNTS.values()])
    ends = np.cumsum(weights)
    uniform, again = rng.random((2, jobs))
    begins = again * 4.0 < 1.0  # bursts of 4 jobs on average
    begins[:1] = True
    uniform = uniform[np.maximum.accumulate(np.where(begins, np.arange(jobs), 0))]
    return np.minimum(np.searchsorted(ends, uniform * ends[-1], side="right"), len(ends) - 1)
