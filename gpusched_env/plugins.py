"""Import of users' modules, so that what they register is known in every process, workers included."""

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
    """Append the working folder to ``sys.path``; return whether it was not there before.

    A console script does not search the working folder, but a user's own module usually is there.
    """
    added = os.getcwd() not in sys.path and "" not in sys.path
    if added:
        sys.path.append(os.getcwd())
    return added


@cache
def load_plugins() -> None:
    """Import the modules named in GPUSCHED_PLUGINS and in the entry points ``gpusched_env.plugins``.

    The working folder is searched too. Later calls do nothing.

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
