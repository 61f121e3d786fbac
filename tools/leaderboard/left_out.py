"""Which registered schedulers and agents fit a track, and why the others have no entry in the package."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gpusched_env.agents.cards import Card, read_card, shipped_agents
from gpusched_env.baselines import BASELINES, list_baselines, make_scheduler
from gpusched_env.baselines.domains import NEEDS, needs_met
from gpusched_env.baselines.registry import GENERAL_AGENT, LEARNED
from gpusched_env.leaderboard.tracks import TRACKS, TrackProblem

MANY: Final = "makes so many decisions that no entry was made while entries held decisions"
NEW: Final = "is newer than the entries; python -m tools entries --schedulers plays it in a clone"
# (track, scheduler) -> reason, for schedulers and agents that fit a track but have no entry in the package
LEFT_OUT: Final[dict[tuple[str, str], str]] = {
    (track, name): reason
    for track, reason, names in (
        ("heterogeneous-v1", MANY, "las las-2d"),
        ("heterogeneous-v1", "ignores GPU types; some jobs cannot run on one of them", "dally"),
        ("slo-v0", MANY, "las las-2d"),
        (
            "general-v2",
            "cannot keep up: the jobs in the system grow over the run",
            "las las-2d sjf-bco bco-ff bco-ls bco-rand",
        ),
        ("network-v1", MANY, "themis"),
        ("heterogeneous-v1", MANY, "themis"),
        ("tenants-v0", MANY, "las las-2d tiresias-g themis-lite dally"),
        *((track.name, NEW, "arnold" if track.name == "tenants-v0" else "arnold hived meta-rsc") for track in TRACKS),
    )
    for name in names.split()
}


def misfits(problem: TrackProblem) -> dict[str, str]:
    """Say of each registered scheduler why it does not fit a track; "" if it fits."""
    met = needs_met(problem.instance(problem.seeds[0]))
    return {name: _misfit(problem, name, met) for name in BASELINES}


def _misfit(problem: TrackProblem, name: str, met: Collection[str]) -> str:
    baseline = BASELINES[name]
    if baseline.variant_of:
        return "variant of another scheduler"
    if lacking := [NEEDS[need].words for need in baseline.needs if need not in met]:
        return f"needs {lacking[0]}"
    if not problem.track.clairvoyant and name != LEARNED and make_scheduler(name).clairvoyant:
        return "reads true run times"
    return ""


def agents_of(problem: TrackProblem) -> dict[str, Card]:
    """Return spec -> card of the agents that learned the metric of a track on its scenario; ``learned`` is on all."""
    cards = [read_card(name) for name in shipped_agents() if name != GENERAL_AGENT]
    goal = (problem.track.scenario_name, problem.track.metric)
    return {f"{LEARNED}:{card.name}": card for card in cards if (card.scenario, card.metric) == goal}


def absent(problem: TrackProblem) -> dict[str, list[str]]:
    """Return reason -> names of registered schedulers and agents without an entry in the package, variants aside."""
    reasons: dict[str, list[str]] = {}
    unfit = misfits(problem)
    for name in (*list_baselines(variants=False), *agents_of(problem)):
        if reason := unfit.get(name) or LEFT_OUT.get((problem.name, name), ""):
            reasons.setdefault(reason, []).append(name)
    return reasons
