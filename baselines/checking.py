"""Names and numbers that parameters of schedulers may have."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from numbers import Real
from typing import Final, NamedTuple

from gpusched_env.errors import SchedulerError, unknown_name


class Range(NamedTuple):
    """Numbers from ``least`` to ``most``, and how an error says so."""

    least: float
    most: float
    wanted: str


FINITE: Final = Range(math.ulp(0.0), sys.float_info.max, "a finite number > 0")
FINITE_OR_0: Final = Range(0.0, sys.float_info.max, "a finite number >= 0")
POSITIVE: Final = Range(math.ulp(0.0), math.inf, "a number > 0, or inf")
AT_LEAST_0: Final = Range(0.0, math.inf, "a number >= 0")
AT_LEAST_1: Final = Range(1.0, sys.float_info.max, "a finite number >= 1")


def check(who: str, scheduler: object, **known: Range | Collection[str]) -> None:
    """Refuse a field of the scheduler ``who`` that is outside its range, or none of its names."""
    for field, allowed in known.items():
        value, shown = getattr(scheduler, field), field.rstrip("_")
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not isinstance(allowed, Range):
            if value not in allowed:
                raise SchedulerError(f"{who}: {unknown_name(shown, str(value), allowed)}")
        elif not (is_number and allowed.least <= value <= allowed.most):
            raise SchedulerError(f"{who}: {shown} is {value!r}: it must be {allowed.wanted}")
