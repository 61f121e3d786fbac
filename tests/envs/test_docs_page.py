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


def test_columns_share_a_row_only_where_one_tier_or_number_differs() -> None:
    module = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "columns.py"))
    column = module["Column"]
    columns = (
        column("mean_rack", "mean wait on a rack", "log"),
        column("free_2", "machines with 2 free GPUs", ""),
        column("mean_network", "mean wait on a network", "log"),
        column("most_rack", "longest wait on a rack", "log"),
        column("free_4", "machines with 4 free GPUs", "log"),
    )
    assert module["markdown_rows"](columns)[2:] == [
        "| 0, 2 | `mean_rack`, `mean_network` | mean wait on a rack or network | log |",
        "| 1 | `free_2` | machines with 2 free GPUs |  |",
        "| 3 | `most_rack` | longest wait on a rack | log |",
        "| 4 | `free_4` | machines with 4 free GPUs | log |",
    ]
    assert module["markdown_rows"](columns[1:2])[0] == "| column | meaning |"
