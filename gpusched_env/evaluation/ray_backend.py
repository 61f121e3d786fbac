"""Calls in the processes of a Ray cluster: on this machine, or on many."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from gpusched_env.errors import GpuschedError
from gpusched_env.support.plugins import VARIABLE

Result = TypeVar("Result")
_AHEAD: Final = 4  # calls handed to Ray / cores
_RETRIES: Final = 10  # times that a call is made again after its worker has died


def in_ray(
    function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], workers: int, address: str
) -> Iterator[Result]:
    """Yield the result of each call, in order; Ray repeats calls whose worker dies. Address "" = start it here."""
    ray = _ray()
    is_begun = ray.is_initialized()
    is_ours = not is_begun and not address  # it has as many cores as workers
    if not is_begun:
        _begin(ray, workers, address)
    try:
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        # A cluster that was started here has as many cores as workers. On another one, only the number of calls that
        # are handed out limits how many run at the same time.
        most = workers if workers != -1 and not is_ours else _AHEAD * cores
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
        handed: deque[Any] = deque()
        for call in calls:
            if len(handed) == most:
                yield _result(ray, handed.popleft())
            handed.append(task.remote(*call))
        while handed:
            yield _result(ray, handed.popleft())
    finally:
        if not is_begun:
            ray.shutdown()


def _begin(ray: Any, workers: int, address: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send nothing to anybody
    variables = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
    options: dict[str, Any] = {"runtime_env": {"env_vars": variables}, "log_to_driver": False, "logging_level": "error"}
    if address:
        options["address"] = address
    else:
        options |= {"num_cpus": None if workers == -1 else workers, "include_dashboard": False}
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise GpuschedError(f"--backend ray: no cluster answers at {address or 'this machine'} ({error})") from error


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # it has the traceback of the worker as its text
        raise error.cause from error


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise GpuschedError('--backend ray needs Ray: pip install "gpusched-env[ray]"') from error
    return ray
