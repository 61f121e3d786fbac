"""What every trace reader must do with a damaged file."""

from __future__ import annotations

from pathlib import Path

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace


def check_damaged(folder: Path, name: str, log: bytes, cut: int, place: int, garbage: bytes) -> None:
    """Cut a log and write garbage over it: a workload whose counts add up, or a TraceError that names the file."""
    damaged = bytearray(log[: cut or None])
    damaged[place : place + len(garbage)] = garbage
    path = folder / "damaged"
    path.write_bytes(bytes(damaged))
    complaint = ""
    try:
        workload, report = read_trace(f"{name}:{path}")
    except TraceError as error:
        complaint = str(error)
    if complaint:
        assert str(path) in complaint
    else:
        assert report.kept == len(workload) == report.rows - sum(report.dropped.values())
