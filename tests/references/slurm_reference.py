"""Fair Tree as its manual describes it, and decayed usage from an event log with free preemption; in plain Python.

Level factors are exact fractions, so they tie where they tie in theory. Slurm computes them in long double
(src/plugins/priority/multifactor/fair_tree.c); docs/slurm.md names the differences.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gpusched_env.event_log import COMPLETE, PREEMPT, RESUME, START, EventLog
from gpusched_env.problem.instance import Instance


def level_factor(row: int, parent: list[int], weight: list[float], total: list[Fraction]) -> Fraction | float:
    """Return the part of the shares of the siblings / the part of their usage; infinite without usage (manual)."""
    siblings = [other for other in range(len(parent)) if parent[other] == parent[row]]
    used = sum(total[other] for other in siblings)
    if total[row] == 0:
        return math.inf
    return Fraction(weight[row]) / sum(Fraction(weight[other]) for other in siblings) / (total[row] / used)


def fair_tree(parent: list[int], weight: list[float], usage: list[float]) -> dict[int, float]:
    """Walk the tree depth-first, highest level factor first; tied accounts merge their children. Factor by leaf.

    The rules of ties are those of the manual (https://slurm.schedmd.com/fair_tree.html) and of the comment above
    ``_calc_tree_fs`` in fair_tree.c: users of equal level share a rank; accounts of equal level merge their children
    before these are sorted; a user that ties with an account has the rank of its best user.
    """
    rows = range(len(parent))
    children = {row: [other for other in rows if parent[other] == row] for row in rows}
    leaves = [row for row in rows if not children[row]]
    total = [Fraction(used) for used in usage]
    for row in reversed(rows):
        if children[row]:
            total[row] = sum((total[child] for child in children[row]), Fraction(0))
    factors: dict[int, float] = {}
    state = {"rank": 0, "left": len(leaves)}

    def walk(group: list[int], tied: bool) -> None:
        levels = {row: level_factor(row, parent, weight, total) for row in group}
        order = sorted(group, key=lambda row: (-levels[row], bool(children[row])))  # as _cmp_level_fs: users first
        at = 0
        while at < len(order):
            level = levels[order[at]]
            equal = [row for row in order[at:] if levels[row] == level]
            users = [row for row in equal if not children[row]]
            accounts = [row for row in equal if children[row]]
            for number, row in enumerate(users):
                if number == 0 and not tied:
                    state["rank"] = state["left"]
                factors[row] = state["rank"] / len(leaves)
                state["left"] -= 1
            if accounts:
                walk([child for row in accounts for child in children[row]], bool(users) or tied)
            tied = False
            at += len(equal)

    walk(children[0], False)
    return factors


def decayed_usage(
    instance: Instance, log: EventLog, of_job: np.ndarray, tenants: int, until_s: float, period_s: float, factor: float
) -> np.ndarray:
    """GPU seconds of each tenant up to the last period before ``until_s``, decayed at the end of each period."""
    usage = np.zeros(tenants)
    gpus = instance.workload.jobs["gpus"]
    spans: list[tuple[int, float, float]] = []
    since: dict[int, float] = {}
    for event in log.events:
        job = int(event["job"])
        if event["kind"] in (START, RESUME):
            since[job] = float(event["time_s"])
        elif event["kind"] in (COMPLETE, PREEMPT):
            spans.append((job, since.pop(job), float(event["time_s"])))
    spans += [(job, begin, math.inf) for job, begin in since.items()]
    for number in range(int(until_s // period_s)):
        begin_s, end_s = number * period_s, (number + 1) * period_s
        usage *= factor
        for job, start_s, stop_s in spans:
            usage[of_job[job]] += gpus[job] * max(min(stop_s, end_s) - max(start_s, begin_s), 0.0)
    return usage
