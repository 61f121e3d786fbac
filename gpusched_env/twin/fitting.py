"""Fit a twin to a log: weights from the order of starts, then backfill, size and the other weights by replays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.qos import QOS, Qos
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import GPU_TYPES, MAX_NODES, Workload
from gpusched_env.traces.kubernetes.quotas import Quotas
from gpusched_env.twin.inferred_priorities import (
    Aging,
    Features,
    Rights,
    Weights,
    features,
    find_pairs,
    fit_weights,
    without_limited,
)
from gpusched_env.twin.kueue import FAIRNESS, queues_of, stops
from gpusched_env.twin.model import (
    CLUSTER_QUEUE,
    PARTITION,
    Pool,
    Problem,
    Twin,
    grown_tree,
    ignored_by,
    leaf_names,
    partitions_of,
)
from gpusched_env.twin.policies import with_parameters
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.remaining import CLOCKS_S, find_remainders, time_above
from gpusched_env.twin.sacctmgr import qos_for, with_room
from gpusched_env.twin.scoring import closeness, replayed_starts, score_replay

DAY_S: Final = 86_400.0
POINTS: Final = 10_000.0  # largest weight
FIT_PART: Final = 0.6  # part of the time of the log that is fitted
WARM_UP: Final = 0.1  # part of the fitted part whose starts reveal no weights: usage before the log is unknown
HALF_LIVES_D: Final = (7.0, 1.0, 3.0, 14.0, 30.0)
AGREED: Final = 0.999  # if this part of the pairs agrees, a replay must not overrule them
CLEARLY: Final = 0.98  # another half-life is taken if the loss shrinks below this part
BETTER: Final = 0.99  # another value is taken if the replay is closer by this factor
SMALL: Final = 0.03  # weights below this part of the largest may be noise
SIZES: Final = (-1.0, -0.3, -0.1, 0.1, 0.3, 1.0)  # weights of the size that are tried, relative to POINTS
BACKFILLS: Final = ("none", "easy", "conservative")
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Policy:
    """A point of the search. Weights are in points of priority; ``size_weight`` < 0 = small jobs first."""

    age_weight: float = 0.0
    fair_share_weight: float = 0.0
    size_weight: float = 0.0
    classes: dict[str, float] = dataclasses.field(default_factory=dict)
    partition_classes: dict[str, float] = dataclasses.field(default_factory=dict)
    aging: Aging = dataclasses.field(default_factory=Aging)
    backfill: str = "conservative"
    bf_window_s: float = DAY_S
    bf_interval_s: float = 30.0
    default_limit_s: float = DAY_S
    preempt: str = "off"  # "tier" = jobs of partitions of a higher tier preempt others; known, not searched
    kept: dict[str, Any] = dataclasses.field(default_factory=dict)  # other parameters that are known

    @property
    def class_most(self) -> float:
        """Class whose factor is 1."""
        return max(self.classes.values(), default=0.0) + max(self.partition_classes.values(), default=0.0)

    def scaled(self) -> Policy:
        """Return the same order of priorities with POINTS as the largest weight, and whole numbers."""
        most = max(self.age_weight, self.fair_share_weight, abs(self.size_weight), self.class_most)
        times = POINTS / most if most > 0 else 1.0

        def points(value: float) -> float:
            return float(np.rint(value * times))

        return dataclasses.replace(
            self,
            age_weight=points(self.age_weight),
            fair_share_weight=points(self.fair_share_weight),
            size_weight=points(self.size_weight),
            classes={name: points(value) for name, value in self.classes.items()},
            partition_classes={name: points(value) for name, value in self.partition_classes.items()},
        )

    def without_small(self) -> Policy:
        """Return the policy without small weights, which may be noise."""
        own = self.scaled()
        points = {"age_weight": own.age_weight, "fair_share_weight": own.fair_share_weight}
        points |= {name: max(getattr(own, name).values(), default=0.0) for name in ("classes", "partition_classes")}
        small: dict[str, Any] = {name: 0.0 for name, most in points.items() if most < SMALL * POINTS}
        small |= {name: {} for name in small if name.endswith("classes")}
        return dataclasses.replace(self, **small)

    def agrees(self, pairs: Features) -> float:
        """Return the part of the pairs that the weights order as the log does; of equals, the older one goes first."""
        own = {"age": self.age_weight, "fair_share": self.fair_share_weight}
        own |= {f"qos {name}": points for name, points in self.classes.items()}
        own |= {f"partition {name}": points for name, points in self.partition_classes.items()}
        margin = (pairs.values * np.array([own.get(name, 0.0) for name in pairs.names])).sum(axis=1)
        older = pairs.values[:, pairs.names.index("age")] >= 0
        return float(((margin > 0) | ((margin == 0) & older)).mean())

    def in_twin(self, twin: Twin) -> Twin:
        """Return the twin with this policy."""
        default, aging = Policy(), Aging()
        told = {
            "age_weight": self.age_weight,
            "fair_share_weight": self.fair_share_weight,
            "size_weight": abs(self.size_weight),
            "size_factor": "small" if self.size_weight < 0 else "large",
            "qos_weight": self.class_most,
            **{item.name: getattr(self.aging, item.name) for item in dataclasses.fields(Aging)},
        }
        plain = {"age_weight": 0.0, "fair_share_weight": 0.0, "size_weight": 0.0, "size_factor": "large"}
        plain |= {"qos_weight": 0.0, **{item.name: getattr(aging, item.name) for item in dataclasses.fields(Aging)}}
        for name in ("backfill", "bf_window_s", "bf_interval_s", "default_limit_s", "preempt"):
            told[name], plain[name] = getattr(self, name), getattr(default, name)
        changed = {name: value for name, value in told.items() if value != plain[name] or name == "backfill"}
        changed |= self.kept
        return dataclasses.replace(
            twin,
            scheduler=with_parameters("slurm", **changed),
            classes=self.classes,
            partition_classes=self.partition_classes,
            class_most=self.class_most,
        )


def fit_twin(
    workload: Workload,
    pools: Sequence[Pool],
    source: str = "",
    tenant_columns: Sequence[str] | None = None,
    fit_part: float = FIT_PART,
    shares: Tenants | None = None,
    start: Policy | None = None,
    seed: int = 0,
    tell: Tell | None = None,
    qos: Sequence[Qos] = (),
    anyway: bool = False,
    quotas: Quotas | None = None,
) -> Twin:
    """Fit the policy of a cluster to the first part of a log, and score it on the rest.

    First, the order of starts reveals the weights of age, fair share, QOS and partitions
    (:func:`gpusched_env.twin.inferred_priorities.find_pairs`), and the half-life of usage. Then replays of the first
    part choose backfill and the weight of the size, and improve the others one after another. The result depends on
    nothing but the arguments.

    Parameters
    ----------
    workload : the log, with recorded waits
    pools : machines and the partitions that use them
    source : ``FORMAT:PATH`` of the log, which the twin keeps
    tenant_columns : attributes that name the tenant of a job; None = account and user, as far as the log has them
    fit_part : part of the time from the first to the last arrival that is fitted, above 0, at most 1
    shares : tenants and their shares, if they are known; None = all siblings have equal shares
    start : parameters that are known, such as those of a slurm.conf; its weights are ignored
    seed : seed of the sample of compared starts
    tell : called with a line of text after each phase
    qos : QOS whose limits are known
    anyway : whether machines are taken that are fewer than what the log held at once
    quotas : of a log of Kueue: its queues, which tell the policy except for fair sharing

    Raises
    ------
    TraceError : the log tells no waits
    GpuschedError : a part that is out of range, no job that a pool can run, too few machines, or a log of Kueue without
        its quotas
    """
    if not 0 < fit_part <= 1:
        raise GpuschedError(f"fit_part is {fit_part}: give a number above 0 and at most 1")
    recorded = Recorded.of(workload)
    of_kueue = quotas is not None or tells(workload, CLUSTER_QUEUE)
    tenant_columns = (CLUSTER_QUEUE,) if of_kueue else tenant_columns or ("account", "user")
    columns = tuple(name for name in tenant_columns if tells(workload, name))
    tree, raised = shares, tuple[str, ...]()
    if of_kueue:
        tree = queues_of(quotas, workload)
    elif tree is not None:
        tree, raised = with_room(tree, leaf_names(workload, columns), workload)
    elif columns:
        tree = Tenants(tree=grown_tree(np.unique(leaf_names(workload, columns)).tolist(), set()))
    qos, raised_qos = qos_for(qos, workload) if qos else ((), ())
    if qos:
        tree = dataclasses.replace(tree or Tenants(), qos=qos)
    split_s = float(recorded.arrival_s.max()) * fit_part
    twin = Twin(source, "slurm", tuple(pools), tree, columns, split_s=split_s)
    if quotas is not None:
        twin = dataclasses.replace(twin, local_queues=quotas.local_queues, stopped=quotas.stopped)
    placed = twin.pool_of(workload) >= 0
    if not anyway:
        _check_machines(twin, workload, recorded)
    chosen = placed & ((recorded.arrival_s < split_s) | (fit_part == 1))
    if not chosen.any():
        raise GpuschedError("twin: no job of the log fits into the machines; check --cluster, --conf and partitions")
    first = workload.select(chosen)
    tell = tell or _silent
    if of_kueue:
        fitted, notes = _by_fairness(twin, first, tell)
        start_s = replayed_starts(fitted, workload)
    else:
        fitted, notes, start_s = _slurm(twin, workload, first, start or Policy(), seed, tell)
    return dataclasses.replace(
        fitted,
        score=dataclasses.replace(
            score_replay(fitted, workload, start_s, split_s if fit_part < 1 else 0.0), unseen=fit_part < 1
        ),
        remainders=find_remainders(fitted, workload, start_s),
        notes=(
            *notes,
            *stops(twin.stopped),
            *_raised("tenants", raised),
            *_raised("QOS", raised_qos),
            *_notes(fitted, workload, placed, fit_part, of_kueue or shares is not None),
        ),
    )


def _by_fairness(twin: Twin, first: Workload, tell: Tell) -> tuple[Twin, tuple[str, ...]]:
    """Return the twin with Kueue's kind of preemption whose replay of the first part is closer, and the evidence."""
    error_of = _errors(first, twin.split_s)
    twins = {name: dataclasses.replace(twin, scheduler=policy) for name, policy in FAIRNESS.items()}
    errors = {name: error_of(one) for name, one in twins.items()}
    classic, fair = errors
    chosen = fair if errors[fair] < BETTER * errors[classic] else classic
    tell(f"2 replays: waits of the fitted part are {errors[chosen]:.1%} off on average")
    return twins[chosen], (_told_apart("kinds of preemption", chosen, errors),)


