"""Chronus: leases for rigid jobs, chosen by an integer program so that admitted jobs keep their deadlines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from gpusched_env.baselines.deadlines.slots import TICK_S, Ask, SlotScheduler, change_cost_s
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClairvoyantView, ClusterView

NODES: int = 2_000  # limit of the search tree; an arrival for which the search does not end is refused


class Need(NamedTuple):
    """The leases that a job needs: ``leases`` of ``gpus`` GPUs, all before lease number ``before`` from now."""

    job: int
    gpus: int
    leases: int
    before: int
    value: float


@dataclass
class Chronus(SlotScheduler):
    """Grant leases to gangs of the sizes that users request; refuse jobs whose deadlines cannot be kept.

    At the end of a lease, an integer program chooses the arrivals with the largest sum of values such that they and all
    admitted jobs get enough leases before their deadlines. Leases that they do not need now go to jobs without
    deadlines, by arrival, and then to admitted jobs, earliest deadline first.

    Parameters
    ----------
    slot_s : length of a lease [s]; scenarios with rounds have leases of one round

    Notes
    -----
    A job with w seconds of work left, its start included, needs ceil(w / lease) leases, and a deadline in d seconds
    leaves floor(d / lease) of them. If the earliest free leases, job by job in deadline order, suffice for all jobs, no
    program is solved: this is the optimum. Ties between optima: the earliest arrival is admitted first, so that the
    result does not depend on the solver. Choices: jobs have one deadline each; a program whose search tree exceeds
    2,000 nodes refuses the arrivals; admitted jobs that can no longer keep their deadlines count as jobs without.

    References
    ----------
    W. Gao et al., "Chronus: A novel deadline-aware scheduler for deep learning training jobs", SoCC 2021;
    gudiandian/ElasticFlow, ``chronus-scheduler`` (Apache-2.0).
    """

    slot_s: float = 240.0
    name = "chronus"

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        super().reset(view)
        if self._slot_s == 0:
            raise SchedulerError("chronus: a lease of 0 s: slot_s must be above 0")
        self._admitted: set[int] = set()

    def options(self, view: ClairvoyantView, job: int) -> tuple[list[int], list[float]]:
        """Return the size that a job requests, and its rate there."""
        gpus = int(view.gpus[job])
        at = view.sizes(job).tolist().index(gpus)
        return [0, gpus], [0.0, float(view.size_rates(job)[at])]

    def counts(self, view: ClairvoyantView, now_s: float, jobs: list[Ask], arrivals: set[int]) -> dict[int, int]:
        """Admit, and choose the gangs of the next lease."""
        gpus, lease_s = view.cluster.gpus, self._slot_s
        values = view.told("value", 1.0)
        order = sorted(jobs, key=lambda ask: (ask.deadline_s, ask.job))
        cost_s = change_cost_s(view)
        needs = {ask.job: _need(ask, now_s, lease_s, cost_s, float(values[ask.job])) for ask in order}
        due = [need for need in needs.values() if need is not None and need.leases <= need.before]
        old = [need for need in due if need.job in self._admitted]
        new = [need for need in due if need.job in arrivals]
        fitting = {need.job for need in admitted(old, new, gpus)}
        arrivals -= {job for job in arrivals if needs[job] is not None and job not in fitting}
        jobs = [ask for ask in jobs if ask.job in arrivals or ask.job in self._admitted]
        self._admitted |= arrivals
        due = [need for need in due if need.job in self._admitted]
        chosen = needed_now(due, gpus)
        certain = {need.job for need in due}
        spare = [ask.job for ask in jobs if ask.job not in certain]
        counts = dict(chosen)
        left = gpus - sum(counts.values())
        asks = {ask.job: ask for ask in jobs}
        for job in [*spare, *(need.job for need in due)]:
            if job not in counts and asks[job].sizes[1] <= left:
                counts[job] = asks[job].sizes[1]
                left -= counts[job]
        if jobs:
            self._change_s = now_s + lease_s
        return counts


def _need(ask: Ask, now_s: float, lease_s: float, cost_s: float, value: float) -> Need | None:
    """Return the leases that a job needs; None = it has no deadline."""
    if ask.deadline_s == math.inf:
        return None
    work_s = ask.left / ask.rates[1] + (ask.delay_s if ask.held else cost_s)
    leases = max(math.ceil((work_s - TICK_S) / lease_s), 1)
    return Need(ask.job, ask.sizes[1], leases, max(math.floor((ask.deadline_s - now_s + TICK_S) / lease_s), 0), value)


def earliest(needs: list[Need], gpus: int) -> dict[int, bool] | None:
    """Return whether each job, given its earliest free leases in order, has the first one; None = some are late."""
    used = sum(need.leases for need in needs)  # no job is given a later lease than this
    free = [gpus] * min(max((need.before for need in needs), default=0), used)
    first = {}
    for need in needs:
        taken = [k for k in range(min(need.before, used)) if free[k] >= need.gpus][: need.leases]
        if len(taken) < need.leases:
            return None
        for k in taken:
            free[k] -= need.gpus
        first[need.job] = taken[0] == 0
    return first


def admitted(old: list[Need], new: list[Need], gpus: int) -> list[Need]:
    """Return the arrivals with the largest sum of values that fit beside the admitted jobs."""
    if not new or earliest(sorted([*old, *new], key=lambda need: (need.before, need.job)), gpus) is not None:
        return new
    best = _solve(old, new, gpus, {})
    if best is None:
        return []
    fixed: dict[int, bool] = {}
    for need in new:  # of the optima, the one that is first in this order
        fixed[need.job] = True
        other = _solve(old, new, gpus, fixed)
        fixed[need.job] = other is not None and round(other - best, 6) >= 0
    return [need for need in new if fixed[need.job]]


def needed_now(due: list[Need], gpus: int) -> dict[int, int]:
    """Return the gangs that run in the first lease such that all jobs get their leases; job -> GPUs."""
    order = sorted(due, key=lambda need: (need.before, need.job))
    first = earliest(order, gpus)
    if first is None:
        first, left = {}, gpus
        possible = _solve(due, [], gpus, {}) is not None  # if not, the first deadlines get the GPUs
        for need in order:
            first[need.job] = need.gpus <= left and (
                not possible or _solve(due, [], gpus, {}, first | {need.job: True}) is not None
            )
            left -= need.gpus if first[need.job] else 0
    return {need.job: need.gpus for need in due if first[need.job]}


def _solve(
    old: list[Need], new: list[Need], gpus: int, fixed: dict[int, bool], now: dict[int, bool] | None = None
) -> float | None:
    """Return the largest sum of values of arrivals that fit beside the admitted jobs; None = none was found.

    ``fixed`` : arrivals that must be admitted, or refused; ``now`` : jobs that must have the first lease, or not.
    """
    needs = [*old, *new]
    begin = np.cumsum([0, *(need.before for need in needs)])  # columns of the leases of each job, then one S for each
    width, leases = int(begin[-1]), max(need.before for need in needs)
    columns = np.arange(width)
    of_job = np.repeat(np.arange(len(needs)), [need.before for need in needs])
    lease = columns - begin[of_job]
    sizes, counts = np.array([need.gpus for need in needs]), np.array([need.leases for need in needs])
    total = width + len(needs)
    works = csr_array(
        (
            np.concatenate([np.ones(width), -counts]),
            (np.concatenate([of_job, np.arange(len(needs))]), np.arange(total)),
        ),
        shape=(len(needs), total),
    )
    room = csr_array((sizes[of_job].astype(float), (lease, columns)), shape=(leases, total))
    low, high = np.zeros(total), np.ones(total)
    low[width : width + len(old)] = 1.0
    for i, need in enumerate(needs):
        if need.job in fixed:
            low[width + i] = high[width + i] = float(fixed[need.job])
        if now is not None and need.job in now:
            low[begin[i]] = high[begin[i]] = float(now[need.job])
    gain = np.zeros(total)
    gain[width + len(old) :] = [need.value for need in new]
    found = milp(
        -gain,
        constraints=[LinearConstraint(works, 0.0, 0.0), LinearConstraint(room, -np.inf, float(gpus))],
        integrality=np.ones(total),
        bounds=Bounds(low, high),
        options={"mip_rel_gap": 0.0, "node_limit": NODES},
    )
    return None if found.status != 0 else -float(found.fun)
