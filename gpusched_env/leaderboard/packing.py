"""Pack an entry into few bytes: each column as planes of bytes, all of them in one xz stream.

In JSON, two thirds of the compressed bytes are digits of jobs and GPUs. A decision is mostly about a job that was
decided about not long ago, so a job is written as the number of other jobs since then. Plane b of a column has byte b
of all its values, least significant first; the columns of all runs follow each other.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.columns import LISTS, check_lengths
from gpusched_env.leaderboard.entry import MOST_RUNS, Decisions, Entry

COLUMNS: Final = ("kinds", *LISTS)
NO_DECISIONS: Final = Decisions("", [], [], [], [], [], [], [], [])
RECENT: Final = 4_096  # most jobs that are kept for recency ranks; it bounds the time to unpack a decision
_DICTIONARY: Final = 1 << 23  # [byte] larger ones take more memory, and hardly save bytes
_MEMORY: Final = 1 << 26  # [byte] most memory of the decompressor
# lc = lp = pb = 0: the neighbours of a byte in a plane belong to other values
_FILTERS: Final = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": _DICTIONARY, "lc": 0, "lp": 0, "pb": 0}
]


class Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A column of all runs.

    Attributes
    ----------
    lengths : number of values of each run
    planes : uint8 [width, sum of lengths]
    """

    lengths: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=MOST_RUNS)]
    planes: bytes


class Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is compressed: the entry without its decisions, and the columns of COLUMNS, in this order."""

    entry: Entry
    columns: Annotated[list[Column], msgspec.Meta(min_length=len(COLUMNS), max_length=len(COLUMNS))]


def pack_entry(entry: Entry) -> bytes:
    """Return the bytes of a file."""
    columns = [_packed(name, [getattr(run.decisions or NO_DECISIONS, name) for run in entry.runs]) for name in COLUMNS]
    data = msgspec.msgpack.encode(Packed(light(entry), columns), order="deterministic")
    return lzma.compress(data, lzma.FORMAT_XZ, filters=_FILTERS)


def light(entry: Entry) -> Entry:
    """Return an entry whose runs have empty decisions; those of runs without decisions stay None."""
    bare = [
        run if run.decisions is None else msgspec.structs.replace(run, decisions=NO_DECISIONS) for run in entry.runs
    ]
    return msgspec.structs.replace(entry, runs=bare)


def unpack_entry(packed: bytes, most: int) -> Entry:
    """Return the entry of a file; nothing in it is checked but the lengths of its columns.

    ``most`` : bytes after decompression, and twice the number of values.
    """
    try:
        found = msgspec.msgpack.decode(_decompressed(packed, most), type=Packed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EntryError(f"not an entry: {error}") from error
    runs, columns = found.entry.runs, dict(zip(COLUMNS, found.columns, strict=True))
    if any(len(column.lengths) != len(runs) for column in found.columns):
        raise EntryError("not an entry: each column must have a length for each run")
    if found.entry != light(found.entry):
        raise EntryError("not an entry: decisions outside its columns")
    if 2 * sum(sum(column.lengths) for column in found.columns) > most:
        raise EntryError("larger than an entry may be")
    values = {name: _divided(name, column) for name, column in columns.items()}
    whole = []
    for number, run in enumerate(runs):
        of_run = {name: values[name][number] for name in COLUMNS}
        kinds = of_run["kinds"].astype(np.uint8).tobytes().decode("latin-1")
        check_lengths(kinds, {name: len(of_run[name]) for name in LISTS}, int(of_run["gpu_counts"].sum()))
        lists = {name: _CODES.get(name, _PLAIN)[1](of_run[name]) for name in LISTS}
        decisions = Decisions(kinds=kinds, **lists)
        if run.decisions is None and decisions != NO_DECISIONS:
            raise EntryError("not an entry: columns of a run without decisions")
        whole.append(run if run.decisions is None else msgspec.structs.replace(run, decisions=decisions))
    return msgspec.structs.replace(found.entry, runs=whole)


def _decompressed(packed: bytes, most: int) -> bytes:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        data = decompressor.decompress(packed, most + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise EntryError(f"damaged, or not compressed by xz ({error})") from error
    if len(data) > most:
        raise EntryError(f"more than {most:,} bytes after decompression")
    if not decompressor.eof or decompressor.unused_data:
        raise EntryError("truncated, or followed by more data")
    return data


def _packed(name: str, runs: Sequence[Any]) -> Column:
    """Pack a column; ``runs`` are its values in each run."""
    encode = _CODES.get(name, _PLAIN)[0]
    encoded = [encode(values) for values in runs]
    values = np.concatenate(encoded) if encoded else np.zeros(0, np.int64)
    width = 8
    if values.dtype == np.int64:
        if values.min(initial=0) < 0:
            raise EntryError(f"{name}: a value is below 0")
        width = (int(values.max(initial=0)).bit_length() + 7) // 8
    planes = values.astype(values.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 8).T[:width]
    return Column([len(part) for part in encoded], planes.tobytes())


def _divided(name: str, column: Column) -> list[np.ndarray]:
    """Return the encoded values of each run: float64 for ``until_s``, otherwise int64."""
    count = sum(column.lengths)
    width = len(column.planes) // count if count else 0
    if width * count != len(column.planes) or width > (1 if name == "kinds" else 8):
        raise EntryError(f"{name} has {len(column.planes):,} bytes for {count:,} values")
    bytes_of = np.zeros((count, 8), np.uint8)
    bytes_of[:, :width] = np.frombuffer(column.planes, np.uint8).reshape(width, count).T
    values = bytes_of.view("<f8" if name == "until_s" else "<i8")[:, 0]
    if not (values > -np.inf if name == "until_s" else values >= 0).all():
        raise EntryError(f"{name}: a value is below 0, or NaN")
    return np.split(values, np.cumsum(column.lengths)[:-1])


def _recency(jobs: Sequence[int]) -> np.ndarray:
    """Return for each job its rank among the recent jobs, latest first; if it is none, their number + its row."""
    recent: list[int] = []
    ranks = []
    for job in np.cumsum(np.asarray(jobs, np.int64)).tolist():
        try:
            ranks.append(recent.index(job))
            del recent[ranks[-1]]
        except ValueError:
            ranks.append(len(recent) + job)
            del recent[RECENT - 1 :]
        recent.insert(0, job)
    return np.asarray(ranks, np.int64)


def _from_recency(ranks: np.ndarray) -> list[int]:
    """Undo :func:`_recency`."""
    recent: list[int] = []
    jobs = []
    for rank in ranks.tolist():
        if rank < len(recent):
            job = recent.pop(rank)
        else:
            job = rank - len(recent)
            del recent[RECENT - 1 :]
        recent.insert(0, job)
        jobs.append(job)
    return _steps(np.asarray(jobs, np.int64))


def _steps(values: np.ndarray) -> list[int]:
    steps: list[int] = np.diff(values, prepend=0).tolist()
    return steps


_Code = tuple[Callable[[Any], np.ndarray], Callable[[np.ndarray], list[Any]]]  # to the packed values, and back
_PLAIN: Final[_Code] = (lambda values: np.asarray(values, np.int64), lambda values: values.tolist())
_CODES: Final[dict[str, _Code]] = {
    "kinds": (lambda kinds: np.frombuffer(kinds.encode("latin-1"), np.uint8).astype(np.int64), list),
    "jobs": (_recency, _from_recency),
    "gpus": (lambda steps: np.cumsum(np.asarray(steps, np.int64)), _steps),
    "until_s": (
        lambda ends: np.array([np.inf if end is None else end for end in ends], np.float64),
        lambda ends: [None if end == np.inf else end for end in ends.tolist()],
    ),
}
