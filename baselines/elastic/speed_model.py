"""The speed of a job by number of GPUs, fitted to the sizes on which it was measured (Optimus)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import fsum
from typing import Final

import numpy as np

from gpusched_env.portable.keys import rounded_key

TERMS: Final = 3  # work that is divided / GPUs, work that is not, and communication x GPUs
EXACT: Final = 1e-18  # relative squared error that counts as none


def fit_seconds(gpus: Sequence[int], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Return a, b, c >= 0 of the model a / GPUs + b + c x GPUs with the least sum of squared relative errors.

    Each of the eight sets of terms is tried. Ties: fewer terms, then a before b before c; one measurement = linear
    speed.
    """
    rows = [[1.0 / (r * s), 1.0 / s, r / s] for r, s in zip(gpus, seconds, strict=True)]
    best, least = (0.0, 0.0, 0.0), np.inf
    for count in range(1, min(TERMS, len(rows)) + 1):
        for terms in combinations(range(TERMS), count):
            found = _solve(rows, terms)
            if found is None:
                continue
            error = fsum((fsum(x * c for x, c in zip(row, found, strict=True)) - 1.0) ** 2 for row in rows)
            error = 0.0 if error < EXACT else rounded_key(error)
            if error < least:
                best, least = found, error
    return best


def _solve(rows: list[list[float]], terms: tuple[int, ...]) -> tuple[float, float, float] | None:
    """Solve the normal equations for some of the terms; None = they are singular, or a coefficient is negative."""
    system = [[fsum(row[i] * row[j] for row in rows) for j in terms] + [fsum(row[i] for row in rows)] for i in terms]
    for at in range(len(terms)):  # Gauss's elimination; the matrix is positive definite, so no pivots are sought
        if system[at][at] <= 0.0:
            return None
        for other in range(len(terms)):
            if other != at:
                factor = system[other][at] / system[at][at]
                system[other] = [x - factor * y for x, y in zip(system[other], system[at], strict=True)]
    found = [0.0] * TERMS
    for at, term in enumerate(terms):
        found[term] = system[at][-1] / system[at][at]
    return (found[0], found[1], found[2]) if min(found) >= 0.0 else None
