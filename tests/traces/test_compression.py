"""Compressed traces: recognised by their bytes, read as a stream; errors for damaged ones name the remedy."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import zstandard
from trace_samples import LAYOUTS, PACK, SAMPLES, gzipped, zipped

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace, read_workload
from gpusched_env.traces.parsing.containers import open_trace


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize(("name", "number"), [layout for layout in LAYOUTS if layout[0] != "file"])
def test_every_format_reads_packed_files_of_any_name(tmp_path: Path, kind: str, name: str, number: int) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "log.csv"
    plain.write_bytes(SAMPLES[name][number])
    packed.write_bytes(PACK[kind](SAMPLES[name][number]))
    assert read_workload(f"{name}:{packed}").fingerprint() == read_workload(f"{name}:{plain}").fingerprint()


@pytest.mark.parametrize(
    "packed",
    [
        gzipped(b"one\n") + gzipped(b"two\n"),
        zstandard.compress(b"one\n") + zstandard.compress(b"") + zstandard.compress(b"two\n"),
        b"".join([zstandard.compress(b"one\n"), b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab", zstandard.compress(b"two\n")]),
        zipped(b"one\ntwo\n", "folder/", "folder/log.csv"),
        zipped(b"one\ntwo\n", method=zipfile.ZIP_STORED),
        zipped(b"one\ntwo\n", method=zipfile.ZIP_LZMA),
    ],
)
def test_archives_of_several_members(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(packed)
    with open_trace(path) as stream:
        assert list(stream) == [b"one\n", b"two\n"]


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("log.csv"), io.BytesIO())
    return stream.getvalue()


def encrypted() -> bytes:
    """A zip whose headers mark the member as encrypted: bit 0 of the flags."""
    data = bytearray(zipped(b"a,b\n"))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["empty", "fetch"]),
        (gzipped(b""), ["empty"]),
        (zstandard.compress(b""), ["empty"]),
        (zipped(b""), ["empty"]),
        (zipped(b"a", "a.csv", "b.csv"), ["exactly one file", "2 (a.csv, b.csv)", "unpack"]),
        (zipped(b"a", *(f"{i}.csv" for i in range(9))), ["9 (0.csv, 1.csv, 2.csv, 3.csv, 4.csv, ...)"]),
        (zipped(b"", "folder/"), ["exactly one file", "holds 0"]),
        (zipped(b"")[-22:], ["cut or damaged"]),
        (b"PK\x05\x06" + bytes(18), ["exactly one file", "holds 0"]),
        (encrypted(), ["encrypted", "password"]),
        (tar(), ["tar", "unpack"]),
        (gzipped(tar()), ["tar", "unpack"]),
        (gzipped(b"a,b\n") + b"rubbish", ["gzip", "damaged", "fetch"]),
        (zstandard.compress(b"a,b\n") + b"rubbish", ["zstd", "damaged", "fetch"]),
    ],
)
def test_refusals_name_the_remedy(tmp_path: Path, data: bytes, words: list[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught, open_trace(path) as stream:
        stream.read()
    for word in [str(path), *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("kind", PACK)
def test_truncated_data_are_refused(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](SAMPLES["tiresias"][0])
    path = tmp_path / "log"
    for end in range(5, len(packed)):
        path.write_bytes(packed[:end])
        with pytest.raises(TraceError, match=rf"(?s){path}.*({kind}.*damaged|empty)"):
            read_trace(f"tiresias:{path}")


@pytest.mark.parametrize("kind", PACK)
def test_packed_data_are_read_as_a_stream(tmp_path: Path, kind: str) -> None:
    """64 MiB of zeros unpack in little memory."""
    path = tmp_path / "log"
    path.write_bytes(PACK[kind](bytes(64 << 20)))
    tracemalloc.start()
    try:
        with open_trace(path) as stream:
            size = sum(len(block) for block in iter(lambda: stream.read(1 << 16), b""))
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    assert size == 64 << 20
