"""Compile kernels in advance, and show the progress: as a bar on a terminal, otherwise as one line."""

from __future__ import annotations

import multiprocessing
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.core import handle
from gpusched_env.support.plugins import load_plugins

if TYPE_CHECKING:
    from gpusched_env.evaluation.progress import ProgressBar

_SPEAKERS: Final = ("MainProcess", "LokyProcess-1")  # the processes that may print
_SOON_S: Final = 0.5  # [s] delay before the bar is shown
_MANY: Final = 10  # without a terminal, a message is printed only if at least this many kernels are to be compiled
# Packages whose kernels ``gpusched warmup`` always compiles; the package _SCHEDULERS is compiled only on request.
_PACKAGES: Final = ("core", "delay_timers", "envs", "portable")
_SCHEDULERS: Final = "baselines"


class Teller:
    """Show the progress of the compiler; a listener for :func:`gpusched_env.core.handle.set_listener`."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None

    def __call__(self, done: int, missing: int, name: str) -> None:
        """Draw the bar; without a terminal, print once how many kernels are to be compiled.

        Parameters
        ----------
        done : number of kernels compiled so far
        missing : number of kernels to compile in total
        name : name of the kernel that is compiled next
        """
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

    if handle.cache_folder() is None:
        return "in every process, because the cache folder is not writable; set NUMBA_CACHE_DIR to another folder"
    return "once; `gpusched warmup` does it in advance"


def _modules(packages: Iterable[str]) -> list[str]:
    """Return the names of all modules of ``packages`` whose source contains the word "kernel"."""
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
    """Import ``modules`` and the users' plug-ins; return all kernels, keyed by their names in machine code."""
    load_plugins()
    for name in modules:
        import_module(name)
    return {kernel.symbol: kernel for kernel in handle.all_kernels()}


def _compile(modules: list[str], symbol: str) -> None:
    """Compile one kernel and store it on disk; the current process must not call kernels."""
    _kernels(modules)[symbol].compile_ahead()


def warm_up(schedulers: bool, workers: int, tell: Callable[[int, int], None]) -> int:
    """Compile all kernels that are not on disk yet, in several processes; return the number of these kernels.

    Parameters
    ----------
    schedulers : also compile the kernels of schedulers
    workers : number of processes; -1 = one per core
    tell : called with (number of kernels done, number of kernels to compile)
    """
    from gpusched_env.evaluation.processes import in_processes

    modules = _modules([*_PACKAGES, *([_SCHEDULERS] if schedulers else [])])
    missing = [symbol for symbol, kernel in _kernels(modules).items() if not kernel.is_kept]
    tell(0, len(missing))
    for done, _ in enumerate(in_processes(_compile, [(modules, symbol) for symbol in missing], workers), 1):
        tell(done, len(missing))
    return len(missing)
