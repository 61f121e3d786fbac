"""Damage to files of any kind, and the check that reading them gives a result or a TraceError."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trace_samples import PACK

from gpusched_env.errors import TraceError
from gpusched_env.traces import ReadReport

WRONG: Final = (  # in place of a field
    *("", "-1", "-0.5", "1e400", "-1e400", "1e308", "1e-320", "2.5", "nan", "inf", "-inf", "9" * 30, "9" * 5_000),
    *("None", "null", "true", "x", "x" * 300, "1_000", "0x1f", "\u0663", "[]", "{}", "[", "]", "[1-", "=", "#", "|"),
    *("\0", "\t", "\n", "\r", ";", ",", "\ufeff", '"', '""', "\\", "\\u0000", "\\ud800", "(null)", "gpu", "gpu:"),
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59", "2017-02-30 00:00:00", "2017-10-07T01:00:00", "2017-10-07"),
    *("0001-01-01 00:00:00+14:00", "9999-12-31 23:59:59-14:00", "2023-05-17 11:00:00+99:99", "2023-05-17 11:00:00Z"),
    *("g[1-9]", "g[1-9999999]", "Include x"),
)
FIELD: Final = re.compile(rb'[^,|\t\n"\[\]{}:=]+')
REMEDY: Final = re.compile(
    r"fetch|correct|remove|check|expected|write|unpack|shorten|right file|original|save it again|keep one|read it as|"
    r"give|export|put the lines|known:",
    re.I,
)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def _overwritten(rng: random.Random, data: bytes) -> bytes:
    place, garbage = rng.randint(0, len(data)), rng.randbytes(rng.randint(0, 8))
    return data[:place] + garbage + data[place + len(garbage) :]


def _replaced(rng: random.Random, data: bytes) -> bytes:
    """Another value in one field, or in this column of every row."""
    fields = list(FIELD.finditer(data))
    if not fields:
        return data
    field = rng.choice(fields)
    value = rng.choice([*(wrong.encode() for wrong in WRONG), b"\xff", b"\xed\xa0\x80"])
    if rng.random() < 0.5:
        return data.replace(field.group(), value)
    return data[: field.start()] + value + data[field.end() :]


def _lines_moved(rng: random.Random, data: bytes) -> bytes:
    """Two lines swapped, or one there twice, or one lost."""
    lines = data.splitlines(keepends=True) or [b""]
    i, j, how = rng.randrange(len(lines)), rng.randrange(len(lines)), rng.randrange(3)
    if how == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif how == 1:
        lines.insert(i, lines[j])
    else:
        del lines[i]
    return b"".join(lines)


def _columns_swapped(rng: random.Random, data: bytes) -> bytes:
    """Two columns swapped, in all lines or in those after the header."""
    between = rng.choice([b",", b"|", b"\t", b" "])
    rows = [line.split(between) for line in data.split(b"\n")]
    width = max(map(len, rows))
    i, j = rng.randrange(width), rng.randrange(width)
    for row in rows[rng.randrange(2) :]:
        if len(row) == width:
            row[i], row[j] = row[j], row[i]
    return b"\n".join(between.join(row) for row in rows)


DAMAGE: Final = [_cut, _overwritten, _replaced, _replaced, _lines_moved, _columns_swapped]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Damage a file up to three times, and pack it or cut it as a whole."""
    for damage in rng.choices(DAMAGE, k=rng.randint(0, 3)):
        data = damage(rng, data)
    data = rng.choice([bytes, bytes, *PACK.values()])(data)
    return _cut(rng, data) if rng.random() < 0.2 else data


def check(path: Path, read: Callable[[], tuple[object, ReadReport]]) -> tuple[object, ReadReport] | None:
    """Read: counts must add up, or a TraceError names the file (or its folder), a place in it, and the remedy."""
    complaint = ""
    try:
        result, report = read()
    except TraceError as error:
        complaint = str(error)
    if not complaint:
        assert report.kept == report.rows - sum(report.dropped.values())
        assert all(report.dropped[reason] == len(places) for reason, places in report.dropped_at.items())
        return result, report
    assert str(path) in complaint or str(path.parent) in complaint
    assert REMEDY.search(complaint), complaint
    data = path.read_bytes()
    if data[:2] not in {pack(b"x")[:2] for pack in PACK.values()}:
        told = [int(number) for number in re.findall(rf"{re.escape(str(path))}, line (\d+)", complaint)]
        assert all(1 <= number <= data.count(b"\n") + data.count(b"\r") + 1 for number in told)
    return None
