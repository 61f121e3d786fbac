"""Objects of YAML, as ``kubectl get -o yaml`` prints them: of Lists, of lists and of streams of documents."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, cast

import msgspec
import yaml

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its events are used: it builds no objects
DEEPEST: Final = 100  # tables and lists inside each other
# How a file of objects begins, after blank lines and comments; JSON begins with a bracket
_BEGINNING: Final = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:---|%YAML|- |(?:apiVersion|items|kind|metadata|spec|status):(?:\s|$))"
)
_BEFORE_ITEMS: Final = frozenset({"apiVersion", "kind", "metadata"})


class YamlError(ValueError):
    """YAML that is damaged, or not read."""


class ForeignYamlError(YamlError):
    """YAML that is whole, and that Kubernetes does not write."""


def is_yaml(stream: BinaryIO) -> bool:
    """Whether a stream that can be peeked begins as YAML with objects of Kubernetes."""
    return _BEGINNING.match(cast(io.BufferedReader, stream).peek(512)) is not None


def yaml_objects(stream: BinaryIO, longest: int) -> Iterator[Any]:
    """Yield the value of every object, one at a time; ``longest`` : characters of one that is not damaged [character].

    Aliases are refused, because a few lines of them can stand for more values than memory holds. Times stay texts.
    """
    events = yaml.parse(stream, Loader=LOADER)
    try:
        for event in events:
            if isinstance(event, yaml.MappingStartEvent):
                yield from _document(events, longest)
            elif isinstance(event, yaml.NodeEvent):
                yield from _elements(event, events, longest)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" in line {mark.line + 1}"
        raise YamlError(f"{getattr(error, 'problem', None) or getattr(error, 'reason', error)}{line}") from error


def _document(events: Iterator[Any], longest: int) -> Iterator[Any]:
    """Yield the items of a List, or another table."""
    value: dict[str, Any] = {}
    listed = False
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        name, event = _value(key, events, key.start_mark.index + longest, key=True), next(events)
        if name == "items" and value.keys() <= _BEFORE_ITEMS and isinstance(event, yaml.SequenceStartEvent):
            listed = True
            yield from _elements(event, events, longest)
        else:
            value[name] = _value(event, events, key.start_mark.index + longest)
    if not listed:
        yield value


def _elements(event: Any, events: Iterator[Any], longest: int) -> Iterator[Any]:
    """Yield the elements of a list; of a document that is a text, this text, unless it is empty."""
    if not isinstance(event, yaml.SequenceStartEvent):
        value = _value(event, events, longest)
        yield from () if value is None else (value,)
        return
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        yield _value(event, events, event.start_mark.index + longest)


def _value(event: Any, events: Iterator[Any], end: int, depth: int = 0, key: bool = False) -> Any:
    """Return the value, or the key, that an event begins, which may not go beyond ``end`` [character]."""
    scalar = isinstance(event, yaml.ScalarEvent)
    refused = (
        "an object that is too long" if event.end_mark.index > end
        else f"more than {DEEPEST} tables and lists inside each other" if depth > DEEPEST
        else f"the alias *{event.anchor}, which is not read" if isinstance(event, yaml.AliasEvent)
        else f"the tag {event.tag}, which is not read" if event.tag is not None
        else "a key that is no text" if key and not scalar else ""
    )  # fmt: skip
    if refused:
        raise ForeignYamlError(f"{refused} in line {event.start_mark.line + 1}")
    if scalar:
        return _plain(event.value) if event.implicit[0] and not key else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        several = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            several.append(_value(event, events, end, depth + 1))
        return several
    told: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        name = _value(event, events, end, depth, key=True)
        told[name] = _value(next(events), events, end, depth + 1)
    return told


def _plain(text: str) -> Any:
    """Return the value of a text without quotes: null, a truth value or a number as in JSON, or itself."""
    try:
        return msgspec.json.decode(text) if text not in ("", "~") else None
    except msgspec.DecodeError:
        return text
