"""Tables with ``|`` between the columns, as Slurm's commands print them with ``--parsable2``, and limits in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import tres_gpus


def table_rows(path: str | Path, needed: Sequence[str], command: str) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield the fields of each row by the names of the header in lower case; ``command`` prints such a file."""
    header: list[str] = []
    with open_trace(Path(path)) as stream:
        for number, raw in enumerate(stream, 1):
            try:
                cells = [cell.strip() for cell in raw.decode("utf-8").rstrip("\r\n").split("|")]
            except UnicodeDecodeError:
                raise TraceError(f"{path}, line {number}: not UTF-8 text; export it again") from None
            if not any(cells):
                continue
            if not header:
                header = [cell.lower() for cell in cells]
                if missing := [name for name in needed if name not in header]:
                    raise TraceError(f"{path}, line {number}: no column {missing[0]}; write the file with {command}")
            elif len(cells) != len(header):
                raise TraceError(
                    f"{path}, line {number}: {len(cells)} fields where the header has {len(header)}: correct or remove "
                    "the row"
                )
            else:
                yield Place(str(path), number), dict(zip(header, cells, strict=True))
    if not header:
        raise TraceError(f"{path}: it is empty; write the file with {command}")


def most_jobs(place: Place, column: str, row: Mapping[str, str]) -> int | None:
    """Return a limit of jobs; None = no limit. So is 0: it admits no job, and the log has some."""
    text = row.get(column, "")
    return None if text in ("", "-1") else place.whole(column, text, "jobs") or None


def most_gpus(place: Place, column: str, row: Mapping[str, str]) -> int | None:
    """Return a limit of GPUs among trackable resources; None = no limit."""
    text = row.get(column, "")
    found = tres_gpus(place, column, text)
    return None if found is None or "gres/gpu" not in text else found.number
