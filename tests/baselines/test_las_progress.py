"""LAS ends although preemptions take longer than its rounds."""

from __future__ import annotations

import pytest
from helpers import play_both, random_instance

from gpusched_env.event_log import COMPLETE
from gpusched_env.problem.cluster import Cluster


@pytest.mark.parametrize("cost_s", [(100.0, 100.0), (0.0, 120.0), (120.0, 0.0), (61.0, 59.0), (600.0, 600.0)])
@pytest.mark.parametrize("name", ["las", "las-2d"])
def test_las_ends_whatever_a_preemption_takes(name: str, cost_s: tuple[float, float]) -> None:
    """Gangs that start between two rounds used to be preempted in each round before they had been restored."""
    for seed in range(8):
        instance = random_instance(
            seed, 25, Cluster.parse("4x4"), checkpoint_s=cost_s[0], restore_s=cost_s[1], time_limit_s=300_000.0
        )
        log = play_both(instance, name)
        assert (log.events["kind"] == COMPLETE).sum() == 25
