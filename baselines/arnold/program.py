"""Arnold's integer program: over how many minipods a job spreads, and each of its groups of ranks at most."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, diags_array, eye_array, kron

NODES: Final = 2_000  # limit of the search tree; a spread for which the search does not end is left out
TINY: Final = 1e-9  # costs that differ by less are equal


class Matrix(NamedTuple):
    """The servers of a job as ``rows`` groups of ``columns`` servers with consecutive ranks.

    The program minimises ``by_job`` x minipods of the job + ``by_row`` x minipods of the row that spans most.
    """

    rows: int
    columns: int
    by_job: float
    by_row: float


def layout(free: np.ndarray, job: Matrix) -> np.ndarray | None:
    """int64 [minipods]: servers of each minipod for a job, given those that are ``free``; None = they are too few.

    The program has a unique optimal cost, but many solutions. The rule: of equal costs, that with the rows on fewest
    minipods; the minipods with most free servers, of equal ones the first; if no row is split, they get as many whole
    rows as they hold, one after the other, and otherwise all their servers. The last one, which gets the rest, is the
    one with the least room that holds it.
    """
    best, most, least = 0, 0, np.inf
    fewest = _first(free, job.rows * job.columns)
    for spread in range(1, min(job.columns, len(free)) + 1 if fewest else 1):
        count = _first(free // job.columns, job.rows) if spread == 1 else pods_for(free, job, spread)
        cost = job.by_job * count + job.by_row * spread
        if count and cost < least - TINY:
            best, most, least = count, spread, cost
        if count == fewest:  # larger spreads cost more
            break
    if not best:
        return None
    unit = job.columns if most == 1 else 1
    room = free // unit
    order = np.argsort(-room, kind="stable")[:best]
    found, left = np.zeros(len(free), np.int64), job.rows * job.columns // unit
    for pod in order[:-1].tolist():
        found[pod] = min(room[pod], left)
        left -= found[pod]
    rest = np.where((room >= left) & (found == 0), room, room.max() + 1)
    found[int(rest.argmin())] = left
    return found * unit


def _first(room: np.ndarray, need: int) -> int:
    """Return how many of the places with most room hold ``need``; 0 = all are too few."""
    count = int(np.searchsorted(np.cumsum(np.sort(room)[::-1]), need)) + 1
    return count if count <= len(room) else 0


def pods_for(free: np.ndarray, job: Matrix, spread: int) -> int:
    """Return the least number of minipods on which no row spans more than ``spread``, by HiGHS; 0 = there is none.

    Constraints as published: each row is placed whole, p_ij <= s_ij, and no minipod gives more than it has. As any
    minipod may be replaced by one with more room, those with most room are used first.
    """
    room = np.sort(free[free > 0])[::-1] / job.columns
    rows, pods = job.rows, len(room)
    cells = rows * pods  # columns: p of each row and minipod, s likewise, y of each minipod
    of_row, of_pod = kron(eye_array(rows), np.ones((1, pods))), kron(np.ones((1, rows)), eye_array(pods))
    none, ordered = csr_array((rows, pods)), csr_array(np.diff(np.eye(pods), axis=0))
    constraints = block_array(
        [
            [of_row, None, none],
            [None, of_row, none],
            [eye_array(cells), -eye_array(cells), None],
            [of_pod, None, -diags_array(room)],
            *([[None, csr_array((pods - 1, cells)), ordered]] if pods > 1 else []),
        ],
        format="csr",
    )
    high = np.concatenate([np.ones(rows), np.full(rows, float(spread)), np.zeros(cells + pods + max(pods - 1, 0))])
    low = np.where(np.arange(len(high)) < rows, 1.0, -np.inf)
    found = milp(
        np.concatenate([np.zeros(2 * cells), np.ones(pods)]),
        constraints=LinearConstraint(constraints, low, high),
        integrality=np.concatenate([np.zeros(cells), np.ones(cells + pods)]),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0, "node_limit": NODES},
    )
    return round(float(found.fun)) if found.status == 0 else 0
