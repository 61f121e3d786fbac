"""Tables with the values of the paper's figures beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.reproduce.report import median_and_spread, new_table
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bco import published
from gpusched_env.reproduce.sjf_bco.published import KAPPAS, LAMBDAS, POLICIES, SERVERS
from gpusched_env.reproduce.sjf_bco.settings import PLAIN, SETTINGS, STRONG_QUEUE, Setting, fixed, plain, searched

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("paper", *map(str, SETTINGS))
LAST = list(POLICIES)[-1]


def all_tables(results: Results) -> list[Table]:
    """Return every table, without rows for which there are no runs."""
    sizes = [servers for servers in SERVERS if servers in results.known("servers")]
    return [
        _policies(results), _sizes(results, sizes), _saved(results, sizes), _kappas(results), _lambdas(results),
        _contention(results), _plain_orders(results),
    ]  # fmt: skip


def _policies(results: Results) -> Table:
    table = new_table("Figure 4: 20 servers", "", *HEADINGS)
    makespan = {policy: row[-1] for policy, row in published.MAKESPAN.items()}
    for heading, metric, paper in (
        ("makespan", "makespan_s", makespan),
        ("average completion", "mean_jct_s", published.AVERAGE),
        ("least completion", "min_jct_s", published.LEAST),
    ):
        for policy, name in POLICIES.items():
            cells = [median_and_spread(results, metric, **searched(setting, policy)) for setting in SETTINGS]
            table.add_row(f"{heading}, {name}", str(paper[policy]), *cells, end_section=policy == LAST)
    return table


def _sizes(results: Results, sizes: list[int]) -> Table:
    table = new_table("Figure 6: makespan on 10, 15 and 20 servers", "", *HEADINGS)
    for servers in sizes:
        for policy, name in POLICIES.items():
            labels = [searched(setting, policy, servers) for setting in SETTINGS]
            cells = [median_and_spread(results, "makespan_s", **own) for own in labels]
            paper = str(published.MAKESPAN[policy][SERVERS.index(servers)])
            table.add_row(f"{servers} servers, {name}", paper, *cells, end_section=policy == LAST)
    return table


def _saved(results: Results, sizes: list[int]) -> Table:
    """Return the medians over seeds of the fraction of the makespan that SJF-BCO saves on the same draw."""
    table = new_table("Makespan that SJF-BCO saves [%]", "", *HEADINGS)

    def share(setting: Setting, policy: str, servers: int) -> float:
        own = results.values("makespan_s", **searched(setting, servers=servers))
        return float(np.median(1 - own / results.values("makespan_s", **searched(setting, policy, servers))))

    for servers in sizes:
        column = SERVERS.index(servers)
        for policy in list(POLICIES)[1:]:
            paper = 1 - published.MAKESPAN["sjf-bco"][column] / published.MAKESPAN[policy][column]
            cells = [f"{100 * value:.1f}" for value in (paper, *(share(s, policy, servers) for s in SETTINGS))]
            table.add_row(f"{servers} servers, against {POLICIES[policy]}", *cells, end_section=policy == LAST)
    return table


def _kappas(results: Results) -> Table:
    table = new_table(
        "Figure 5: makespan by kappa, 20 servers", "kappa", *HEADINGS, f"{STRONG_QUEUE}, small: G < kappa"
    )
    for kappa, paper in zip(KAPPAS, published.BY_KAPPA, strict=True):
        if kappa in results.known("kappa"):
            labels = [*(fixed(setting, kappa) for setting in SETTINGS), fixed(STRONG_QUEUE, kappa, rule="lt")]
            table.add_row(str(kappa), str(paper), *(median_and_spread(results, "makespan_s", **own) for own in labels))
    return table


def _lambdas(results: Results) -> Table:
    table = new_table("Figure 7: makespan by lambda, 20 servers, kappa = 1", "lambda", *HEADINGS)
    for lambda_, paper in zip(LAMBDAS, published.BY_LAMBDA, strict=True):
        labels = [fixed(setting, 1, lambda_) for setting in SETTINGS]
        table.add_row(str(lambda_), str(paper), *(median_and_spread(results, "makespan_s", **own) for own in labels))
    return table


def _contention(results: Results) -> Table:
    title = "Contention met on 20 servers: share of jobs that straddle, effective contenders of such a job"
    table = new_table(title, "", *HEADINGS[1:])
    for policy, name in POLICIES.items():
        labels = [searched(setting, policy) for setting in SETTINGS]
        pairs = ((results.median("straddling_share", **o), results.median("mean_contenders", **o)) for o in labels)
        table.add_row(name, *(f"{share:.0%}, {k:.2f}" for share, k in pairs))
    return table


def _plain_orders(results: Results) -> Table:
    extras = sorted({setting.extra for setting in SETTINGS})
    headings = [f"{what}, {extra:.2f}" for what in ("makespan", "average completion") for extra in extras]
    table = new_table("Not in the paper: plain orders with best fit on few servers, 20 servers", "", *headings)
    for policy, name in PLAIN.items():
        pairs = [(metric, plain(extra, policy)) for metric in ("makespan_s", "mean_jct_s") for extra in extras]
        table.add_row(name, *(median_and_spread(results, metric, **own) for metric, own in pairs))
    return table
