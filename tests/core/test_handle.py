"""Handles and kernels: compiled code gives the results of plain Python, and wrong arrays are refused."""

from __future__ import annotations

import copy
import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import plain_python_digests

from gpusched_env.core.handle import INTERPRETED, Batched, Handle, Numbered, array, helper, kernel

ROOT = Path(__file__).parents[2]
RECORD = np.dtype([("count", "<i8"), ("share", "<f8"), ("small", "<i4"), ("padding", "<i4")])
compiled_only = pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")


class Table(Handle):
    """A record, records, numbers in a row and in a table."""

    world = array(RECORD)
    numbers = array(np.float64, "columns")
    marks = array(np.int32, "rows", "columns", fill=-1)
    records = array(RECORD, "rows")


class LongerTable(Table):
    """One array more."""

    flags = array(np.int8, "rows")


def table(columns: int = 7, rows: int = 3) -> Table:
    rng = np.random.default_rng(0)
    made: Table = Batched(Table, 1, {"columns": columns, "rows": rows}).handle(0)
    made.numbers[:] = rng.uniform(-1.0, 1.0, columns)
    made.records["share"] = rng.uniform(-1.0, 1.0, rows)
    made.records["small"] = np.arange(rows)
    made.world["share"] = 0.3
    return made


def bits(handle: Handle) -> str:
    found = hashlib.sha256()
    for name in handle.fields:
        found.update(getattr(handle, name).tobytes())
    return found.hexdigest()


# --- kernels, compiled or not


@helper
def weighted(these: Table, i: int, factor: float) -> float:
    return these.numbers[i] * factor + these.world["share"]


@kernel
def extremes(these: Table) -> tuple[int, float, bool]:
    """Index of the largest number, the number, and whether it is above 0."""
    at = 0
    for i in range(len(these.numbers)):
        if these.numbers[i] > these.numbers[at]:
            at = i
    return at, these.numbers[at], these.numbers[at] > 0.0


@kernel
def play(these: Table, rounds: int, factor: float, stops: bool) -> int:
    """Read and write every kind of array, through local names, slices and records."""
    w = these.world
    for number in range(rounds):
        at, most, positive = extremes(these)
        if stops and not positive:
            return number
        these.marks[at % these.marks.shape[0], at] += 2
        part = these.marks[1]
        part[len(part) - 1] = part[0] + number
        record = these.records[at % len(these.records)]
        record["share"] += most
        record["count"] += record["small"]
        these.records[np.int32(1)]["count"] += 1
        w["count"] += at
        these.numbers[at] = weighted(these, at, factor) - most
    return rounds


@kernel
def first_flag(these: LongerTable) -> int:
    return these.flags[0] + these.records[0]["small"]


def _rule(these: Table, at: int) -> float:
    raise NotImplementedError


rules = Numbered("rules of test_core_handle", _rule, most=3)


@kernel(lazy=True)
def doubled(these: Table, at: int) -> float:
    these.world["count"] += 1
    return these.numbers[at] * 2.0


def halved(these: Table, at: int) -> float:
    these.world["count"] += 10
    return float(these.numbers[at] / 2.0)


DOUBLED, HALVED = range(2)
rules.put(DOUBLED, doubled)
rules.put(HALVED, halved)


@kernel
def by_rule(these: Table, rule: int, at: int) -> float:
    return rules(rule, these, at) + these.world["count"]


def digests() -> list[str]:
    """Arrays and results after every kernel; printed by the subprocess."""
    found = []
    for rounds, factor, stops in ((0, 0.5, True), (40, 0.5, False), (40, -1.5, True)):
        these = table()
        found += [str(play(these, rounds, factor, stops)), bits(these)]
    longer: Any = Batched(LongerTable, 2, {"columns": 2, "rows": 4})
    longer.flags[1], longer.records["small"][1] = 5, 7
    found.append(str(first_flag(longer.handle(1))))
    these = table()
    found += [repr(float(by_rule(these, rule, at))) for rule in (DOUBLED, HALVED) for at in range(4)]
    return [*found, bits(these)]


