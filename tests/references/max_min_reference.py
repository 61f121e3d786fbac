"""Max-min fair rates in two independent ways: progressive filling, and a chain of linear programs.

The rates are unique, so there are no ties to break. A flow is a job: it uses ``weights[j, l]`` of link l for each unit
of its rate, because all edges of a ring have one rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def max_min_rates(
    capacity: Array, weights: Array, caps: Array | None = None, flow_weights: Array | None = None
) -> Array:
    """Raise all flows in proportion to their weights; freeze those on a full link or at their cap; repeat.

    Parameters
    ----------
    capacity : float64 [L]
    weights : float64 [F, L], use of each link by a unit of each flow's rate
    caps : float64 [F], largest rate of each flow; default none
    flow_weights : float64 [F], > 0; default all equal

    Returns
    -------
    float64 [F]; infinite for a flow without a link or a cap
    """
    flows = len(weights)
    caps = np.full(flows, np.inf) if caps is None else caps
    flow_weights = np.ones(flows) if flow_weights is None else flow_weights
    rates = np.zeros(flows)
    rising = np.ones(flows, bool)
    level = 0.0
    while rising.any():
        frozen_use = np.where(rising, 0.0, rates) @ np.where(rising[:, None], 0.0, weights)
        growth = np.where(rising, flow_weights, 0.0) @ weights
        full_at = np.full(len(capacity), np.inf)
        np.divide(np.maximum(0.0, capacity - frozen_use), growth, out=full_at, where=growth > 0.0)
        capped_at = np.where(rising, caps / flow_weights, np.inf)
        level = max(level, min(full_at.min(initial=np.inf), capped_at.min()))
        rates[rising] = level * flow_weights[rising]
        full = full_at <= level * (1.0 + 1e-12)  # links that fill up together up to rounding freeze together
        rising &= ~((weights[:, full] > 0.0).any(axis=1) | (capped_at <= level))
        if level == np.inf:
            break
    return rates


def max_min_by_lp(
    capacity: Array, weights: Array, caps: Array | None = None, flow_weights: Array | None = None
) -> Array:
    """Lexicographic maximum: maximise the smallest rate per weight, fix the flows that cannot rise, maximise the next.

    A flow whose lower bound has a positive price in an optimal dual solution is at its bound in every optimum; each
    round has at least one. Every flow needs a link or a cap.
    """
    from scipy.optimize import linprog

    flows, links = weights.shape
    caps = np.full(flows, np.inf) if caps is None else caps
    flow_weights = np.ones(flows) if flow_weights is None else flow_weights
    fixed: dict[int, float] = {}
    while len(fixed) < flows:
        free = [j for j in range(flows) if j not in fixed]
        # Variables: rates, then the level t. Rows: links, then w_j t - r_j <= 0 for the free flows.
        bounds_rows = np.zeros((len(free), flows + 1))
        for row, j in enumerate(free):
            bounds_rows[row, j], bounds_rows[row, flows] = -1.0, flow_weights[j]
        found = linprog(
            np.append(np.zeros(flows), -1.0),
            A_ub=np.vstack([np.hstack([weights.T, np.zeros((links, 1))]), bounds_rows]),
            b_ub=np.append(capacity, np.zeros(len(free))),
            bounds=[(fixed.get(j, 0.0), fixed.get(j, caps[j])) for j in range(flows)] + [(0.0, None)],
            method="highs",
        )
        assert found.status == 0, found.message
        price = -found.ineqlin.marginals[links:]
        at_bound = [j for row, j in enumerate(free) if price[row] > 1e-9]
        assert at_bound
        fixed |= {j: found.x[flows] * flow_weights[j] for j in at_bound}
    return np.array([fixed[j] for j in range(flows)])
