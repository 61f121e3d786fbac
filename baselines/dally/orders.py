"""Orders in which a delay scheduler visits slots and machines: fixed, or a function of the places with free GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.baselines.dally.state import Delay
from gpusched_env.baselines.users_schedulers import import_named
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.cluster import Cluster

Place = tuple[int, ...]  # (rack, machine of the rack), or (rack, machine of the rack, slot of the machine); from 0
SortPlaces = Callable[[list[Place]], Sequence[Place]]

FEWEST_BUCKETS: Final = 16  # of a new MultiKeyMap, which doubles them when it holds 3/4 as many keys
_32_BITS: Final = 0xFFFFFFFF


def java_order(places: Sequence[Place]) -> list[Place]:
    """Sort places as MultiKeyMap of Apache Commons Collections 4 does, the authors' hash maps; all of them matter."""
    buckets: list[list[Place]] = [[] for _ in range(FEWEST_BUCKETS)]
    for count, place in enumerate(places, start=1):
        buckets[_java_hash(place) % len(buckets)].insert(0, place)
        if 4 * count >= 3 * len(buckets):
            doubled: list[list[Place]] = [[] for _ in range(2 * len(buckets))]
            for bucket in buckets:
                for moved in bucket:
                    doubled[_java_hash(moved) % len(doubled)].insert(0, moved)
            buckets = doubled
    return [place for bucket in reversed(buckets) for place in bucket]


def _java_hash(place: Place) -> int:
    mixed = 0
    for number in place:
        mixed ^= number
    mixed = (mixed + ~(mixed << 9)) & _32_BITS
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & _32_BITS
    return mixed ^ (mixed >> 10)


def function_of(order: str) -> SortPlaces | None:
    """Return the function that ``order`` names; None = ``order`` is a fixed order."""
    if order == "java":
        return java_order
    if order in ("asc", "hash") or ":" not in order or Path(order).exists():
        return None
    function = import_named(order, "dally: order")
    if not callable(function):
        raise SchedulerError(f"dally: order {order!r}: the module has no such function")
    sort: SortPlaces = function
    return sort


def fixed_orders(order: str, seed: int, per_machine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the orders of machines and slots: "asc", "hash" = shuffled, or read from a JSON file."""
    machines, slots = len(per_machine), int(per_machine.sum())
    if order == "asc":
        return np.arange(machines), np.arange(slots)
    if order == "hash":
        rng = np.random.default_rng(seed)
        by_machine, by_slot = rng.permutation(machines), rng.permutation(slots)
        return by_machine, by_machine if slots == machines else by_slot
    try:
        given = json.loads(Path(order).read_text(encoding="utf-8"))
        listed, listed_slots = sorted(given["machines"]), sorted(given.get("slots", range(slots)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SchedulerError(
            f"dally: order {order!r} is none of asc, hash and java, nor a function (module:name), nor a JSON file with "
            f'{{"machines": [...], "slots": [...]}} ({error})'
        ) from error
    for what, numbers, count in (("machines", listed, machines), ("slots", listed_slots, slots)):
        if numbers != list(range(count)):
            raise SchedulerError(f"dally: order {order!r}: {what} must list 0 to {count - 1} once each")
    of_machine = np.split(np.arange(slots), np.cumsum(per_machine)[:-1])
    in_turn = np.concatenate([of_machine[int(machine)] for machine in given["machines"]])
    return np.array(given["machines"]), np.array(given.get("slots", in_turn))


class SortedPlaces:
    """Places that a function sorts again, among those with GPUs on offer, whenever these have changed."""

    def __init__(self, cluster: Cluster, sort: SortPlaces, name: str) -> None:
        rack = cluster.nodes["rack"].astype(np.int64)
        number = np.arange(len(rack)) - cluster.racks["first_node"].astype(np.int64)[rack]
        self.machines: list[Place] = list(zip(rack.tolist(), number.tolist(), strict=True))
        self.slots: list[Place] = [
            (*machine, slot)
            for machine, slots in zip(self.machines, cluster.slots.tolist(), strict=True)
            for slot in range(slots)
        ]
        self._function, self._name = sort, name

    def sort(self, delay: Delay) -> None:
        """Write the orders of all machines and slots: those with GPUs on offer in the given order, then the rest."""
        slots = len(self.slots)
        on_offer = delay.on_offer
        delay.node_order[:] = self._sorted(self.machines, on_offer[slots : slots + len(self.machines)])
        if slots == len(self.machines):  # one slot each: then the authors' simulator has no slots
            delay.slot_order[:] = delay.node_order[:]
        else:
            delay.slot_order[:] = self._sorted(self.slots, on_offer[:slots])

    def _sorted(self, places: list[Place], on_offer: np.ndarray) -> list[int]:
        numbers = {places[i]: i for i in np.flatnonzero(on_offer).tolist()}
        given = list(self._function(list(numbers)))
        if len(given) != len(numbers) or any(place not in numbers for place in given) or len(set(given)) < len(given):
            raise SchedulerError(
                f"dally: order {self._name!r} gave {given} for {list(numbers)}: it must give each place back once"
            )
        return [numbers[place] for place in given] + np.flatnonzero(on_offer == 0).tolist()
