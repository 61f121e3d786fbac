"""Import the users' modules, so that all they register is known in every process, and modules that only a clone has."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from gpusched_env.errors import GpuschedError

GROUP: Final = "gpusched_env.plugins"  # group of entry points, by which installed packages name their modules
VARIABLE: Final = "GPUSCHED_PLUGINS"  # environment variable with names of modules, separated by commas


def search_working_folder() -> bool:
    """Append the working folder to ``sys.path`` unless it is there; return whether it was appended.

    Python does not search the working folder when a console script runs, but users' modules are usually there.
    """
    added = os.getcwd() not in sys.path and "" not in sys.path
    if added:
        sys.path.append(os.getcwd())
    return added


@cache
def load_plugins() -> None:
    """Import the modules that GPUSCHED_PLUGINS and the entry points of the group ``gpusched_env.plugins`` name.

    The working folder is searched as well. Only the first call in a process imports modules.
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


def from_clone(module: str, what: str) -> Any:
    """Import a module of ``studies`` or ``tools``, which ``what`` needs; an installed package has no such folders."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not module.startswith(str(error.name).partition(".")[0]):
            raise
        raise GpuschedError(
            f"{what} needs a clone of the repository: pip install -e . in the clone, then the same command"
        ) from error
