"""The shape of a placement: the numbers of GPUs, slots, machines and racks of a gang, as the dimensions of a torus.

Dally's simulator (aakash-sharma/cluster-sim, class IntraJobScheduler) computes the communication time of a placement
from its shape: a collective runs over one dimension after the other, the GPUs of a slot first. The shape depends only
on the numbers of racks, machines and slots that a gang uses, and assumes that each rack, machine and slot holds equally
many of its GPUs. The number of GPUs is divided by the number of racks, the quotient by the number of machines, and the
next quotient by the number of slots. At the first division with a remainder, the dimension gets all GPUs that are left,
and the inner dimensions get size 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, SLOT, Cluster

DIMENSIONS: Final = ("gpu", "slot", "machine", "rack")  # from the innermost to the outermost
PARTS_BITS: Final = 20  # number of bits of a dimension in a key; every dimension is below 2**20


def dimensions(gang: int, racks: int, machines: int, slots: int) -> tuple[int, int, int, int]:
    """Return the shape of a placement: the sizes of the dimensions gpu, slot, machine and rack; 1 = not spanned."""
    left = gang
    rack = 1
    machine = 1
    if racks > 1:
        if left % racks != 0:
            return 1, 1, 1, left
        rack = racks
        left //= racks
    if machines > 1:
        if left % machines != 0 or left == machines:
            return 1, 1, left, rack
        machine = machines
        left //= machines
    if left % slots != 0 or left == slots:
        return 1, left, machine, rack
    return left // slots, slots, machine, rack


def shape_key(slot: int, machine: int, rack: int) -> int:
    """Return a key that is unique among the shapes of a gang size; size and three dimensions determine the fourth."""
    return (rack << (2 * PARTS_BITS)) + (machine << PARTS_BITS) + slot


def reachable_shapes(cluster: Cluster, gang: int) -> dict[tuple[int, int, int, int], tuple[int, ...]]:
    """Return the shapes that a gang can have on the empty cluster -> tiers of the placements with that shape."""
    room = _most_gpus(cluster, gang)
    used = np.argwhere(room >= gang)
    used = used[used[:, 2] <= gang]
    inside = _tiers_inside(cluster, gang)
    shapes: dict[tuple[int, int, int, int], tuple[int, ...]] = {}
    for racks, machines, slots in used.tolist():
        if racks > 1 or machines > 1:
            tiers: tuple[int, ...] = (NETWORK if racks > 1 else RACK,)
        else:
            tiers = (MACHINE,) if slots > 1 else inside
        shape = dimensions(gang, racks, machines, slots)
        shapes[shape] = tuple(sorted({*shapes.get(shape, ()), *tiers}))
    return shapes


def _tiers_inside(cluster: Cluster, gang: int) -> tuple[int, ...]:
    """Return the tiers of placements on one slot: MACHINE if its machine has a single slot, else SLOT."""
    several = cluster.slots[cluster.slot_gpus >= gang] > 1
    return (*([MACHINE] if not several.all() else []), *([SLOT] if several.any() else []))


def _most_gpus(cluster: Cluster, gang: int) -> np.ndarray:
    """Return the most GPUs on r racks, m machines and s slots; int64 [racks + 1, machines + 1, slots + 1]."""
    machines = min(gang, len(cluster.nodes))
    slots = min(gang, int(cluster.slots.sum()))
    room = np.full((min(gang, len(cluster.racks)) + 1, machines + 1, slots + 1), -1, np.int64)
    room[0, 0, 0] = 0
    tables: dict[bytes, np.ndarray] = {}
    for rack in cluster.racks:
        nodes = slice(rack["first_node"], rack["first_node"] + rack["nodes"])
        kinds = np.stack([cluster.slots[nodes], cluster.slot_gpus[nodes]])
        if kinds.tobytes() not in tables:
            tables[kinds.tobytes()] = _most_in_rack(kinds, machines, slots)
        table = tables[kinds.tobytes()]
        before = room.copy()
        for m, s in np.argwhere(table[1:, 1:] >= 0) + 1:
            with_rack = before[:-1, : machines + 1 - m, : slots + 1 - s]
            target = room[1:, m:, s:]
            np.maximum(target, np.where(with_rack >= 0, with_rack + table[m, s], -1), out=target)
    return room


def _most_in_rack(kinds: np.ndarray, machines: int, slots: int) -> np.ndarray:
    """Return :func:`_most_gpus` for one rack; int64 [machines + 1, slots + 1]."""
    room = np.full((machines + 1, slots + 1), -1, np.int64)
    room[0, 0] = 0
    for count, gpus in kinds.T.tolist():
        before = room.copy()
        for used in range(1, min(count, slots) + 1):
            with_machine = before[:-1, : slots + 1 - used]
            target = room[1:, used:]
            np.maximum(target, np.where(with_machine >= 0, with_machine + used * gpus, -1), out=target)
    return room
