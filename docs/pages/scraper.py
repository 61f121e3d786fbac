"""Pictures of the tutorials that pyplot does not know, for Sphinx-Gallery."""

from __future__ import annotations

from typing import Any

from sphinx_gallery.scrapers import figure_rst


def scrape_figures(block: tuple[str, str, int], variables: dict[str, Any], gallery: dict[str, Any]) -> str:
    """Show the Matplotlib figure that a block assigned to ``figure``, if pyplot does not know it."""
    figure = variables["example_globals"].pop("figure", None)
    if figure is None or getattr(figure, "number", None) is not None:
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=100)
    return figure_rst([path], gallery["src_dir"])
