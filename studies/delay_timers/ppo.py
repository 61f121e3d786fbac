"""Training of a delay tuner by PPO on several problems at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.reproduce.dally_tuner.problems import TRAINING_SEEDS, problem
from studies.delay_timers.policy import TimerPolicy

if TYPE_CHECKING:
    from studies.delay_timers.tuner import TunerConfig, Validation

REWARD_SCALE_S = 1_800.0 * 256.0  # [job s] 30 min with 256 jobs in the system, one per GPU, have reward -1
ROLLOUT = 256  # [interval] per environment between two updates
BATCH = 256
EPOCHS = 6
DISCOUNT = 0.99  # per interval: a horizon of 100 intervals, two days
SPREAD = -0.7  # ln of the initial standard deviation of actions


def learn(config: TunerConfig, start: TimerNetwork, validation: Validation) -> None:
    """Train from a constant action, with one environment per problem.

    Parameters
    ----------
    start : its last biases are the initial action of the policy
    """
    torch.set_num_threads(1)  # the network is small
    set_random_seed(config.seed)

    def environment(name: str) -> Any:
        return lambda: Monitor(
            DelayTimersEnv(
                problem(name),
                mode="residual" if start.residual else "absolute",
                scale=REWARD_SCALE_S,
                train_seeds=(TRAINING_SEEDS[0], TRAINING_SEEDS[config.training_seeds - 1] + 1),
            )
        )

    environments = DummyVecEnv([environment(name) for name in config.problems])
    environments.seed(config.seed)
    first = start.layers[-1][1]
    model = PPO(
        TimerPolicy,
        environments,
        n_steps=min(ROLLOUT, max(config.steps // len(config.problems) // 2, 2)),
        batch_size=BATCH,
        n_epochs=EPOCHS,
        gamma=DISCOUNT,
        gae_lambda=0.95,
        learning_rate=3e-4,
        ent_coef=0.0,
        target_kl=0.03,
        policy_kwargs={"action": (float(first[0]), float(first[1])), "log_std_init": SPREAD},
        seed=config.seed,
        device="cpu",
    )
    try:
        model.learn(config.steps, callback=_Look(config, start, validation))
    finally:
        environments.close()


class _Look(BaseCallback):
    """Play the validation seeds with the policy's mean action every ``validate_every`` updates and at the end."""

    def __init__(self, config: TunerConfig, start: TimerNetwork, validation: Validation) -> None:
        super().__init__()
        self.config, self.start, self.validation, self.updates = config, start, validation, 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.updates and self.updates % self.config.validate_every == 0:
            self._look()
        self.updates += 1

    def _on_training_end(self) -> None:
        self._look()

    def _look(self) -> None:
        policy = self.model.policy
        assert isinstance(policy, TimerPolicy)
        network = TimerNetwork(policy.weights(), self.start.classes, self.start.residual, self.start.interval_s)
        self.validation.ledger.simulated_jobs += self._jobs_played()
        rewards = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        self.validation.look(self.num_timesteps, network, float(np.mean(rewards)) if rewards else float("nan"))

    def _jobs_played(self) -> int:
        """Return the number of jobs that have finished in the environments since the last call."""
        played = 0
        for env in self.training_env.envs:  # type: ignore[attr-defined]
            base = env.unwrapped
            assert isinstance(base, DelayTimersEnv)
            played += base.take_finished_jobs()
        return played