def test_compiled_kernels_and_plain_python_agree_to_the_last_bit() -> None:
    found = digests()
    assert found == plain_python_digests("tests.core.test_handle")
    assert found[0] == "0"
    assert found[2] == "40"
    assert 0 < int(found[4]) < 40
    assert found[6] == "12"


def test_compiled_and_plain_functions_are_called_by_number() -> None:
    these = table()
    number = float(these.numbers[2])
    assert by_rule(these, DOUBLED, 2) == 2.0 * number + 1.0
    assert by_rule(these, HALVED, 2) == number / 2.0 + 11.0
    assert these.world["count"] == 11


@compiled_only
def test_functions_that_cannot_be_called_by_number_are_refused() -> None:
    own = Numbered("more rules of test_core_handle", _rule, most=1)
    with pytest.raises(TypeError, match=r"more rules .*: .*test_handle\.play is .*, not "):
        own.put(0, play)
    own.put(0, halved)
    with pytest.raises(TypeError, match=r"more rules .*: 1 functions at most"):
        own.put(1, doubled)


@compiled_only
def test_kernels_that_depend_on_local_names_are_refused() -> None:
    """Two such kernels would have one name and one cache file."""
    factor = 2.0

    def times(these: Table, at: int) -> float:
        return float(these.numbers[at] * factor)

    with pytest.raises(TypeError, match=r"times: kernels may read names of their module only, not local \('factor',\)"):
        kernel(times)


# --- arrays


def arrays_of(handle: Handle) -> dict[str, Any]:
    return {name: np.asarray(getattr(handle, name)).copy() for name in handle.fields}


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("numbers", np.zeros(7, np.float32), r"Table\.numbers: float32 \(7,\) is not a contiguous float64 of 1 axes"),
        ("numbers", np.zeros((7, 1)), r"Table\.numbers: float64 \(7, 1\) is not"),
        ("numbers", np.zeros(14)[::2], r"Table\.numbers: .* is not a contiguous"),
        ("marks", np.zeros((7, 3), np.int32).T, r"Table\.marks: .* is not a contiguous"),
        ("marks", np.zeros((3, 7), np.int64), r"Table\.marks: int64"),
        ("world", np.zeros(1, RECORD), r"Table\.world: "),
        ("records", np.zeros(3, [("count", "<i8")]), r"Table\.records: "),
        ("numbers", [0.0] * 7, r"Table\.numbers: a list is no array"),
    ],
    ids=["type", "axes", "gaps", "order", "width", "record", "fields", "list"],
)
def test_wrong_arrays_are_refused_by_name(name: str, wrong: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Table(**arrays_of(table()) | {name: wrong})
    good = table()
    before = bits(good)
    with pytest.raises(TypeError, match=says):
        good.replace(name, wrong)
    assert bits(good) == before


def test_missing_and_unknown_arrays_are_refused_by_name() -> None:
    arrays = arrays_of(table())
    with pytest.raises(TypeError, match=r"Table: give \['marks', 'numbers', 'records', 'world'\], not .*'more'"):
        Table(**arrays, more=arrays["numbers"])
    del arrays["marks"]
    with pytest.raises(TypeError, match=r"Table: give \['marks', .*, not \['numbers', 'records', 'world'\]"):
        Table(**arrays)


def test_a_replaced_array_is_the_one_that_kernels_read() -> None:
    these, longer = table(), np.arange(9.0)
    these.replace("numbers", longer)
    assert by_rule(these, DOUBLED, 8) == 17.0
    assert these.numbers is longer


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: one.copy()],
    ids=["deepcopy", "pickle", "copy"],
)  # fmt: skip
def test_a_copy_has_arrays_of_its_own(copied: Any) -> None:
    these = table()
    play(these, 3, 0.5, False)
    twin = copied(these)
    assert type(twin) is Table
    assert bits(twin) == bits(these)
    before = bits(these)
    play(twin, 5, 0.5, False)
    assert bits(these) == before != bits(twin)
    play(these, 5, 0.5, False)
    assert bits(these) == bits(twin)
    twin.world["count"] += 1  # the record is not shared either
    assert bits(these) != bits(twin)
    these.copy_from(twin)
    assert bits(these) == bits(twin)
