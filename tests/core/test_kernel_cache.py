"""The cache of compiled kernels: what is compiled when, and which edits make a cached file invalid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.core.handle import INTERPRETED

ROOT = Path(__file__).parents[2]
RECORD = np.dtype([("count", "<i8"), ("share", "<f8"), ("small", "<i4"), ("padding", "<i4")])
compiled_only = pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")


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
    """Start a process that runs the module of a folder, with the kernel cache in that folder."""
    paths = os.pathsep.join([str(folder), str(ROOT)])
    surroundings = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "cache")} | environment
    # Python takes the .pyc of a module for valid if it was edited within the same second to the same length.
    surroundings["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments], env=surroundings, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> list[float]:
    told, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return [float(number) for number in told.split()]


def kept(folder: Path) -> Counter[str]:
    """Number of cached files of each kernel."""
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
    """A copy of the folder ``played``."""
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


def cached_files(folder: Path) -> list[Path]:
    """The cached files of the module."""
    return sorted((folder / "cache" / "kernels").glob("mine.*"))


EVIL = """
import hashlib, pickle, sys
from pathlib import Path

class Evil:
    def __reduce__(self):
        return print, ("evil",)

for path in map(Path, sys.argv[1:]):
    content = pickle.dumps(Evil())
    path.write_bytes(hashlib.sha256(path.name.encode() + b"\\0" + content).digest() + content)
"""


@compiled_only
@pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are those of POSIX")
@pytest.mark.parametrize("how", ["writable by all", "of another user"])
def test_a_file_that_another_user_may_have_written_is_not_read(again: Path, how: str) -> None:
    """Its digest is right, so only its owner and its mode tell that it is not ours."""
    files = cached_files(again)
    subprocess.run([sys.executable, "-c", EVIL, *map(str, files)], check=True)
    assert "evil" in begun(again, OFTEN).communicate()[0]  # our own files are trusted
    for path in files:
        if how == "writable by all":
            path.chmod(0o666)
        elif os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        else:
            pytest.skip("only root can give a file to another user")
    assert ended(begun(again, OFTEN)) == [116.0]
    assert ended(begun(again, OFTEN)) == [116.0]


@compiled_only
@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_file_is_ours_alone_to_write_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    assert ended(begun(tmp_path, OFTEN, program=f"import os; os.umask(0); {PROGRAM}")) == [116.0]
    assert {path.stat().st_mode & 0o777 for path in cached_files(tmp_path)} == {0o644}


@compiled_only
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    from gpusched_env.core.compiler import _trusted

    os.mkfifo(tmp_path / "mine.total-0")
    assert _trusted(tmp_path / "mine.total-0") is None


@compiled_only
def test_no_flipped_bit_and_no_renamed_file_is_read(again: Path) -> None:
    from gpusched_env.core.compiler import _trusted

    generator = np.random.default_rng(0)
    for path in cached_files(again):
        data = path.read_bytes()
        assert _trusted(path) == data[32:]
        for at in [*range(0, 256, 5), *generator.integers(0, 8 * len(data), 200)]:
            path.write_bytes(data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :])
            assert _trusted(path) is None
        path.with_name("mine.other-0").write_bytes(data)
        assert _trusted(path.with_name("mine.other-0")) is None


FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are those of POSIX")
def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    assert ended(begun(tmp_path, OFTEN, program=FULL + PROGRAM)) == [116.0]
    names = [path.name for path in (tmp_path / "cache" / "kernels").iterdir()]
    assert [name for name in names if not name.endswith(".lock")] == []


@compiled_only
def test_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    both = [begun(tmp_path, OFTEN, SELDOM, PYTHONDONTWRITEBYTECODE="1") for _ in range(2)]
    assert [ended(process) for process in both] == [[116.0, 2.0]] * 2
    assert kept(tmp_path) == OFTEN_KEPT | {"seldom": 1}


@compiled_only
def test_kernels_run_without_a_writable_cache(tmp_path: Path) -> None:
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


def test_an_error_of_a_plain_function_is_raised_by_the_call_of_the_kernel(again: Path) -> None:
    found = ended(begun(again, program=ERRORS))
    assert found[:2] == [6.0, 11.0]
    assert found[2] >= 12.0  # a kernel runs until it returns, plain Python stops at the error
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
def test_results_that_are_no_number_are_refused_and_a_slot_may_be_replaced(again: Path) -> None:
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
def test_constants_of_other_modules_are_part_of_the_key(again: Path) -> None:
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


@compiled_only
def test_indices_are_checked_with_numba_boundscheck(again: Path) -> None:
    """Cached code without bounds checks is not used."""
    assert ended(begun(again, OFTEN, SELDOM, NUMBA_BOUNDSCHECK="1")) == [116.0, 2.0]
    assert kept(again) == {"total": 2, "scale": 2, "seldom": 1}
    for index in (1, -1):  # negative indices do not count from the end
        beyond = begun(again, program=f"import mine; mine.seldom(mine.numbers(), {index})", NUMBA_BOUNDSCHECK="1")
        assert "IndexError" in beyond.communicate()[1]
        assert beyond.returncode == 1
