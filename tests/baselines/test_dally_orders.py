"""Orders of slots and machines that depend on the places with free GPUs: Java's hash maps, and functions of a user."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import asked

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.orders import java_order
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Scheduler, simulate

Place = tuple[int, ...]
# Printed by MultiKeyMap of Apache Commons Collections 4.4: keys put in ascending order, then the key set.
PRINTED = [
    "1,0 0,1 1,1 0,0",
    "2,0,0 1,1,1 1,0,0 0,1,0 0,0,1 2,1,0 2,0,1 1,1,0 1,0,1 0,1,1 0,0,0",
    "0,4 0,3 1,2 2,1 0,2 1,3 2,0 2,3 0,1 1,0 1,4 2,2 0,0 1,1",
    "3,1,1 3,0,0 2,0,1 2,1,0 3,1,0 3,0,1 2,0,0 2,1,1 0,0,1 0,1,0 1,0,0 1,1,1 0,0,0 0,1,1 1,0,1 1,1,0",
    "0,8 0,7 1,6 2,5 1,8 0,6 1,7 2,4 1,0 0,1 2,3 2,6 0,4 1,5 1,2 0,3 2,1 0,2 1,3 2,0 2,7 0,5 1,4 1,1 0,0 2,2",
]


def backwards(places: list[Place]) -> list[Place]:
    """A valid order of a user: descending."""
    return places[::-1]


def ascending(places: list[Place]) -> list[Place]:
    """A valid order of a user: ascending."""
    return places


def first_only(places: list[Place]) -> list[Place]:
    """An invalid order: it omits places."""
    return places[:1]


def starts(scheduler: Scheduler) -> list[list[int]]:
    log = simulate(get_scenario("dally-authors-v1").instance(0), scheduler)
    return [log.gang(int(row)).tolist() for row in np.flatnonzero(log.events["kind"] == START)]


@pytest.mark.parametrize("printed", PRINTED)
def test_the_order_is_that_of_the_java_library(printed: str) -> None:
    """Up to eleven keys all subsets have the same order; with more, the table doubles and the chains are reversed."""
    theirs = [tuple(int(number) for number in place.split(",")) for place in printed.split()]
    assert java_order(sorted(theirs)) == theirs


def test_the_first_gang_starts_on_the_first_slot_of_the_order() -> None:
    """The first job of an empty cluster starts on the first slot, or on the last one."""
    ascending = starts(Dally(preset="authors"))
    descending = starts(make_scheduler(f"dally:preset=authors,order={__name__}:backwards"))
    gpus = get_scenario("dally-authors-v1").instance(0).cluster.gpus
    assert min(ascending[0]) == 0
    assert max(descending[0]) == gpus - 1


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (f"{__name__}:first_only", "must give each place back once"),
        (f"{__name__}:nothing", "the module has no such function"),
        ("no_such_module:f", "cannot import module 'no_such_module'"),
        ("ascending", "is none of asc, hash and java"),
    ],
)
def test_an_invalid_order_is_refused(order: str, message: str) -> None:
    with pytest.raises(SchedulerError, match=message):
        starts(Dally(preset="authors", order=order))


def test_decide_and_the_compiled_loop_call_the_order_alike() -> None:
    """``decide`` calls the function, too; unneeded calls change nothing."""
    instance = get_scenario("dally-authors-v1").instance(1)
    compiled = simulate(instance, Dally(preset="authors", order="java"))
    assert compiled.digest() == simulate(instance, asked(Dally(preset="authors", order="java"))).digest()
    same = Dally(preset="authors", order=f"{__name__}:ascending")
    assert simulate(instance, same).digest() == simulate(instance, Dally(preset="authors")).digest()
