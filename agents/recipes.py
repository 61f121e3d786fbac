"""Tested settings of the training, which ``recipes.toml`` lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.agents.training import TrainingConfig
from gpusched_env.support.files import toml_beside


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training run, what its agent is measured by (the best tuned heuristics), and what its card says."""

    training: TrainingConfig
    environment: str
    rivals: tuple[str, ...]
    summary: str
    intended_use: str
    limits: str


def _recipe(training: dict[str, Any], rivals: list[str], **told: str) -> Recipe:
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in training.items()
    }
    return Recipe(training=TrainingConfig(**settings), rivals=tuple(rivals), **told)


RECIPES: Final = {name: _recipe(**entry) for name, entry in toml_beside(__file__).items()}
