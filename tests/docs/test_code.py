"""Every code block of README.md and the documentation runs, or says why not.

The blocks of one page run in order, in one process, in an empty folder:

* a ``python`` block shares one namespace with those before it, and one that begins with ``# NAME.py`` is also written
  to that file;
* a ``bash`` block runs with ``bash -e``, on two seeds at most, for no figure of it is compared;
* a block of data after ``<!-- file: NAME -->`` is written to that file;
* a block after ``<!-- not run: REASON -->`` does not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
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


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```" in page.read_text("utf-8")], ids=lambda page: page.name
)
def test_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    (tmp_path / "play.py").write_text(program_of(blocks_of(page.read_text("utf-8"))), encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    scripts = Path(sys.executable).parent  # of the environment that runs the tests: gpusched and python
    environment = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([".", str(ROOT)]),
        "MPLBACKEND": "Agg",
        "COLUMNS": "120",
        "LOKY_MAX_CPU_COUNT": "1",  # the other cores run other tests; starting processes takes longer than these runs
    }
    run = subprocess.run(
        [sys.executable, str(tmp_path / "play.py")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"{page.name}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"


def test_a_failing_block_fails_its_page(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n\n<!-- file: a.txt -->\n```text\nhello\n```\n```bash\ngrep hello a.txt\n```\n"
    for wrong, code in (("", 0), ("```python\nassert x == 2\n```\n", 1), ("```bash\nfalse\ntrue\n```\n", 1)):
        run = subprocess.run(
            [sys.executable, "-c", program_of(blocks_of(page + wrong))], cwd=tmp_path, capture_output=True, check=False
        )
        assert run.returncode == code, wrong
    unmarked = "<!-- not run: it fails -->\n```bash\nfalse\n```\n"
    assert "false" not in program_of(blocks_of(unmarked))
