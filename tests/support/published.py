"""Published files beside the repository, and their manifest."""

from __future__ import annotations

import csv
import gzip
import hashlib
from pathlib import Path
from typing import Final

import pytest

TRACES: Final = Path(__file__).parents[3] / "shared" / "traces"
here = pytest.mark.skipif(not TRACES.is_dir(), reason="published traces are not here: ../shared/traces is absent")


def manifest() -> list[dict[str, str]]:
    """Rows of MANIFEST.csv; none when the files are absent."""
    if not TRACES.is_dir():
        return []
    with (TRACES / "MANIFEST.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def beside_manifest() -> list[str]:
    """Files that are not in the manifest: those of folders with their own README.md."""
    folders = [path.parent for path in sorted(TRACES.glob("*/README.md"))]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.relative_to(TRACES).as_posix() for path in files if path.name != "README.md"]


def digests(data: bytes) -> set[str]:
    """SHA-256 of the bytes and, if they are a gzip file, of its content."""
    found = {hashlib.sha256(data).hexdigest()}
    if data.startswith(b"\x1f\x8b"):
        found.add(hashlib.sha256(gzip.decompress(data)).hexdigest())
    return found


def published_digests() -> set[str]:
    """SHA-256 of every published file, in the manifest or not, as it is stored and unpacked."""
    return set().union(*(digests(path.read_bytes()) for path in TRACES.rglob("*") if path.is_file()))
