"""The tournament of next events has the winner that looking at every gang finds."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.core.due import FIRST, LEASE_ENDS, set_due
from gpusched_env.core.handle import int64, kernel
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, DUE_DTYPE, IDLE, REPLICA_DTYPE, WORLD_DTYPE


@kernel
def note(world: np.ndarray, replicas: np.ndarray, due: np.ndarray, number: int) -> None:
    set_due(world, replicas, due, int64(0), int64(number))


def expected(replica: np.void) -> tuple[float, int, int]:
    """When a gang does what, and its job: what is compared."""
    if replica["lease_s"] < replica["until_s"]:
        return float(replica["lease_s"]), LEASE_ENDS, int(replica["job"])
    return float(replica["until_s"]), int(replica["phase"]), int(replica["job"])


@pytest.mark.parametrize("gpus", [1, 2, 3, 7, 255, 256, 300, 1500])
def test_the_winner_is_the_first_of_all(gpus: int) -> None:
    """Few times, so that many tie; large clusters leave the tournament early where nothing changes above."""
    rng = np.random.default_rng(gpus)
    world = np.zeros(1, WORLD_DTYPE)
    world["gpu_jobs"], world["gpus"] = 1, gpus
    replicas, due = np.zeros((1, gpus + 1), REPLICA_DTYPE), np.zeros((1, 2 * gpus), DUE_DTYPE)
    replicas["job"][0] = rng.permutation(gpus + 1)
    due["due_s"] = np.inf
    for _ in range(1500):
        number = int(rng.integers(gpus))
        replica = replicas[0, number]
        replica["phase"] = rng.choice([IDLE, ACTIVE, ACTIVE, CHECKPOINTING])
        replica["until_s"] = float(rng.integers(12)) if rng.random() < 0.9 else np.inf
        replica["lease_s"] = float(rng.integers(12)) if rng.random() < 0.3 else np.inf
        note(world, replicas, due, number)
        busy = [(expected(one), row) for row, one in enumerate(replicas[0, :gpus]) if one["phase"] != IDLE]
        first = due[0, FIRST]
        if not busy or min(busy)[0][0] == np.inf:
            assert first["due_s"] == np.inf
        else:
            (due_s, kind, _), row = min(busy)
            assert (first["due_s"], first["kind"], first["number"]) == (due_s, kind, row)
