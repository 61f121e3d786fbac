"""What :func:`play` does to a simulation, as kernels that look its arrays up in a table and are called by address."""

from __future__ import annotations

from typing import Any, Final

from gpusched_env.simulator import events
from gpusched_env.simulator.binding import mover, state_here
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.placing_beside import find_beside

# Numbers of the kernels in a table.
PLAY, LOOK, START, PREEMPT, LEASE, HAPPEN, BESIDE = range(7)


def _inside(called: Any) -> Any:
    """Make of a kernel a helper: a part of the kernel below that calls it."""
    return helper(getattr(called, "py_func", called))


_start, _preempt, _lease = map(_inside, (events.start, events.preempt, events.lease))
_happen: Final[Any] = events.happen
_find_beside: Final = _inside(find_beside)


@kernel
def start_here(table: Any, b: int, row: int, rule: int, explicit: int, share: int, sub_steps: int, _: float) -> int:
    """Start a waiting job as :func:`events.start` does."""
    return int64(_start(*state_here(table, b), 0, row, rule, explicit, share > 0, sub_steps))


@kernel
def preempt_here(table: Any, b: int, row: int, _j: int, _k: int, _m: int, _n: int, _: float) -> int:
    """Preempt a running job."""
    return int64(_preempt(*state_here(table, b), 0, row))


@kernel
def lease_here(table: Any, b: int, row: int, _j: int, _k: int, _m: int, _n: int, until_s: float) -> int:
    """Lease a running gang its GPUs until a time."""
    return int64(_lease(*state_here(table, b), 0, row, until_s))


@kernel
def happen_here(table: Any, b: int, _i: int, _j: int, _k: int, _m: int, _n: int, _: float) -> int:
    """Play the next event as :func:`events.happen` does."""
    return int64(_happen(*state_here(table, b), 0))


@kernel
def beside_here(table: Any, b: int, row: int, partner: int, option: int, _m: int, _n: int, _: float) -> int:
    """Write the GPUs on which a job would join another to ``chosen``; their number and, 32 bits above, the option."""
    count, found = _find_beside(*state_here(table, b), 0, row, partner, option)
    return int64(count) | int64(found) << 32


play_by, look_by = map(mover, (PLAY, LOOK))
start_by, preempt_by, lease_by, happen_by, beside_by = map(mover, (START, PREEMPT, LEASE, HAPPEN, BESIDE))
