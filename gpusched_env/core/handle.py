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

from typing import TYPE_CHECKING

from gpusched_env.core.tables import INTERPRETED, Batched, Field, Handle, array, lay_together

if INTERPRETED and not TYPE_CHECKING:
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
