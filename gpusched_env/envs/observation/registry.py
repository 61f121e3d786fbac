"""Registry of the observation arrays, those of the package and those that users add.

An array is declared once, where its kernel is. Shapes, spaces, memory, the calls of a step and the documentation follow
from the declarations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from gpusched_env.core.handle import Handle, Numbered, array, handle_at, helper
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.column import Column
from gpusched_env.errors import GpuschedError, unknown_name

__all__ = ["Shown", "observation_array"]

Array = np.ndarray

# What arrays have rows for: Windows.axes has the numbers. The letters are those of the documentation.
AXES: Final = {
    "queue": "K", "running": "V", "partners": "C", "nodes": "N", "links": "L", "tiers": "3", "types": "T",
    "sub_batches": "S", "sizes": "S", "tenants": "Q", "cluster": "1",
}  # fmt: skip


class Shown(Handle):
    """An observation array, as its kernel sees it."""

    values = array(np.float32, "rows", "columns")
    slots = array(np.int32, "slots")  # rows of the jobs in the slots that the rows are about, -1 = empty; or empty
    keys = array(np.int64, "rows", fill=UNSEEN)  # memory of the kernel; UNSEEN, -1, at the begin of an episode

    WORDS: ClassVar[int] = 7  # of the table: an address and the axes of each array


@helper
def clear_row(values: Array, at: int) -> None:
    """Write zeros into a row, which is then that of an empty slot."""
    for c in range(values.shape[1]):
        values[at, c] = 0.0


class Group(NamedTuple):
    """Observation arrays that appear together.

    Parameters
    ----------
    heading, text : of their section in the documentation
    axis : an observation has them if the length of this axis is not 0 (:meth:`Windows.axes`); empty = it has those that
        ``extras`` names
    """

    heading: str
    text: str
    axis: str


ALWAYS: Final = Group(
    "## Observations",
    """
    All values are float32 in [0, 1]. The row of an empty slot is all zeros. If the scenario varies
    (`gpusched/Family-v0`), the arrays have the shapes of the largest problem, and the rows of nodes, links and
    GPU types that a problem lacks are all zeros.
    """,
    "cluster",
)


class ObservedArray(NamedTuple):
    """A registered observation array; the fields are those of :func:`observation_array`."""

    number: int
    name: str
    columns: tuple[Column, ...]
    rows: tuple[str, ...]
    group: Group | None
    about: str

    def shape(self, axes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape, given the length of each axis; 0 rows = the observation leaves the array out."""
        columns = len(self.columns)
        return (math.prod(axes[axis] for axis in self.rows), columns) if self.rows else (columns,)


def _signature(sim: Run, env: EnvArrays, out: Shown) -> None:
    raise NotImplementedError


# In a kernel: write_array(number, sim, env, shown_at(address)).
write_array: Final = Numbered("observation-arrays", _signature, most=128)
shown_at = handle_at(Shown)
ARRAYS: Final[list[ObservedArray]] = []  # in the order of registration, in which they are written


def observation_array(
    name: str,
    columns: Sequence[Column],
    rows: str | tuple[str, ...] = "cluster",
    group: Group | None = None,
    about: str = "",
) -> Callable[[Any], Any]:
    """Register an observation array. Without ``group``, environments made with ``extras=(name,)`` show it.

    Decorate a function ``(sim: Run, env: EnvArrays, out: Shown) -> None``: a kernel, or a plain Python function where
    speed does not matter. The function is called after each step and must write all of ``out.values``, float32
    [rows, columns] in [0, 1]; what it leaves alone keeps the value of the step before, and is 0 at first. Row k belongs
    to the job ``out.slots[k]`` (-1 = the queue, running or partner slot is empty), to node k or to link k.
    ``env.changed`` says what may differ from the step before. A kernel may write several arrays: of several decorators,
    the lowest one registers first.

    Parameters
    ----------
    name : key in the observation. An array of a group replaces the array of the same name of an earlier group
    columns : name and meaning of each column
    rows : one of AXES, what the array has rows for; several = one row for each combination, the last axis varies
        fastest; none, ``()`` = the observation has a vector, which the kernel sees as a single row
    group : the arrays with which it appears
    about : what a row is, for the documentation
    """

    def register(function: Any) -> Any:
        axes = (rows,) if isinstance(rows, str) else tuple(rows)
        for axis in axes:
            if axis not in AXES:
                raise GpuschedError(f"observation array {name!r}: {unknown_name('rows', axis, AXES)}")
        if not columns:
            raise GpuschedError(f"observation array {name!r}: give at least one column")
        is_taken = any(one.name == name and group in (one.group, None) for one in ARRAYS)
        put_named("observation array", name, is_taken, len(ARRAYS), [(write_array, function)])
        ARRAYS.append(ObservedArray(len(ARRAYS), name, tuple(columns), axes, group, about))
        return function

    return register


def find_array(name: str) -> ObservedArray | None:
    """Return the array that was last registered under a name; None = there is none."""
    return next((one for one in reversed(ARRAYS) if one.name == name), None)


def arrays_shown(axes: Mapping[str, int], extras: Sequence[str]) -> dict[str, ObservedArray]:
    """Return the arrays of an observation by name, in its order; some may have no rows.

    Parameters
    ----------
    axes : length of each axis, see :meth:`Windows.axes`
    extras : names of other arrays that are shown, too
    """
    shown = {one.name: one for one in ARRAYS if one.group is not None and one.group.axis and axes[one.group.axis]}
    return shown | {name: optional_arrays()[name] for name in extras}


def optional_arrays() -> dict[str, ObservedArray]:
    """Return by name what ``extras`` may name: the arrays that an observation has only if they are asked for."""
    return {one.name: one for one in ARRAYS if one.group is None or not one.group.axis}
