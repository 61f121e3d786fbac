"""Free GPUs over time, in slots, and the plan of conservative backfill: where a gang first fits.

Slot 0 contains the present time. Slots are counted on a grid of absolute time, so that a plan made later has the same
slots: a release of GPUs is rounded up to a slot, and it is rounded to the same slot in every plan.
"""

from __future__ import annotations

import math

from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import helper, kernel


@helper
def slot_of(time_s: float, slot_s: float) -> int:
    """Return the slot, on the absolute grid, in which a time lies [s]."""
    return math.floor(time_s / slot_s)


@helper
def slot_after(time_s: float, slot_s: float) -> int:
    """Return the first slot, on the absolute grid, that begins at or after a time [s]."""
    return math.ceil(time_s / slot_s)


@kernel
def first_room(plan: SlurmState, begin: int, gang: int, length_now: int, length: int) -> int:
    """Return the first slot, from ``begin`` on, from which ``gang`` GPUs are free for long enough; -1 = there is none.

    A job that begins in slot 0 takes ``length_now`` slots, and ``length`` slots if it begins later. The GPUs after the
    last slot of the window are not looked at.
    """
    slots = len(plan.free)
    while begin < slots:
        end = min(begin + (length_now if begin == 0 else length), slots)
        at = end - 1
        while at >= begin and plan.free[at] >= gang:  # backwards, so that the search jumps as far as it can
            at -= 1
        if at < begin:
            return begin
        begin = at + 1
    return -1


@kernel
def take_room(plan: SlurmState, begin: int, end: int, gang: int) -> None:
    """Take ``gang`` GPUs from slot ``begin`` until before slot ``end``."""
    for at in range(begin, min(end, len(plan.free))):
        plan.free[at] -= gang
