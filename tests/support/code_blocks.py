"""The code blocks of a page of the documentation, as one program.

python tests/support/code_blocks.py README.md Train      prints the program of the blocks before the heading "Train"
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^( *)(`{3,})(\S*).*$")
REMARK = re.compile(r"^ *<!-- (file|not run): (.+) -->\s*$")
NAMED = re.compile(r"^# (\w+\.py)\b")
SEEDS = re.compile(r"(?<=--seeds )([3-9]|\d\d+)\b")


class Block(NamedTuple):
    """A fenced block: its language, its text, the line of its fence, and the remark before it."""

    language: str
    text: str
    line: int
    remark: str = ""
    value: str = ""


def blocks_of(page: str) -> list[Block]:
    found, lines, at = [], page.splitlines(), 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        indent, ticks, language = opening.groups()
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == ticks)
        remark = REMARK.match(lines[at - 1]) if at else None
        text = "\n".join(line.removeprefix(indent) for line in lines[at + 1 : end])
        found.append(Block(language, text, at + 1, *(remark.groups() if remark else ())))
        at = end + 1
    return found


def program_of(blocks: list[Block]) -> str:
    """A Python program that plays the blocks: each python block keeps its own line numbers in tracebacks."""
    parts = ["import pathlib, subprocess", "own = {'__name__': '__main__'}"]
    for block in blocks:
        if block.remark == "not run":
            continue
        named = NAMED.match(block.text) if block.language == "python" else None
        name = named.group(1) if named else block.value
        if name:
            parts.append(f"pathlib.Path({name!r}).write_text({block.text + chr(10)!r}, encoding='utf-8')")
        elif block.language == "bash":
            parts.append(f"print('line {block.line}', flush=True)")
            parts.append(f"subprocess.run(['bash', '-e', '-c', {SEEDS.sub('2', block.text)!r}], check=True)")
        if block.language == "python":
            parts.append(f"print('line {block.line}', flush=True)")
            parts.append(f"exec(compile({chr(10) * block.line + block.text!r}, 'page', 'exec'), own)")
    return "\n".join(parts)


def before(page: str, heading: str) -> str:
    """The part of a page before a heading of the second level."""
    first, found, _ = page.partition(f"\n## {heading}\n")
    if not found:
        raise ValueError(f"no heading {heading!r}")
    return first


if __name__ == "__main__":
    print(program_of(blocks_of(before(Path(sys.argv[1]).read_text("utf-8"), sys.argv[2]))))
