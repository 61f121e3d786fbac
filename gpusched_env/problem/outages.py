"""Outages of nodes, and how jobs recover: checkpoints, and attempts that fail by themselves."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from gpusched_env.errors import ScenarioError, WorkloadError
from gpusched_env.problem.workload import ATTEMPTS, CHECKPOINT_COST, CHECKPOINT_INTERVAL, FAILS_AFTER, Workload
from gpusched_env.support.units import LATEST_S

if TYPE_CHECKING:
    from gpusched_env.problem.instance import Semantics

__all__ = ["OUTAGE_DTYPE", "Outages"]

OUTAGE_DTYPE: Final = np.dtype(
    [
        ("node", "<i4"),  # number of the node
        ("start_s", "<f8"),  # [s] the node crashes
        ("end_s", "<f8"),  # [s] it takes jobs again; start_s = at once, inf = never
        ("cause", "<i4"),  # index into Outages.causes
    ]
)
SHORTEST_INTERVAL_S: Final = 1e-3  # [s] as of rounds: the clock must resolve it


@dataclass(frozen=True, eq=False)
class Outages:
    """Crashes of nodes; a gang that holds a GPU of the node then loses its work since its last checkpoint.

    Parameters
    ----------
    rows : OUTAGE_DTYPE [n], by start_s, then by node; those of one node do not overlap (:meth:`merged`)
    causes : names of the causes

    Raises
    ------
    ScenarioError : rows that are not so
    """

    rows: np.ndarray
    causes: tuple[str, ...] = ("",)

    def __post_init__(self) -> None:
        """Check the rows."""
        if self.rows.dtype != OUTAGE_DTYPE or self.rows.ndim != 1:
            raise ScenarioError("outages: rows must be a one-dimensional array of OUTAGE_DTYPE")
        node, start_s, end_s, cause = (self.rows[name] for name in OUTAGE_DTYPE.names or ())
        order = np.lexsort([start_s, node])
        alike = node[order][1:] == node[order][:-1]
        overlaps = np.zeros(len(node), bool)
        overlaps[order[1:]] = alike & (start_s[order][1:] <= end_s[order][:-1])
        unsorted = np.zeros(len(node), bool)
        unsorted[1:] = (start_s[1:] < start_s[:-1]) | ((start_s[1:] == start_s[:-1]) & (node[1:] < node[:-1]))
        for bad, what in (
            (~((start_s >= 0) & (start_s <= LATEST_S)), f"start_s must be 0 to {LATEST_S:g} s"),
            (~(end_s >= start_s), "end_s must be at least start_s; inf = the node never comes back"),
            (node < 0, "node must be at least 0"),
            ((cause < 0) | (cause >= len(self.causes)), f"cause must be an index into the {len(self.causes)} causes"),
            (unsorted, "sort the rows by start_s, then by node"),
            (overlaps, "it overlaps another outage of its node, or follows at once; use Outages.merged"),
        ):
            if bad.any():
                raise ScenarioError(f"outages: row {int(np.argmax(bad))} is {self.rows[np.argmax(bad)]}: {what}")

    @classmethod
    def merged(cls, rows: np.ndarray, causes: Sequence[str] = ("",)) -> Self:
        """Return outages from rows in any order, which may overlap: those that overlap are one, of the first cause."""
        rows = rows[np.lexsort([rows["node"], rows["start_s"]])]
        kept: list[int] = []
        latest: dict[int, int] = {}  # node -> its latest row
        ends_s = rows["end_s"].tolist()
        for at, (node, start_s) in enumerate(rows[["node", "start_s"]].tolist()):
            if (before := latest.get(node, -1)) >= 0 and start_s <= ends_s[before]:
                ends_s[before] = max(ends_s[before], ends_s[at])
            else:
                latest[node] = at
                kept.append(at)
        result = rows[kept]
        result["end_s"] = [ends_s[at] for at in kept]
        return cls(result, tuple(causes))

    def __len__(self) -> int:
        """Return the number of outages."""
        return len(self.rows)

    def check_nodes(self, nodes: int) -> None:
        """Refuse outages of nodes that a cluster of ``nodes`` nodes lacks.

        Raises
        ------
        ScenarioError : there is such an outage
        """
        if (worst := int(self.rows["node"].max(initial=-1))) >= nodes:
            raise ScenarioError(f"outages: there is no node {worst}: give numbers from 0 to {nodes - 1}")

    def fingerprint(self) -> str:
        """Return the SHA-256 of what a run reads: not the causes."""
        return hashlib.sha256(self.rows[["node", "start_s", "end_s"]].tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Recovery:
    """What jobs lose by a crash, and when they fail by themselves. J = number of jobs."""

    interval_s: np.ndarray  # float64 [J] [s] of progress between two checkpoints; inf = only preemptions save
    cost_s: np.ndarray  # float64 [J] [s] without progress at each checkpoint
    first: np.ndarray  # int64 [J + 1], first entry of fails_after_s of each job, and the end
    fails_after_s: np.ndarray  # float64 [F] [s] of service of an attempt after which it fails, by job
    attempts: np.ndarray  # int64 [J], failures by itself after which the job ends; 0 = it never gives up

    @cached_property
    def changes_nothing(self) -> bool:
        """Whether a run without outages is as if there were no checkpoints and failures."""
        return not len(self.fails_after_s) and not self.cost_s.any()

    @property
    def segment_s(self) -> np.ndarray:
        """float64 [J] [s]: from one checkpoint to the next."""
        return self.interval_s + self.cost_s

    @property
    def stretch(self) -> np.ndarray:
        """float64 [J]: time of an iteration with checkpoints / without."""
        every = np.where(np.isfinite(self.interval_s), self.interval_s, 1.0)
        return (every + self.cost_s) / every


def recovery_of(workload: Workload, rules: Semantics) -> Recovery:
    """Return the checkpoints and failures of the jobs.

    Raises
    ------
    WorkloadError : an attribute of a job is out of range
    """
    jobs = len(workload)
    interval_s = _told(workload, CHECKPOINT_INTERVAL, rules.checkpoint_interval_s, SHORTEST_INTERVAL_S, math.inf)
    cost_s = _told(workload, CHECKPOINT_COST, rules.checkpoint_cost_s, 0.0, LATEST_S)
    lists: list[list[float]] = []
    first = np.zeros(jobs + 1, np.int64)
    if FAILS_AFTER in workload.attributes:
        lists = [_numbers(workload, row, text) for row, text in enumerate(workload.attributes[FAILS_AFTER].tolist())]
        first[1:] = np.cumsum([len(one) for one in lists])
    attempts = _told(workload, ATTEMPTS, 0.0, 0.0, 2.0**31)
    return Recovery(
        interval_s, np.where(np.isfinite(interval_s), cost_s, 0.0), first,
        np.array([seconds for one in lists for seconds in one], float), attempts.astype(np.int64),
    )  # fmt: skip


def _told(workload: Workload, name: str, default: float, least: float, most: float) -> np.ndarray:
    """float64 [J]: an attribute of all jobs; the default where it is missing or NaN."""
    if name not in workload.attributes:
        return np.full(len(workload), default)
    column = workload.told(name)
    column = np.where(np.isnan(column), default, column)
    bad = ~((column >= least) & (column <= most))
    if bad.any():
        at = int(np.argmax(bad))
        raise WorkloadError(
            f"workload {workload.name!r}, job {workload.jobs['id'][at]}: {name} is {column[at]:g}: "
            f"give a number from {least:g} to {most:g}; NaN = the scenario's"
        )
    return column


def _numbers(workload: Workload, row: int, told: str | float) -> list[float]:
    """Return the seconds after which the attempts of a job fail; a number, or several with | between them."""
    texts = [part.strip() for part in str(told).split("|")]
    try:
        seconds = [] if texts in ([""], ["nan"]) else [float(text) for text in texts]
    except ValueError:
        seconds = [math.nan]
    if not all(0.0 < one <= LATEST_S for one in seconds):
        raise WorkloadError(
            f"workload {workload.name!r}, job {workload.jobs['id'][row]}: {FAILS_AFTER} is {told!r}: give seconds > 0, "
            "of several attempts with | between them, such as 60|3600; NaN or nothing = it does not fail"
        )
    return seconds
