"""The second way to train: MaskablePPO of sb3-contrib, with a value network."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule, set_random_seed

from gpusched_env.agents.policy import SlotPolicy
from gpusched_env.integrations.stable_baselines3 import ClusterVecEnv
from gpusched_env.scenarios import Scenario

if TYPE_CHECKING:
    from gpusched_env.agents.training import TrainingConfig
    from gpusched_env.agents.validation import Validation

ROLLOUT: Final = 512  # steps per environment between two updates
GAE_LAMBDA: Final = 0.95
# Per step. Below 1 an agent gains by taking more steps, since decisions take no simulated time.
DISCOUNT: Final = 1.0


def learn(config: TrainingConfig, scenario: Scenario, validation: Validation) -> None:
    """Train a MaskablePPO model; ``validation`` keeps the best one."""
    set_random_seed(config.seed)
    environments = make_environments(config, scenario)
    model = make_model(config, environments, SlotPolicy, waits=1 + len(config.delays_s))
    try:
        model.learn(config.steps, callback=_Validated(validation))
        validation.end()
    finally:
        environments.close()


def make_model(
    config: TrainingConfig, environments: ClusterVecEnv, policy: str | type[MaskableActorCriticPolicy], **of_policy: Any
) -> MaskablePPO:
    """Make a model with the settings of a training; ``policy`` is a class, or a name that MaskablePPO knows."""
    return MaskablePPO(
        policy,
        environments,
        learning_rate=LinearSchedule(config.learning_rate, 0.0, 1.0),
        n_steps=min(ROLLOUT, max(config.steps // environments.num_envs, 2)),
        batch_size=config.batch,
        n_epochs=config.epochs,
        gamma=DISCOUNT,
        gae_lambda=GAE_LAMBDA,
        clip_range=config.clip,
        target_kl=config.target_kl,
        ent_coef=config.entropy,
        policy_kwargs=of_policy,
        device="cpu",
    )


def make_environments(config: TrainingConfig, scenario: Scenario) -> ClusterVecEnv:
    """Make the training environments; each draws training seeds from its own random stream."""
    count = config.workloads * config.copies
    batch = gym.make_vec(
        "gpusched_env:gpusched/Cluster-v0",
        num_envs=count,
        scenario=scenario,
        reward=config.reward,
        autoreset_mode="SameStep",
        keep_logs=False,
        **dataclasses.asdict(config.windows),
    )
    environments = ClusterVecEnv(batch)
    # A seed is a workload: begin anywhere in the training range; later resets draw from the whole range.
    first, end = scenario.seeds.train
    environments.seed(int(np.random.default_rng(config.seed).integers(first, end - count + 1)))
    return environments


class _Validated(BaseCallback):
    """Validate between two rollouts."""

    def __init__(self, validation: Validation) -> None:
        super().__init__()
        self.validation = validation

    def _on_training_start(self) -> None:
        self.validation.begin(lambda path, about: self.model.save(path))

    def _on_step(self) -> bool:
        if self.n_calls % 32 == 0:
            self.validation.told(self.num_timesteps)
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.validation.after(self.num_timesteps)

    def _on_training_end(self) -> None:
        self.validation.after(self.num_timesteps)
