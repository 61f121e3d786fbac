"""Old names that work until the next major version, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

_TOLD: Final[set[str]] = set()


def deprecated(old: str, new: str, level: int = 2) -> None:
    """Warn once in a process that an old name works no longer than this major version.

    Parameters
    ----------
    old, new : the names, as the caller writes them
    level : whose line the warning shows: 2 = that of the caller of the function that calls this one
    """
    if old not in _TOLD:
        _TOLD.add(old)
        warnings.warn(f"{old} is now {new}; the old name goes with version 2.0", DeprecationWarning, level + 1)


def old_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module in which old names stand for new ones."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        deprecated(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    return find
