"""Entries of the registered schedulers and of the trained agents; they come with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.baselines import BASELINES, list_baselines, make_scheduler
from gpusched_env.baselines.registry import GENERAL_AGENT, LEARNED
from gpusched_env.errors import EntryError, GpuschedError, SchedulerError, unknown_name
from gpusched_env.leaderboard.baseline_files import (
    Head,
    Result,
    baseline_file,
    head_of,
    read_results,
    result_of,
    write_results,
)
from gpusched_env.leaderboard.entry import FORMAT, About, Entry, Run
from gpusched_env.leaderboard.submitting import make_entry, player_of
from gpusched_env.leaderboard.tracks import TRACKS, TrackProblem, get_track
from gpusched_env.scenarios import RESULTS_VERSION

if TYPE_CHECKING:
    from gpusched_env.agents.cards import Card

FOLDER: Final = Path(__file__).parent / "baselines"
AUTHORS: Final = "gpusched-env developers"
LICENCE: Final = "MIT"  # the licence of the repository
MANY: Final = "makes so many decisions that no entry was made while entries held decisions"
WHOLE_NODE: Final = "places each copy of a gang on one node; some gangs fit on no node"
# (track, scheduler) -> reason, for schedulers and agents that fit a track but have no entry in the package
LEFT_OUT: Final[dict[tuple[str, str], str]] = {
    (track, name): reason
    for track, reason, names in (
        ("heterogeneous-v1", MANY, "las las-2d"),
        ("heterogeneous-v1", "ignores GPU types; some jobs cannot run on one of them", "dally"),
        ("elastic-v0", "decides by deadlines; no job has one", "elasticflow edf edf-admission chronus"),
        ("slo-v0", MANY, "las las-2d"),
        ("heterogeneous-v1", WHOLE_NODE, "hadare hadare-single hadare-sticky"),
        ("network-v1", MANY, "themis"),
        ("heterogeneous-v1", MANY, "themis"),
        ("tenants-v0", MANY, "las las-2d tiresias-g themis-lite dally"),
    )
    for name in names.split()
}


def misfit(problem: TrackProblem, name: str) -> str:
    """Say why a registered scheduler does not fit a track; "" if it fits."""
    baseline, scenario = BASELINES[name], problem.scenario
    if name not in (LEARNED, *list_baselines(types=True, sharing=True, sizes=True, tenants=True)):
        return "needs a parameter that has no default"
    if baseline.variant_of:
        return "variant of another scheduler"
    if baseline.needs_links and scenario.network.topology is None:
        return "needs a network with links"
    if baseline.needs_types and len(scenario.cluster.gpu_types) == 1:
        return "needs several GPU types"
    if baseline.needs_sharing and scenario.sharing is None:
        return "needs jobs that share GPUs"
    if baseline.needs_sizes and scenario.workload.elastic is None:
        return "needs elastic jobs"
    if baseline.needs_tenants and scenario.tenants is None:
        return "needs tenants"
    if not problem.track.clairvoyant and make_scheduler(name).clairvoyant:
        return "reads true run times"
    return ""


def fitting(problem: TrackProblem) -> list[str]:
    """Return the specs of all that fit a track: registered schedulers, see :func:`misfit`, and trained agents."""
    return [name for name in BASELINES if not misfit(problem, name)] + list(agents_of(problem))


def agents_of(problem: TrackProblem) -> dict[str, Card]:
    """Return spec -> card of the agents that learned the metric of a track on its scenario; ``learned`` is on all."""
    from gpusched_env.agents.cards import read_card, shipped_agents

    cards = [read_card(name) for name in shipped_agents() if name != GENERAL_AGENT]
    goal = (problem.track.scenario_name, problem.track.metric)
    return {f"{LEARNED}:{card.name}": card for card in cards if (card.scenario, card.metric) == goal}


def absent(problem: TrackProblem) -> dict[str, list[str]]:
    """Return reason -> names of registered schedulers and agents without an entry in the package, variants aside."""
    reasons: dict[str, list[str]] = {}
    schedulers = list_baselines(types=True, sharing=True, sizes=True, tenants=True, variants=False)
    for name in (*schedulers, *agents_of(problem)):
        unfit = misfit(problem, name) if name in BASELINES else ""
        if reason := unfit or LEFT_OUT.get((problem.name, name), ""):
            reasons.setdefault(reason, []).append(name)
    return reasons


def shipped_entries(*tracks: str) -> list[Entry]:
    """Return the entries of the package, or those of tracks; without decisions: verifying plays the scheduler."""
    files = [baseline_file(FOLDER, track.name) for track in (map(get_track, tracks) if tracks else TRACKS)]
    return [
        _entry(head, result)
        for head, results in (read_results(path) for path in files if path.is_file())
        for result in results.values()
    ]


def _entry(head: Head, result: Result) -> Entry:
    """Return the entry of a line of a file; texts and parameters are those of the scheduler now."""
    runs = [
        Run(
            problem.seed,
            problem.instance,
            problem.workload,
            {name: values[number] for name, values in result.metrics.items()},
            problem.bounds,
            digest,
            None,
        )
        for number, (problem, digest) in enumerate(zip(head.problems, result.digests, strict=True))
    ]
    who, about = player_of(result.spec), _about(result.spec)
    fields = (FORMAT, result.version, head.results_version, head.track, head.fingerprint)
    return Entry(*fields, who, about, runs).sealed()


def _about(spec: str) -> About:
    from gpusched_env.agents.cards import read_card

    agent, _, name = spec.partition(":")
    return _about_agent(read_card(name)) if agent == LEARNED and name else _about_scheduler(spec)


def _about_scheduler(name: str) -> About:
    return About(
        title=name,
        authors=AUTHORS,
        how=f"The registered scheduler {name} with its default parameters: {BASELINES[name].summary}.",
        hardware="",
        training_seeds=[],
        link="",
        licence=LICENCE,
    )


def _about_agent(card: Card) -> About:
    return About(
        title=f"{LEARNED}:{card.name}",
        authors=AUTHORS,
        how=f"A trained agent of the package: {card.summary}. Made by: {'; '.join(card.made_by)}.",
        hardware=f"{card.hours:g} h of training on {card.machine}",
        training_seeds=[card.seeds[use] for use in ("train", "validation")],
        link="",
        licence=LICENCE,
    )


def write_baselines(
    folder: Path,
    tracks: Iterable[str],
    schedulers: Iterable[str] = (),
    log: Path | None = None,
    workers: int = 1,
    again: bool = False,
    tell: Callable[[str], None] = print,
) -> int:
    """Play schedulers on tracks, and write ``folder/TRACK.jsonl`` for each track.

    ``schedulers`` may be ``learned:NAME`` of agents that learned on the scenario of the track; empty = all that fit.
    ``again`` plays schedulers whose entries exist, too. ``tell`` gets a line for each entry, and the reason why a track
    is skipped. Returns the number of entries that could not be made.
    """
    failed = 0
    for track in map(get_track, tracks):
        if absence := track.absence(log):
            tell(f"skipped: {absence}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        problem, path = track.problem(log), baseline_file(folder, track.name)
        results = _existing(path, problem)
        known = [*BASELINES, *agents_of(problem)]
        for name in list(schedulers) or fitting(problem):
            if name not in known:
                raise SchedulerError(unknown_name("registered scheduler", name, known))
            if name in results and not again:
                tell(f"{path}: has {name}")
                continue
            try:
                entry = make_entry(track, name, _about(name), log, workers, decisions=False)
            except GpuschedError as error:  # go on with the other schedulers
                tell(f"{path}: no {name}: {error}")
                failed += 1
                continue
            results[name] = result_of(entry, track)
            write_results(path, head_of(entry), results)
            tell(f"{path}: {name}")
    return failed


def _existing(path: Path, problem: TrackProblem) -> dict[str, Result]:
    """Read the results of a file, if there is one."""
    if not path.exists():
        return {}
    head, results = read_results(path)
    if (head.results_version, head.fingerprint) != (RESULTS_VERSION, problem.fingerprint()):
        raise EntryError(f"{path}: made with another results version, or for another track; delete the file")
    return results
