"""Questions to a simulation as kernels called by address: a loop that asks does not compile them again (binding.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.simulator.binding import (
    ACTION,
    ENVIRONMENT,
    STATE_PARAMETERS,
    KernelTable,
    Parameter,
    caller,
    signature_of,
)
from gpusched_env.simulator.placing_shared import find_shared
from gpusched_env.simulator.planning import plan_preemptive
from gpusched_env.simulator.state import State

Parameters = tuple[Parameter | str, ...]
# Arrays of the state that ``find_shared`` takes.
_FOUND_IN: Final = (
    "world", "jobs", "replicas", "nodes", "racks", "free", "holder", "gpu_next", "gpu_node", "running", "paces",
    "chosen", "links", "busy", "sub_batches", "interference",
)  # fmt: skip
_FIND: Final[Parameters] = (
    *(STATE_PARAMETERS[State._fields.index(name)] for name in _FOUND_IN),
    ENVIRONMENT,
    ACTION,
    ACTION,
)
_PLAN: Final[Parameters] = (*STATE_PARAMETERS, ENVIRONMENT, *[Parameter(np.dtype(np.int32), 1, True)] * 3, ACTION)

# In a kernel: plan_by(table, b, count) and find_by(table, b, (row, choices)).
plan_by: Final = caller(_PLAN)
find_by: Final = caller(_FIND, results=2)


def _table(kernel: Any, parameters: Parameters, arrays: Sequence[np.ndarray], results: int = 1) -> KernelTable:
    return KernelTable([kernel], [signature_of(parameters)], parameters, arrays, results)


def plan_table(state: State, order: np.ndarray, rules: np.ndarray, verdict: np.ndarray) -> KernelTable:
    """Bind :func:`plan_preemptive` to the arrays of a state and to its lists."""
    return _table(plan_preemptive, _PLAN, (*state, order, rules, verdict))


def find_table(state: State) -> KernelTable:
    """Bind :func:`find_shared` to the arrays of a state."""
    return _table(find_shared, _FIND, [getattr(state, name) for name in _FOUND_IN], results=2)
