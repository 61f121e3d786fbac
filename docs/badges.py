"""Draw the badges of the README from facts of the project, without a server: ``python docs/badges.py``.

They tell the Python versions and the licence of pyproject.toml, and the version of the package.
"""

from __future__ import annotations

import html
import re
import tomllib
from pathlib import Path

import gpusched_env

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "_static" / "badges"
LETTER = 6.6  # [px] width of a letter of 11 px
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img" aria-label="{name}: {value}">
<title>{name}: {value}</title>
<rect width="{width:.0f}" height="20" rx="3" fill="#4a4f57"/>
<path d="M{left:.0f} 0h{right:.0f}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left:.0f}z" fill="#1f6f9f"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{middle_left:.0f}" y="14">{name}</text><text x="{middle_right:.0f}" y="14">{value}</text></g>
</svg>
"""


def facts() -> dict[str, str]:
    """Return what each badge tells, by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"]]
    versions = sorted((one[1] for one in found if one), key=lambda version: int(version.split(".")[1]))
    return {
        "python": f"{versions[0]} to {versions[-1]}",
        "licence": project["license"],
        "version": gpusched_env.__version__,
    }


def drawn(name: str, value: str) -> str:
    """Return the picture of a badge."""
    left, right = (LETTER * len(text) + 12 for text in (name, value))
    return BADGE.format(
        name=html.escape(name),
        value=html.escape(value),
        width=left + right,
        left=left,
        right=right - 3,
        middle_left=left / 2,
        middle_right=left + right / 2,
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, value in facts().items():
        (FOLDER / f"{name}.svg").write_text(drawn(name, value), encoding="utf-8")
