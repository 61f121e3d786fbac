"""The search of the site, also from a disk: summaries, the right section first, nothing on the console."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser import browser, complaints, show, wait

pytest.importorskip("furo", reason="needs the extra docs")
pytest.importorskip("myst_parser", reason="needs the extra docs")
DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("operators", "twin", "network", "partitions", "scenarios")
CONF = f"""
import sys
sys.path.insert(0, {str(DOCS)!r})
project, html_theme = "few pages", "furo"
extensions = ["myst_parser", "pages.search"]
templates_path, html_static_path = [{str(DOCS / "_templates")!r}], ["_static"]
myst_heading_anchors = 4
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few pages of the documentation, which need no run of examples."""
    source = tmp_path_factory.mktemp("docs")
    (source / "conf.py").write_text(CONF, "utf-8")
    (source / "_static").mkdir()
    shutil.copy(DOCS / "_static" / "search.js", source / "_static")
    (source / "index.md").write_text(
        "# Few\nThese are a few pages.\n```{toctree}\n" + "\n".join(PAGES) + "\n```\n% unseen words\n", "utf-8"
    )
    for page in PAGES:
        shutil.copy(DOCS / f"{page}.md", source)
    built = [sys.executable, "-m", "sphinx", "-q", str(source), str(source / "site")]
    subprocess.run(built, check=True, capture_output=True, timeout=300)
    return source / "site"


def test_the_search_has_the_texts_of_all_sections(site: Path) -> None:
    told = (site / "_static" / "search_texts.js").read_text("utf-8")
    texts = json.loads(told.removeprefix("const searchTexts = ").removesuffix(";\n"))
    assert set(texts) == {"index", *PAGES}
    for page in PAGES:
        source = (DOCS / f"{page}.md").read_text("utf-8")
        assert len(texts[page]) >= source.count("\n## ")
        shown = (site / f"{page}.html").read_text("utf-8")
        assert all(f'id="{anchor}"' in shown for anchor, _, _ in texts[page])
    assert "unseen words" not in told
    scripts = (site / "search.html").read_text("utf-8")
    assert scripts.index("searchtools.js") < scripts.index("search_texts.js") < scripts.index("_static/search.js")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what if add nodes", "operators.html#what-if-you-add-nodes-or-change-the-policy"),
        ("preemption costs", "scenarios.html#what-a-preemption-costs"),
    ],
)
def test_the_best_section_comes_first_with_a_summary(site: Path, query: str, first: str) -> None:
    with browser() as driver:
        show(driver, f"{(site / 'search.html').as_uri()}?q={query.replace(' ', '+')}", 1280)
        wait(driver, "return document.querySelector('#search-results h2')?.innerText === 'Search Results'")
        wait(
            driver, "return [...document.querySelectorAll('ul.search li')].every((li) => li.querySelector('.context'))"
        )
        found: list[Any] = driver.execute_script(
            "return [...document.querySelectorAll('ul.search li')].map((li) =>"
            " [li.querySelector('a').getAttribute('href'), li.querySelector('.context').innerText])"
        )
        assert found[0][0] == first
        assert all(len(summary) > 20 for _, summary in found), found
        assert complaints(driver) == []
