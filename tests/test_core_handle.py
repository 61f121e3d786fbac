"""Handles and kernels: compiled code does what plain Python does, and its files depend on all that it was made of."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import plain_python_digests

from gpusched_env.core.handle import INTERPRETED, Batched, Handle, Numbered, array, helper, kernel

ROOT = Path(__file__).parents[1]
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
    """Where the largest number is, it, and whether it is above 0."""
    at = 0
    for i in range(len(these.numbers)):
        if these.numbers[i] > these.numbers[at]:
            at = i
    return at, these.numbers[at], these.numbers[at] > 0.0


@kernel
def play(these: Table, rounds: int, factor: float, stops: bool) -> int:
    """Read and write every kind of array, through names, parts and records."""
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
    """What the subprocess prints: arrays and results after every kernel."""
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
    assert found == plain_python_digests("test_core_handle")
    assert found[0] == "0"
    assert found[2] == "40"
    assert 0 < int(found[4]) < 40
    assert found[6] == "12"


def test_functions_are_called_by_number_whether_compiled_or_plain() -> None:
    these = table()
    number = float(these.numbers[2])
    assert by_rule(these, DOUBLED, 2) == 2.0 * number + 1.0
    assert by_rule(these, HALVED, 2) == number / 2.0 + 11.0
    assert these.world["count"] == 11


@compiled_only
def test_functions_that_cannot_be_called_by_number_are_refused() -> None:
    own = Numbered("more rules of test_core_handle", _rule, most=1)
    with pytest.raises(TypeError, match=r"more rules .*: test_core_handle\.play is .*, not "):
        own.put(0, play)
    own.put(0, halved)
    with pytest.raises(TypeError, match=r"more rules .*: 1 functions at most"):
        own.put(1, doubled)


@compiled_only
def test_kernels_that_depend_on_local_names_are_refused() -> None:
    """Two of them would have one name, and one file."""
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
    twin.world["count"] += 1  # nor do they share their record
    assert bits(these) != bits(twin)
    these.copy_from(twin)
    assert bits(these) == bits(twin)


# --- files of machine code

SOURCE = '''
"""Kernels of a user's own module."""

import numpy as np

from gpusched_env.core.handle import Handle, Numbered, array, helper, kernel

FACTOR = 2.0
SIZES = np.dtype([("one", "<f8"), ("two", "<f8")])


class Numbers(Handle):
    some = array(np.float64, "numbers")
    others = array(np.float64, "numbers")
    sizes = array(SIZES)


@helper
def scaled(numbers: Numbers, i: int) -> float:
    """Documentation."""
    return numbers.some[i] * FACTOR  # a comment


@kernel(lazy=True)
def seldom(numbers: Numbers, at: int) -> float:
    return numbers.some[at] - 1.0


@kernel
def scale(numbers: Numbers) -> float:
    """Documentation of a kernel."""
    return scaled(numbers, 0)


@kernel
def total(numbers: Numbers, at: int) -> float:
    if at >= 0:
        return seldom(numbers, at)
    return scale(numbers) + numbers.others[0] + numbers.sizes["one"]


def numbers():
    return Numbers(some=np.array([3.0]), others=np.array([10.0]), sizes=np.array((100.0, 200.0), SIZES))
