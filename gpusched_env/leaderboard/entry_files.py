"""Read and write files of entries: packed JSON of bounded size in one exact encoding.

The number of values is bounded before an entry is decoded, because 48 MB of JSON could become 2 GB of objects.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.columns import LISTS, PLACING, check_lengths
from gpusched_env.leaderboard.entry import FORMAT, MOST_RUNS, Entry
from gpusched_env.leaderboard.packing import pack_entry, unpack_entry
from gpusched_env.support.files import visible, whole

SUFFIX: Final = ".entry.xz"
MAX_FILE_BYTES: Final = 16_000_000  # [byte] largest file
MAX_TEXT_BYTES: Final = 48_000_000  # [byte] largest JSON text after decompression


def write_entry(entry: Entry, path: str | Path) -> None:
    """Seal an entry and write it atomically; equal entries give equal bytes.

    Raises
    ------
    EntryError : the entry is too large
    GpuschedError : the file cannot be written
    """
    entry = entry.sealed()
    size = len(entry.text())
    if size > MAX_TEXT_BYTES:
        raise EntryError(f"{path}: {size:,} bytes of JSON; an entry may have at most {MAX_TEXT_BYTES:,}")
    packed = pack_entry(entry)
    if len(packed) > MAX_FILE_BYTES:
        raise EntryError(f"{path}: {len(packed):,} bytes; an entry may have at most {MAX_FILE_BYTES:,}")
    with whole(Path(path)) as partial:
        partial.write_bytes(packed)


def read_entry(path: str | Path) -> Entry:
    """Read an entry, and check its format and seal, but not its claims.

    Raises
    ------
    EntryError : a file that is missing, not a regular file, truncated, damaged, too large, of another format, or in
        another encoding than :func:`write_entry` uses
    """
    try:
        return parse_packed(read_packed(path))
    except EntryError as error:
        raise EntryError(f"{visible(path)}: {error}") from None


def read_packed(path: str | Path) -> bytes:
    """Read at most MAX_FILE_BYTES + 1 bytes of a file."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise EntryError("cannot be read (not a regular file)")
        with Path(path).open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    except EntryError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise EntryError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error


def parse_packed(packed: bytes) -> Entry:
    """Parse the bytes of a file into an entry, with the checks of :func:`parse_entry`."""
    try:
        return parse_entry(unpack_text(packed))
    except MemoryError:
        raise EntryError("reading it takes more memory than there is") from None


def unpack_text(packed: bytes) -> bytes:
    """Return the JSON of a file."""
    if len(packed) > MAX_FILE_BYTES:
        raise EntryError(f"larger than {MAX_FILE_BYTES:,} bytes, the most that an entry may have")
    if packed.startswith(b"{"):
        raise EntryError(
            "JSON, as the package has it of its entries, is no entry: give a file NAME.entry.xz, which gpusched "
            "leaderboard submit writes"
        )
    text = unpack_entry(packed, MAX_TEXT_BYTES).text()
    if len(text) > MAX_TEXT_BYTES:
        raise EntryError(f"{len(text):,} bytes of JSON; an entry may have at most {MAX_TEXT_BYTES:,}")
    return text


def parse_entry(text: bytes) -> Entry:
    """Parse JSON into an entry, and check its format, encoding and seal."""
    try:
        claimed = msgspec.json.decode(text, type=_Format).format
        if claimed != FORMAT:
            raise EntryError(f"its format is {claimed!r}; this version reads {FORMAT!r}")
        check_sizes(text)
        entry = msgspec.json.decode(text, type=Entry)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EntryError(f"not an entry: {error}") from error
    # Another encoding of the same entry (spaces, a repeated field, 1.0e0) could hide data from a reader.
    if entry.text() != text:
        raise EntryError(
            "not written as gpusched leaderboard submit writes it: spaces, repeated fields or other numbers"
        )
    if entry.sha256 != entry.seal():
        raise EntryError("its checksum does not match its content: it was damaged or changed after it was written")
    return entry


class _Format(msgspec.Struct):
    """The field ``format``, which is read before all others."""

    format: Annotated[str, msgspec.Meta(max_length=200)]


# Limits on the number of values outside the columns (metrics, bounds, parameters, training seeds); commas in texts
# count, too.
MOST_OTHERS: Final = 200_000
MOST_OTHERS_OF_A_RUN: Final = 1000

_Lengths = Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=2**40)]], msgspec.Meta(max_length=2**22)]


# The part of an entry that determines its size; the columns of the decisions are undecoded text.
_COLUMNS: Final = msgspec.defstruct("_Columns", [("kinds", str), *((name, msgspec.Raw) for name in LISTS)])
_RUN: Final = msgspec.defstruct("_Run", [("decisions", _COLUMNS | None)])
_OUTLINE: Final[Any] = msgspec.defstruct("_Outline", [("runs", list[_RUN])])  # type: ignore[valid-type]


def check_sizes(text: bytes) -> None:
    """Refuse an entry whose columns lack the lengths that its letters require, or with more other values (commas)."""
    runs = msgspec.json.decode(text, type=_OUTLINE).runs
    if len(runs) > MOST_RUNS:
        raise EntryError(f"it has {len(runs):,} runs; an entry may have {MOST_RUNS:,}")
    values = 0
    for number, run in enumerate(runs):
        columns = run.decisions
        if columns is None:
            continue
        lengths = {name: _length(getattr(columns, name)) for name in LISTS}
        few = lengths["gpu_counts"] == sum(map(columns.kinds.count, PLACING))
        gang_sizes = msgspec.json.decode(columns.gpu_counts, type=_Lengths) if few else []
        try:
            check_lengths(columns.kinds, lengths, sum(gang_sizes))
        except EntryError as error:
            raise EntryError(f"run {number}: {error}") from None
        values += sum(lengths.values())
    others = text.count(b",") - values
    if others > MOST_OTHERS + MOST_OTHERS_OF_A_RUN * len(runs):
        raise EntryError(f"it has {others:,} values besides those of its decisions, more than any entry needs")


def _length(column: msgspec.Raw) -> int:
    """Return an upper bound on the number of values of an undecoded list; exact if its values are numbers."""
    text = bytes(column)
    return 0 if text.strip() == b"[]" else text.count(b",") + 1
