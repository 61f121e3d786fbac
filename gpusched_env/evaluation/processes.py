"""Run calls in parallel, in processes of this machine or on a Ray cluster; the package starts no others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import starmap
from typing import Any, TypeVar

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.ray_backend import in_ray

Result = TypeVar("Result")
_backend = ContextVar("backend", default="processes")


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Run the calls of :func:`in_processes` elsewhere, for the time of a ``with`` block.

    ``name`` is "processes" of this machine, "ray" (started on this machine) or ``ray:ADDRESS``, such as ``ray:auto``.
    """
    if name != "processes" and name.partition(":")[0] != "ray":
        raise GpuschedError(f"--backend {name!r}: write processes, ray, or ray:ADDRESS")
    token = _backend.set(name)
    try:
        yield
    finally:
        _backend.reset(token)


def check_workers(workers: int) -> int:
    """Return ``workers`` if it is valid."""
    if workers == 0 or workers < -1:
        raise GpuschedError(f"workers is {workers}: give a number of processes >= 1, or -1 for one per core")
    return workers


def processes(workers: int, calls: int) -> int:
    """Return the number of processes for ``calls`` calls: at most ``workers`` (-1 = any) and the number of cores."""
    if check_workers(workers) == 1 or calls < 2:
        return 1
    from joblib import cpu_count  # counts the cores that this process may use; the machine may have more

    cores = int(cpu_count())
    return min(cores if workers == -1 else workers, cores, calls)


def runs_here(workers: int, calls: int) -> bool:
    """Return whether :func:`in_processes` makes the calls in this process."""
    return _backend.get() == "processes" and processes(workers, calls) == 1


def in_processes(function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], workers: int) -> Iterator[Result]:
    """Yield the result of ``function`` for each call, in the order of the calls.

    If :func:`processes` returns 1, they run in this process; on Ray, ``workers`` calls run at the same time.
    """
    kind, _, address = _backend.get().partition(":")
    if kind == "ray":
        return in_ray(function, calls, check_workers(workers), address)
    count = processes(workers, len(calls))
    if count == 1:
        return starmap(function, calls)
    from joblib import Parallel, delayed

    with _interrupts_held():
        results: Iterator[Result] = Parallel(
            n_jobs=count, return_as="generator", initializer=end_with, initargs=(os.getpid(),)
        )(delayed(function)(*call) for call in calls)
    return results


def end_with(parent: int) -> None:
    """Let this process, which would wait for calls for ever, end when its parent has ended; not on Windows."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block SIGINT while processes are started.

    A terminal sends the signal of Ctrl-C to all processes. Processes that are started in this context inherit the
    block. So only this process receives the signal, at the latest when the context ends, and this process then ends the
    others.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
