"""Open a trace that is uncompressed or compressed with gzip, zstd or zip; any damage becomes a TraceError."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from gpusched_env.errors import TraceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK: Final = 1 << 18  # [byte]
ZSTD_CHUNK: Final = 1 << 8  # [byte] zstd expands data at most 32,768 times, so a chunk becomes at most 8 MiB
SHOWN: Final = 5  # number of files in a zip that an error message names


Watch = Callable[[Path, int, int], None]  # called with a file, the bytes read so far, and the size of the file [byte]
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Open a context in which ``watch`` is called with the progress of files that this thread reads."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


class _Watched(io.FileIO):
    """A file that reports how many of its bytes on disk have been read."""

    def __init__(self, path: Path, watch: Watch) -> None:
        super().__init__(path)
        self._path, self._watch, self._bytes, self._read = path, watch, path.stat().st_size, 0

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        count = super().readinto(buffer)
        self._read += count or 0
        self._watch(self._path, min(self._read, self._bytes), self._bytes)
        return count


def _open(path: Path) -> io.BufferedReader:
    watch = _watch.get()
    return path.open("rb") if watch is None else io.BufferedReader(_Watched(path, watch), CHUNK)


def trace_files(path: Path) -> list[Path]:
    """Return the files of a log: the path, or those that its commas and its ``*``, ``?`` and ``[]`` name, in order.

    Of names with numbers, 9 precedes 10.
    """
    text = str(path)
    if path.exists() or not any(mark in text for mark in ",*?["):
        return [path]
    found: list[Path] = []
    for part in map(os.path.expanduser, text.split(",")):
        names = sorted(glob.glob(part), key=_natural) if glob.has_magic(part) else [part]
        if not names:
            raise TraceError(f"{part}: no file has such a name; check the path after the format's colon")
        found += map(Path, names)
    return found


def _natural(name: str) -> tuple[list[str | int], str]:
    """Return a key that orders the digits in names as numbers."""
    return [int(one) if i % 2 else one for i, one in enumerate(re.split(r"(\d+)", name))], name


def each_trace(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Open the files of a log one after another."""
    for file in trace_files(path):
        with open_trace(file) as stream:
            yield file, stream


@contextmanager
def open_trace(path: Path) -> Iterator[BinaryIO]:
    """Open a file, or the first of several, as a stream of uncompressed bytes.

    gzip, zstd and zip are recognised by the first bytes of the file, not by its name. A byte order mark is skipped.
    """
    path = trace_files(path)[0]
    try:
        with _open(path) as file:
            magic = file.read(4)
            file.seek(0)
            stream: io.BufferedReader = file
            for start, (name, unpack) in CONTAINERS.items():
                if magic.startswith(start):
                    stream = io.BufferedReader(_Unpacked(_translated(path, name, unpack(path, file))), CHUNK)
            beginning = stream.peek(512)
            if not beginning:
                raise TraceError(f"{path}: the file is empty; fetch it again")
            if beginning[257:262] == b"ustar":
                raise TraceError(f"{path}: a tar archive: unpack it and name the file in it")
            if beginning.startswith(codecs.BOM_UTF8):
                stream.read(len(codecs.BOM_UTF8))
            yield cast(BinaryIO, stream)
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file; check the path after the format's colon") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error


def first_bytes(path: Path, count: int = 4096) -> bytes:
    """Return the first uncompressed bytes of a file; formats are recognised by them."""
    with open_trace(path) as stream:
        return stream.read(count)


def zip_members(path: Path) -> list[str]:
    """Return the names of the files in a zip; an empty list if the file is damaged or is not a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except Exception:  # see _translated
        return []


class _Unpacked(io.RawIOBase):
    """A stream over chunks of uncompressed bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks = chunks
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        while not self.rest:
            chunk = next(self.chunks, None)
            if chunk is None:
                return 0
            self.rest = memoryview(chunk)
        count = min(len(target), len(self.rest))
        target[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        return count


def _translated(path: Path, name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    except TraceError:
        raise
    except Exception as error:  # on damaged data the decompressors raise a dozen types, struct.error among them
        raise TraceError(
            f"{path}: cannot be unpacked: the {name} data are cut or damaged ({error}); fetch the file again"
        ) from error


def _gzip(path: Path, file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as unpacked:
        while chunk := unpacked.read(CHUNK):
            yield chunk


def _zstd(path: Path, file: BinaryIO) -> Iterator[bytes]:
    import zstandard

    # The stream class of zstandard raises no error for cut data, so the end of each frame is checked here.
    frame = None
    while packed := file.read(ZSTD_CHUNK):
        while packed:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(packed)
            packed = frame.unused_data
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the last frame does not end")


def _zip(path: Path, file: BinaryIO) -> Iterator[bytes]:
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            names = ", ".join(member.filename for member in members[:SHOWN]) + ", ..." * (len(members) > SHOWN)
            raise TraceError(
                f"{path}: a zip must hold exactly one file, this one holds {len(members)}"
                f"{f' ({names})' if members else ''}; unpack it and name the trace, or pack the trace alone"
            )
        if members[0].flag_bits & 1:
            raise TraceError(f"{path}: the zip is encrypted; unpack it with its password and name the file")
        with archive.open(members[0]) as unpacked:
            while chunk := unpacked.read(CHUNK):
                yield chunk


CONTAINERS: Final[dict[bytes, tuple[str, Callable[[Path, BinaryIO], Iterator[bytes]]]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"PK\x03\x04": ("zip", _zip),
    b"PK\x05\x06": ("zip", _zip),  # a zip without files
}
