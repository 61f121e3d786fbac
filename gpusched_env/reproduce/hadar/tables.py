"""Tables with the abstracts' claims beside our results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.reproduce.hadar import published
from gpusched_env.reproduce.hadar.settings import (
    FORKED,
    FREE,
    IN_ROUNDS,
    NODES,
    PLAYERS,
    POLICIES,
    RIVALS,
    SETTINGS,
    SLOTS_S,
    UTILITIES,
    of_mix,
    of_policy,
    of_slot,
)
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

HOUR = 3_600.0


def all_tables(results: Results) -> list[Table]:
    """Return every table."""
    policies = [_policies(results, setting) for setting in SETTINGS]
    return [_claims(results), *policies, _factors(results), _training(results), _busier(results), _slots(results)]


def ratio(results: Results, metric: str, policy: str, beside: str, setting: str = FREE) -> np.ndarray:
    """float64 [seeds]: a metric of ``policy`` / that of ``beside``, on the same seeds."""
    one = results.values(metric, **of_policy(setting, policy))
    other = results.values(metric, **of_policy(setting, beside))
    return one / other


def factor(results: Results, cluster: str, jobs: int, rival: str) -> np.ndarray:
    """float64 [seeds]: total duration with a rival / with HadarE, on the same mixes of jobs."""
    forked = results.values("makespan_s", **of_mix(cluster, jobs, FORKED))
    return results.values("makespan_s", **of_mix(cluster, jobs, rival)) / forked


def training_share(results: Results, cluster: str, jobs: int, player: str = FORKED) -> np.ndarray:
    """float64 [seeds]: fraction of the nodes' time up to the last completion in which copies train."""
    labels = of_mix(cluster, jobs, player)
    return results.values("utilisation", **labels) * results.values("productive_share", **labels)


def busier(results: Results, cluster: str, jobs: int, rival: str, paused: bool = False) -> np.ndarray:
    """float64 [seeds]: utilisation with HadarE / with a rival, on the same mixes.

    ``paused``: whether the time in which held nodes restart or merge counts as used.
    """
    of = _held_share if paused else training_share
    return of(results, cluster, jobs) / of(results, cluster, jobs, rival)


def _held_share(results: Results, cluster: str, jobs: int, player: str = FORKED) -> np.ndarray:
    return results.values("utilisation", **of_mix(cluster, jobs, player))


def mixes(results: Results) -> list[int]:
    """Return the numbers of jobs of the mixes for which there are runs, ascending."""
    return sorted(results.known("jobs"))


def _claims(results: Results) -> Table:
    """Each claim, and our result with each utility in the setting of Gavel's simulator."""
    table = new_table(f"Claims of the abstracts, {FREE}", "", "abstract", *UTILITIES)
    gavel, yarn = "Gavel, max-min fairness", "YARN-CS"
    rows = (
        ("total duration, Gavel's over Hadar's", "makespan_s", gavel, published.DURATION_AGAINST_GAVEL),
        ("mean JCT, Gavel's over Hadar's", "mean_jct_s", gavel, published.JCT_AGAINST_GAVEL),
        ("mean JCT, YARN-CS's over Hadar's", "mean_jct_s", yarn, published.JCT_AGAINST_YARN),
        ("queueing, Gavel's over Hadar's", "mean_queueing_s", gavel, 1 / (1 - published.QUEUEING_AGAINST_GAVEL)),
        ("finish-time fairness rho, likewise", "rho_mean", gavel, 1 / (1 - published.FAIRNESS_AGAINST_GAVEL)),
    )
    for heading, metric, beside, claim in rows:
        ours = [ratio(results, metric, beside, f"Hadar, {name}").mean() for name in UTILITIES]
        table.add_row(heading, f"{claim:.2f}", *(f"{value:.2f}" for value in ours))
    return table


def _policies(results: Results, setting: str) -> Table:
    metrics = {
        "total duration, h": ("makespan_s", HOUR, "{:.1f}"),
        "mean JCT, h": ("mean_jct_s", HOUR, "{:.2f}"),
        "p90 JCT, h": ("p90_jct_s", HOUR, "{:.1f}"),
        "queueing, h": ("mean_queueing_s", HOUR, "{:.2f}"),
        "utilisation": ("utilisation", 1.0, "{:.2f}"),
        "rho": ("rho_mean", 1.0, "{:.2f}"),
        "preemptions": ("preemptions_per_job", 1.0, "{:.1f}"),
    }
    table = new_table(f"Policies, {setting}: means over seeds", "", *metrics)
    for policy in POLICIES:
        labels = of_policy(setting, policy)
        cells = [text.format(results.values(name, **labels).mean() / unit) for name, unit, text in metrics.values()]
        table.add_row(policy, *cells)
    return table


def _factors(results: Results) -> Table:
    jobs = mixes(results)
    table = new_table("Total duration of single copies over HadarE's, by jobs of the mix: medians", "", *map(str, jobs))
    for cluster, nodes in NODES.items():
        for rival in RIVALS:
            cells = [f"{np.median(factor(results, cluster, m, rival)):.2f}" for m in jobs]
            table.add_row(f"{cluster}, {nodes} nodes: {rival}", *cells, end_section=rival == list(RIVALS)[-1])
    return table


def _training(results: Results) -> Table:
    jobs = mixes(results)
    table = new_table("Share of the nodes' time that is training, by jobs: medians", "", *map(str, jobs))
    for cluster in NODES:
        for player in PLAYERS:
            cells = [f"{np.median(training_share(results, cluster, m, player)):.3f}" for m in jobs]
            table.add_row(f"{cluster}: {player}", *cells, end_section=player == list(PLAYERS)[-1])
    return table


def _busier(results: Results) -> Table:
    """The claim does not name its rival, nor say whether pauses count: every reading beside it."""
    jobs = mixes(results)
    claim = f"Utilisation, HadarE's over another's (abstract: {published.UTILISATION_BY_FORKING}), by jobs: medians"
    table = new_table(claim, "", *map(str, jobs), "all")
    for cluster in NODES:
        for rival in IN_ROUNDS:
            for paused in (False, True):
                each = [busier(results, cluster, m, rival, paused) for m in jobs]
                cells = [f"{np.median(ratios):.2f}" for ratios in [*each, np.concatenate(each)]]
                table.add_row(f"{cluster}: {rival}, {'nodes held' if paused else 'training'}", *cells)
    return table


def _slots(results: Results) -> Table:
    title = "HadarE's total duration by slot length in the lab, h: medians"
    table = new_table(title, "jobs", *(f"{slot_s} s" for slot_s in SLOTS_S))
    for m in mixes(results.where(part="slots")):
        cells = [f"{results.median('makespan_s', **of_slot(m, slot_s)) / HOUR:.2f}" for slot_s in SLOTS_S]
        table.add_row(str(m), *cells)
    return table
