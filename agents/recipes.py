"""Tested settings of the training; docs/training.md says how the agents compare with tuned heuristics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpusched_env.agents.training import TrainingConfig


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run, and the heuristics that its agent is measured by.

    Attributes
    ----------
    training : the settings
    rivals : best tuned heuristics with the same information, beside the baselines with their default parameters
    """

    training: TrainingConfig
    rivals: tuple[str, ...]


DEFAULT: Final = "philly-64"
RECIPES: Final = {
    DEFAULT: Recipe(
        TrainingConfig(
            scenario="philly-64-v1",
            teacher="srtf:placement=consolidate",
            steps=3_000_000,
            learning_rate=1e-3,
            horizon=0.5,
            validations=10,
            validation_seeds=20,
        ),
        ("srtf:placement=consolidate", "srsf:placement=consolidate"),
    ),
}