def _slurm(
    twin: Twin, workload: Workload, first: Workload, start: Policy, seed: int, tell: Tell
) -> tuple[Twin, tuple[str, ...], np.ndarray]:
    """Return the twin with the policy of Slurm that the first part shows, the evidence, and the starts of all jobs [s].

    Where the log tells no nodes, the fit chooses between any nodes for a job and as few as hold it.
    """
    limit_s = first.jobs["estimate_s"]
    longest_s = float(np.nanmax(limit_s)) if (~np.isnan(limit_s)).any() else float(first.jobs["duration_s"].max())
    policy = dataclasses.replace(start, default_limit_s=max(longest_s, DAY_S))
    ways = [twin]
    if MAX_NODES not in workload.attributes and (first.jobs["gpus"] > 1).any():
        ways.append(dataclasses.replace(twin, fewest_nodes=True))
    found = []
    for way in ways:
        if way.fewest_nodes:
            tell("the log tells no nodes; the same with each job on as few nodes as hold it:")
        revealed, pairs = _revealed(way, first, policy, twin.split_s, seed, tell)
        searched = _by_replays(way, first, revealed, pairs, longest_s, tell)
        fitted = searched.policy.in_twin(way)
        found.append((searched, fitted, replayed_starts(fitted, workload)))
    best, fitted, start_s = min(found, key=lambda one: one[0].error)
    starts = [start_s for *_, start_s in found]
    errors = [one.error for one, *_ in found]
    nodes = _nodes_told(fitted, Recorded.of(workload), errors, starts, twin.split_s) if len(found) > 1 else ()
    return fitted, (best.told, *nodes), start_s


