"""Every reader on damaged files: a workload with counts that add up, or a TraceError with file, place and remedy."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trace_samples import PACK, SAMPLES

from gpusched_env.errors import TraceError
from gpusched_env.traces import READERS, describe_workload, read_trace
from gpusched_env.traces.reading import FILES as SEVERAL

WRONG: Final = [  # in place of a field
    *(b"", b"-1", b"-0.5", b"1e400", b"-1e400", b"1e308", b"1e-320", b"9" * 30, b"-" + b"9" * 30, b"9" * 5_000, b"2.5"),
    *(
        b"nan",
        b"inf",
        b"-inf",
        b"None",
        b"null",
        b"true",
        b"x",
        b"1_000",
        b"0x1f",
        b"\xd9\xa3",
        b"x" * 300,
        b"[]",
        b"{}",
    ),
    *(b"0001-01-01 00:00:00", b"9999-12-31 23:59:59", b"2017-02-30 00:00:00", b"2017-10-07T01:00:00", b"2017-10-07"),
    *(
        b"0001-01-01 00:00:00+14:00",
        b"9999-12-31 23:59:59-14:00",
        b"2023-05-17 11:00:00+99:99",
        b"2023-05-17 11:00:00Z",
    ),
    *(
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\\u0000",
        b"\\ud800",
        b'"',
        b'""',
        b",",
        b"\t",
        b"\n",
        b"\r",
        b"\xef\xbb\xbf",
        b";",
    ),
]
FIELD: Final = re.compile(rb'[^,|\t\n"\[\]{}:]+')
REMEDY: Final = re.compile(
    r"fetch|correct|remove|check|expected|write|unpack|shorten|right file|original|save it again|keep one|read it as",
    re.I,
)


FILES: Final = sorted(set(READERS) - set(SEVERAL))  # each needs a sample; other readers have their own tests
PACKINGS: Final = [bytes, bytes, *PACK.values()]


def cut(draw: st.DrawFn, data: bytes) -> bytes:
    return data[: draw(st.integers(0, len(data)))]


def overwritten(draw: st.DrawFn, data: bytes) -> bytes:
    place, garbage = draw(st.integers(0, len(data))), draw(st.binary(max_size=8))
    return data[:place] + garbage + data[place + len(garbage) :]


def replaced(draw: st.DrawFn, data: bytes) -> bytes:
    """Another value in one field, or in this column of every row."""
    fields = list(FIELD.finditer(data))
    if not fields:
        return data
    field, value = draw(st.sampled_from(fields)), draw(st.sampled_from(WRONG))
    if draw(st.booleans()):
        return data.replace(field.group(), value)
    return data[: field.start()] + value + data[field.end() :]


def lines_moved(draw: st.DrawFn, data: bytes) -> bytes:
    """Two lines swapped, or one there twice, or one lost."""
    lines = data.splitlines(keepends=True) or [b""]
    i, j = (draw(st.integers(0, len(lines) - 1)) for _ in "ij")
    how = draw(st.sampled_from(["swapped", "twice", "lost"]))
    if how == "swapped":
        lines[i], lines[j] = lines[j], lines[i]
    elif how == "twice":
        lines.insert(i, lines[j])
    else:
        del lines[i]
    return b"".join(lines)


def columns_swapped(draw: st.DrawFn, data: bytes) -> bytes:
    """Two columns swapped, in all lines or in those after the header."""
    between = draw(st.sampled_from([b",", b"|", b"\t", b" "]))
    rows = [line.split(between) for line in data.split(b"\n")]
    width = max(map(len, rows))
    i, j = (draw(st.integers(0, width - 1)) for _ in "ij")
    for row in rows[draw(st.integers(0, 1)) :]:
        if len(row) == width:
            row[i], row[j] = row[j], row[i]
    return b"\n".join(between.join(row) for row in rows)


DAMAGE: Final = [cut, overwritten, replaced, replaced, lines_moved, columns_swapped]


@st.composite
def damaged_files(draw: st.DrawFn, name: str) -> bytes:
    data = draw(st.sampled_from(SAMPLES[name]))
    for damage in draw(st.lists(st.sampled_from(DAMAGE), max_size=3)):
        data = damage(draw, data)
    data = draw(st.sampled_from(PACKINGS))(data)
    return cut(draw, data) if draw(st.integers(0, 3)) == 0 else data


def check(path: Path, source: str, data: bytes, skip: bool = False) -> None:
    path.write_bytes(data)
    complaint = ""
    try:
        workload, report = read_trace(source, skip_bad_rows=skip)
    except TraceError as error:
        complaint = str(error).replace(str(path), "PATH")
    if not complaint:
        assert report.kept == len(workload) == report.rows - sum(report.dropped.values())
        assert report.dropped == {reason: len(places) for reason, places in report.dropped_at.items()}
        assert report.notes == {remark: len(places) for remark, places in report.noted_at.items()}
        assert workload.jobs["arrival_s"].min() == 0
        assert all(map(math.isfinite, describe_workload(workload).values()))
        return
    assert complaint.startswith("PATH")
    assert REMEDY.search(complaint), complaint
    for number in re.findall(r"\bline (\d+)", complaint):
        assert 1 <= int(number) <= max(1, data.count(b"\n") + data.count(b"\r") + 1) or data[:2] in PACKED, complaint


PACKED: Final = {pack(b"x")[:2] for pack in PACK.values()}


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), skip=st.booleans())
def test_damage_gives_a_workload_or_a_trace_error(tmp_path: Path, name: str, data: st.DataObject, skip: bool) -> None:
    path = tmp_path / "damaged"
    check(path, f"{name}:{path}", data.draw(damaged_files(name)), skip)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(junk=st.binary(max_size=300))
@example(b"")
@example(b"\0" * 2_000)
@example(b"[" * 100_000)
@example(b'[{"a":' * 20_000)
@example(b"1" * 200_000)
@example(b'"' + b"," * 200_000)
def test_junk_is_refused(tmp_path: Path, name: str, junk: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(junk)
    for source in (name, "auto"):
        with pytest.raises(TraceError) as caught:
            read_trace(f"{source}:{path}")
        assert str(path) in str(caught.value)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), name=st.sampled_from(FILES))
def test_damage_does_not_mislead_auto(tmp_path: Path, data: st.DataObject, name: str) -> None:
    path = tmp_path / "damaged"
    check(path, f"auto:{path}", data.draw(damaged_files(name)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("swf", b"1 0 0 50 4 -1 -1 4 60 -1 1 7 -1 -1 2 -1 0 -1\n2 1 0 50 4 -1 -1 4 60 -1 1 7 -1 -1 2 -1 1 -1\n"),
        ("csv", b"id,arrival,gpus,duration,dependency\na,0,1,50,afterok:x\nb,1,1,50,afterok:a\n"),
    ],
)
def test_remarks_about_dependencies_have_places(tmp_path: Path, name: str, text: bytes) -> None:
    """The first job depends on one that the log lacks, the second one on the first."""
    path = tmp_path / "log"
    path.write_bytes(text)
    workload, report = read_trace(f"{name}:{path}")
    assert len(workload) == 2
    first = 1 if name == "swf" else 2  # line 1 of a CSV is its header
    assert {places.tolist()[0] for places in report.noted_at.values()} == {first, first + 1}
    assert report.notes == {remark: len(places) for remark, places in report.noted_at.items()}
