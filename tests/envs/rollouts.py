"""Random play of environments."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw(mask: np.ndarray, rng: np.random.Generator) -> int:
    """Draw a feasible action; 0 if there is none, at the end of an episode."""
    return int(rng.choice(np.flatnonzero(mask))) if mask.any() else 0


def told(env: Any, seed: int, steps: int = 120) -> list[Any]:
    """Play random feasible actions; return all that the agent sees: after observation and info, five values a step."""
    rng = np.random.default_rng(seed)
    said: list[Any] = [*env.reset(seed=seed)]
    for _ in range(steps):
        said += env.step(draw(said[-1]["action_mask"], rng))
        if said[-3] or said[-2]:
            break
    return said