def _errors(first: Workload, split_s: float) -> Callable[[Twin], float]:
    """Return a function that replays the first part under a twin, and tells how far off the waits are.

    Jobs that started after the first part are not compared: jobs that arrived later may have overtaken them.
    """
    recorded = Recorded.of(first)
    known = recorded.start_s < split_s
    waits = (recorded.start_s - recorded.arrival_s)[known]
    return lambda twin: closeness(waits, (replayed_starts(twin, first) - recorded.arrival_s)[known])


def _check_machines(twin: Twin, workload: Workload, recorded: Recorded) -> None:
    """Raise an error if the jobs of a pool held more GPUs than it has, for longer than clocks may differ."""
    pools = twin.pool_of(workload)
    for number, pool in enumerate(twin.pools):
        held = Recorded(*(column[pools == number] for column in recorded)).held()
        gpus = pool.cluster.gpus
        if (over_s := time_above(held, gpus)) > CLOCKS_S:
            raise GpuschedError(
                f"twin: pool {pool.name!r} has {gpus:,} GPUs, but its jobs held up to {held.values.max():,.0f} at "
                f"once, and more than {gpus:,} for {over_s / 3600:,.1f} h: name all machines by --conf, --cluster or "
                "--partition; --anyway fits the twin nevertheless"
            )
    known = {name for pool in twin.pools for name in pool.partitions}
    ours = np.array([not known or bool(known & set(text.split(","))) for text in _partition_lists(workload)])
    if (large := np.flatnonzero(ours & (pools < 0))).size:
        most = large[np.argmax(recorded.gpus[large])]
        raise GpuschedError(
            f"twin: {large.size:,} jobs ran on more GPUs, or on more of a node, than their partition has: job "
            f"{workload.jobs['id'][most]} on {recorded.gpus[most]:,}. Name all machines by --conf, --cluster or "
            "--partition; --anyway leaves these jobs out"
        )


