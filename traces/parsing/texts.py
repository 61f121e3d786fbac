"""Columns of text that take little memory.

As Python strings, a million ids would take more memory than all other columns of a trace.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from gpusched_env.traces.parsing.fields import Place

PIECE: Final = 1 << 10  # number of texts packed into one piece
LONGEST: Final = 256  # [characters] longest text; in a NumPy array, every row takes the memory of the longest text


def check_text(place: Place, field: str, text: str) -> None:
    """Refuse a text that is longer than LONGEST or has a NUL character."""
    if len(text) > LONGEST:
        remedy = f"a text of {len(text):,} characters; shorten it to {LONGEST} or fewer"
        place.refuse(field, text, remedy, f"a text of more than {LONGEST} characters")
    if "\0" in text:
        place.refuse(field, text, "a NUL character; remove it, or fetch the file again")


class Texts:
    """A column of texts; PIECE texts at a time are packed into UTF-8 bytes with a NUL between two texts."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.recent: list[str] = []
        self.longest = 1

    def append(self, place: Place, field: str, text: str) -> None:
        """Check a text with :func:`check_text`, and add it."""
        if len(text) > LONGEST or "\0" in text:
            check_text(place, field, text)
        self.recent.append(text)
        if len(self.recent) == PIECE:
            self._pack()

    def extend(self, texts: Sequence[str]) -> None:
        """Add up to PIECE texts that :func:`check_text` has accepted to a column that is filled by this method only."""
        self.recent.extend(texts)
        if len(self.recent) == PIECE:
            self._pack()

    def __getitem__(self, row: int) -> str:
        """Return the text of a row."""
        piece, i = divmod(row, PIECE)
        return (self.recent if piece == len(self.pieces) else _unpacked(self.pieces[piece]))[i]

    def __iter__(self) -> Iterator[str]:
        """Yield all texts."""
        for piece in self.pieces:
            yield from _unpacked(piece)
        yield from self.recent

    def pop_array(self) -> np.ndarray:
        """Return all texts as an array, str [J], and free the packed pieces."""
        end = PIECE * len(self.pieces) + len(self.recent)
        if self.recent:
            self._pack()
        values = np.empty(end, f"<U{self.longest}")
        while self.pieces:
            texts = _unpacked(self.pieces.pop())
            values[end - len(texts) : end] = texts
            end -= len(texts)
        return values

    def _pack(self) -> None:
        self.longest = max(self.longest, *map(len, self.recent))
        self.pieces.append("\0".join(self.recent).encode("utf-8", "surrogatepass"))
        self.recent.clear()


def _unpacked(piece: bytes) -> list[str]:
    return piece.decode("utf-8", "surrogatepass").split("\0")


class Ids:
    """The ids of all rows, whether kept or dropped, and the places of these rows."""

    def __init__(self) -> None:
        self.texts = Texts()
        self.hashes = array("q")
        self.numbers = array("q")

    def append(self, place: Place, field: str, text: str) -> None:
        """Add an id."""
        self.texts.append(place, field, text)
        self.hashes.append(hash(text))
        self.numbers.append(place.number)
        self.last = place, field

    def repeated(self) -> Iterator[tuple[str, int, int]]:
        """Yield each id that an earlier row has, its place, and the first; only ids of equal hash are compared."""
        hashes = np.array(self.hashes, np.int64)
        ordered = np.sort(hashes)
        shared = ordered[1:][ordered[1:] == ordered[:-1]]
        first: dict[str, int] = {}
        for row in np.flatnonzero(np.isin(hashes, shared)).tolist() if len(shared) else []:
            text, number = self.texts[row], self.numbers[row]
            if text in first:
                yield text, number, first[text]
            first.setdefault(text, number)

    def refuse_duplicates(self) -> None:
        """Refuse the first id that an earlier row has."""
        for text, number, first in self.repeated():
            place = msgspec.structs.replace(self.last[0], number=number)
            remedy = f"this id occurs twice, first in {place.unit} {first}; remove one of the two"
            place.refuse(self.last[1], text, remedy)
