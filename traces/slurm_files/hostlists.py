"""Lists of names as Slurm writes them: ``g[01-04,07],r[1-2]n[01-02]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Final

from gpusched_env.traces.parsing.fields import Place

MOST_NAMES: Final = 1_000_000  # largest number of names in one list; a larger one is a typing error or a damaged file
_PART: Final = re.compile(r"[^\[\]]+|\[[^\[\]]*\]")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


def names_in(place: Place, field: str, text: str) -> tuple[str, ...]:
    """Return the names of a list, in its order; empty if the text is empty.

    A range keeps the leading zeros of its first number: ``g[08-11]`` is g08, g09, g10, g11. Several brackets are a
    product, whose last bracket varies fastest.
    """
    found = _names_in(text)
    if isinstance(found, str):
        place.refuse(field, text, f"{found}; expected a list such as g[01-04,07],h1; correct it")
    return found


@lru_cache(1 << 12)
def _names_in(text: str) -> tuple[str, ...] | str:
    """Return the names, or what is wrong with the text."""
    if not text:
        return ()
    names: list[str] = []
    for word in _words(text):
        parts = _PART.findall(word)
        if not word or "".join(parts) != word:
            return "a name is empty" if not word else "brackets do not match"
        choices: list[list[str]] = []
        count = 1
        for part in parts:
            found = _numbers(part[1:-1]) if part.startswith("[") else [part]
            if isinstance(found, str):
                return found
            choices.append(found)
            count *= len(found)
        if len(names) + count > MOST_NAMES:
            return f"more than {MOST_NAMES:,} names"
        names += map("".join, product(*choices))
    return tuple(names)


def _words(text: str) -> Iterator[str]:
    """Split a text at the commas that are outside of brackets."""
    depth = begin = 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[begin:i].strip()
            begin = i + 1
    yield text[begin:].strip()


def _numbers(text: str) -> list[str] | str:
    """Return the numbers of one bracket as texts, or what is wrong with it."""
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            return f"{part.strip()[:20]!r} is no range of numbers"
        first, last = found[1], found[2] or found[1]
        begin, end = int(first), int(last)
        if end < begin:
            return f"the range {first}-{last} falls"
        if len(numbers) + end - begin >= MOST_NAMES:
            return f"more than {MOST_NAMES:,} names"
        numbers += [str(number).zfill(len(first)) for number in range(begin, end + 1)]
    return numbers
