"""A scheduler for several GPU types that rehearses gavel-makespan and orders of jobs, and plays the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import numpy as np

from gpusched_env.agents.order_search import ROUNDING, OrderSearch, Plan, Rehearsed
from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.portable import arrays, draws
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Start

FORMAT: Final = "gpusched-type-order-search-1"
RIVAL: Final = "gavel-makespan"
CALMER: Final = "gavel-makespan:round_s=720"  # it preempts half as often
# Of a fresh order: standard deviation of ln(price), mean and standard deviation of the weight of ln(gang size),
# standard deviation of the noise of each job, scale of the patience, least share of the longest run time at which a job
# comes first. Of a changed order: standard deviation of the change of a job.
NAMES: Final = ("price", "gang", "gang_spread", "noise", "patience", "first", "jump")
DEFAULTS: Final = (0.1, 2.0, 1.0, 0.1, 0.3, 0.5, 0.3)
BALANCING: Final = 100  # steps in which prices are found that balance the work of the types
DECIMALS: Final = 9  # decimals of ln(cost): closer ones tie
NEVER_S: Final = 1e15  # [s] run time on a type on which a job cannot run
AHEAD: Final = 100.0  # keys of jobs that come first are smaller by this


class Rival:
    """A plan that does what another scheduler does; it begins anew in each run that it plays.

    Parameters
    ----------
    spec : the scheduler
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._view: ClusterView | None = None

    def starts(self, view: ClusterView) -> Iterable[Decision]:
        """Return the decisions of the scheduler."""
        if view is not self._view:
            self._view, self._scheduler = view, make_scheduler(self._spec)
            self._scheduler.reset(view)
        return self._scheduler.decide(view)


class TypeOrder(NamedTuple):
    """An order of jobs, and the GPU types that they choose.

    Attributes
    ----------
    keys : float64 [arrived jobs], small keys come first
    prices : float64 [types], ln of the price of a GPU
    run_s : float64 [types, arrived jobs], run time of each job on each type [s]
    costs : float64 [types, arrived jobs], ln(run time x price)
    limit_s : when all jobs should have finished [s]; a job chooses only types on which it would, or its fastest type
    patience : a job takes no type whose ln(cost) is larger than that of its cheapest one by more than this
    """

    keys: np.ndarray
    prices: np.ndarray
    run_s: np.ndarray
    costs: np.ndarray
    limit_s: float
    patience: float

    def starts(self, view: ClusterView) -> Iterator[Decision]:
        """Yield the starts of now; each depends on those before it."""
        rows = view.waiting
        if not len(rows) or not view.free_gpus:
            return
        rows = rows[np.argsort(self.keys[rows], kind="stable")]
        gangs, nodes = view.gpus[rows], view.cluster.nodes
        wanted = in_time(self.costs[:, rows], self.run_s[:, rows], self.limit_s - view.now_s)
        wanted[wanted > wanted.min(axis=0) + self.patience] = np.inf
        at = 0
        while at < len(rows):
            room = _room(view.free_by_node, nodes, len(self.prices))
            chosen = np.where(gangs[at:] <= room[:, None], wanted[:, at:], np.inf)
            able = chosen.min(axis=0) < np.inf
            first = int(able.argmax())
            if not able[first]:
                return
            at += first
            yield Start(int(rows[at]), gpus=_gpus_of(view, int(chosen[:, first].argmin()), int(gangs[at])))
            at += 1


def in_time(costs: np.ndarray, run_s: np.ndarray, left_s: float) -> np.ndarray:
    """float64 [types, jobs]: costs, infinite where a job would not finish in the time left, if it could elsewhere."""
    return np.where((run_s <= left_s) | (run_s == run_s.min(axis=0)), costs, np.inf)


def _room(free: np.ndarray, nodes: np.ndarray, types: int) -> np.ndarray:
    """int64 [types]: the largest gang that each type has room for, on one machine or on whole machines."""
    room = np.bincount(nodes["gpu_type"], np.where(free == nodes["gpus"], free, 0), types)
    np.maximum.at(room, nodes["gpu_type"], free)
    return room


def _gpus_of(view: ClusterView, kind: int, gang: int) -> tuple[int, ...]:
    """Return free GPUs of a type: on the fullest machine with room for the gang, otherwise on the emptiest ones."""
    own = np.flatnonzero(view.cluster.nodes["gpu_type"] == kind)
    free = view.free_by_node[own]
    holds = np.flatnonzero(free >= gang)
    chosen = own[[holds[np.argmin(free[holds])]]] if len(holds) else own[np.argsort(-free, kind="stable")]
    gpus: list[int] = []
    for node in chosen.tolist():
        gpus += np.flatnonzero(view.is_free & (view.cluster.node_of_gpu == node)).tolist()
        if len(gpus) >= gang:
            break
    return tuple(gpus[:gang])


