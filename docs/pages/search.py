"""The texts of all sections, for ``_static/search.js``: a page that is opened from a disk cannot fetch others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    """Write the texts at the end of each build."""
    app.connect("build-finished", _write)


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        texts = {page: list(sections(app.env.get_doctree(page))) for page in sorted(app.env.found_docs)}
        told = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
        (Path(app.outdir) / "_static" / "search_texts.js").write_text(f"const searchTexts = {told};\n", "utf-8")


def sections(page: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Yield the id, title and text of each section, without the sections within."""
    for unseen in [*page.findall(nodes.comment), *page.findall(nodes.raw)]:
        unseen.parent.remove(unseen)
    for section in page.findall(nodes.section):
        title, *parts = (part for part in section.children if not isinstance(part, nodes.section))
        yield section["ids"][0], title.astext(), " ".join(" ".join(part.astext() for part in parts).split())
