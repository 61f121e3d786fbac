"""Packing of entries: every entry comes back equal, and damaged files are refused."""

import contextlib
import lzma

import hypothesis
import msgspec
import numpy as np
import pytest
from entry_case import ABOUT, TINY
from hypothesis import strategies as st

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard import Entry, make_entry, packing, read_entry, write_entry
from gpusched_env.leaderboard.entry_files import MAX_TEXT_BYTES, parse_packed, unpack_text
from gpusched_env.leaderboard.packing import RECENT, Column, Packed, pack_entry, unpack_entry

FEW = hypothesis.settings(max_examples=40, derandomize=True)
JOBS = st.lists(st.integers(0, 2**40), max_size=60) | st.lists(st.integers(0, 5), max_size=60)


@pytest.fixture(scope="module")
def entry() -> Entry:
    return make_entry(TINY, "themis-lite", ABOUT, progress=False)  # starts, preemptions and leases


def steps(values: list[int]) -> list[int]:
    return np.diff(np.asarray(values, np.int64), prepend=0).tolist()


def test_recency_ranks_by_hand():
    """Jobs 7, 8, 7, 7, 8: two new ones (0 + 7 and 1 + 8), then the second to last, the last, the second to last."""
    assert packing._recency(steps([7, 8, 7, 7, 8])).tolist() == [7, 9, 1, 0, 1]


@FEW
@hypothesis.given(jobs=JOBS, recent=st.integers(1, 4) | st.just(RECENT))
def test_recency_ranks_are_undone(jobs, recent):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "RECENT", recent)
        assert packing._from_recency(packing._recency(steps(jobs))) == steps(jobs)


@FEW
@hypothesis.given(data=st.data())
def test_any_columns_come_back_equal(entry, data):
    """Values of each column, as far as the schema and the lengths allow; the decisions need not make sense."""
    count = st.integers(0, 2**40)
    runs = []
    for run in entry.runs:
        kinds = data.draw(st.text("SPLWRX", max_size=12))
        placing, ends = kinds.count("S") + kinds.count("R"), kinds.count("L") + kinds.count("W")

        def column(of: st.SearchStrategy, length: int) -> list:
            return data.draw(st.lists(of, min_size=length, max_size=length))

        gpu_counts = column(st.integers(0, 3), placing)
        decisions = msgspec.structs.replace(
            run.decisions,
            kinds=kinds,
            points=column(count, len(kinds)),
            times_ms=column(count, len(kinds)),
            jobs=steps(column(count, len(kinds) - kinds.count("W"))),
            gpu_counts=gpu_counts,
            gpus=steps(column(count, sum(gpu_counts))),
            until_s=column(st.none() | st.floats(allow_nan=False, allow_infinity=False), ends),
            shares=column(st.integers(0, 1), kinds.count("S")),
            sub_steps=column(count, kinds.count("S") * data.draw(st.integers(0, 1))),
        )
        runs.append(msgspec.structs.replace(run, decisions=decisions))
    forged = msgspec.structs.replace(entry, runs=runs)
    assert unpack_entry(pack_entry(forged), MAX_TEXT_BYTES).text() == forged.text()


def test_a_file_is_smaller_than_its_compressed_text(entry, tmp_path):
    path = tmp_path / "new.entry.xz"
    write_entry(entry, path)
    assert read_entry(path) == entry
    assert unpack_text(path.read_bytes()) == entry.text()
    assert path.stat().st_size < len(lzma.compress(entry.text(), preset=9 | lzma.PRESET_EXTREME))


@FEW
@hypothesis.given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_changed_byte_is_detected(entry, at, flip):
    packed = bytearray(pack_entry(entry))
    packed[int(at * len(packed))] ^= flip
    with pytest.raises(EntryError):
        parse_packed(bytes(packed))


def repacked(found: Packed) -> bytes:
    return lzma.compress(msgspec.msgpack.encode(found))


def test_damaged_and_large_files_are_refused(entry):
    packed = pack_entry(entry)
    found = msgspec.msgpack.decode(lzma.decompress(packed), type=Packed)
    short, long = Column([1, 1], b"\0\0"), Column([1, 1, -1], b"\0")
    many = Column([2**40, 0, 0], b"")  # 2**40 values of no bytes
    bad = {
        "truncated": packed[:-5],
        "followed by more data": packed + b"\0",
        "truncated, or": packed[:40],
        "not compressed by xz": b"x" * 100,
        "not an entry: ": lzma.compress(b"x"),
        "more than 48,000,000 bytes": lzma.compress(bytes(MAX_TEXT_BYTES + 1)),
        "length >= 9": repacked(Packed(found.entry, found.columns[:-1])),
        "length <= 9": repacked(Packed(found.entry, found.columns * 2)),
        "length <= 1000": repacked(Packed(found.entry, [Column([0] * 1001, b"")] * 9)),
        "a length for each run": repacked(Packed(found.entry, [short] * 9)),
        "`int` >= 0": repacked(Packed(found.entry, [long] * 9)),
        "decisions outside its columns": repacked(Packed(entry, found.columns)),
        "larger than an entry may be": repacked(Packed(found.entry, [many] * 9)),
        "points has 0 values for": repacked(
            Packed(found.entry, [found.columns[0], Column([0, 0, 0], b""), *found.columns[2:]])
        ),
    }
    for message, data in bad.items():
        with pytest.raises(EntryError, match=message):
            parse_packed(data)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("jobs", -1, "jobs: a value is below 0"),
        ("gpus", -(2**63), "gpus: a value is below 0"),
        ("until_s", np.nan, "until_s: a value is below 0, or NaN"),
        ("until_s", -np.inf, "until_s: a value is below 0, or NaN"),
        ("kinds", ord("S") + 256, r"kinds has [\d,]+ bytes"),  # its lowest byte is a letter
    ],
)
def test_values_that_no_column_has_are_refused(entry, name, value, message):
    found = msgspec.msgpack.decode(lzma.decompress(pack_entry(entry)), type=Packed)
    at = packing.COLUMNS.index(name)
    values = np.concatenate(packing._divided(name, found.columns[at]))
    values[0] = value
    planes = values.view(np.uint8).reshape(-1, 8).T.tobytes()
    columns = [*found.columns[:at], Column(found.columns[at].lengths, planes), *found.columns[at + 1 :]]
    with pytest.raises(EntryError, match=message):
        parse_packed(repacked(Packed(found.entry, columns)))


def test_a_column_that_no_decision_has_is_not_packed(entry):
    first = entry.runs[0]
    decisions = msgspec.structs.replace(first.decisions, gpus=[-1, *first.decisions.gpus[1:]])
    forged = msgspec.structs.replace(entry, runs=[msgspec.structs.replace(first, decisions=decisions)])
    with pytest.raises(EntryError, match="gpus: a value is below 0"):
        pack_entry(forged)


@FEW
@hypothesis.given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data):
    for packed in (data, lzma.compress(data)):
        with contextlib.suppress(MemoryError), pytest.raises(EntryError):
            parse_packed(packed)
