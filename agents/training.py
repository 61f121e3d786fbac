"""The recipe: MaskablePPO on a scenario's training seeds, the best of its checkpoints by the validation seeds."""

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
    """What to train, on what, and for how long."""

    scenario: str = "philly-64-v1"
    """Name of a scenario, or path of a JSON or TOML file."""
    steps: int = 100_000
    """Environment steps in all."""
    seed: int = 0
    """Seed of the network, the exploration and the order of training seeds."""
    environments: int = 8
    """Environments stepped side by side."""
    queue_window: int = 16
    """Waiting jobs that the agent sees."""
    running_window: int = 4
    """Running jobs that the agent sees and may preempt; 0 = it never preempts."""
    queue_order: str = "shortest"
    """Which waiting jobs it sees first."""
    running_order: str = "longest"
    """Which running jobs it sees first."""
    rules: tuple[str, ...] = ("pack",)
    """Placement rules to choose from."""
    reward: str = "slowdown"
    """Reward component (see docs/observation_and_action.md)."""
    rollout: int = 512
    """Steps of each environment between two updates."""
    batch: int = 1024
    """Steps in a minibatch."""
    epochs: int = 4
    """Passes over a rollout."""
    learning_rate: float = 5e-4
    """Adam's step size at the start; it falls linearly to 0."""
    discount: float = 1.0
    """Discount of a step. Below 1 an agent gains by taking more steps, since decisions cost no time."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    validations: int = 3
    """How many checkpoints are compared on the validation seeds; the best is kept."""
    validation_seeds: int = 5
    """Validation seeds played for each checkpoint."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
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
        """Keyword arguments of the environment that the agent depends on."""
        names = ("queue_window", "running_window", "queue_order", "running_order", "rules")
        return {name: getattr(self, name) for name in names}


def make_environments(config: TrainingConfig, scenario: Scenario) -> ClusterVecEnv:
    """Build the training environments; each draws training seeds from a stream of its own."""
    batch = gym.make_vec(
        "gpusched_env:gpusched/Cluster-v0",
        num_envs=config.environments,
        scenario=scenario,
        reward=config.reward,
        autoreset_mode="SameStep",
        **config.windows,
    )
    environments = ClusterVecEnv(batch)
    # A seed names a workload: begin somewhere in the training range; later resets draw from all of it.
    first, end = scenario.seeds.train
    environments.seed(int(np.random.default_rng(config.seed).integers(first, end - config.environments + 1)))
    return environments


def train(config: TrainingConfig, output: Path, progress: Progress | None = None) -> Path:
    """Train an agent, save ``model.zip``, ``config.json`` and ``learning.csv``; return the model's path.

    They appear at the first validation, each complete, and are replaced when a later checkpoint is better: what an
    interrupted call leaves is the best checkpoint so far, or what was there before.

    Parameters
    ----------
    progress : called now and then with (steps done, steps in all, latest result in words)

    Raises
    ------
    GpuschedError : a scenario with too few seeds, or a folder that cannot be written
    KeyboardInterrupt : Ctrl-C; its text says what was kept
    """
    scenario = get_scenario(config.scenario)
    for kind, wanted in (("train", config.environments), ("validation", config.validation_seeds)):
        first, end = getattr(scenario.seeds, kind)
        if end - first < wanted:
            raise GpuschedError(
                f"training: {wanted} {kind} seeds are needed but scenario {scenario.name} has {end - first}"
            )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpuschedError(f"{output}: cannot be made ({error.strerror or error}); name another folder") from error
    torch.set_num_threads(1)  # the network is small: on two cores a second thread costs more than it gives
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
    """Report progress; now and then play the validation seeds and keep the best model."""

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
        """Save a candidate, play it as anyone will, and let it take the place of the model if it is better [s]."""
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
        """Say in words what is in the folder of a call that was interrupted."""
        if not self.best_steps:
            first = round(self.config.steps / self.config.validations)
            return f"no checkpoint was validated yet, so nothing was written (the first is due at step {first:,})"
        found = f"of step {self.best_steps:,}, validation mean JCT {self.best / 3600:.2f} h"
        return f"{self.output / MODEL_FILE} is the best checkpoint so far, {found}"
