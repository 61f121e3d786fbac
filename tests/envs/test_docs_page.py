"""The tables of observations and actions in the documentation are up to date."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_tables_are_generated_from_the_code() -> None:
    module = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "columns.py"))
    pages = module["pages"]()
    assert len(pages) == 2
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/columns.py"
        assert module["GENERATED"] in text
