"""Pages of the documentation that are written from the code: environments, schedulers, results.

``conf.py`` calls :func:`write_pages` before Sphinx reads the sources. Each module writes one folder.
"""

from __future__ import annotations

from pathlib import Path

from pages import copies, environments, leaderboard, schedulers


def write_pages(docs: Path) -> None:
    """Write every generated page below the folder of the documentation."""
    results = leaderboard.read_results()
    environments.write(docs / "environments")
    schedulers.write(docs / "schedulers", results)
    leaderboard.write(docs / "results", results)
    copies.write(docs)
