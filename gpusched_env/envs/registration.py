"""What ``gymnasium.make`` knows of this package."""

from __future__ import annotations

from typing import Final

import gymnasium as gym

# Two environments with the same id play alike for ever: a change of results needs a new version.
ENVIRONMENTS: Final[dict[str, str]] = {
    "gpusched/Cluster-v0": "gpusched_env.envs.cluster_env:ClusterEnv",  # one cluster, any scenario
}


def register_environments() -> None:
    """Register every environment with Gymnasium; a second call changes nothing."""
    for name, entry_point in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(name, entry_point=entry_point)
