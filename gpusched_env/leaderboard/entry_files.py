"""Read and write entries: JSON in zstd, bounded in size, refused if a byte of it is not as written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import zstandard

from gpusched_env.errors import EntryError
from gpusched_env.files import whole
from gpusched_env.leaderboard.entry import FORMAT, Entry

SUFFIX: Final = ".json.zst"
MAX_FILE_BYTES: Final = 16_000_000  # [byte]
MAX_TEXT_BYTES: Final = 48_000_000  # [byte] of JSON in it
_LEVEL: Final = 19


def write_entry(entry: Entry, path: str | Path) -> None:
    """Seal an entry and write it, whole or not at all; the same entry gives the same bytes.

    Raises
    ------
    EntryError : larger than an entry may be
    GpuschedError : the file cannot be written
    """
    text = entry.sealed().text()
    if len(text) > MAX_TEXT_BYTES:
        raise EntryError(f"{path}: {len(text):,} bytes of JSON; an entry may have {MAX_TEXT_BYTES:,}")
    packed = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(text)
    if len(packed) > MAX_FILE_BYTES:
        raise EntryError(f"{path}: {len(packed):,} bytes; an entry may have {MAX_FILE_BYTES:,}")
    with whole(Path(path)) as partial:
        partial.write_bytes(packed)


def read_entry(path: str | Path) -> Entry:
    """Read an entry and check its form and seal, not its claims.

    Raises
    ------
    EntryError : missing, truncated, damaged, too large, of another format, or not as :func:`write_entry` writes it
    """
    try:
        with Path(path).open("rb") as stream:
            packed = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # a ValueError for a path with a null character
        raise EntryError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    try:
        return parse_entry(unpack_text(packed))
    except EntryError as error:
        raise EntryError(f"{path}: {error}") from None


def unpack_text(packed: bytes) -> bytes:
    """Decompress one zstd frame into memory of a size known beforehand.

    Raises
    ------
    EntryError : damaged, truncated, too large, or followed by something else
    """
    if len(packed) > MAX_FILE_BYTES:
        raise EntryError(f"larger than {MAX_FILE_BYTES:,} bytes, the most that an entry may have")
    try:
        header = zstandard.get_frame_parameters(packed)
        if header.content_size in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR) or header.dict_id:
            raise EntryError("compressed in another way than gpusched leaderboard submit does")
        if header.content_size > MAX_TEXT_BYTES:
            raise EntryError(f"{header.content_size:,} bytes of JSON; an entry may have {MAX_TEXT_BYTES:,}")
        # The memory is that of the size in the header: a frame that holds more, or less, is an error.
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise EntryError(f"damaged, truncated, or not compressed by zstd ({error})") from error


def parse_entry(text: bytes) -> Entry:
    """Read JSON into an entry, strictly.

    Raises
    ------
    EntryError : another format; a field unknown, missing, or of a wrong type; not written as it would be; a wrong seal
    """
    try:
        claimed = msgspec.json.decode(text, type=_Format).format
        if claimed != FORMAT:
            raise EntryError(f"its format is {claimed!r}; this version reads {FORMAT!r}")
        entry = msgspec.json.decode(text, type=Entry)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EntryError(f"not an entry: {error}") from error
    # A second way of writing the same (spaces, a field given twice, 1.0e0) could hide something from a reader.
    if entry.text() != text:
        raise EntryError(
            "not written as gpusched leaderboard submit writes it: spaces, repeated fields or other numbers"
        )
    if entry.sha256 != entry.seal():
        raise EntryError("its checksum does not fit its content: it was damaged or changed after it was written")
    return entry


class _Format(msgspec.Struct):
    """What must be known before anything else is looked at."""

    format: Annotated[str, msgspec.Meta(max_length=200)]
