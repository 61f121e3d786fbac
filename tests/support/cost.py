"""Cost of a call, independent of the load of the machine: tests count lines of Python, benchmarks/ measures seconds."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[..., Any], *arguments: Any) -> int:
    """Count the lines of Python that a call executes, including those of libraries, excluding compiled code."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # a collection at a random time would run Python callbacks of weak references
    sys.settrace(trace)
    try:
        call(*arguments)
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