'''
PROGRAM = "import sys, mine; n = mine.numbers(); print(*(mine.total(n, int(at)) for at in sys.argv[1:]))"
OFTEN = "-1"  # the argument of total with which it does not call ``seldom``
SELDOM = "0"
OFTEN_KEPT = {"total": 1, "scale": 1}


def begun(folder: Path, *arguments: str, program: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
    """Start a process that plays the module of a folder, with the kernel cache there."""
    paths = os.pathsep.join([str(folder), str(ROOT)])
    surroundings = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "cache")} | environment
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments], env=surroundings, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> list[float]:
    told, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return [float(number) for number in told.split()]


def kept(folder: Path) -> Counter[str]:
    """How many files of machine code there are, by kernel."""
    files = (folder / "cache" / "kernels").glob("mine.*")
    return Counter(path.name.removeprefix("mine.").split("-")[0] for path in files)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose cache a process has filled."""
    folder = tmp_path_factory.mktemp("played")
    (folder / "mine.py").write_text(SOURCE, encoding="utf-8")
    assert ended(begun(folder, OFTEN)) == [116.0]
    return folder


@pytest.fixture
def again(played: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(played, tmp_path / "again", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "again"


@compiled_only
def test_a_kernel_is_compiled_when_it_is_first_called(again: Path) -> None:
    assert kept(again) == OFTEN_KEPT
    assert ended(begun(again, OFTEN, SELDOM, OFTEN)) == [116.0, 2.0, 116.0]
    assert kept(again) == OFTEN_KEPT | {"seldom": 1}


@compiled_only
@pytest.mark.parametrize(
    ("old", "new", "result", "compiled"),
    [
        ("# a comment", "# another one\n\n", 116.0, {}),
        ("Documentation.", "It says more.", 116.0, {}),
        ('"""Documentation of a kernel."""', '"""It says more."""', 116.0, {}),
        ("FACTOR = 2.0", "FACTOR = 3.0", 119.0, {"scale": 1}),
        ("* FACTOR", "+ FACTOR", 115.0, {"scale": 1}),
        ("return scaled(numbers, 0)", "return -scaled(numbers, 0)", 104.0, {"scale": 1}),
        ("numbers.others[0]", "numbers.others[0] * 2", 126.0, {"total": 1}),
        ("numbers.others[0]", "numbers.some[0]", 109.0, {"total": 1}),
        ('numbers.sizes["one"]', 'numbers.sizes["two"]', 216.0, {"total": 1}),
        ('("one", "<f8"), ("two", "<f8")', '("two", "<f8"), ("one", "<f8")', 216.0, {"total": 1, "scale": 1}),
        ("    sizes = array", "    more = some\n    sizes = array", None, {"total": 1, "scale": 1}),
        ("-> float:\n    if at", "-> float:\n    if at < 10 and at", 116.0, {"total": 1}),
    ],
    ids=[
        "comment", "docstring", "docstring of a kernel", "constant", "helper", "callee", "body", "name of an array",
        "name of a field", "order of fields", "an array more", "condition",
    ],
)  # fmt: skip
def test_an_edit_compiles_what_it_changes_and_no_more(
    again: Path, old: str, new: str, result: float | None, compiled: dict[str, int]
) -> None:
    source = SOURCE.replace(old, new)
    assert source.count(new) >= 1
    if result is None:
        source, result = source.replace("(some=", "(more=np.array([5.0]), some="), 116.0
    (again / "mine.py").write_text(source, encoding="utf-8")
    assert ended(begun(again, OFTEN)) == [result]
    assert kept(again) - Counter(OFTEN_KEPT) == Counter(compiled)


@compiled_only
@pytest.mark.parametrize("left", [0.5, 0.0])
def test_a_damaged_file_is_compiled_anew(again: Path, left: float) -> None:
    files = list((again / "cache" / "kernels").glob("mine.*"))
    for path in files:
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * left)])
    assert ended(begun(again, OFTEN)) == [116.0]
    assert kept(again) == OFTEN_KEPT
    assert ended(begun(again, OFTEN)) == [116.0]
    assert min(path.stat().st_size for path in files) > 1_000


@compiled_only
def test_two_processes_that_start_at_once_do_not_trip_over_each_other(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    both = [begun(tmp_path, OFTEN, SELDOM, PYTHONDONTWRITEBYTECODE="1") for _ in range(2)]
    assert [ended(process) for process in both] == [[116.0, 2.0]] * 2
    assert kept(tmp_path) == OFTEN_KEPT | {"seldom": 1}


@compiled_only
def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "cache").write_text("a file where a folder would be", encoding="utf-8")
    assert ended(begun(tmp_path, OFTEN)) == [116.0]


BY_RULE = """
import mine
from gpusched_env.core.handle import Numbered, kernel

def rule(numbers: mine.Numbers) -> float: ...
rules = Numbered("rules of a user", rule, most=4)

@kernel
def by_rule(numbers: mine.Numbers, number: int) -> float:
    return rules(number, numbers)
"""
ERRORS = (
    BY_RULE
    + """
@kernel
def twice(numbers: mine.Numbers) -> float:
    return by_rule(numbers, 1) + by_rule(numbers, 1)

def divide(numbers):
    numbers.others[0] += 1.0
    return 1.0 / float(numbers.some[0] - 3.0)

n = mine.numbers()
rules.put(0, mine.scale)
print(by_rule(n, 0))
rules.put(1, divide)
for ask in (lambda: by_rule(n, 1), lambda: twice(n)):
    try:
        print(ask())
    except ZeroDivisionError:
        print(n.others[0])
n.some[0] = 4.0
print(by_rule(n, 1), twice(n))
"""
)


def test_an_error_of_a_plain_function_is_raised_where_python_has_called_the_kernel(again: Path) -> None:
    found = ended(begun(again, program=ERRORS))
    assert found[:2] == [6.0, 11.0]
    assert found[2] >= 12.0  # a kernel goes on until it returns, plain Python does not
    assert found[3:] == [1.0, 2.0]


WRONG = (
    BY_RULE
    + """
@kernel
def two(numbers: mine.Numbers) -> tuple[float, float]:
    return 1.0, 2.0

n = mine.numbers()
rules.put(0, lambda numbers: None)
for ask in (lambda: by_rule(n, 0), lambda: two(n)):
    try:
        print(ask())
    except TypeError:
        print(1)
rules.put(0, mine.scale)
print(by_rule(n, 0))
"""
)


@compiled_only
def test_what_is_no_number_is_refused_and_a_number_may_be_given_anew(again: Path) -> None:
    assert ended(begun(again, program=WRONG)) == [1.0, 1.0, 6.0]


INTERRUPTED = """
import ctypes, mine, signal
from gpusched_env.core.handle import Numbered, kernel

def send(number: int) -> int: ...
native = Numbered("signals", send, most=1)  # of C: Python learns of the signal when it next runs
native._addresses[0] = ctypes.cast(getattr(ctypes.CDLL(None), "raise"), ctypes.c_void_p).value

@kernel
def interrupted(numbers: mine.Numbers) -> float:
    native(0, 2)
    return mine.seldom(numbers, 0)

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print(interrupted(mine.numbers()))
except KeyboardInterrupt:
    print(2.0)
"""


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="raise of the C library")
def test_an_interrupt_before_a_kernel_is_loaded_does_no_harm(again: Path) -> None:
    assert ended(begun(again, program=INTERRUPTED)) == [2.0]


@compiled_only
def test_only_folders_of_earlier_versions_are_removed(again: Path) -> None:
    for name in ("kernels-0123456789abcdef", "kernels-of-my-paper"):
        (again / "cache" / name).mkdir()
    assert ended(begun(again, SELDOM)) == [2.0]  # which is not compiled yet
    assert sorted(path.name for path in (again / "cache").iterdir()) == ["kernels", "kernels-of-my-paper"]


DEEP = """
import deep.limits, mine
from deep.limits import Kind, TABLE
from gpusched_env.core.handle import helper, kernel

@helper
def plus(number: float, more: float = deep.limits.DEFAULT) -> float:
    return number + more

@kernel
def through(numbers: mine.Numbers) -> float:
    return plus(deep.limits.MOST) + TABLE[1500] + Kind.ONE.value

print(through(mine.numbers()))
"""
LIMITS = """
import enum
import numpy as np
MOST, DEFAULT, LATE, NUMBER = 1.0, 10.0, 100.0, 1000
TABLE = np.zeros(2000)
TABLE[1500] = LATE
class Kind(enum.IntEnum):
    ONE = NUMBER
"""


@compiled_only
def test_what_a_kernel_reads_from_afar_is_part_of_its_key(again: Path) -> None:
    (again / "deep").mkdir()
    (again / "deep" / "__init__.py").touch()
    for source, result in (
        (LIMITS, 1111.0),
        (LIMITS.replace("= 1.0,", "= 2.0,"), 1112.0),
        (LIMITS.replace(" 10.0,", " 20.0,"), 1121.0),
        (LIMITS.replace(" 100.0,", " 200.0,"), 1211.0),
        (LIMITS.replace(" 1000\n", " 2000\n"), 2111.0),
    ):
        (again / "deep" / "limits.py").write_text(source, encoding="utf-8")
        shutil.rmtree(again / "deep" / "__pycache__", ignore_errors=True)  # two edits within a second look alike
        assert ended(begun(again, program=DEEP)) == [result]


BY_MODULE = """
import limits, mine
from gpusched_env.core.handle import kernel

@kernel
def through(numbers: mine.Numbers) -> float:
    return mine.scale(numbers) + limits.MOST

print(through(mine.numbers()))
"""


@compiled_only
def test_kernels_and_constants_may_be_named_by_their_module(again: Path) -> None:
    for most in (1.0, 5.0):
        (again / "limits.py").write_text(f"MOST = {most}", encoding="utf-8")
        assert ended(begun(again, program=BY_MODULE)) == [6.0 + most]


LATE = (
    BY_RULE
    + """
@kernel
def plus(numbers: mine.Numbers) -> float:
    return numbers.some[0] + 1.0

n = mine.numbers()
for number, function in enumerate((mine.scale, plus, lambda numbers: 7.0)):
    rules.put(number, function)
    print(by_rule(n, number))
"""
)


@compiled_only
def test_functions_may_be_added_after_others_have_been_called(again: Path) -> None:
    assert ended(begun(again, program=LATE)) == [6.0, 4.0, 7.0]


STRICT = """
import os, sys, traceback
def refuse(what):
    traceback.print_exception(what.exc_value)
    sys.stderr.flush()
    os._exit(3)
sys.unraisablehook = refuse
"""


@compiled_only
def test_indices_are_checked_where_numba_is_told_to(again: Path) -> None:
    """Machine code without the check is not taken for it."""
    checked = begun(again, OFTEN, SELDOM, program=STRICT + PROGRAM, NUMBA_BOUNDSCHECK="1")
    assert ended(checked) == [116.0, 2.0]
    assert kept(again) == {"total": 2, "scale": 2, "seldom": 1}
    for index in (1, -1):  # nor does any count from the end
        program = f"{STRICT}\nimport mine; mine.seldom(mine.numbers(), {index})"
        beyond = begun(again, program=program, NUMBA_BOUNDSCHECK="1")
        complaint = beyond.communicate()[1]
        assert beyond.returncode == 3
        assert "IndexError" in complaint
