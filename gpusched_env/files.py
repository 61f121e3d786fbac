"""Files appear whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a path beside ``path`` to write to; it takes the place of ``path`` only if nothing goes wrong."""
    partial = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text, line ends as they are."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
