"""Links between the Markdown files of the repository, and to its other files, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# The documentation's build writes these, from the code.
WRITTEN = re.compile(
    r"docs/(api|environments|examples|results|schedulers|tutorials)/|docs/(changelog|contributing|security)\.md$"
)


HTML_LINK = re.compile(r'\b(?:href|src|srcset)="([^"]+)"')


def links_of(page: Path) -> list[str]:
    blocks = MarkdownIt().parse(page.read_text("utf-8"))
    tokens = [*blocks, *(child for block in blocks for child in block.children or ())]
    found = [token.attrGet("href") or token.attrGet("src") for token in tokens]
    html = (token.content for token in tokens if token.type in ("html_block", "html_inline"))
    return [str(link) for link in [*found, *(link for text in html for link in HTML_LINK.findall(text))] if link]


def anchors_of(page: Path) -> set[str]:
    """Anchors as a repository browser makes them: lower case, no punctuation, a dash for each space."""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    titles = [
        "".join(child.content for child in tokens[at + 1].children or ())
        for at, token in enumerate(tokens)
        if token.type == "heading_open"
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    wrong = []
    for link in links_of(page):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        inside = target.relative_to(ROOT).as_posix()
        if WRITTEN.match(inside):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`\n[a](#one-two) [b](#three) [c](other.md) ![d](page.md) [e](https://example.org)\n\n"
        '<picture><source srcset="dark.gif"><img src="page.md"></picture>\n',
        "utf-8",
    )
    assert broken(page) == ["#three", "other.md", "dark.gif"]
