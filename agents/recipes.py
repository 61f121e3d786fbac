"""Tested settings of the training; docs/training.md says how the agents compare with tuned heuristics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpusched_env.agents.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training run, the heuristics that its agent is measured by, and what its card says.

    Attributes
    ----------
    training : the settings
    environment : id of the environment whose choices the agent makes
    rivals : schedulers that it is compared with; the best tuned heuristics with the same information are among them
    summary, intended_use, limits : see :class:`~gpusched_env.agents.cards.Card`
    """

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
    "network-sensitive": Recipe(
        training=TrainingConfig(
            scenario="dally-poisson-v1",
            teacher="srsf:placement=consolidate",
            teacher_episodes=12,
            steps=2_000_000,
            learning_rate=1e-3,
            horizon=0.5,
            workloads=4,
            queue_window=24,
            running_window=12,
            rules=("consolidate", "pack"),
            delays_s=(600.0, 3_600.0),
            lease_s=3_600.0,
            validations=8,
            validation_seeds=12,
        ),
        environment="gpusched/NetworkSensitive-v0",
        rivals=(
            "dally",
            "delay-zaharia",
            "ada-srsf",
            "srsf:placement=consolidate",
            "srtf:placement=consolidate",
        ),
        summary="small mean JCT where gangs contend for uplinks: which job, which placement, how long to wait",
        intended_use="Leaf-spine clusters with oversubscribed uplinks, jobs that arrive one by one and whose run times "
        "are known, such as dally-poisson-v1.",
        limits="It knows run times; the environment hides them by default. It learned 256 GPUs in 32 machines at load "
        "0.9 only; on other clusters, measure it first. It does not play where the network has tiers only.",
    ),
    "ring-all-reduce": Recipe(
        training=TrainingConfig(
            scenario="rar-160-v0",
            teacher="lpt:placement=consolidate,strict=true",
            teacher_episodes=100,
            steps=600_000,
            learning_rate=1e-3,
            horizon=float("inf"),
            batch=256,
            queue_window=12,
            running_window=0,
            rules=("consolidate", "pack", "contention", "least-busy", "least-busy-servers"),
            queue_order="longest",
            reward="makespan",
            validations=6,
            validation_seeds=20,
        ),
        environment="gpusched/RingAllReduce-v0",
        rivals=("sjf-bco", "fifo", "lpt:placement=consolidate,strict=true"),
        summary="small makespan of gangs that all wait at time 0 and contend for ports: which job next, and where",
        intended_use="Batches of ring-all-reduce jobs with known run times, all there at the beginning: rar-160-v0.",
        limits="It knows run times, and minimises the makespan: mean JCTs are large, since long jobs go first. It "
        "never preempts. It learned 300 GPUs in 20 machines only.",
    ),
    "sharing": Recipe(
        training=TrainingConfig(
            scenario="bsbf-sim-240-v1",
            teacher="srsf",
            steps=240_000,
            learning_rate=1e-3,
            horizon=1.0,
            queue_window=12,
            partner_window=4,
            sub_batches=4,
            rules=("pack", "share-best-benefit"),
            validations=4,
            validation_seeds=20,
        ),
        environment="gpusched/Sharing-v0",
        rivals=("sjf-bsbf", "sjf-ffs", "srsf"),
        summary="small mean JCT where jobs may share GPUs: which job starts, which is preempted, who shares",
        intended_use="Clusters whose jobs may share GPUs and may be preempted, with known run times: bsbf-sim-240-v1.",
        limits="It knows run times. Its lead over sjf-bsbf is due to preemption: it could start jobs beside partners, "
        "but does so rarely or never. srsf, which never shares, is better. It learned 64 GPUs in 16 machines only.",
    ),
    "elastic": Recipe(
        training=TrainingConfig(
            scenario="pollux-64-v0",
            teacher="max-min",
            teacher_episodes=4,
            steps=3_000_000,
            learning_rate=1e-3,
            horizon=1.0,
            epochs=2,
            queue_window=8,
            running_window=24,
            rules=("pack",),
            sizes=(1, 2, 4, 8, 16),
            validations=3,
            validation_seeds=10,
        ),
        environment="gpusched/Elastic-v0",
        rivals=("max-min", "afs", "optimus", "tiresias"),
        summary="small mean JCT of elastic jobs: on how many GPUs does each job run, and when does it change",
        intended_use="Elastic jobs whose speeds and run times are known, such as those of pollux-64-v0.",
        limits="It knows run times, and max-min is 7 % better. It names five sizes, resizes a gang at most every 300 s "
        "and sees 24 running jobs. It learned 64 GPUs only.",
    ),
}
