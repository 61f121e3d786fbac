"""Tested settings of the training; docs/training.md says how the agents compare with tuned heuristics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpusched_env.agents.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training run, what its agent is measured by (the best tuned heuristics), and what its card says."""

    training: TrainingConfig
    environment: str
    rivals: tuple[str, ...]
    summary: str
    intended_use: str
    limits: str


DEFAULT: Final = "philly-64"
RECIPES: Final = {
    DEFAULT: Recipe(
        training=TrainingConfig(
            scenario="philly-64-v1",
            teacher="srtf:placement=consolidate",
            steps=3_000_000,
            learning_rate=1e-3,
            horizon=0.5,
            validations=10,
            validation_seeds=20,
        ),
        environment="gpusched/Cluster-v0",
        rivals=("srtf:placement=consolidate", "srsf:placement=consolidate", "dally", "delay-zaharia", "ada-srsf"),
        summary="small mean JCT on a bursty cluster: which job starts, which is preempted, when to wait",
        intended_use="Clusters whose network is priced by tiers and whose jobs' run times are known, such as "
        "philly-64-v1; a strong rival for new schedulers there.",
        limits="It knows run times. It places gangs by one rule, consolidate. It learned 64 GPUs in 8 machines at "
        "load 1.2 only; on other clusters, measure it first. It does not play where the network is a topology.",
    ),
}