def _partition_lists(workload: Workload) -> list[str]:
    names = workload.attributes.get(PARTITION)
    return [""] * len(workload) if names is None else names.astype(str).tolist()


def tells(workload: Workload, name: str) -> bool:
    """Return whether some job has this attribute."""
    return name in workload.attributes and bool((workload.attributes[name].astype(str) != "").any())


def _revealed(
    twin: Twin, first: Workload, policy: Policy, split_s: float, seed: int, tell: Tell
) -> tuple[Policy, Features | None]:
    """Return the policy with the weights that the order of starts reveals, and with the best half-life.

    Also returns the pairs, if nearly all agree: then a replay must not overrule them. Pairs of different sizes count if
    all agree with weights that know no sizes, as they do if sizes do not matter.
    """
    problems = twin.problems(first)
    half_lives_d = tuple(dict.fromkeys((policy.aging.decay_half_life_s / DAY_S, *HALF_LIVES_D)))
    for smaller in (True, False):
        best: tuple[Weights, Aging, Features, str] | None = None
        for days in half_lives_d if twin.tenants is not None else half_lives_d[:1]:
            aging = dataclasses.replace(policy.aging, decay_half_life_s=days * DAY_S)
            pairs = _joined([_pairs_in(problem, policy, aging, split_s, seed, smaller) for problem in problems])
            found = fit_weights(pairs)
            if best is None or found.loss < CLEARLY * best[0].loss:
                text = f"{len(pairs.values):,} pairs of jobs, {found.agreed:.1%} in the order of the fitted priorities"
                best = found, aging, pairs, f"{text}; half-life of usage {days:g} days"
        assert best is not None
        weights, aging, pairs, text = best
        if weights.agreed == 1.0:
            break
    tell(text)
    return _policy_of(weights, policy, aging), pairs if weights.agreed >= AGREED and len(pairs.values) else None


