"""Priorities that a log reveals: a job that starts while another one waits, which would have fitted, goes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.slurm.fair_share import FairTree, decay
from gpusched_env.baselines.slurm.limits import limits_of
from gpusched_env.portable import arrays
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.tenants import UNLIMITED
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.usage import decayed

RIVALS: Final = 40  # waiting jobs with which each start is compared
MOST_STARTS: Final = 5_000  # starts that are compared; of more, a random sample
_DRAW: Final = 0x2EA1
_RIDGE: Final = 1e-8  # keeps the weights finite if they explain every pair
_STEPS: Final = 60  # of Newton's method


@dataclass(frozen=True)
class Aging:
    """Parameters of the factors that change with time, in the words of the scheduler ``slurm``."""

    max_age_s: float = 604_800.0
    fair_share: str = "tree"
    damping: float = 1.0
    decay_half_life_s: float = 604_800.0
    calc_period_s: float = 300.0


class Pairs(NamedTuple):
    """Starts, and for each a job that waited although it needed as many GPUs for no longer."""

    winner: np.ndarray  # int64 [P], row of the job that started
    loser: np.ndarray  # int64 [P], row of the job that waited
    time_s: np.ndarray  # float64 [P], when

    def __len__(self) -> int:
        return len(self.winner)


class Rights(NamedTuple):
    """What each job asks of nodes: a set, and the parts of its gang as in NodeCounts.

    ``within`` : whether each node of the first set is in the second, at equal tiers, [S, S].
    """

    of_job: np.ndarray
    within: np.ndarray
    part: np.ndarray
    most: np.ndarray

    @classmethod
    def of(cls, instance: Instance) -> Rights:
        """Return those of an instance; without partitions, all jobs are of one set."""
        sets, counts = instance.node_sets, instance.node_counts
        nothing = np.zeros(len(instance.workload), np.int64)
        parts = (nothing, nothing) if counts is None else (counts.part[counts.of_job], counts.most[counts.of_job])
        if sets is None:
            return cls(nothing, np.ones((1, 1), bool), *parts)
        tier = np.zeros(len(sets.belongs))
        tier[sets.of_job] = np.array([one.tier for one in sets.partitions])[sets.partition]
        inside = (sets.belongs[:, None] <= sets.belongs[None]).all(axis=2)
        return cls(sets.of_job.astype(np.int64), inside & (tier[:, None] == tier[None]), *parts)


def find_pairs(
    recorded: Recorded,
    limit_s: np.ndarray,
    end_s: float,
    begin_s: float = 0.0,
    seed: int = 0,
    rights: Rights | None = None,
    smaller: bool = False,
) -> Pairs:
    """Return pairs of jobs whose order of priority the log reveals.

    A job that started while another one waited had the higher priority, if the other one needs equally many GPUs for
    at most as long, and may use each node that the first job may use: wherever the first job fits, in the main pass and
    in backfill, the other one would have fitted. With ``smaller``, the other one may need fewer GPUs; such pairs tell
    nothing about the size, because they can only show that large jobs go first: if a small job starts before a large
    one, the large one may not have fitted.

    Starts from ``begin_s`` until before ``end_s`` are compared; without ``rights`` all are on the same machines.
    """
    rng = np.random.default_rng([_DRAW, seed])
    order = np.argsort(recorded.arrival_s, kind="stable")
    if rights is None:
        rights = Rights(nothing := np.zeros(len(order), np.int64), np.ones((1, 1), bool), nothing, nothing)
    place, part, most = rights.of_job[order], rights.part[order], rights.most[order]
    arrival, start = recorded.arrival_s[order], recorded.start_s[order]
    gpus, limit = recorded.gpus[order], limit_s[order]
    chosen = np.flatnonzero((start >= begin_s) & (start < end_s))
    if len(chosen) > MOST_STARTS:
        chosen = np.sort(rng.permutation(chosen)[:MOST_STARTS])
    latest = np.maximum.accumulate(start)  # jobs before the first one that starts later have all started
    winner, loser, times = [], [], []
    for row in chosen.tolist():
        now_s = start[row]
        there = slice(int(np.searchsorted(latest, now_s, side="right")), int(np.searchsorted(arrival, now_s, "right")))
        equal = (gpus[there] == gpus[row]) & (part[there] == part[row]) & (most[there] == most[row])
        if smaller:
            fewer = gpus[there] * part[row] <= gpus[row] * part[there]  # parts; the gang that ran has one on each node
            fewer &= (part[there] <= part[row]) & (most[row] == part[row])
            equal |= (gpus[there] <= gpus[row]) & (fewer | (part[there] == 0))
        equal &= (start[there] > now_s) & (limit[there] <= limit[row]) & rights.within[place[row], place[there]]
        rivals = np.flatnonzero(equal) + there.start
        if len(rivals) > RIVALS:
            rivals = np.sort(rng.permutation(rivals)[:RIVALS])
        loser.append(rivals)
        winner.append(np.full(len(rivals), row))
        times.append(np.full(len(rivals), now_s))
    return Pairs(
        order[np.concatenate([np.empty(0, np.int64), *winner])],
        order[np.concatenate([np.empty(0, np.int64), *loser])],
        np.concatenate([np.empty(0), *times]),
    )


def without_limited(instance: Instance, recorded: Recorded, pairs: Pairs) -> Pairs:
    """Leave out pairs whose waiting job a limit of its tenants or QOS held back, by what was held then.

    If the limit counts the job that started too, the other one could have started instead of it.
    """
    limits = limits_of(instance)
    group, first = limits["group"], limits["first_limit"]
    limited = np.repeat(np.arange(len(first) - 1), np.diff(first))  # the group of each limit
    jobs_of, pairs_of = _rows_of(group, len(first) - 1), _rows_of(group[pairs.loser], len(first) - 1)
    kept = np.ones(len(pairs), bool)
    for at in _rows_of(limits["counter"], int(limits["counter"].max(initial=-1)) + 1):
        rows = np.sort(_joined([jobs_of[one] for one in limited[at]]))
        counted = np.isin(pairs.winner, rows)
        for kind in ("most", "most_jobs"):
            bound = at[limits[kind][at] != UNLIMITED]
            asked = [pairs_of[one] for one in limited[bound]]
            pair = _joined(asked)
            if not len(pair):
                continue
            held = Recorded(*(column[rows] for column in recorded))
            wanted = recorded.gpus[pairs.loser[pair]] * ~counted[pair]  # a winner has equally many, which are held
            if kind == "most_jobs":
                held, wanted = held._replace(gpus=np.ones_like(held.gpus)), (~counted[pair]).astype(np.int64)
            limit = np.repeat(limits[kind][bound], [len(one) for one in asked])
            kept[pair] &= held.held().at(pairs.time_s[pair]) + wanted <= limit
    return Pairs(*(column[kept] for column in pairs))


def _joined(rows: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *rows])


def _rows_of(group: np.ndarray, groups: int) -> list[np.ndarray]:
    """List the rows of each group, ascending."""
    ends = np.cumsum(np.bincount(group, minlength=groups))
    return np.split(np.argsort(group, kind="stable"), ends[:-1])


def age_factor(arrival_s: np.ndarray, time_s: np.ndarray, aging: Aging) -> np.ndarray:
    """float64: factor of the age of jobs at a time [s]; it is computed when a job arrives and once a period."""
    seen_s = np.maximum(np.floor(time_s / aging.calc_period_s) * aging.calc_period_s, arrival_s)
    factor: np.ndarray = np.minimum((seen_s - arrival_s) / aging.max_age_s, 1.0)
    return factor


def share_factors(instance: Instance, recorded: Recorded, time_s: np.ndarray, aging: Aging) -> np.ndarray:
    """float64 [n, tenants]: fair-share factor of each tenant at each time [s], from the recorded usage."""
    tree, leaf = instance.tenancy
    fair = FairTree(tree.parent, tree.weight)
    periods, at = np.unique(np.floor(time_s / aging.calc_period_s).astype(np.int64), return_inverse=True)
    edges_s = np.arange(int(periods.max(initial=0)) + 1) * aging.calc_period_s
    fade = decay(aging.calc_period_s, aging.decay_half_life_s)
    usage = np.zeros((len(periods), len(tree.names)))
    for row in np.unique(leaf).tolist():
        own = leaf == row
        usage[:, row] = decayed(Recorded(*(column[own] for column in recorded)).held(), edges_s, fade)[periods]
    tell = fair.ranked if aging.fair_share == "tree" else lambda used: fair.classic(used, aging.damping)
    return np.array([tell(used) for used in usage]).reshape(len(periods), len(tree.names))[at]


class Features(NamedTuple):
    """Differences of the factors of the two jobs of each pair."""

    names: tuple[str, ...]  # "age", "fair_share", then "qos NAME" and "partition NAME"
    values: np.ndarray  # float64 [P, F], winner - loser


def features(
    instance: Instance, recorded: Recorded, pairs: Pairs, aging: Aging, labels: dict[str, np.ndarray]
) -> Features:
    """Return the differences of the factors of Slurm's priority.

    ``labels`` : name of a kind ("qos", "partition") -> str [J]; each name becomes a factor, 1 for its jobs.
    """
    leaf = instance.tenancy[1]
    share = share_factors(instance, recorded, pairs.time_s, aging)
    row = np.arange(len(pairs))
    columns = {
        "age": age_factor(recorded.arrival_s[pairs.winner], pairs.time_s, aging)
        - age_factor(recorded.arrival_s[pairs.loser], pairs.time_s, aging),
        "fair_share": share[row, leaf[pairs.winner]] - share[row, leaf[pairs.loser]],
    }
    for kind, names in labels.items():
        for name in np.unique(names).tolist():
            has = (names == name).astype(float)
            columns[f"{kind} {name}"] = has[pairs.winner] - has[pairs.loser]
    return Features(tuple(columns), np.stack(list(columns.values()), axis=1))


class Weights(NamedTuple):
    """Weights that order the pairs best."""

    of: dict[str, float]  # name of a factor -> weight; only differences of these weights and their scale are arbitrary
    loss: float  # mean logistic loss of the pairs; log 2 = the factors tell nothing
    agreed: float  # part of the pairs that these weights order as the log does, 0..1


def fit_weights(found: Features) -> Weights:
    """Fit weights by logistic regression on pairs: P(the winner goes first) = 1 / (1 + exp(-difference of priorities)).

    Weights of the age and of the fair share are at least 0; a factor whose weight would be below 0 is left out.
    """
    if not len(found.values):
        return Weights(dict.fromkeys(found.names, 0.0), float(arrays.log(np.array([2.0]))[0]), 1.0)
    kept = [i for i in range(len(found.names)) if np.ptp(found.values[:, i]) > 0]
    while True:
        scale = np.sqrt((found.values[:, kept] * found.values[:, kept]).mean(axis=0))
        x = found.values[:, kept] / scale
        weights = _newton(x)
        bad = [
            (weights[n], i) for n, i in enumerate(kept)
            if weights[n] < 0 and " " not in found.names[i]
        ]  # fmt: skip
        if not bad:
            break
        kept.remove(min(bad)[1])
    margin = (x * weights).sum(axis=1)
    told = dict.fromkeys(found.names, 0.0) | {
        found.names[i]: float(weight) for i, weight in zip(kept, weights / scale, strict=True)
    }
    return Weights(told, float(_loss(margin).mean()), float((margin > 0).mean() + 0.5 * (margin == 0).mean()))


def _newton(x: np.ndarray) -> np.ndarray:
    """Minimise the mean logistic loss + ridge by Newton's method with halved steps."""
    weights = np.zeros(x.shape[1])

    def objective(at: np.ndarray) -> float:
        return float(_loss((x * at).sum(axis=1)).mean() + _RIDGE * (at * at).sum())

    value = objective(weights)
    for _ in range(_STEPS):
        wrong = 1.0 / (1.0 + arrays.exp(np.clip((x * weights).sum(axis=1), -500.0, 500.0)))
        gradient = -(x * wrong[:, None]).mean(axis=0) + 2 * _RIDGE * weights
        curve = (wrong * (1 - wrong))[:, None]
        hessian = np.array([(x * (x[:, [i]] * curve)).mean(axis=0) for i in range(x.shape[1])])
        step = np.linalg.solve(hessian + 2 * _RIDGE * np.eye(len(weights)), gradient)
        size = 1.0
        while size > 1e-6 and (new := objective(weights - size * step)) > value:
            size *= 0.5
        if size <= 1e-6 or value - new < 1e-10:
            break
        weights, value = weights - size * step, new
    return weights


def _loss(margin: np.ndarray) -> np.ndarray:
    """float64: log(1 + exp(-margin)), without overflow."""
    loss: np.ndarray = np.maximum(-margin, 0.0) + arrays.log1p(arrays.exp(-np.abs(margin)))
    return loss
