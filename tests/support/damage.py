"""The check of every trace reader on damaged files."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

from gpusched_env.errors import TraceError
from gpusched_env.traces import ReadReport, read_trace


def check_damaged(
    folder: Path,
    name: str,
    log: bytes,
    cut: int,
    place: int,
    garbage: bytes,
    read: Callable[[str], tuple[object, ReadReport]] = read_trace,
) -> None:
    """Truncate a file and overwrite a part: reading gives counts that add up, or a TraceError that names the file."""
    damaged = bytearray(log[: cut or None])
    damaged[place : place + len(garbage)] = garbage
    path = folder / "damaged"
    path.write_bytes(bytes(damaged))
    complaint = ""
    try:
        result, report = read(f"{name}:{path}")
    except TraceError as error:
        complaint = str(error)
    if complaint:
        assert str(path) in complaint
    else:
        assert report.kept == report.rows - sum(report.dropped.values())
        assert not isinstance(result, Sized) or len(result) == report.kept
