"""The page on observations and actions is up to date."""

from __future__ import annotations

from pathlib import Path

from gpusched_env.envs.observation.columns_page import page


def test_the_page_is_generated_from_the_code() -> None:
    written = Path(__file__).parents[2] / "docs" / "observation_and_action.md"
    assert written.read_text(encoding="utf-8") == page(), (
        "run python -m gpusched_env.envs.observation.columns_page (see its docstring)"
    )
