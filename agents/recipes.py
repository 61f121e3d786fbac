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


RECIPES: Final = {
    "steady-64": Recipe(
        training=TrainingConfig(
            scenario="steady-64-v0",
            teacher="tiresias-g",
            teacher_episodes=6,
            steps=400_000,
            running_window=8,
            rules=("consolidate", "pack", "spread"),
            queue_order="least-attained",
            running_order="most-attained",
            clairvoyant=False,
            workloads=4,
            learning_rate=1e-3,
            horizon=0.5,
            validations=8,
        ),
        environment="gpusched/Steady-v0",
        rivals=("dally", "las-2d:placement=consolidate,round_s=1200", "tiresias-g", "gandiva-lite"),
        summary="small mean JCT of a steady stream of gangs without run times, on racks whose links punish spread",
        intended_use="The first task, and clusters like it: gangs of unknown run times on an oversubscribed leaf-spine "
        "network, such as steady-64-v0; a rival for agents that are trained there.",
        limits="It learned 64 GPUs in 16 machines at load 0.6 only, from Tiresias-G and then from rewards; on other "
        "clusters, measure it first. It needs a topology as the network.",
    ),
    "philly-64": Recipe(
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
