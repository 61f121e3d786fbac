"""The table of docs/performance.md as data: the runs that are measured, and the rows with their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from growth import CASES, GROWTH, PLAIN, Case


@dataclass(frozen=True)
class Run:
    """The measurement of one process: a function of measurements.py, which returns samples by name."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] | None = None  # arguments of --quick that differ; None = --quick leaves it out


@dataclass(frozen=True)
class Row:
    """A value of a run, the median of its samples, beside its target."""

    part: str  # heading in the table
    what: str
    run: str
    figure: str
    unit: str
    target: float | None = None  # None = for information
    at_least: bool = False  # else at most
    detail: bool = False  # the page has it only if it, or another detail of its run, misses its target


# The replays for which growth.py has targets.
REPLAYS: Final[dict[str, Case]] = {
    case.name: case for case in CASES if case.target_s is not None and case.scheduler not in PLAIN
}
# The cases with ``tenth``, with ten times the jobs: a tenth of a case may have too few jobs to fill the cluster.
GROWN: Final[dict[str, Case]] = {
    f"{name}, ten times": replace(case, jobs=10 * case.jobs, target_s=None, slow=True)
    for name, case in REPLAYS.items()
    if case.tenth and not case.slow
}
PLAIN_REPLAYS: Final[dict[str, Case]] = {case.name: case for case in CASES if case.scheduler in PLAIN}


def _replay(case: Case) -> Run:
    minutes = case.slow and case.kind == "contended"
    arguments = {"case": asdict(case), "repeats": 3 if minutes else 5}
    return Run("replay", arguments, None if case.slow else {"repeats": 1})


RUNS: Final[dict[str, Run]] = {
    "single": Run("single", dict(steps=20_000, repeats=9), dict(steps=5_000, repeats=3)),
    "batch": Run("batch", dict(scenario="philly-256-v1", steps=200, repeats=9), dict(steps=100, repeats=3)),
    # three episodes of each environment, with their resets; one and a part where preemptions make episodes long
    "resets": Run("resets", dict(steps=903, running_window=0, repeats=9), dict(steps=301, repeats=3)),
    "resets, preempting": Run("resets", dict(steps=8_000, running_window=8, repeats=3), dict(steps=500, repeats=1)),
    "family": Run("family", dict(steps=602, problems=8, repeats=7), dict(problems=4, repeats=1)),
    "rollout": Run("rollout", dict(steps=64, repeats=5), dict(steps=32, repeats=2)),
    "contended batch": Run(
        "batch", dict(scenario="leaf-spine-256-v1", steps=200, repeats=9), dict(steps=100, repeats=3)
    ),
    "wrappers": Run("wrappers", dict(steps=5_000, repeats=41), dict(steps=2_000, repeats=11)),
    "agent": Run("agent", dict(jobs=1_000, repeats=9), dict(repeats=3)),
    "intervals": Run("intervals", dict(repeats=5), dict(repeats=2)),
    "accounts": Run("accounts", dict(jobs=333_334, bounded=60_000, repeats=5), dict(repeats=1)),
    "topologies": Run("topologies", dict(repeats=5), dict(repeats=1)),
    **{name: _replay(case) for name, case in (REPLAYS | GROWN | PLAIN_REPLAYS).items()},
    "memory": Run("memory", {}, {}),
    "contended memory": Run("memory", dict(scenario="leaf-spine-256-v1"), {}),
    "decisions": Run("flat", dict(decisions=100_000_000), dict(decisions=1_000_000)),
}

FIRST: Final = "The same on 64 GPUs, episodes of 300 jobs, first feasible action, resets included"
FAMILY: Final = "The same on `Family-v0`, 24 to 192 GPUs of up to three types, max-min fair links, no preemption"
ONE: Final = "One environment, `gymnasium.make`, 256 GPUs, window 32"
MANY: Final = "256 environments, `make_vec`, zero-copy, one core"
PYTHON: Final = "Agents and schedulers in plain Python"
TIMERS: Final = "`DelayTimers-v0`, 256 GPUs, 800 jobs"
ACCOUNTS: Final = "Metrics and networks, in NumPy and plain Python"
WRAPPERS: Final = "What wrappers cost, one environment"
MEMORY: Final = "Memory of one environment of 256"
FLAT: Final = "Memory over 100 million decisions, 1 million with `--quick`"


def _part(case: Case) -> str:
    """Return the heading for replays of one size and kind."""
    kind = {"contended": " in gangs of up to 96 GPUs, max-min fair links,", "shared": " that share GPUs,"}.get(
        case.kind, ""
    )
    return f"Replay: {case.jobs:,} jobs{kind} on {case.gpus:,} GPUs, load {case.load:g}"


def _growth(case: Case, grown: Case, run: str) -> list[Row]:
    """Rows for the ratio of a replay to one of a tenth of its jobs: seconds, and under contention also events."""
    what = f"{case.scheduler}: {grown.jobs:,} jobs beside {grown.jobs // 10:,}"
    rows = [Row(_part(case), what, run, "growth", "x", GROWTH, detail=grown is case)]
    if case.kind == "contended":
        rows.append(Row(_part(case), f"{what}: events of the log", run, "event_growth", "x", detail=True))
    return rows


