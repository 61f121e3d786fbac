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
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import blocks_of, program_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


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
