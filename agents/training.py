"""Training by MaskablePPO on a scenario's training seeds; validation seeds choose the best checkpoint."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule, set_random_seed

import gpusched_env
from gpusched_env.agents.learned import CONFIG_FILE, MODEL_FILE, LearnedScheduler
from gpusched_env.agents.policy import SlotPolicy
from gpusched_env.errors import GpuschedError
from gpusched_env.files import write_whole
from gpusched_env.integrations.stable_baselines3 import ClusterVecEnv
from gpusched_env.metrics import summarise
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import simulate

Progress = Callable[[int, int, str], None]
LEARNING_FILE: Final = "learning.csv"
LEARNING_HEADER: Final = "steps,validation_mean_jct_s,kept"


@dataclass
class TrainingConfig:
    """Settings of a training run."""

    scenario: str = "philly-64-v1"
    """Name of a scenario, or path of a JSON or TOML file."""
    steps: int = 100_000
    """Total number of environment steps."""
    seed: int = 0
    """Seed of the network, the exploration and the order of training seeds."""
    environments: int = 8
    """Number of environments stepped in parallel."""
    queue_window: int = 16
    """Number of waiting jobs that the agent sees."""
    running_window: int = 4
    """Number of running jobs that the agent sees and may preempt; 0 = it never preempts."""
    queue_order: str = "shortest"
    """Order of the waiting jobs; the first ones are seen."""
    running_order: str = "longest"
    """Order of the running jobs; the first ones are seen."""
    least_run_s: float | None = None
    """Seconds for which a gang must have held its GPUs before a preemption; None = ten times the cost of one."""
    rules: tuple[str, ...] = ("pack",)
    """Placement rules that the agent can choose."""
    reward: str = "slowdown"
    """Reward component (see docs/observation_and_action.md)."""
    rollout: int = 512
    """Steps per environment between two updates."""
    batch: int = 1024
    """Steps per minibatch."""
    epochs: int = 4
    """Passes over a rollout."""
    learning_rate: float = 5e-4
    """Initial learning rate of Adam; it decreases linearly to 0."""
    discount: float = 1.0
    """Discount per step. Below 1 an agent gains by taking more steps, since decisions take no simulated time."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    validations: int = 3
    """Number of checkpoints compared on the validation seeds; the best one is kept."""
    validation_seeds: int = 5
    """Number of validation seeds played per checkpoint."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in (
            "steps",
            "environments",
            "queue_window",
            "rollout",
            "batch",
            "epochs",
            "validations",
            "validation_seeds",
        ):
            if getattr(self, name) < 1:
                raise GpuschedError(f"training: {name} is {getattr(self, name)}: it must be at least 1")

    @property
    def windows(self) -> dict[str, Any]:
        """Keyword arguments of the environment on which the agent depends."""
        names = ("queue_window", "running_window", "queue_order", "running_order", "least_run_s", "rules")
        return {name: getattr(self, name) for name in names}


def make_environments(config: TrainingConfig, scenario: Scenario) -> ClusterVecEnv:
    """Make the training environments; each draws training seeds from its own random stream."""
    batch = gym.make_vec(
        "gpusched_env:gpusched/Cluster-v0",
        num_envs=config.environments,
        scenario=scenario,
        reward=config.reward,
        autoreset_mode="SameStep",
        **config.windows,
    )
    environments = ClusterVecEnv(batch)
    # A seed is a workload: begin anywhere in the training range; later resets draw from the whole range.
    first, end = scenario.seeds.train
    environments.seed(int(np.random.default_rng(config.seed).integers(first, end - config.environments + 1)))
    return environments


def train(config: TrainingConfig, output: Path, progress: Progress | None = None) -> Path:
    """Train an agent, save ``model.zip``, ``config.json`` and ``learning.csv``; return the model's path.

    The files are written atomically at the first validation and replaced when a later checkpoint is better. An
    interrupted call thus leaves the best checkpoint so far, or the files that were there before.

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
    for kind, wanted in (("train", config.environments), ("validation", config.validation_seeds)):
        first, end = getattr(scenario.seeds, kind)
        if end - first < wanted:
            raise GpuschedError(
                f"training: {wanted} {kind} seeds are needed, but scenario {scenario.name} has {end - first}"
            )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpuschedError(f"{output}: cannot be made ({error.strerror or error}); name another folder") from error
    torch.set_num_threads(1)  # the network is so small that a second thread makes it slower
    set_random_seed(config.seed)
    environments = make_environments(config, scenario)
    model = MaskablePPO(
        SlotPolicy,
        environments,
        learning_rate=LinearSchedule(config.learning_rate, 0.0, 1.0),
        n_steps=config.rollout,
        batch_size=config.batch,
        n_epochs=config.epochs,
        gamma=config.discount,
        gae_lambda=config.gae_lambda,
        ent_coef=config.entropy,
        policy_kwargs={"rules": len(config.rules), "waits": 1},
        device="cpu",
    )
    record = {
        "training": dataclasses.asdict(config),
        "scenario": scenario.as_dict(),
        "scenario_fingerprint": scenario.fingerprint(),
        "version": gpusched_env.__version__,
    }
    validation = _Validation(config, scenario, output, record, progress)
    try:
        model.learn(config.steps, callback=validation)
        validation.check()
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(validation.kept()) from stop
    finally:
        environments.close()
    return output / MODEL_FILE


