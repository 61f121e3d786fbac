"""What the table of docs/performance.md measures and what it is to reach, as data: runs, and rows that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

GROWTH: Final = 12.0  # times the seconds that ten times the jobs may take
CONSOLIDATED: Final = "fifo:placement=consolidate"


@dataclass(frozen=True)
class Run:
    """What one process measures: a function of measurements.py, which returns samples by name."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] | None = None  # arguments of --quick that differ; None = --quick leaves it out


@dataclass(frozen=True)
class Row:
    """A figure of a run beside its target; the median of its samples counts."""

    part: str  # of the table
    what: str
    run: str
    figure: str
    unit: str
    target: float | None = None  # None = for information
    at_least: bool = False  # else at most


REPEATS: Final = {"repeats": 2}


def _replay(scheduler: str, jobs: int, gpus: int, contended: bool = False, repeats: int = 5) -> dict[str, Any]:
    return dict(scheduler=scheduler, jobs=jobs, gpus=gpus, contended=contended, repeats=repeats)


RUNS: Final[dict[str, Run]] = {
    "single": Run("single", dict(steps=20_000, repeats=9), dict(steps=5_000, repeats=3)),
    "batch": Run("batch", dict(scenario="philly-256-v0", steps=200, repeats=9), dict(steps=100, repeats=3)),
    "rollout": Run("rollout", dict(steps=64, repeats=5), dict(steps=32, repeats=2)),
    "contended batch": Run(
        "batch", dict(scenario="leaf-spine-256-v0", steps=200, repeats=9), dict(steps=100, repeats=3)
    ),
    "wrappers": Run("wrappers", dict(steps=5_000, repeats=41), dict(steps=2_000, repeats=11)),
    "agent": Run("agent", dict(jobs=1_000, gpus=64, repeats=9), dict(repeats=3)),
    "plain": Run("plain", dict(jobs=100_000, gpus=2_000, repeats=3), dict(repeats=1)),
    **{f"10,000 {name}": Run("replay", _replay(name, 10_000, 64), REPEATS) for name in ("fifo", "srtf", "tiresias")},
    **{
        f"100,000 {name}": Run("replay", _replay(name, 100_000, 2_000), REPEATS)
        for name in (CONSOLIDATED, "srtf", "tiresias", "dally")
    },
    **{
        f"contended {name}": Run("replay", _replay(name, 100_000, 2_000, contended=True, repeats=3), dict(repeats=1))
        for name in (CONSOLIDATED, "srtf", "tiresias", "dally")
    },
    **{
        f"1,000,000 {name}": Run("replay", _replay(name, 1_000_000, 10_000, repeats=1))
        for name in ("fifo", "srtf", "tiresias")
    },
    "memory": Run("memory", {}, {}),
    "contended memory": Run("memory", dict(scenario="leaf-spine-256-v0"), {}),
}

ONE: Final = "One environment, `gymnasium.make`, 256 GPUs, window 32"
MANY: Final = "256 environments, `make_vec`, zero-copy, one core"
WRAPPERS: Final = "What wrappers cost, one environment"
MEMORY: Final = "Memory of one environment of 256"


def _replays(part: str, prefix: str, targets: Mapping[str, float], gigabytes: float | None = None) -> list[Row]:
    """Rows of one size of replay: seconds, and growth or memory where it has a target."""
    rows = []
    for name, target_s in targets.items():
        run = f"{prefix} {name}"
        rows.append(Row(part, name, run, "seconds", "s", target_s))
        if RUNS[run].arguments["jobs"] == 100_000:
            rows.append(Row(part, f"{name}: ten times the jobs", run, "growth", "x", GROWTH))
        if gigabytes is not None:
            rows.append(Row(part, f"{name}: peak memory", run, "peak_GB", "GB", gigabytes))
    return rows


ROWS: Final[tuple[Row, ...]] = (
    Row(ONE, "random feasible actions", "single", "rate", "steps/s"),
    Row(ONE, "the same, beside CartPole-v1", "single", "ratio", "x", 1.5, at_least=True),
    Row(MANY, "256 GPUs", "batch", "rate", "steps/s"),
    Row(MANY, "the same, beside CartPole-v1", "batch", "ratio", "x", 8.0, at_least=True),
    Row(MANY, "leaf-spine of 256 GPUs, max-min fair links", "contended batch", "rate", "steps/s"),
    Row(MANY, "the same, beside CartPole-v1", "contended batch", "ratio", "x", 3.0, at_least=True),
    Row("stable-baselines3, 64 environments", "part of a MaskablePPO rollout", "rollout", "percent", "%", 25.0),
    *_replays("Replay, 10,000 jobs on 64 GPUs", "10,000", {"fifo": 0.02, "srtf": 0.1, "tiresias": 0.1}),
    *_replays(
        "Replay, 100,000 jobs on 2,000 GPUs", "100,000", {CONSOLIDATED: 0.3, "srtf": 3.0, "tiresias": 3.0, "dally": 3.0}
    ),
    *_replays(
        "The same with gangs of up to 96 GPUs at load .8, max-min fair links",
        "contended",
        dict.fromkeys((CONSOLIDATED, "srtf", "tiresias", "dally"), 10.0),
    ),
    *_replays("Replay, 1,000,000 jobs on 10,000 GPUs", "1,000,000", {"fifo": 5.0, "srtf": 90.0, "tiresias": 90.0}, 2.0),
    Row("Agents and schedulers in Python", "episode of 1,000 jobs through `env.step`", "agent", "seconds", "s", 0.02),
    Row("Agents and schedulers in Python", "its reset", "agent", "reset_s", "s"),
    Row("Agents and schedulers in Python", "plain scheduler, 100,000 jobs, 2,000 GPUs", "plain", "seconds", "s", 30.0),
    Row(WRAPPERS, "none", "wrappers", "none_us", "us/step"),
    Row(WRAPPERS, "`PassiveEnvChecker` adds", "wrappers", "checker_us", "us/step"),
    Row(WRAPPERS, "`OrderEnforcing` adds", "wrappers", "order_us", "us/step"),
    Row(WRAPPERS, "both, as `gymnasium.make` stacks them, add", "wrappers", "both_us", "us/step"),
    Row(MEMORY, "256 GPUs: its arrays", "memory", "arrays_kB", "kB"),
    Row(MEMORY, "256 GPUs: growth of the process", "memory", "resident_kB", "kB"),
    Row(MEMORY, "leaf-spine: its arrays", "contended memory", "arrays_kB", "kB"),
    Row(MEMORY, "leaf-spine: growth of the process", "contended memory", "resident_kB", "kB"),
)
