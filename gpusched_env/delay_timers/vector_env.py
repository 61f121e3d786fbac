"""A vector of :class:`DelayTimersEnv`: Gymnasium's SyncVectorEnv, with all actions checked before any step."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.errors import GpuschedError


class DelayTimersVectorEnv(SyncVectorEnv):
    """The vector environment that ``gymnasium.make_vec`` makes of ``gpusched/DelayTimers-v0``; it steps in Python.

    Parameters
    ----------
    max_episode_steps : as for gymnasium.make: number of steps after which an episode is truncated; None = no limit
    autoreset_mode, copy : as for gymnasium.vector.SyncVectorEnv
    arguments : of each :class:`DelayTimersEnv`
    """

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        max_episode_steps: int | None = None,
        **arguments: Any,
    ) -> None:
        def made(number: int) -> gym.Env[Any, Any]:
            env = DelayTimersEnv(**arguments)
            env.turn = number, num_envs
            return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)

        singles = [partial(made, number) for number in range(num_envs)]
        super().__init__(singles, copy=copy, autoreset_mode=autoreset_mode)

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Step all environments, or none, with a GpuschedError, if an action has another shape or contains NaN."""
        given = len(actions) if hasattr(actions, "__len__") else actions
        if given != self.num_envs:
            raise GpuschedError(f"{given} actions for {self.num_envs} environments: give one for each")
        checked = []
        for number, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            try:
                checked.append(env.unwrapped.timers.checked(action))  # type: ignore[attr-defined]
            except GpuschedError as error:
                raise GpuschedError(f"environment {number}: {error}; none has been stepped") from error
        return super().step(np.array(checked))
