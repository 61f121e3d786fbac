"""Read nested JSON objects as rows, which hold the keys that lead to a leaf and then the values of the leaf."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place


def json_rows(path: Path, root: str, levels: int, width: int) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the texts of every leaf, in the order of the file: ``levels`` keys and ``width`` values.

    A leaf is a number, a text, or a list of numbers and texts. A list with fewer than ``width`` values is padded with
    empty texts. The places count leaves from 1.

    ``root`` is the key of the object that holds the rows; "" = the whole file.
    """
    for number, (keys, leaf) in enumerate(_leaves(path, _object(path, root), (), levels), 1):
        values = leaf if isinstance(leaf, list) else [leaf]
        if len(values) > width or not all(isinstance(value, str) for value in values):
            raise TraceError(
                f"{path}, record {number}, field {_shown(keys)}: expected up to {width} numbers or texts; "
                "correct or remove it"
            )
        yield Place(str(path), number, "record"), [*keys, *values, *[""] * (width - len(values))]


def _object(path: Path, root: str) -> Any:
    """Parse the file; numbers stay texts to keep all digits, and objects become tuples of pairs to keep equal keys."""
    with open_trace(path) as stream:
        try:
            data = json.load(stream, object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=str)
        except TraceError:
            raise
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}: not JSON ({error}); fetch the file again") from error
    if not root:
        return data
    found = [value for key, value in _pairs(path, data, ()) if key == root]
    if len(found) != 1:
        raise TraceError(f"{path}: the field {root!r} occurs {len(found)} times, not once; is this the right file?")
    return found[0]


def _leaves(path: Path, data: Any, keys: tuple[str, ...], levels: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not levels:
        yield keys, data
        return
    for key, value in _pairs(path, data, keys):
        yield from _leaves(path, value, (*keys, key), levels - 1)


def _pairs(path: Path, data: Any, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    if not isinstance(data, tuple):
        raise TraceError(f"{path}, field {_shown(keys)}: expected an object with keys; is this the right file?")
    return data


def _shown(keys: tuple[str, ...]) -> str:
    return " > ".join(map(repr, keys))[:200] or "(the whole file)"
