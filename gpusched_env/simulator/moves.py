"""What can be done to a simulation, as kernels that look its arrays up in a table and are called by address.

Python and every compiled loop call the same ones, so that each is compiled once (binding.py).
"""

from __future__ import annotations

from typing import Any, Final

from gpusched_env.simulator import events
from gpusched_env.simulator.binding import MOVE, STATE_PARAMETERS, KernelTable, mover, state_here
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.placing_beside import find_beside
from gpusched_env.simulator.state import State

# Their parameters are a state's arrays, an environment and some numbers: more than a checker of types can count.
_start: Any = events.start
_preempt: Any = events.preempt
_lease: Any = events.lease
_happen: Any = events.happen
_find_beside: Any = find_beside


@kernel
def start_here(table: Any, b: int, row: int, rule: int, explicit: int, share: int, sub_steps: int, _: float) -> int:
    """Start a waiting job as :func:`events.start` does."""
    return int64(_start(*state_here(table, b), 0, row, rule, explicit, share > 0, sub_steps))


@kernel
def preempt_here(table: Any, b: int, row: int, _j: int, _k: int, _m: int, _n: int, _: float) -> int:
    """Preempt a running job as :func:`events.preempt` does."""
    return int64(_preempt(*state_here(table, b), 0, row))


@kernel
def lease_here(table: Any, b: int, row: int, _j: int, _k: int, _m: int, _n: int, until_s: float) -> int:
    """Lease a running gang its GPUs until a time, as :func:`events.lease` does."""
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


MOVES: Final = (start_here, preempt_here, lease_here, happen_here, beside_here)
start_by, preempt_by, lease_by, happen_by, beside_by = map(mover, range(len(MOVES)))


@helper
def advance_by(table: Any, b: int) -> int:
    """Play events until a scheduler may decide: all events of one instant count as one.

    Order within an instant: completions, releases, lease ends, arrivals (each by job row), then changes of links, then
    timers and rounds.
    A gang whose lease has ended is preempted if the scheduler, once asked, has neither renewed it nor preempted it.

    The loop is apart from what it repeats: compilers compute before a loop whatever any of its branches may need.
    """
    outcome = int64(events.GO_ON)
    while outcome == events.GO_ON:
        outcome = happen_by(table, b)
    return outcome


@kernel
def advance(table: Any, b: int) -> int:
    """Play events until a scheduler may decide."""
    return advance_by(table, b)


@kernel
def start(table: Any, b: int, row: int, rule: int, explicit: int, share: int, sub_steps: int) -> int:
    """Start a waiting job."""
    return start_by(table, b, row, rule, explicit, share, sub_steps)


@kernel
def preempt(table: Any, b: int, row: int) -> int:
    """Preempt a running job."""
    return preempt_by(table, b, row)


@kernel
def lease(table: Any, b: int, row: int, until_s: float) -> int:
    """Lease a running gang its GPUs until a time."""
    return lease_by(table, b, row, x=until_s)


def moves_table(state: State) -> KernelTable:
    """Bind all of them to the arrays of a state."""
    return KernelTable(MOVES, [MOVE] * len(MOVES), STATE_PARAMETERS, state)
