"""Training of an agent on a scenario's training seeds; validation seeds choose the best checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

import gpusched_env
from gpusched_env.agents import maskable_ppo, ppo
from gpusched_env.agents.learned import windows_of
from gpusched_env.agents.validation import METRIC_OF, Progress, Validation
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.encoder import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.scenarios import get_scenario


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Windows):
    """Settings of a training run: the windows of the agent, and how it is trained.

    Raises
    ------
    GpuschedError : an unknown name or impossible value
    """

    scenario: str = "philly-64-v1"
    """Name of a scenario, or path of a JSON or TOML file."""
    learner: Literal["ppo", "stable-baselines3"] = "ppo"
    """Learning algorithm: our PPO (agents/ppo.py), or MaskablePPO of sb3-contrib with a value network."""
    steps: int = 600_000
    """Total number of environment steps."""
    seed: int = 0
    """Seed of the network, the exploration and the order of training seeds."""
    queue_window: int = 16
    running_window: int = 4
    rules: Sequence[str] = ("consolidate",)
    queue_order: str = "shortest"
    running_order: str = "longest"
    reward: str = "jct"
    """Reward component (see docs/observation_and_action.md)."""
    workloads: int = 8
    """Number of workloads per update."""
    copies: int = 4
    """Number of episodes of each workload per update, which are compared with each other."""
    horizon: float = 2.0
    """Time after which the effect of an action counts 1/e, in mean ideal run times of the jobs; inf = no discount."""
    batch: int = 1024
    """Steps per minibatch."""
    epochs: int = 3
    """Passes over the steps of an update."""
    learning_rate: float = 3e-3
    """Initial learning rate of Adam; it decreases linearly to 0."""
    clip: float = 0.2
    """Relative change of a probability from which PPO's objective is flat."""
    target_kl: float = 0.03
    """KL divergence from the policy that played at which an update ends."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    validations: int = 8
    """Number of checkpoints compared on the validation seeds; the best one is kept."""
    validation_seeds: int = 16
    """Number of validation seeds played per checkpoint."""

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        least = dict.fromkeys(("steps", "workloads", "batch", "epochs", "validations", "validation_seeds"), 1)
        for name, smallest in (least | {"copies": 2}).items():
            if getattr(self, name) < smallest:
                raise GpuschedError(f"training: {name} is {getattr(self, name)}: it must be at least {smallest}")
        if not self.horizon > 0:
            raise GpuschedError(f"training: horizon is {self.horizon}: give a number > 0, or inf for no discount")

    @property
    def windows(self) -> Windows:
        """What the agent sees and may do."""
        return windows_of(vars(self))

    @property
    def metric(self) -> str:
        """The metric by which checkpoints are chosen."""
        return METRIC_OF.get(self.reward, "mean_jct_s")


def train(config: TrainingConfig, output: Path, progress: Progress | None = None) -> Path:
    """Train an agent, save it in ``output``, and return the path of its model.

    The model is ``model.npz``; that of MaskablePPO is ``model.zip``. The other files are ``initial.npz`` (the network
    before training), ``config.json`` and ``learning.csv``, which begins with the initial network; that one is never
    kept as the model. All are written atomically when the first checkpoint has been validated, and replaced when a
    later checkpoint is better. An interrupted call thus leaves the best checkpoint so far, or the files that were there
    before.

    Parameters
    ----------
    output : folder of the files
    progress : called repeatedly with (steps done, total steps, latest result as text)

    Raises
    ------
    GpuschedError : the scenario has too few seeds, or the folder cannot be written
    KeyboardInterrupt : Ctrl-C; its text tells what was kept
    """
    scenario = get_scenario(config.scenario)
    for kind, wanted in (("train", config.workloads), ("validation", config.validation_seeds)):
        first, end = getattr(scenario.seeds, kind)
        if end - first < wanted:
            raise GpuschedError(
                f"training: {wanted} {kind} seeds are needed, but scenario {scenario.name} has {end - first}"
            )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpuschedError(f"{output}: cannot be made ({error.strerror or error}); name another folder") from error
    record = {
        "training": dataclasses.asdict(config),
        "scenario": scenario.as_dict(),
        "scenario_fingerprint": scenario.fingerprint(),
        "version": gpusched_env.__version__,
    }
    torch.set_num_threads(1)  # the network is so small that a second thread makes it slower
    torch.manual_seed(config.seed)
    ours = config.learner == "ppo"
    validation = Validation(config, scenario, output, ".npz" if ours else ".zip", record, progress)
    try:
        if ours:
            environment = ClusterEnv(scenario, reward=config.reward, **dataclasses.asdict(config.windows))
            ppo.learn(config, environment, validation)
        else:
            maskable_ppo.learn(config, scenario, validation)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(validation.kept()) from stop
    return validation.model_file
