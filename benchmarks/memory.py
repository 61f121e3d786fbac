"""Memory of environments: per environment of a batch, and over very many decisions.

    python benchmarks/memory.py                              kilobytes per environment of a batch of 256
    python benchmarks/memory.py --decisions 100_000_000      resident size after each tenth of the decisions

A batch of 256 environments plays random feasible actions, episode after episode. Linux only. A run with ``--decisions``
takes minutes.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from machine import resident_bytes
from rich.console import Console
from vector import random_actions

import gpusched_env  # noqa: F401  registers the environments
from gpusched_env.support.commands import run_script


@dataclass
class Settings:
    """Measure memory."""

    decisions: int = 0
    """Decisions of the long run; 0 = none."""
    environments: int = 256
    """Environments of the batch."""
    scenario: str = "philly-256-v1"
    """The scenario that they play."""
    output: Path | None = None
    """JSON file for the results."""


def make(scenario: Any, environments: int, **options: Any) -> Any:
    """Make a batch that returns its buffers without copying."""
    return gymnasium.make_vec(
        "gpusched/Cluster-v0", num_envs=environments, **({"scenario": scenario, "copy": False} | options)
    )


def play(envs: Any, rng: np.random.Generator, infos: dict[str, Any], steps: int) -> dict[str, Any]:
    """Play random feasible actions; return the last infos."""
    for _ in range(steps):
        infos = envs.step(random_actions(infos["action_mask"], rng))[-1]
    return infos


def _bytes_of(things: Any) -> int:
    """Add up the arrays in a sequence and in its dictionaries [byte]; views count as their base, each base once."""
    arrays: dict[int, int] = {}
    for thing in things:
        for value in thing.values() if isinstance(thing, dict) else (thing,):
            if isinstance(value, np.ndarray):
                while isinstance(value.base, np.ndarray):
                    value = value.base  # noqa: PLW2901
                arrays[id(value)] = value.nbytes
    return sum(arrays.values())


def array_bytes(scenario: str, environments: int) -> int:
    """Size of the arrays of a batch: the state, and the observations [byte]."""
    envs = make(scenario, environments)
    envs.reset(seed=0)
    runs = envs.unwrapped._started_runs()
    held = _bytes_of([vars(runs.state), vars(runs.batch.arrays), vars(runs.batch)])
    envs.close()
    return held


def growth_bytes(scenario: str, environments: int) -> int:
    """Growth of the process by a batch that has played: arrays, jobs, Python objects [byte]."""
    rng = np.random.default_rng(0)
    first = make(scenario, 2)  # compiles, and loads everything that batches share
    play(first, rng, first.reset(seed=0)[1], 20)
    gc.collect()
    before = resident_bytes()
    envs = make(scenario, environments)
    play(envs, rng, envs.reset(seed=0)[1], 100)
    gc.collect()
    return resident_bytes() - before


def long_run(scenario: Any, environments: int, decisions: int, parts: int = 10, **options: Any) -> Iterator[Any]:
    """Play; yield (decisions, resident size [byte], episodes that have ended) after each part."""
    envs = make(scenario, environments, **options)
    rng = np.random.default_rng(0)
    infos = envs.reset(seed=0)[1]
    episodes = 0
    steps = max(1, decisions // parts // environments)
    for part in range(1, parts + 1):
        for _ in range(steps):
            _, _, terminated, truncated, infos = envs.step(random_actions(infos["action_mask"], rng))
            episodes += int((terminated | truncated).sum())
        gc.collect()
        yield part * steps * environments, resident_bytes(), episodes


def main(settings: Settings) -> None:
    """Measure, print and save."""
    console = Console(width=100)
    figures: dict[str, Any] = {"scenario": settings.scenario, "environments": settings.environments}
    if settings.decisions:
        figures["resident"] = []
        begin = time.perf_counter()
        for decisions, resident, episodes in long_run(settings.scenario, settings.environments, settings.decisions):
            seconds = time.perf_counter() - begin
            console.print(
                f"{decisions:>13,} decisions, {episodes:>9,} episodes: {resident / 1e6:,.2f} MB, {seconds:,.0f} s"
            )
            sys.stdout.flush()
            figures["resident"].append([decisions, resident, episodes, seconds])
    else:
        growth = growth_bytes(settings.scenario, settings.environments) / settings.environments
        arrays = array_bytes(settings.scenario, settings.environments) / settings.environments
        figures |= {"arrays_bytes": arrays, "growth_bytes": growth}
        console.print(
            f"{settings.scenario}: {arrays / 1e3:,.1f} kB of arrays, the process grows by {growth / 1e3:,.1f} kB"
        )
    if settings.output is not None:
        settings.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
