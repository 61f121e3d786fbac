"""How kernels are compiled: one decorator, so that every option is decided in one place."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
import numpy as np
import platformdirs
from numba.extending import register_jitable

from gpusched_env.portable import elementary, keys, normal

Function = TypeVar("Function", bound=Callable[..., Any])

# Widens an integer; typed Any because kernels annotate their integers as int.
int64: Final[Any] = np.int64
# Kernels never allocate, so reference counting of the array arguments is pure cost: without it an event loop runs
# about five times faster. Floating-point stays strict: results must be bit-equal to plain Python.
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False, "error_model": "numpy"}

CACHE_BASE: Final = os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_dir("gpusched_env")
_SPEAKERS: Final = ("MainProcess", "LokyProcess-1")  # of the processes of one command


def _cache_folder() -> str | None:
    """Find a writable folder named after the kernels' source, None where there is none.

    Numba's own cache misses edits of helpers in other files: a folder per source text cannot be stale.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    package = Path(__file__).parents[1]
    parts = ("simulator/*.py", "envs/*.py", "portable/*.py", "baselines/delay_*.py", "baselines/*_kernels.py")
    kernels = [path for part in parts for path in package.glob(part)]
    names = ("cluster.py", "event_log.py", "network/collectives.py", "network/dimensions.py", "network/ecmp.py")
    constants = [*(package / name for name in names), package / "baselines" / "bco_ledger.py"]
    for source in sorted([*kernels, *constants]):
        digest.update(source.read_bytes())
    folder = Path(CACHE_BASE) / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError:
        return None


# Plain functions, which Python calls as they are and kernels by the same names.
for _function in (*elementary.FUNCTIONS, *normal.FUNCTIONS, *keys.FUNCTIONS):
    register_jitable(**_OPTIONS)(_function)

CACHE_FOLDER: Final = None if numba.config.DISABLE_JIT else _cache_folder()  # type: ignore[attr-defined]


def kernel(function: Function) -> Function:
    """Compile a function that Python calls; the machine code is kept on disk where that is possible."""
    if CACHE_FOLDER is None:
        return numba.njit(**_OPTIONS)(function)
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = CACHE_FOLDER  # type: ignore[attr-defined]
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def helper(function: Function) -> Function:
    """Compile a function that only kernels call: it becomes part of each of them.

    Callers widen small integers (``int64(...)``): each combination of argument types is compiled anew.
    """
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def announce_compilation(name: str) -> None:
    """Tell the user that the kernel ``name`` is about to be compiled, if it is; one process says it, once."""
    global _announced
    if _announced or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    if CACHE_FOLDER is not None and any(Path(CACHE_FOLDER).rglob(f"*.{name}-*.nbi")):
        return
    _announced = True
    if multiprocessing.current_process().name not in _SPEAKERS:
        return
    often = "once, under a minute"
    if CACHE_FOLDER is None:
        often = f"in every process, as {CACHE_BASE} cannot be written; NUMBA_CACHE_DIR names another folder"
    print(f"gpusched_env: compiling the simulator ({often}) ...", file=sys.stderr, flush=True)


_announced = False