@dataclass
class TypeOrderSearch(OrderSearch):
    """Rehearse gavel-makespan and orders of the jobs with choices of GPU types, and play the best: small makespan.

    The first rehearsals are ``gavel-makespan``, with its own rounds and with rounds twice as long, so the makespan is
    never larger than theirs if all jobs are there at the beginning. In the other rehearsals no job is preempted. The
    cost of a type for a job is its run time there x the price of the type. A job takes its cheapest type with room on
    which it still finishes in time. The longest jobs choose first, then large gangs. Prices balance the work of the
    types but for a random part; the time by which all should finish is random. The search ends early when the longest
    job alone sets the makespan. If jobs arrive later, ``gavel-makespan`` takes over.

    The parameters are those of :class:`OrderSearch`.
    """

    format: ClassVar = FORMAT
    needs = ("types",)
    names: ClassVar[tuple[str, ...]] = NAMES
    knows_partitions = False  # it chooses machines itself
    knows_node_counts = False

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Carry out the best plan, or the rival once jobs have arrived later."""
        assert isinstance(view, ClairvoyantView)
        if not self._planned:
            self._best = self.search(view)
        elif view.arrived > self._planned and not isinstance(self._best.order, Rival):
            self._best = self._best._replace(order=Rival(RIVAL))
        self._planned = view.arrived
        return self._best.order.starts(view)

    def search(self, view: ClairvoyantView) -> Rehearsed:
        """Return the best of the rehearsed plans."""
        self._read(view)
        rival = self._rehearse_whole(view, Rival(RIVAL))
        if not rival.waits:
            return rival
        best = self._rehearse(view, Rival(CALMER), rival.end_s) or rival
        if not best.waits:
            return best
        found = self.search_orders(view, rival.end_s)
        return found if found.end_s < best.end_s else best

    def search_orders(self, view: ClairvoyantView, rival_s: float) -> Rehearsed:
        """Return the best of the rehearsed orders; the rival ends at ``rival_s``."""
        self._read(view)
        self._rival_s = rival_s
        return super().search(view)

    def _read(self, view: ClairvoyantView) -> None:
        rows = np.arange(view.arrived)
        rates, left_s = view.type_rates(rows).T, view.remaining_s(rows)
        slowdowns = np.divide(rates.max(axis=0), rates, out=np.full_like(rates, np.inf), where=rates > 0.0)
        self._run_s = np.minimum(left_s * slowdowns, NEVER_S)
        self._logs = np.array([arrays.log(own) for own in self._run_s])
        self._gangs = view.gpus[rows]
        nodes = view.cluster.nodes
        self._gpus = np.bincount(nodes["gpu_type"], nodes["gpus"], len(rates))
        self._least_s = view.now_s + float(left_s.max())

    def _first(self, view: ClairvoyantView) -> Plan:
        return self._fresh(None)

    def _fresh(self, best: Rehearsed | None) -> Plan:
        price, gang, gang_spread, noise, patience, first, _ = self.rule
        limit_s = self._limit_s(best)
        prices = self._balanced(limit_s) + price * draws.normal(self._generator, len(self._gpus))
        costs = self._costs(prices)
        longest = self._run_s[in_time(costs, self._run_s, limit_s).argmin(axis=0), np.arange(len(self._gangs))]
        weight = gang + gang_spread * float(draws.normal(self._generator, 1)[0])
        keys = -(arrays.log(longest) + weight * arrays.log(self._gangs.astype(float)))
        keys -= noise * draws.normal(self._generator, len(keys))
        keys[longest > first * self._least_s] -= AHEAD
        waits = patience * abs(float(draws.normal(self._generator, 1)[0]))
        return TypeOrder(keys, prices, self._run_s, costs, limit_s, waits)

    def _changed(self, best: Rehearsed) -> Plan:
        """Move jobs; or change the prices, the time by which all should finish, and the patience."""
        order = best.order
        assert isinstance(order, TypeOrder)
        if self._generator.random() < 0.5:
            return order._replace(keys=self._moved(order.keys, best, self.rule[-1]))
        step = self.rule[0] * float(self._generator.random())
        prices = order.prices + step * draws.normal(self._generator, len(self._gpus))
        waits = 2.0 * order.patience * float(self._generator.random())
        limit_s = self._limit_s(best)
        return order._replace(prices=prices, costs=self._costs(prices), limit_s=limit_s, patience=waits)

    def _limit_s(self, best: Rehearsed | None) -> float:
        end_s = self._rival_s if best is None else min(best.end_s, self._rival_s)
        share = float(self._generator.random())
        return (self._least_s + (end_s - self._least_s) * share) * (1.0 + ROUNDING)

    def _costs(self, prices: np.ndarray) -> np.ndarray:
        return np.round(self._logs + prices[:, None], DECIMALS)

    def _balanced(self, limit_s: float) -> np.ndarray:
        """float64 [types]: ln(price) at which jobs that take their cheapest type bring each type about equal work."""
        free, every = self._costs(np.zeros(len(self._gpus))), np.arange(len(self._gangs))
        prices = np.zeros(len(self._gpus))
        for step in range(BALANCING):
            costs = np.round(free + prices[:, None], DECIMALS)
            kinds = in_time(costs, self._run_s, limit_s).argmin(axis=0)
            work = np.bincount(kinds, self._gangs * self._run_s[kinds, every], len(prices)) / self._gpus
            prices += (2.0 / (2.0 + step)) * (work / arrays.total(work) - 1.0 / len(prices))
        return prices

    def _waits(self, view: ClairvoyantView, last: int) -> bool:
        """Return whether the makespan is longer than the longest job alone."""
        assert self._copy is not None
        return float(self._copy.arrays.jobs["finish_s"][last]) > self._least_s * (1.0 + ROUNDING)
