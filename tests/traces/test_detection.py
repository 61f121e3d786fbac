"""``auto:PATH`` detects the format by the beginning of the file, or says why it cannot."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from trace_samples import LAYOUTS, SAMPLES

from gpusched_env.errors import TraceError
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import READERS, read_trace
from gpusched_env.traces.reading import SIGNATURES, UNDETECTED, resolve_source

AMBIGUOUS = {  # layouts that two formats share, by format and number of the sample
    ("bsbf", 0): "bsbf or muri",
    ("muri", 0): "bsbf or muri",
    ("helios", 1): "helios or pai",
    ("pai", 0): "helios or pai",
    ("pollux", 0): "pollux or sia",
    ("pollux-sharing", 0): "pollux or sia",
    ("sia", 0): "pollux or sia",
}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_every_reader_has_a_signature_or_a_reason_and_samples() -> None:
    assert sorted([*SIGNATURES, *UNDETECTED]) == sorted(READERS) == sorted(SAMPLES)
    assert all(SIGNATURES.values())


@pytest.mark.parametrize(("name", "number"), LAYOUTS)
def test_every_layout_is_found_or_called_ambiguous(tmp_path: Path, name: str, number: int) -> None:
    path = write(tmp_path / "log", SAMPLES[name][number])
    if (name, number) in AMBIGUOUS:
        names = AMBIGUOUS[name, number]
        with pytest.raises(TraceError) as caught:
            read_trace(f"auto:{path}")
        assert f"{path}: could be {names}" in str(caught.value)
        assert f"write {names.split()[0]}:{path} or {names.split()[-1]}:{path}" in str(caught.value)
        return
    if name == "csv":  # its columns are guessed only with csv:PATH, and the error says so
        with pytest.raises(TraceError, match=re.escape(f"a CSV of your own: csv:{path}, with --map arrival=COLUMN")):
            read_trace(f"auto:{path}")
        return
    found = resolve_source(f"auto:{path}")[0]
    assert found == ("philly" if name in UNDETECTED else name)
    assert read_trace(f"auto:{path}")[0].fingerprint() == read_trace(f"{name}:{path}")[0].fingerprint()


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"a,b\n1,2\n", "the columns 'a, b'"),
        (b"job_id,num_gpu\n", "the columns 'job_id, num_gpu'"),
        (b"a\tb\tc\n", "3 fields, separated by tabs"),
        (b'[{"jobid": 1, "user": 2}]', "JSON; keys of the first record: jobid, user"),
        (b'{"jobid": 1}', "JSON; keys of the first record: none"),
        (b"[", "JSON; keys of the first record: none"),
        (b"\x00\xff\x01", "no text"),
        (b"; nothing\n\n", "the columns ''"),
        (b"1 2 3\n", "the columns '1 2 3'"),
    ],
)
def test_a_file_of_no_known_format_is_quoted_in_the_error(tmp_path: Path, data: bytes, found: str) -> None:
    path = write(tmp_path / "log", data)
    with pytest.raises(TraceError) as caught:
        read_trace(f"auto:{path}")
    for words in (str(path), f"found {found};", "FORMAT:PATH", *SIGNATURES):
        assert words in str(caught.value)


def test_byte_order_mark_comments_blank_lines_and_packing_do_not_hide_a_format(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    for name, data in [
        ("tiresias", mark + SAMPLES["tiresias"][0]),
        ("philly", mark + b" \n" + SAMPLES["philly-json"][0]),
        ("swf", b"; one\n" * 10 + b"\n" + SAMPLES["swf"][0]),
        ("shockwave", gzip.compress(SAMPLES["shockwave"][0])),
    ]:
        assert resolve_source(f"auto:{write(tmp_path / 'log', data)}")[0] == name


def test_a_scenario_is_the_same_whether_its_format_is_given_or_found(tmp_path: Path) -> None:
    tiny = get_scenario("tiny-v1")
    path = write(tmp_path / "log", SAMPLES["philly"][0])
    found, given = (tiny.with_workload(f"{name}:{path}", max_gpus=4) for name in ("auto", "philly"))
    assert found.fingerprint() == given.fingerprint()
    assert found.instance(0).fingerprint() == given.instance(0).fingerprint()
    path.write_bytes(SAMPLES["tiresias"][0])
    assert found.fingerprint() == tiny.with_workload(f"tiresias:{path}", max_gpus=4).fingerprint()
    with pytest.raises(TraceError, match="unknown parameter 'x': known: columns, estimate, gpu_resource, map"):
        tiny.with_workload(f"auto:{path}", parameters={"x": 1})
