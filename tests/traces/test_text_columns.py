"""Packed columns of text round-trip; repeated ids are found exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing import texts
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.texts import LONGEST, PIECE, Ids, Texts

PLACE = Place("log", 7)
ANY_TEXT = st.text(st.characters(exclude_characters="\0"), max_size=9)  # surrogates too, as JSON may hold them


@settings(max_examples=50)
@given(st.lists(ANY_TEXT, max_size=40), st.integers(0, 3 * PIECE))
def test_texts_round_trip(some: list[str], repeat: int) -> None:
    values = [*some, *(f"x{i}" for i in range(repeat)), *some]
    column = Texts()
    for value in values:
        column.append(PLACE, "user", value)
    assert list(column) == values
    assert [column[i] for i in range(0, len(values), 101)] == values[::101]
    packed = column.pop_array()
    assert packed.tolist() == values
    assert packed.dtype.str == f"<U{max([1, *map(len, values)])}"


def test_a_text_that_a_column_cannot_hold_is_refused() -> None:
    column = Texts()
    column.append(PLACE, "user", "x" * LONGEST)
    with pytest.raises(TraceError, match=r"log, line 7, field 'user': 'x+\.\.\.: .*131,072 characters; shorten it"):
        column.append(PLACE, "user", "x" * 131_072)
    with pytest.raises(TraceError, match=r"log, line 7, field 'user': 'a\\x00': a NUL character; remove it"):
        column.append(PLACE, "user", "a\0")  # NumPy would drop it


@pytest.mark.parametrize("hashed", [hash, lambda text: 0, lambda text: hash(text) % 2])
@given(ids=st.lists(st.sampled_from([f"j{i}" for i in range(60)]), max_size=40))
def test_the_first_repeated_id_is_named_for_any_hashes(hashed: Callable[[str], int], ids: list[str]) -> None:
    repeat = next((row for row, value in enumerate(ids) if value in ids[:row]), None)
    collected = Ids()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "hash", hashed, raising=False)
        for row, value in enumerate(ids):
            collected.append(Place("log", 2 * row + 2), "job_id", value)
    if repeat is None:
        collected.refuse_duplicates()
        return
    first = 2 * ids.index(ids[repeat]) + 2
    with pytest.raises(TraceError) as caught:
        collected.refuse_duplicates()
    assert str(caught.value).startswith(f"log, line {2 * repeat + 2}, field 'job_id': {ids[repeat]!r}: ")
    assert f"twice, first in line {first};" in str(caught.value)
