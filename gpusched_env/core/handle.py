"""The decorators of kernels, and handles, which give kernels and Python access to the arrays of a run by name.

* A class derived from :class:`Handle` lists arrays (tables.py).
* ``@kernel`` turns a function into a kernel. Its annotations are its signature: ``int``, ``float``, ``bool`` and
  handles, and for the result also tuples of them. Each kernel is compiled separately when it is first needed, and calls
  other kernels by their names. ``@kernel(lazy=True)`` compiles the kernel on its first call instead of with its
  callers: a scenario compiles only what it uses.
* ``@helper`` marks a short function that is inlined into each of its callers.
* ``Numbered`` is a table of kernels or plain Python functions that kernels call by number. The functions that users
  register are in such tables.

With ``NUMBA_DISABLE_JIT=1``, kernels run as plain Python (interpreter.py); otherwise compiler.py compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from gpusched_env.core.tables import INTERPRETED, Batched, Field, Function, Handle, array, lay_together

if TYPE_CHECKING:

    @overload
    def kernel(function: Function, /) -> Function: ...

    @overload
    def kernel(*, lazy: bool) -> Callable[[Function], Function]: ...

    def kernel(function: Any = None, *, lazy: bool = False) -> Any:
        """Turn a function into a kernel; ``lazy``: it is compiled when it is first called, not with its callers."""

    def helper(function: Function) -> Function:
        """Mark a function that only kernels and helpers call; it is inlined into each caller."""

    def plain(function: Function) -> Function:
        """Make a plain Python function callable from kernels by its name."""

    def bound(kernel: Callable[..., Any], *arguments: Any, reaches: Sequence[Handle] = ()) -> Callable[[], Any]:
        """Return a function that calls a kernel with these arguments, twice as fast as the kernel itself is called.

        Parameters
        ----------
        reaches : handles of which the kernel gets only addresses; after an error, they are marked like its arguments
        """

    def handle_at(cls: type[Handle]) -> Callable[[int], Any]:
        """Return a function with which kernels turn an address (int64) into a handle of class ``cls``."""

    def set_listener(function: Callable[[int, int, str], None]) -> None:
        """Set the function that the compiler calls to report progress.

        Parameters
        ----------
        function : called with (number of kernels done, number of kernels to compile, name of the next kernel)
        """

    def cache_folder() -> Path | None:
        """Return the folder in which machine code is cached; None = there is no such folder, or it is not writable."""

    def all_kernels() -> list[Any]:
        """List the kernels of all imported modules."""

    class Numbered:
        """A table of functions with the same signature, which kernels call by number: ``table(number, ...)``.

        Parameters
        ----------
        name : name of the table, which no other table may have
        signature : a function whose annotations are the signature of all functions of the table
        most : maximum number of functions
        """

        def __init__(self, name: str, signature: Callable[..., Any], most: int) -> None: ...

        def put(self, number: int, function: Callable[..., Any]) -> None:
            """Put a kernel or a plain Python function into the table, at index ``number``.

            Raises
            ------
            TypeError : a kernel does not have the signature of the table, or ``number`` is not less than ``most``
            """

        def prepare(self, number: int) -> None:
            """Compile the kernel at index ``number`` now, not when it is first called, so that its errors are raised.

            Raises
            ------
            KernelError : the kernel, or one that it calls, does not compile
            """

        def __call__(self, number: int, *arguments: Any) -> Any:
            """Call the function at index ``number``."""

elif INTERPRETED:
    from gpusched_env.core.interpreter import (
        Numbered,
        all_kernels,
        bound,
        cache_folder,
        handle_at,
        helper,
        kernel,
        plain,
        set_listener,
    )  # fmt: skip
else:
    from gpusched_env.core.compiler import (
        Numbered,
        all_kernels,
        bound,
        cache_folder,
        handle_at,
        helper,
        kernel,
        plain,
        set_listener,
    )  # fmt: skip

__all__ = [
    "INTERPRETED", "Batched", "Field", "Handle", "Numbered", "all_kernels", "array", "bound", "cache_folder",
    "handle_at", "helper", "kernel", "lay_together", "plain", "set_listener",
]  # fmt: skip
