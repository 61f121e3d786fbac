"""Modules of users: imported once, so that what they register is known by name everywhere, in worker processes too."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from gpusched_env.errors import GpuschedError

GROUP: Final = "gpusched_env.plugins"  # entry points of installed packages
VARIABLE: Final = "GPUSCHED_PLUGINS"  # names of modules, separated by commas


def search_working_folder() -> bool:
    """Have imports find modules of the working folder too, last; return whether they did not before.

    A console script does not search it, and a user's own module usually is there.
    """
    added = os.getcwd() not in sys.path and "" not in sys.path
    if added:
        sys.path.append(os.getcwd())
    return added


@cache
def load_plugins() -> None:
    """Import the modules that GPUSCHED_PLUGINS names, and those of the entry points ``gpusched_env.plugins``.

    Modules are found in the working folder too.

    Raises
    ------
    GpuschedError : a module cannot be imported
    """
    named = [(name.strip(), VARIABLE) for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    named += [(entry.value, f"entry point {entry.name!r}") for entry in entry_points(group=GROUP)]
    if named:
        search_working_folder()
    for name, where in named:
        try:
            import_module(name)
        except (ImportError, SyntaxError) as error:
            raise GpuschedError(f"{where}: cannot import module {name!r} ({error})") from error
