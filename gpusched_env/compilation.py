"""Progress of compilation: a bar on a terminal, else one line."""

from __future__ import annotations

import multiprocessing
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gpusched_env.evaluation.progress import ProgressBar

_SPEAKERS: Final = ("MainProcess", "LokyProcess-1")  # the processes that may print
_SOON_S: Final = 0.5  # [s] delay before the bar is shown
_MANY: Final = 10  # without a bar, fewer kernels than this are compiled without a message
# Packages whose kernels warmup compiles; those of schedulers only if asked.
_PACKAGES: Final = ("core", "envs", "portable")
_SCHEDULERS: Final = "baselines"


class Teller:
    """Show the progress of the compiler: called with (kernels done, kernels in all, name of the next)."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None

    def __call__(self, done: int, missing: int, name: str) -> None:
        """Draw the bar; where there is no terminal, print once how many kernels there are."""
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
        return "in every process, because the cache folder is not writable; set NUMBA_CACHE_DIR to another folder"
    return "once; `gpusched warmup` does it in advance"


def _modules(packages: Iterable[str]) -> list[str]:
    """Names of the modules with kernels in some packages."""
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
    """Import modules and users' plug-ins; return all kernels by name."""
    from gpusched_env.core import handle
    from gpusched_env.plugins import load_plugins

    load_plugins()
    for name in modules:
        import_module(name)
    return {kernel.symbol: kernel for kernel in handle.all_kernels()}


def _compile(modules: list[str], symbol: str) -> None:
    """Compile one kernel to disk, in a process that calls no kernel."""
    _kernels(modules)[symbol].compile_ahead()


def warm_up(schedulers: bool, workers: int, tell: Callable[[int, int], None]) -> int:
    """Compile all kernels that are not on disk yet, in several processes; return how many there were.

    Parameters
    ----------
    schedulers : also compile the kernels of schedulers
    workers : number of processes; -1 = one per core
    tell : called with (kernels done, kernels in all)
    """
    from gpusched_env.evaluation.processes import in_processes

    modules = _modules([*_PACKAGES, *([_SCHEDULERS] if schedulers else [])])
    missing = [symbol for symbol, kernel in _kernels(modules).items() if not kernel.is_kept]
    tell(0, len(missing))
    for done, _ in enumerate(in_processes(_compile, [(modules, symbol) for symbol in missing], workers), 1):
        tell(done, len(missing))
    return len(missing)
