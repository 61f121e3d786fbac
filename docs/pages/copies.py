"""Pages of the repository's root that the site shows too: their links are turned to the pages of the site."""

from __future__ import annotations

from pathlib import Path

from pages.markdown import write as write_page

# The name on the site, by the name in the root.
COPIES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}


def write(docs: Path) -> None:
    """Copy each page, with its links as they are on the site."""
    for source, target in COPIES.items():
        write_page(docs / target, on_site((docs.parent / source).read_text(encoding="utf-8")))


def on_site(page: str) -> str:
    """Turn links to the folder ``docs/``, and to pages of the root, into links between pages of the site."""
    page = page.replace("](docs/", "](")
    for source, target in COPIES.items():
        page = page.replace(f"](../{source}", f"]({target}").replace(f"]({source}", f"]({target}")
    return page
