"""Functions shared by the JSON files of profile tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.support.files import write_whole

WORDS: Final = ("name", "source", "licence", "made")  # text fields of every table


def shipped_text(name: str, known: Collection[str]) -> str:
    """Read the text of ``NAME.json`` in this folder."""
    if name not in known:
        raise WorkloadError(unknown_name("profile table", name, known))
    return (resources.files("gpusched_env.traces.profile_tables") / f"{name}.json").read_text(encoding="utf-8")


def written_text(path: str | Path) -> str:
    """Read the text of a file that ``gpusched traces fit-profiles`` wrote."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: cannot be read ({error})") from error


def not_as_written(place: str, error: Exception) -> WorkloadError:
    """Make the error for a file that is damaged or not a profile table."""
    return WorkloadError(
        f"{place}: not as gpusched traces fit-profiles writes it ({type(error).__name__}: {error}); make it again"
    )


def write_table(path: Path, table: Any, parts: Mapping[str, Mapping[str, str]], more: Sequence[str] = ()) -> None:
    """Write WORDS and ``more`` fields of a table, then parts whose values are formatted, a line each; atomically."""
    lines = {key: json.dumps(getattr(table, key)) for key in (*WORDS, *more)}
    write_whole(path, block(lines | {key: block(part) for key, part in parts.items()}) + "\n")


def block(rows: Mapping[str, str]) -> str:
    """Format an object, with a line for each of its values, which are formatted already."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {row}" for name, row in rows.items()) + "\n}"
