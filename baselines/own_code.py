"""Import an object that a user names as ``package.module:name``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from gpusched_env.errors import SchedulerError
from gpusched_env.support.plugins import search_working_folder


def import_named(target: str, what: str) -> Any:
    """Import the object ``package.module:name``; the working folder is searched as well.

    Returns None if the module has no such name.

    Parameters
    ----------
    target : ``package.module:name``
    what : first words of the error message, such as "scheduler" or "dally: order"

    Raises
    ------
    SchedulerError : the module cannot be imported
    """
    module_name, _, name = target.partition(":")
    added = search_working_folder()
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise SchedulerError(f"{what} {target!r}: cannot import module {module_name!r} ({error})") from error
    finally:
        if added:
            sys.path.remove(os.getcwd())
    return getattr(module, name, None)
