"""A small track, and entries of it that say something else than what they said when they were recorded."""

from __future__ import annotations

import msgspec

from gpusched_env.leaderboard import About, Decisions, Entry, Track, unpack
from gpusched_env.leaderboard.columns import pack
from gpusched_env.simulator import Decision

TINY = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", reports=3)
ABOUT = About(title="An entry", authors="A", how="", hardware="", training_seeds=[], link="", licence="MIT")


def changed(entry: Entry, **changes: object) -> Entry:
    """Give a forged entry: changed fields and a valid seal."""
    return msgspec.structs.replace(entry, **changes).sealed()


def with_run(entry: Entry, number: int = 0, **changes: object) -> Entry:
    runs = list(entry.runs)
    runs[number] = msgspec.structs.replace(runs[number], **changes)
    return changed(entry, runs=runs)


def told(decisions: Decisions) -> list[Decision]:
    return list(unpack(decisions).decisions())


def with_decisions(decisions: Decisions, told: list[Decision], kept: list[int] | None = None) -> Decisions:
    """Give other decisions, at the points and times of these, or of those kept."""
    table = unpack(decisions)
    at = slice(None) if kept is None else kept
    return pack(table.points[at].tolist(), (table.times_ms / 1000.0)[at].tolist(), told)
