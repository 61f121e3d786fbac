"""Registration of the environments, which ``registration.toml`` lists, with Gymnasium."""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym

from gpusched_env.support.files import toml_beside

ENTRY_POINT: Final = "gpusched_env.envs.cluster_env:ClusterEnv"
VECTOR_ENTRY_POINT: Final = "gpusched_env.envs.cluster_vector_env:ClusterVectorEnv"  # for make_vec
# Id -> default arguments; tuples, as those of users
ENVIRONMENTS: Final[dict[str, dict[str, Any]]] = {
    name: {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    for name, arguments in toml_beside(__file__).items()
}
# An environment of another class: the agent sets Dally's delay timers; 256 GPUs, 800 jobs.
DELAY_TIMERS: Final = "gpusched/DelayTimers-v0"
_DELAY_TIMERS_ENTRY_POINT: Final = "gpusched_env.delay_timers.env:DelayTimersEnv"
_DELAY_TIMERS_VECTOR_ENTRY_POINT: Final = "gpusched_env.delay_timers.vector_env:DelayTimersVectorEnv"


def register_environments() -> None:
    """Register every environment with Gymnasium; a second call changes nothing."""
    for name, arguments in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point=ENTRY_POINT,
                vector_entry_point=VECTOR_ENTRY_POINT,
                order_enforce=False,  # the environment itself refuses a step before reset
                kwargs=arguments,
            )
    if DELAY_TIMERS not in gym.registry:
        gym.register(
            DELAY_TIMERS, entry_point=_DELAY_TIMERS_ENTRY_POINT, vector_entry_point=_DELAY_TIMERS_VECTOR_ENTRY_POINT
        )
