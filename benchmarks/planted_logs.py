"""Twins of twelve logs with planted policies: how far off their waits are, and whether wrong twins are graded so.

    python benchmarks/planted_logs.py [--only 0 3]

Each log is played on its machines under its policy, written as sacct prints it, and read again. The fit sees the log,
the machines and, where users have limits, the associations. Waits are those of the last 40 % of the log, which the fit
has not seen. A median is also met if it is less than MEDIAN_S off: Slurm starts jobs in cycles.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.accounting import export_run
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.support.units import readable
from gpusched_env.traces import read_workload
from gpusched_env.twin import GroupScore, Pool, Twin
from gpusched_env.twin.example import QOS_CLASSES
from gpusched_env.twin.fitting import FIT_PART, fit_twin
from gpusched_env.twin.grading import NOT_USABLE, grade_of
from gpusched_env.twin.model import grown_tree
from gpusched_env.twin.sacctmgr import read_associations
from gpusched_env.twin.scoring import replayed_starts, score_replay

MEAN, MEDIAN, MEDIAN_S = 0.05, 0.1, 30.0  # how far off a mean and a median may be
LIMITS_H: Final = np.array([0.5, 1, 2, 4, 8, 12, 24])  # time limits that users choose
USERS: Final = {"vision": 5, "language": 4, "robotics": 3}  # users of each account
PRIORITIES: Final = "age_weight=2000,fair_share_weight=6000,qos_weight=10000"


@dataclass(frozen=True)
class Case:
    """A planted log; ``several`` : jobs of several nodes too, ``limited`` : the most GPUs of each user, 0 = any."""

    cluster: str
    load: float
    policy: str
    several: bool = False
    limited: int = 0
    jobs: int = 6_000


CASES: Final = (
    Case("2x8", 0.75, "slurm:backfill=none"),
    Case("2x8", 0.6, "slurm:backfill=conservative", several=True),
    Case("4x8", 0.7, "slurm:backfill=none", several=True),
    Case("6x8", 0.66, "slurm:backfill=easy"),
    Case("8x4", 0.85, f"slurm:backfill=conservative,{PRIORITIES}"),
    Case("8x8", 0.9, f"slurm:backfill=conservative,{PRIORITIES}", several=True),
    Case("12x8", 0.8, "slurm:backfill=conservative,age_weight=10000,size_weight=4000", several=True, limited=24),
    Case("16x8", 0.95, f"slurm:backfill=conservative,{PRIORITIES},size_weight=3000", several=True),
    Case("24x8", 0.55, "slurm:backfill=none,qos_weight=10000", several=True, limited=20),
    Case("32x8", 0.9, f"slurm:backfill=easy,{PRIORITIES}", several=True),
    Case("64x8", 0.92, f"slurm:backfill=conservative,{PRIORITIES}", several=True),
    Case("128x8", 0.95, "slurm:backfill=conservative,age_weight=3000,qos_weight=10000", several=True),
)


def jobs_of(case: Case, seed: int) -> Workload:
    """Draw the jobs of a case: whole seconds, gangs with their nodes, users, QOS and time limits."""
    rng, jobs = np.random.default_rng([0x91A7, seed]), case.jobs
    cluster = Cluster.parse(case.cluster)
    per_node, most = int(cluster.nodes["gpus"].max()), len(cluster.nodes)
    part = rng.choice([gpus for gpus in (1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8) if gpus <= per_node], jobs)
    nodes = np.ones(jobs, np.int64)
    if case.several:
        wide = rng.random(jobs) < 0.12
        nodes[wide] = np.minimum(rng.choice([2, 2, 3, 4, 8], wide.sum()), max(most // 2, 2))
        part[wide] = rng.choice([per_node // 2, per_node], wide.sum())
    if case.limited:
        nodes = np.minimum(nodes, case.limited // part)
    gpus = nodes * part
    run_s = np.clip(np.rint(np.exp(rng.normal(np.log(2400.0), 1.3, jobs))), 60.0, 80_000.0)
    wanted_s = run_s * rng.uniform(1.0, 4.0, jobs)
    limit_s = LIMITS_H[np.minimum(np.searchsorted(LIMITS_H * 3600.0, wanted_s), len(LIMITS_H) - 1)] * 3600.0
    arrival_s = np.cumsum(rng.exponential(1.0, jobs))
    arrival_s -= arrival_s[0]  # cycles of the scheduler count from the first submission, which is time 0 of a log
    arrival_s = np.rint(arrival_s * (gpus * run_s).sum() / (case.load * cluster.gpus * arrival_s[-1]))
    leaves = [(account, f"{account[0]}{number}") for account, users in USERS.items() for number in range(users)]
    who = rng.integers(0, len(leaves), jobs)
    attributes = {
        "account": np.array([account for account, _ in leaves])[who],
        "user": np.array([user for _, user in leaves])[who],
        "qos": rng.choice(list(QOS_CLASSES), jobs, p=[0.3, 0.5, 0.2]),
        "virtual_cluster": np.full(jobs, "gpu"),
        "min_nodes": nodes,
        "max_nodes": nodes,
    }
    return Workload.from_columns(
        arrival_s, gpus, run_s, estimate_s=limit_s, attributes=attributes, name="planted", source="planted"
    )


def planted_twin(case: Case, folder: Path) -> Twin:
    """Return the twin by which a case is played; limits of users are written to ``assoc.txt`` and read from it."""
    leaves = [f"{account}/{account[0]}{number}" for account, users in USERS.items() for number in range(users)]
    tenants = Tenants(tree=grown_tree(leaves, set()))
    if case.limited:
        rows = [f"{account}||root|1|" for account in USERS]
        rows += [
            f"{account}|{user}||1|gres/gpu={case.limited}" for account, user in (leaf.split("/") for leaf in leaves)
        ]
        (folder / "assoc.txt").write_text("\n".join(["Account|User|ParentName|Share|GrpTRES", *rows]) + "\n")
        tenants = read_associations(folder / "assoc.txt")
    classes = dict(QOS_CLASSES) if "qos_weight" in case.policy else {}
    pools = (Pool("gpu", Cluster.parse(case.cluster).groups, ("gpu",)),)
    most = max(classes.values(), default=0.0)
    return Twin("planted", case.policy, pools, tenants, ("account", "user"), classes, class_most=most)


@dataclass(frozen=True)
class Outcome:
    """What a fit gave: its score, its grade, and the grades of wrong twins; ``used`` : of the GPU time."""

    row: GroupScore
    used: float
    grade: str
    policy: str
    wrong: dict[str, str]

    @property
    def met(self) -> bool:
        """Whether mean and median are within their bounds."""
        row = self.row
        off_s = abs(row.predicted_median_s - row.recorded_median_s)
        mean_met = abs(row.predicted_mean_s - row.recorded_mean_s) <= MEAN * row.recorded_mean_s
        return mean_met and off_s <= max(MEDIAN * row.recorded_median_s, MEDIAN_S)


def play(case: Case, seed: int, wrong: bool = True) -> Outcome:
    """Plant a log, fit a twin to it, and grade twins with wrong machines and a wrong policy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planted = planted_twin(case, folder)
        (problem,) = planted.problems(jobs_of(case, seed))
        export_run(
            problem.instance, simulate(problem.instance, make_scheduler(problem.spec)), "sacct", folder / "sacct.txt"
        )
        log = read_workload(f"slurm:{folder / 'sacct.txt'}")
        shares = planted.tenants if case.limited else None
        found = fit_twin(log, planted.pools, shares=shares)
        grades = {}
        for label, times in (("half", 0.5), ("double", 2.0)) if wrong else ():
            (group,) = planted.pools[0].groups
            groups = (dataclasses.replace(group, count=round(group.count * times)),)
            try:
                other = fit_twin(log, (dataclasses.replace(planted.pools[0], groups=groups),), shares=shares)
                grades[label] = grade_of(other).word
            except GpuschedError:
                grades[label] = "refused"
        if wrong:
            other = dataclasses.replace(found, scheduler=wrong_policy(case))
            score = score_replay(other, log, replayed_starts(other, log), found.split_s)
            grades["policy"] = grade_of(dataclasses.replace(other, score=score, remainders=())).word
    return Outcome(found.score.overall, found.score.held_recorded, grade_of(found).word, found.scheduler, grades)