def _pairs_in(problem: Problem, policy: Policy, aging: Aging, split_s: float, seed: int, smaller: bool) -> Features:
    """Return the pairs of one pool."""
    jobs = problem.instance.workload
    limit_s = np.nan_to_num(jobs.jobs["estimate_s"], nan=policy.default_limit_s)
    recorded, rights = Recorded.of(jobs), Rights.of(problem.instance)
    pairs = find_pairs(recorded, limit_s, split_s, WARM_UP * split_s, seed, rights, smaller)
    pairs = without_limited(problem.instance, recorded, pairs)
    labels = {"partition": partitions_of(jobs)}
    if QOS in jobs.attributes:
        labels["qos"] = jobs.attributes[QOS].astype(str)
    return features(problem.instance, recorded, pairs, aging, labels)


def _joined(parts: Sequence[Features]) -> Features:
    """Join the pairs of several pools; a factor that a pool does not have is 0 there."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    rows = []
    for part in parts:
        values = np.zeros((len(part.values), len(names)))
        for column, name in enumerate(part.names):
            values[:, names.index(name)] = part.values[:, column]
        rows.append(values)
    return Features(names, np.concatenate(rows))


def _policy_of(found: Weights, policy: Policy, aging: Aging) -> Policy:
    """Return the policy with these weights; the lowest class of each kind is 0."""
    classes: dict[str, dict[str, float]] = {"qos": {}, "partition": {}}
    for name, weight in found.of.items():
        kind, blank, own = name.partition(" ")
        if blank:
            classes[kind][own] = weight
    for kind, values in classes.items():
        least = min(values.values(), default=0.0)
        classes[kind] = {name: weight - least for name, weight in values.items()}
    return dataclasses.replace(
        policy,
        age_weight=found.of.get("age", 0.0),
        fair_share_weight=found.of.get("fair_share", 0.0),
        classes=classes["qos"],
        partition_classes=classes["partition"],
        aging=aging,
    ).scaled()


class Searched(NamedTuple):
    """A policy, how far off its waits are, and how well the log tells the kinds of backfill apart, in a sentence."""

    policy: Policy
    error: float
    told: str


def _by_replays(
    twin: Twin, first: Workload, policy: Policy, pairs: Features | None, longest_s: float, tell: Tell
) -> Searched:
    """Return the policy whose replay of the first part is closest to the log, by a search along one axis at a time."""
    error_of = _errors(first, twin.split_s)
    seen: dict[str, float] = {}

    def error(at: Policy) -> float:
        key = repr(at.scaled())
        if key not in seen:
            seen[key] = error_of(at.scaled().in_twin(twin))
        return seen[key]

    best = policy, error(policy)

    def attempt(at: Policy | None = None, **changes: Any) -> None:
        """Take another policy if it is better; ``at``, which is simpler, also if it is as good."""
        nonlocal best
        other = at or dataclasses.replace(best[0], **changes)
        if pairs is not None and other.agrees(pairs) < AGREED:
            return
        value = error(other)
        if value < BETTER * best[1] or (at is not None and value <= best[1]):
            best = other, value

    windows_s = sorted({DAY_S, math.ceil(longest_s / DAY_S) * DAY_S})
    for _ in range(2):  # the weight of the size and the kind of backfill depend on each other
        for backfill in BACKFILLS:
            for window_s in windows_s if backfill != "none" else windows_s[:1]:
                attempt(backfill=backfill, bf_window_s=window_s)
        attempt(best[0].without_small())
        attempt(age_weight=0.0)
        for part in SIZES:
            attempt(size_weight=part * POINTS)
    tell(f"{len(seen)} replays: backfill {best[0].backfill}, size weight {best[0].size_weight:g}")
    for interval_s in (60.0, 120.0, 300.0):
        attempt(bf_interval_s=interval_s)
    for name in ("size_weight", "age_weight", "fair_share_weight"):
        for times in (0.0, 0.7, 1.4, 0.85, 1.2, 0.95, 1.05):
            attempt(**{name: getattr(best[0], name) * times})
    tell(f"{len(seen)} replays: waits of the fitted part are {best[1]:.1%} off on average")
    others = {name: error(dataclasses.replace(best[0], backfill=name)) for name in BACKFILLS}
    return Searched(best[0].scaled(), best[1], _told_apart("kinds of backfill", best[0].backfill, others))


def _told_apart(kinds: str, chosen: str, errors: dict[str, float]) -> str:
    """Tell how far off the waits are with each kind, and which kinds the log does not tell apart."""
    names = sorted(errors, key=lambda name: (name != chosen, errors[name]))
    told = ", ".join(f"{errors[name]:.1%} with {name}" for name in names)
    alike = [name for name in names[1:] if BETTER * errors[name] <= errors[chosen]]
    sentence = f"{kinds}: waits of the fitted part are off by {told}"
    if alike:
        sentence += f"; the log does not tell {', '.join([chosen, *alike[:-1]])} and {alike[-1]} apart"
    return sentence


def _nodes_told(
    fitted: Twin, log: Recorded, errors: Sequence[float], starts_s: Sequence[np.ndarray], split_s: float
) -> tuple[str]:
    """Tell how far off the waits are if gangs are split over nodes, and if they run on as few as hold them.

    ``errors`` : those of the fitted part, by which the fit chose. ``starts_s`` : of all jobs [s], for the rest.
    """
    found = {"fitted part": errors}
    rest = (log.arrival_s >= split_s) & ~np.isnan(starts_s).any(axis=0)
    if rest.any():
        waits = [(start_s - log.arrival_s)[rest] for start_s in (log.start_s, *starts_s)]
        found["rest"] = [closeness(waits[0], own) for own in waits[1:]]
    parts = [
        f"of the {name} are {split:.1%} off if gangs are split freely, {fewest:.1%} if not"
        for name, (split, fewest) in found.items()
    ]
    way = "on as few nodes as hold it" if fitted.fewest_nodes else "on any nodes"
    return (f"the log tells no nodes of jobs; fitted: each runs {way}. Waits {', '.join(parts)}",)


def _raised(what: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Tell which limits of tenants or QOS are not those that were given."""
    if not names:
        return ()
    shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
    return (f"limits of {len(names):,} {what} were raised, because a job of theirs exceeds them: {shown}",)


def _notes(twin: Twin, workload: Workload, placed: np.ndarray, fit_part: float, given: bool) -> tuple[str, ...]:
    notes = list(ignored_by(twin.problems(workload)))
    if not placed.all():
        notes.append(f"{(~placed).sum():,} jobs are left out: no pool has their partition and room for their gang")
    if len(twin.pools) > 1:
        notes.append(
            "each pool of machines is played alone: fair shares and parts of the cluster are those within the pool"
        )
    if twin.tenants is not None and not given:
        notes.append("all tenants with the same account above them have equal shares")
    if fit_part == 1:
        notes.append("the score is on the jobs to which the twin was fitted")
    mixed = [number for number, pool in enumerate(twin.pools) if len(pool.cluster.gpu_types) > 1]
    untold = np.isin(twin.pool_of(workload), mixed) & (workload.attributes.get(GPU_TYPES, np.array([""])) == "")
    if untold.any():
        what = "jobs tell no GPU type: they may run on any of their pool, for as long as they did in the log"
        notes.append(f"{untold.sum():,} {what}")
    return tuple(notes)


def _silent(text: str) -> None:
    """Tell nobody."""
