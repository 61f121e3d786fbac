"""Run calls in parallel processes; this module starts all processes of the package."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any, TypeVar

from gpusched_env.errors import GpuschedError

Result = TypeVar("Result")


def check_workers(workers: int) -> int:
    """Return ``workers`` if it is valid.

    Raises
    ------
    GpuschedError : ``workers`` is 0 or below -1
    """
    if workers == 0 or workers < -1:
        raise GpuschedError(f"workers is {workers}: give a number of processes >= 1, or -1 for one per core")
    return workers


def processes(workers: int, calls: int) -> int:
    """Return the number of processes for ``calls`` calls: the smallest of ``workers``, ``calls`` and number of cores.

    Parameters
    ----------
    workers : largest number of processes; -1 = one per core
    calls : number of calls

    Raises
    ------
    GpuschedError : as in :func:`check_workers`
    """
    if check_workers(workers) == 1 or calls < 2:
        return 1
    from joblib import cpu_count  # counts the cores that this process may use; the machine may have more

    cores = int(cpu_count())
    return min(cores if workers == -1 else workers, cores, calls)


def in_processes(function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], workers: int) -> Iterator[Result]:
    """Yield the result of ``function`` for each call, in the order of the calls.

    Parameters
    ----------
    function : the function
    calls : positional arguments of each call
    workers : as in :func:`processes`; if that function returns 1, the calls run in this process

    Raises
    ------
    GpuschedError : as in :func:`check_workers`
    """
    count = processes(workers, len(calls))
    if count == 1:
        return starmap(function, calls)
    from joblib import Parallel, delayed

    with _interrupts_held():
        results: Iterator[Result] = Parallel(n_jobs=count, return_as="generator")(
            delayed(function)(*call) for call in calls
        )
    return results


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
