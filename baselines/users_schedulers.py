"""Import an object that a user names as ``package.module:name``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from gpusched_env.errors import SchedulerError
from gpusched_env.support.plugins import search_working_folder


def import_named(target: str, what: str) -> Any:
    """Import ``package.module:name``, also from the working folder; None = no such name. ``what`` begins errors."""
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
