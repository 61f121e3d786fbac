"""The check of the options of ``reset``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusched_env.errors import GpuschedError


def check_reset_options(options: Mapping[str, Any] | None, known: tuple[str, ...] = ()) -> None:
    """Refuse options of ``reset`` that the environment does not know.

    Raises
    ------
    GpuschedError : an unknown option
    """
    unknown = [repr(name) for name in options or () if name not in known]
    if unknown:
        has = f"the only option is {', '.join(map(repr, known))}" if known else "this environment has no options"
        raise GpuschedError(f"reset: unknown option {', '.join(unknown)}: {has}")
