"""Objects of JSON lines are the same whether msgspec or the standard library decodes them, and those of YAML equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
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


class Dumper(yaml.SafeDumper):
    """Texts in quotes, as kubectl writes those that could be something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
NAMED = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), PLAIN | st.lists(PLAIN))


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries({"spec": NAMED | st.lists(NAMED)}), min_size=1, max_size=4), st.booleans())
def test_objects_of_yaml_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Any], flow: bool
) -> None:
    path = tmp_path_factory.mktemp("yaml") / "log"
    listed = {"apiVersion": "v1", "items": wanted, "kind": "List", "metadata": {"resourceVersion": ""}}
    for documents in ([listed], wanted, [wanted], [{"kind": "List", "items": wanted[:1]}, *wanted[1:], None]):
        text = yaml.dump_all(documents, Dumper=Dumper, default_flow_style=flow, explicit_start=True)
        path.write_text(f"# kubectl\n\n{text}", encoding="utf-8")
        assert objects(path) == wanted


def test_texts_of_kubectl_keep_what_they_are(tmp_path: Path) -> None:
    """Times, versions and quantities are texts; only null, true, false and numbers are something else."""
    text = 'apiVersion: v1\nmetadata:\n  a: 2025-03-03T09:00:00Z\n  b: 500m\n  c: yes\n  d: "8"\n  e: 1.2.3\n'
    text += "  f: 8\n  g: true\n  h: null\n  i:\n  j: 1e3\n  k: |\n    true\n  l: 0x10\n  08: -3\n"
    (tmp_path / "log").write_text(text)
    assert objects(tmp_path / "log")[0]["metadata"] == {
        "a": "2025-03-03T09:00:00Z",
        "b": "500m",
        "c": "yes",
        "d": "8",
        "e": "1.2.3",
        "f": 8,
        "g": True,
        "h": None,
        "i": None,
        "j": 1000.0,
        "k": "true\n",
        "l": "0x10",
        "08": -3,
    }


LAUGHS = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"a: &a lol\n{LAUGHS}", r"the alias \*a, which is not read in line 5"),
        ("a: " + "[" * 100_000, "more than 100 tables and lists inside each other in line 4"),
        ("a: !!python/object/apply:os.system [x]", "the tag tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: [1, 2\nb: c\n", "in line 5"),
        ("? [a]\n: b\n", "a key that is no text in line 4"),
        ("a: " + "xy " * 60, "an object that is too long in line 4"),
        ("a: \x01", "control characters are not allowed"),
        ("a: \xff", "invalid leading UTF-8 octet"),
    ],
)
def test_damaged_yaml_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    if "too long" in words:
        monkeypatch.setattr(json_records, "LONGEST", 100)
    (tmp_path / "log").write_bytes(b"kind: Pod\n---\nkind: Pod\n" + text.encode("latin-1"))
    whole = any(word in words for word in ("alias", "more than", "tag", "key", "too long"))
    told = f"the YAML has {words}.*; write the file" if whole else rf"the YAML is cut or damaged \(.*{words}.*fetch"
    with pytest.raises(TraceError, match=f"log, after record [01]: {told}"):
        objects(tmp_path / "log")
