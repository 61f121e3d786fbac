"""The experiments of SJF-BCO's evaluation, with two readings of its placement step and two contention budgets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bco.problem import RingAllReduce, measure
from gpusched_env.reproduce.sjf_bco.published import KAPPAS, LAMBDAS, POLICIES, SERVERS
from gpusched_env.reproduce.sjf_bco.settings import PLAIN, SETTINGS, STRONG_QUEUE, fixed, plain, searched
from gpusched_env.reproduce.sjf_bco.tables import all_tables
from gpusched_env.reproduce.sjf_bco.trends import all_trends

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance

SEEDS: Final = 20
QUICK_SEEDS: Final = 2
QUICK_SERVERS: Final = (SERVERS[0], SERVERS[-1])
QUICK_KAPPAS: Final = (1, 4, 8, 32)


class SjfBcoCard(Card):
    """Figures 4 to 7 of the paper."""

    title = "SJF-BCO (MobiHoc 2022): 160 ring-all-reduce jobs; times in slots, medians over seeds [quartiles]"

    def runs(self, quick: bool) -> list[Run]:
        """All policies, sizes and curves on 20 draws; ``quick`` = on two, without 15 servers and some kappas."""
        sizes, kappas = (QUICK_SERVERS, QUICK_KAPPAS) if quick else (SERVERS, KAPPAS)
        problems = {
            pair: RingAllReduce(*pair) for pair in itertools.product(sizes, {setting.extra for setting in SETTINGS})
        }
        return [
            Run(problems[own["servers"], own["extra"]], _spec(own, seed), seed, own)
            for seed in range(QUICK_SEEDS if quick else SEEDS)
            for own in (*_of_policies(sizes), *_of_curves(kappas), *_of_plain_orders())
        ]

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Measure the least completion time, straddling jobs and effective contenders."""
        return measure(instance, log)

    def tables(self, results: Results) -> Sequence[Table]:
        """Return figures 4 to 7 as tables, the makespan that SJF-BCO saves, and the contention met by the policies."""
        return all_tables(results)

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check each trend in each setting."""
        return all_trends(results)

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw figures 4 to 7."""
        from gpusched_env.reproduce.sjf_bco.figures import draw_all

        return draw_all(results, folder)


def _of_policies(sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Labels of the runs of figures 4 and 6."""
    for setting, servers, policy in itertools.product(SETTINGS, sizes, POLICIES):
        yield searched(setting, policy, servers)


def _of_curves(kappas: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Labels of the runs of figures 5 and 7."""
    for setting in SETTINGS:
        yield from (fixed(setting, kappa) for kappa in kappas)
        yield from (fixed(setting, 1, lambda_) for lambda_ in LAMBDAS[1:])
    yield from (fixed(STRONG_QUEUE, kappa, rule="lt") for kappa in kappas)


def _of_plain_orders() -> Iterator[dict[str, Any]]:
    """Labels of the runs that are not in the paper."""
    for extra, policy in itertools.product(sorted({setting.extra for setting in SETTINGS}), PLAIN):
        yield plain(extra, policy)


def _spec(own: dict[str, Any], seed: int) -> str:
    """Return the scheduler's spec for a run's labels; charges as in the published set-up, 0.01 slots an iteration."""
    if own["policy"] in PLAIN:
        return str(own["policy"])
    if own["policy"] == "bco-rand":
        return f"bco-rand:semantics={own['reading']},seed={seed}"
    parts = [f"{own['policy']}:semantics={own['reading']}", "charge=estimate"]
    if own["policy"] == "sjf-bco":
        parts += [f"kappa={own['kappa']}", f"lambda={own['lambda']}", f"kappa_rule={own['rule']}"]
    return ",".join(parts)