class _Validation(BaseCallback):
    """Report progress; play the validation seeds at regular intervals and keep the best model."""

    def __init__(
        self,
        config: TrainingConfig,
        scenario: Scenario,
        output: Path,
        record: dict[str, Any],
        progress: Progress | None,
    ) -> None:
        super().__init__()
        self.config, self.scenario, self.output, self.progress = config, scenario, output, progress
        self.record = json.dumps(record, indent=2)
        self.best, self.best_steps = np.inf, 0
        self.lines: list[str] = []
        self.said = ""
        self.due = config.steps / config.validations
        first = scenario.seeds.validation[0]
        self.instances = [scenario.instance(first + i) for i in range(config.validation_seeds)]

    def _on_step(self) -> bool:
        if self.progress is not None and self.n_calls % 32 == 0:
            self.progress(min(self.num_timesteps, self.config.steps), self.config.steps, self.said)
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self.due:
            self.due += self.config.steps / self.config.validations
            self.check()

    def check(self) -> None:
        """Play the validation seeds; keep the model if it is the best so far."""
        mean = self._keep_if_best()
        self.said = f"validation mean JCT {mean / 3600:.2f} h"
        if self.progress is not None:
            self.progress(min(self.num_timesteps, self.config.steps), self.config.steps, self.said)

    def _keep_if_best(self) -> float:
        """Save a candidate, play it, and keep it if it is the best so far; return its mean JCT [s]."""
        candidate, config = (self.output / f"candidate-{name}" for name in (MODEL_FILE, CONFIG_FILE))
        try:
            write_whole(config, self.record)
            self.model.save(candidate)
            agent = LearnedScheduler(str(candidate), config=str(config))
            window = self.scenario.tracked_window
            results = [summarise(instance, simulate(instance, agent), window=window) for instance in self.instances]
            mean = float(np.mean([result["mean_jct_s"] for result in results]))
            kept = mean < self.best
            self.lines.append(f"{self.num_timesteps},{mean:.3f},{int(kept)}")
            if kept:
                config.replace(self.output / CONFIG_FILE)
                candidate.replace(self.output / MODEL_FILE)
                self.best, self.best_steps = mean, self.num_timesteps
            write_whole(self.output / LEARNING_FILE, "\n".join([LEARNING_HEADER, *self.lines]) + "\n")
        finally:
            for path in (candidate, config):
                path.unlink(missing_ok=True)
        return mean

    def kept(self) -> str:
        """Describe what an interrupted call has left in the folder."""
        if not self.best_steps:
            first = round(self.config.steps / self.config.validations)
            return f"no checkpoint was validated yet, so nothing was written (the first is due at step {first:,})"
        found = f"of step {self.best_steps:,}, validation mean JCT {self.best / 3600:.2f} h"
        return f"{self.output / MODEL_FILE} is the best checkpoint so far, {found}"
