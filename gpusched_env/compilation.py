"""Tell the user what is being compiled: a bar on a terminal, else a line."""

from __future__ import annotations

import multiprocessing
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gpusched_env.evaluation.progress import ProgressBar

_SPEAKERS: Final = ("MainProcess", "LokyProcess-1")  # of the processes of one command
_SOON_S: Final = 0.5  # after which a bar shows [s]
_MANY: Final = 10  # kernels that take long enough to be told of where there is no bar
# Packages whose modules have kernels, and what warmup compiles of them.
_PACKAGES: Final = ("core", "envs", "portable")
_SCHEDULERS: Final = "baselines"


class Teller:
    """Follow the compiler: called with kernels done, kernels in all, and the name of the next one."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None

    def __call__(self, done: int, missing: int, name: str) -> None:
        """Draw the bar, or say once how much there is to do."""
        if multiprocessing.current_process().name not in _SPEAKERS:
            return
        if not sys.stderr.isatty():
            if done == 0 and missing >= _MANY:
                print(f"gpusched_env: compiling {missing} kernels ({_how_often()}) ...", file=sys.stderr, flush=True)
            return
        if self._bar is None:
            from gpusched_env.evaluation.progress import ProgressBar

            self._bar = ProgressBar(1, delay_s=_SOON_S).__enter__()
        self._bar.advanced(f"compiling, once: {name}", done, missing)
        if done == missing:
            self._bar.__exit__(None, None, None)
            self._bar = None


def _how_often() -> str:
    from gpusched_env.core import handle

    if handle.cache_folder() is None:
        return "in every process, as its folder cannot be written; NUMBA_CACHE_DIR names another"
    return "once; `gpusched warmup` does it ahead"


def _modules(packages: Iterable[str]) -> list[str]:
    """Names of the modules of some packages that have kernels."""
    found = []
    for package in packages:
        root = f"gpusched_env.{package}"
        for module in pkgutil.walk_packages(import_module(root).__path__, f"{root}."):
            name = module.name.split(".")
            source = resources.files(".".join(name[:-1])) / f"{name[-1]}.py"
            if source.is_file() and "kernel" in source.read_text(encoding="utf-8"):
                found.append(module.name)
    return found


def _kernels(modules: Iterable[str]) -> dict[str, Any]:
    """Import modules, and those of users, and give all kernels by name."""
    from gpusched_env.core import handle
    from gpusched_env.plugins import load_plugins

    load_plugins()
    for name in modules:
        import_module(name)
    return {kernel.symbol: kernel for kernel in handle.all_kernels()}


def _compile(modules: list[str], symbol: str) -> None:
    """Compile one kernel, in a process that calls none."""
    _kernels(modules)[symbol].compile_ahead()


def warm_up(schedulers: bool, workers: int, tell: Callable[[int, int], None]) -> int:
    """Compile ahead all kernels that are not on disk, in several processes; return how many there were.

    Parameters
    ----------
    schedulers : those of schedulers too
    workers : processes; -1 = as many as there are cores
    tell : called with (kernels done, kernels in all)
    """
    from gpusched_env.evaluation.processes import in_processes

    modules = _modules([*_PACKAGES, *([_SCHEDULERS] if schedulers else [])])
    missing = [symbol for symbol, kernel in _kernels(modules).items() if not kernel.is_kept]
    tell(0, len(missing))
    for done, _ in enumerate(in_processes(_compile, [(modules, symbol) for symbol in missing], workers), 1):
        tell(done, len(missing))
    return len(missing)