def wrong_policy(case: Case) -> str:
    """Return a policy that differs from the planted one in what decides: the order, or backfill."""
    return "slurm:backfill=none" if "backfill=none" not in case.policy else "slurm:size_weight=1000,size_factor=small"


@dataclass
class Settings:
    """Fit twins to planted logs."""

    only: tuple[int, ...] = ()
    """Numbers of the logs; none = all."""
    wrong: bool = True
    """Also grade twins with wrong machines or a wrong policy."""


def main(settings: Settings) -> None:
    """Print the table."""
    table = plain_table(
        "log", "planted", "used", "mean wait", "in the twin", "median", "in the twin", "met", "grade", "wrong ones",
        "s", texts=2,
    )  # fmt: skip
    chosen = settings.only or range(len(CASES))
    met = refused = 0
    for number in chosen:
        case, begin = CASES[number], time.perf_counter()
        found = play(case, number, settings.wrong)
        row, kind = found.row, " several nodes" if case.several else ""
        met += found.met
        refused += all(word in ("refused", NOT_USABLE) for word in found.wrong.values())
        table.add_row(
            f"{number}: {case.cluster}{kind}", f"{case.policy}{f' limit {case.limited}' * bool(case.limited)}",
            f"{found.used:.0%}", readable(row.recorded_mean_s), readable(row.predicted_mean_s),
            readable(row.recorded_median_s), readable(row.predicted_median_s), "yes" if found.met else "NO",
            found.grade, ", ".join(f"{name} {word}" for name, word in found.wrong.items()),
            f"{time.perf_counter() - begin:.0f}",
        )  # fmt: skip
        print(f"{number}: {found.policy}", flush=True)
    show(table, f"waits after {FIT_PART:.0%} of each log")
    print(f"mean within {MEAN:.0%} and median within {MEDIAN:.0%}: {met} of {len(chosen)}")
    if settings.wrong:
        print(f"all wrong twins are graded not usable or refused: {refused} of {len(chosen)}")


if __name__ == "__main__":
    run_script(main)
