"""The tournament tree of next events has the winner that a scan over all gangs finds."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import unit_instance

from gpusched_env.core.next_events import FIRST, LEASE_ENDS, set_due
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, IDLE, allocate


def expected(replica: np.void) -> tuple[float, int, int]:
    """Sort key of a gang's next event: time, kind, job."""
    if replica["lease_s"] < replica["until_s"]:
        return float(replica["lease_s"]), LEASE_ENDS, int(replica["job"])
    return float(replica["until_s"]), int(replica["phase"]), int(replica["job"])


@pytest.mark.parametrize("gpus", [1, 2, 3, 7, 255, 256, 300, 1500])
def test_the_winner_is_the_earliest_event(gpus: int) -> None:
    """Few distinct times, so many tie. In large clusters an update stops early where no winner changes."""
    rng = np.random.default_rng(gpus)
    sim = allocate([unit_instance([0.0], [1], [1.0], f"1x{gpus}")]).handle(0)
    sim.replicas["job"] = rng.permutation(gpus + 1)
    for _ in range(1500):
        number = int(rng.integers(gpus))
        replica = sim.replicas[number]
        replica["phase"] = rng.choice([IDLE, ACTIVE, ACTIVE, CHECKPOINTING])
        replica["until_s"] = float(rng.integers(12)) if rng.random() < 0.9 else np.inf
        replica["lease_s"] = float(rng.integers(12)) if rng.random() < 0.3 else np.inf
        set_due(sim, number)
        busy = [(expected(one), row) for row, one in enumerate(sim.replicas[:gpus]) if one["phase"] != IDLE]
        first = sim.due[FIRST]
        if not busy or min(busy)[0][0] == np.inf:
            assert first["due_s"] == np.inf
        else:
            (due_s, kind, _), row = min(busy)
            assert (first["due_s"], first["kind"], first["number"]) == (due_s, kind, row)
