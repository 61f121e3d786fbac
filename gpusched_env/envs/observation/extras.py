"""Registry of the observation arrays that users add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.core.handle import Handle, Numbered, array, handle_at
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.columns import LINK_TABLES, Column
from gpusched_env.envs.observation.sharing_columns import SHARING_TABLES
from gpusched_env.envs.observation.size_columns import SIZE_TABLES
from gpusched_env.envs.observation.tenant_columns import TENANT_TABLES
from gpusched_env.envs.observation.type_columns import TYPE_TABLES
from gpusched_env.errors import GpuschedError, ScenarioError, unknown_name

ROWS: Final = ("queue", "running", "nodes", "links", "cluster")  # what an array has rows for; "cluster" = a single row
_MOST: Final = 64
_TAKEN: Final = LINK_TABLES | TYPE_TABLES | SHARING_TABLES | SIZE_TABLES | TENANT_TABLES


class Extra(Handle):
    """The array that a user's kernel writes."""

    values = array(np.float32, "rows", "columns")


class RegisteredArray(NamedTuple):
    """An observation array that a user has registered."""

    number: int
    columns: tuple[Column, ...]
    rows: str


def _signature(sim: Run, env: EnvArrays, out: Extra) -> None:
    raise NotImplementedError


# In a kernel: write_extra(number, sim, env, out).
write_extra: Final = Numbered("observation-extras", _signature, most=_MOST)
extra_at = handle_at(Extra)
EXTRAS: Final[dict[str, RegisteredArray]] = {}


def observation_array(name: str, columns: Sequence[Column], rows: str = "cluster") -> Callable[[Any], Any]:
    """Register an observation array, which environments made with ``extras=(name,)`` then show.

    Decorate a function ``(sim: Run, env: EnvArrays, out: Extra) -> None``: a kernel, or a plain Python function where
    speed does not matter. The function is called after each step and must write all of ``out.values``, float32
    [rows, columns] in [0, 1]. Row k belongs to the job in ``env.queue[k]`` or ``env.victims[k]`` (-1 = empty slot), to
    node k or to link k.

    Parameters
    ----------
    name : key in the observation
    columns : meaning of each column, for documentation
    rows : one of ROWS: what the array has rows for

    Raises
    ------
    GpuschedError : the name is taken, the rows are unknown, there are no columns, or the kernel has another signature
    """

    def register(function: Any) -> Any:
        if rows not in ROWS:
            raise GpuschedError(f"observation array {name!r}: {unknown_name('rows', rows, ROWS)}")
        if not columns:
            raise GpuschedError(f"observation array {name!r}: give at least one column")
        is_taken = name in EXTRAS or name in _TAKEN
        put_named("observation array", name, is_taken, len(EXTRAS), [(write_extra, function)])
        EXTRAS[name] = RegisteredArray(len(EXTRAS), tuple(columns), rows)
        return function

    return register


def check_extras(names: Sequence[str]) -> None:
    """Refuse names that are not registered, and names given twice; compile the others.

    Raises
    ------
    ScenarioError : an unknown name, or a name given twice
    KernelError : a kernel does not compile
    """
    for name in names:
        if name not in EXTRAS:
            raise ScenarioError(f"extras: {unknown_name('observation array', str(name), EXTRAS)}")
        write_extra.prepare(EXTRAS[name].number)
    if len(set(names)) < len(names):
        raise ScenarioError(f"extras: {tuple(names)} contains a name twice")
