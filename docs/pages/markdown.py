"""Markdown from docstrings, tables, and files that are written only if their text is new."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from numpydoc.docscrape import NumpyDocString

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")
_LITERAL = re.compile(r"(?<!`)``([^`]+)``(?!`)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; a ``|`` within a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def text_of(lines: Sequence[str] | str) -> str:
    """Turn the reStructuredText of a docstring into Markdown: literals and roles become code."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    return _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", inspect.cleandoc(text)))


def parameters(cls: type) -> dict[str, str]:
    """Give the meaning of each parameter of a class, by name; those of its bases come last."""
    meanings: dict[str, str] = {}
    for base in cls.__mro__:
        if base.__dict__.get("__doc__"):
            for item in NumpyDocString(inspect.cleandoc(base.__dict__["__doc__"]))["Parameters"]:
                for name in item.name.split(","):
                    meanings.setdefault(name.strip().rstrip("_"), text_of(" ".join([item.type, *item.desc])))
    return meanings


def write(path: Path, text: str) -> None:
    """Write a page, unless the file has that text: Sphinx reads only what has changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
