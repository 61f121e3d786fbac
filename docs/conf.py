"""The documentation site: ``sphinx-build -W docs site`` builds it. It works from disk, without the network."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import gpusched_env  # noqa: E402

project = "gpusched-env"
author = "gpusched-env developers"
project_copyright = author
version = release = gpusched_env.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "pages.search",
]
exclude_patterns = ["pages", "_templates"]

html_theme = "furo"
html_title = f"gpusched-env {version}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4  # links to sections work as they do in a repository browser

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures show them
autodoc_default_options = {"members": True, "show-inheritance": True}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "image_scrapers": ("matplotlib", "pages.scraper.scrape_figures"),
    "examples_dirs": ["../examples/tutorials", "../examples/short"],
    "gallery_dirs": ["tutorials", "examples"],
    "filename_pattern": r"\.py$",  # all are executed
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "plot_gallery": True,
    "capture_repr": (),
    "default_thumb_file": str(DOCS / "_static" / "thumbnail.png"),
    "remove_config_comments": True,
}


def setup(app: Sphinx) -> None:
    """Write the generated pages before Sphinx looks for sources, and turn links to the root into links of the site."""
    from pages import copies, write_pages

    write_pages(DOCS)

    def turn_links(app: Sphinx, name: str, content: list[str]) -> None:
        content[0] = copies.on_site(content[0])

    app.connect("source-read", turn_links)