def _rows(case: Case) -> list[Row]:
    """Rows for a replay: seconds, and growth and memory if they have targets."""
    rows = [Row(_part(case), case.scheduler, case.name, "seconds", "s", case.target_s)]
    if case.tenth:
        rows += _growth(case, case, case.name)
    if (grown := f"{case.name}, ten times") in GROWN:
        rows += _growth(case, GROWN[grown], grown)
    if case.target_GB is not None:
        rows.append(Row(_part(case), f"{case.scheduler}: peak memory", case.name, "peak_GB", "GB", case.target_GB))
    return rows


ROWS: Final[tuple[Row, ...]] = (
    Row(ONE, "random feasible actions", "single", "rate", "steps/s"),
    Row(ONE, "the same, beside CartPole-v1", "single", "ratio", "x", 1.5, at_least=True),
    Row(ONE, "with choosing the actions", "single", "chosen", "steps/s"),
    Row(ONE, "with choosing the actions, beside CartPole-v1", "single", "chosen_ratio", "x", detail=True),
    Row(MANY, "256 GPUs", "batch", "rate", "steps/s"),
    Row(MANY, "the same, beside CartPole-v1", "batch", "ratio", "x", 6.0, at_least=True),
    Row(MANY, "leaf-spine of 256 GPUs, max-min fair links", "contended batch", "rate", "steps/s"),
    Row(MANY, "the same, beside CartPole-v1", "contended batch", "ratio", "x", 3.5, at_least=True),
    Row(FIRST, "a reset: drawing the jobs, and beginning the episode", "resets", "reset_ms", "ms", 0.5),
    Row(FIRST, "without preemption, 301 steps an episode", "resets", "rate", "steps/s", 400_000, at_least=True),
    Row(
        FIRST,
        "with preemption, about 6,000 steps an episode",
        "resets, preempting",
        "rate",
        "steps/s",
        400_000,
        at_least=True,
    ),
    Row(FAMILY, "a reset: drawing the problem, and beginning the episode", "family", "reset_ms", "ms"),
    Row(FAMILY, "each episode one of eight problems", "family", "rate", "steps/s"),
    Row(
        FAMILY,
        "the same problem each episode; mean of the same eight problems",
        "family",
        "fixed",
        "steps/s",
        detail=True,
    ),
    Row(FAMILY, "one of eight problems, beside the same problem", "family", "ratio", "x", 0.8, at_least=True),
    Row("stable-baselines3, 64 environments", "part of a MaskablePPO rollout", "rollout", "percent", "%", 25.0),
    *(row for case in REPLAYS.values() for row in _rows(case)),
    Row(PYTHON, "episode of 1,000 jobs through `env.step`, its reset included", "agent", "seconds", "s", 0.02),
    Row(PYTHON, "its reset", "agent", "reset_s", "s"),
    Row(PYTHON, "metrics and digest at its end", "agent", "summary_s", "s", detail=True),
    *(
        Row(PYTHON, f"{case.scheduler}, {case.jobs:,} jobs on {case.gpus:,} GPUs", name, "seconds", "s", case.target_s)
        for name, case in PLAIN_REPLAYS.items()
    ),
    Row(TIMERS, "intervals of half an hour", "intervals", "rate", "intervals/s", 200.0, at_least=True),
    Row(ACCOUNTS, "metrics of a log of a million events", "accounts", "summary_s", "s", 10.0),
    Row(ACCOUNTS, "validating it", "accounts", "validation_s", "s", 10.0),
    Row(ACCOUNTS, "bound on the mean JCT of 60,000 jobs", "accounts", "bound_s", "s", 10.0),
    Row(ACCOUNTS, "links and routes of a leaf-spine of 10,000 GPUs", "topologies", "leaf_spine_s", "s", 2.0),
    Row(ACCOUNTS, "links and routes of a fat tree of 8,192 GPUs", "topologies", "fat_tree_s", "s", 2.0),
    Row(WRAPPERS, "none", "wrappers", "none_us", "us/step"),
    Row(WRAPPERS, "`PassiveEnvChecker`, by `gymnasium.make`, adds", "wrappers", "checker_us", "us/step"),
    Row(
        WRAPPERS,
        "`OrderEnforcing`, which it leaves out here, would add",
        "wrappers",
        "order_us",
        "us/step",
        detail=True,
    ),
    Row(WRAPPERS, "both would add", "wrappers", "both_us", "us/step", detail=True),
    Row(MEMORY, "256 GPUs: its arrays", "memory", "arrays_kB", "kB", detail=True),
    Row(MEMORY, "256 GPUs: growth of the process", "memory", "resident_kB", "kB"),
    Row(MEMORY, "leaf-spine: its arrays", "contended memory", "arrays_kB", "kB", detail=True),
    Row(MEMORY, "leaf-spine: growth of the process", "contended memory", "resident_kB", "kB"),
    # A leak of one byte per decision would be 90 MB. The allocator itself takes a few hundred kB (choice).
    Row(FLAT, "growth of the process from the first tenth on", "decisions", "grown_MB", "MB", 5.0),
    Row(FLAT, "size of the process at the end", "decisions", "resident_MB", "MB", detail=True),
)
