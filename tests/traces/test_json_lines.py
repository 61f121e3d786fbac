"""Objects of JSON lines are the same whether msgspec or the standard library decodes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing import json_records
from gpusched_env.traces.parsing.json_records import json_objects

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    PLAIN | st.text(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=3), min_size=1, max_size=4)


def objects(path: Path) -> list[Any]:
    return [one for _, one in json_objects(path)]


@settings(max_examples=60)
@given(OBJECTS, st.sampled_from(["\n", "\r\n", " \n\n", " "]), st.booleans(), st.sampled_from([None, 1]))
def test_objects_are_those_of_the_standard_library(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Any], between: str, ascii_only: bool, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("json") / "log"
    texts = (json.dumps(one, ensure_ascii=ascii_only, indent=indent) for one in wanted)
    path.write_bytes(between.join(texts).encode("utf-8", "surrogatepass"))
    found = objects(path)
    assert repr(found) == repr([json.loads(json.dumps(one)) for one in wanted])


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1} {"a": 2}',  # two objects in a line
        '{"kind": "List", "items": [{"a": 1}, {"a": 2}]}',
        '{"a": 1}',
        '{"a": "\\ud800"}',  # msgspec refuses half a pair
        '{"a": 1e400}',
        json.dumps({"a": ["x" * 9] * 9000}),  # longer than a line that is decoded at once
    ],
)
def test_lines_that_msgspec_does_not_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    (tmp_path / "log").write_text(f'{line}\n{{"b": 3}}\n')
    found = objects(tmp_path / "log")
    assert found[-1] == {"b": 3}
    monkeypatch.setattr(json_records, "LONGEST_LINE", 0)
    assert repr(objects(tmp_path / "log")) == repr(found)


@pytest.mark.parametrize("line", ['{"a": NaN}', '{"a": "\x01"}', '{"a": 01}', '{"a": 1', "[" * 100_000])
def test_damaged_lines_are_told_with_the_record_before_them(tmp_path: Path, line: str) -> None:
    (tmp_path / "log").write_text(f'{{"b": 3}}\n{line}\n')
    with pytest.raises(TraceError, match="log, after record 1: the JSON is cut or damaged"):
        objects(tmp_path / "log")
