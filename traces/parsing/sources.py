"""Parse sources: ``FORMAT:PATH``, or ``FORMAT:@NAME`` for the file that ``gpusched traces fetch NAME`` downloaded."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError, unknown_name
from gpusched_env.traces.downloads.public_files import find

AUTO: Final = "auto"  # in place of a format: recognise the format by the beginning of the file
FETCHED: Final = "@"


def split(source: str, what: str, formats: Collection[str]) -> tuple[str, Path]:
    """Split a source of ``what``, such as "workload", into one of the ``formats`` and the path, which is not opened."""
    name, colon, path = source.partition(":")
    if not colon or not path:
        auto = f", or {AUTO}:PATH" if AUTO in formats else ""
        known = ", ".join(sorted(set(formats) - {AUTO}))
        raise TraceError(f"{what} {source!r}: write FORMAT:PATH{auto}; formats: {known}")
    if name not in formats:
        raise TraceError(f"{what} {source!r}: {unknown_name('format', name, formats)}")
    return name, find(path[1:]).file if path.startswith(FETCHED) else Path(path).expanduser()


def split_here(source: str, what: str, formats: Collection[str]) -> tuple[str, Path]:
    """Split a source as :func:`split` does, and refuse ``@NAME`` if the file was not fetched yet."""
    name, path = split(source, what, formats)
    given = source.partition(":")[2]
    if given.startswith(FETCHED) and not path.exists():
        raise TraceError(f"{what} {source!r}: not fetched yet; do that with: gpusched traces fetch {given[1:]}")
    return name, path
