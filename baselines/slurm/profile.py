"""Free GPUs over time, in slots, and the plan of conservative backfill: where a gang first fits.

Slot 0 contains the present time. Slots lie on a grid of absolute time, so that a plan made later has the same slots.
"""

from __future__ import annotations

import math
from typing import Final

from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import helper, kernel

BLOCK: Final = 16  # [slot] whose fewest free GPUs are known


@helper
def slot_of(time_s: float, slot_s: float) -> int:
    """Return the slot, on the absolute grid, in which a time lies [s]."""
    return math.floor(time_s / slot_s)


@helper
def slot_after(time_s: float, slot_s: float) -> int:
    """Return the first slot, on the absolute grid, that begins at or after a time [s]."""
    return math.ceil(time_s / slot_s)


@kernel
def add_up(plan: SlurmState) -> None:
    """Turn the GPUs that become free in each slot into those that are free; their number only grows."""
    free = plan.free
    total = 0
    for at in range(len(free)):
        total += free[at]
        free[at] = total
    for block in range(len(plan.least)):
        plan.least[block] = free[block * BLOCK]


@kernel
def measure_block(plan: SlurmState, block: int) -> None:
    """Note the fewest free GPUs of the slots of one block."""
    free = plan.free
    least = free[block * BLOCK]
    for at in range(block * BLOCK + 1, min((block + 1) * BLOCK, len(free))):
        least = min(least, free[at])
    plan.least[block] = least


@kernel
def first_room(plan: SlurmState, begin: int, gang: int, length_now: int, length: int) -> int:
    """Return the first slot, from ``begin`` on, from which ``gang`` GPUs are free for long enough; -1 = there is none.

    A job that begins in slot 0 takes ``length_now`` slots, else ``length``. GPUs after the window are not looked at. No
    slot is looked at twice, and blocks with enough GPUs are skipped: this halves the time of a run with a long queue.
    """
    slots = len(plan.free)
    known = begin  # the slots from ``begin`` until before this one have enough GPUs
    while begin < slots:
        end = min(begin + (length_now if begin == 0 else length), slots)
        at = end - 1
        while at >= known:  # backwards, so that the search jumps as far as it can
            if at % BLOCK == BLOCK - 1 and at - BLOCK + 1 >= known and plan.least[at // BLOCK] >= gang:
                at -= BLOCK
            elif plan.free[at] >= gang:
                at -= 1
            else:
                break
        if at < known:
            return begin
        begin = at + 1
        known = max(end, begin)
    return -1


@kernel
def has_room(plan: SlurmState, begin: int, end: int, gang: int) -> bool:
    """Return whether ``gang`` GPUs are free in all slots from ``begin`` until before ``end``."""
    at = begin
    end = min(end, len(plan.free))
    while at < end:
        if at % BLOCK == 0 and at + BLOCK <= end and plan.least[at // BLOCK] >= gang:
            at += BLOCK
        elif plan.free[at] >= gang:
            at += 1
        else:
            return False
    return True


@kernel
def take_room(plan: SlurmState, begin: int, end: int, gang: int) -> None:
    """Take ``gang`` GPUs from slot ``begin`` until before slot ``end``."""
    free = plan.free  # looked up once, so that the loop is vectorised
    end = min(end, len(free))
    for at in range(begin, end):
        free[at] -= gang
    if begin >= end:
        return
    for block in range(begin // BLOCK, (end - 1) // BLOCK + 1):
        if block * BLOCK >= begin and (block + 1) * BLOCK <= end:
            plan.least[block] -= gang
        else:
            measure_block(plan, block)
