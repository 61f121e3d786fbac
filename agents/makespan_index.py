"""A scheduler for small makespans on several GPU types: long jobs on fast types, all others where they cost least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.cards import read_card
from gpusched_env.agents.checkpoints import read_checkpoint, write_checkpoint
from gpusched_env.baselines.gavel.seats import Seats
from gpusched_env.errors import SchedulerError
from gpusched_env.portable import arrays
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Preempt, Scheduler, Start, Wait

FORMAT: Final = "gpusched-makespan-index-1"
DECIMALS: Final = 9  # decimals of keys and costs: closer ones tie
WEIGHTS: Final = ("limit", "gang", "hold", "period_s")
NEVER_S: Final = 1e15  # [s] run time on a type on which a job cannot run


@dataclass
class MakespanIndex(Scheduler):
    """Give each job the cheapest GPU type on which it still ends in time, the longest jobs first.

    The horizon is the time that all jobs in the system need at least: the longest remaining run time, or the work at
    the prices of the types / the price of all GPUs. A job ends in time on a type if its remaining run time there is at
    most ``limit`` times the horizon; its fastest type always counts. Its cost on a type is gang size x run time there x
    price of the type.

    The key of a job is ln(run time on its cheapest type in time) + gang x ln(gang size). The jobs with the largest keys
    choose first, each the cheapest type in time that has room. Then the other jobs take what is left, each the type on
    which it is fastest. Every ``period_s`` seconds all jobs choose again, where a running job counts its own type
    ``hold`` cheaper; in between, running jobs stay, and waiting jobs take free GPUs.

    Parameters
    ----------
    agent : name of an agent of the package
    path : file of weights that :func:`save_weights` wrote, if ``agent`` is empty

    Raises
    ------
    SchedulerError : a file is missing or damaged, or the cluster has a GPU type without a price

    Notes
    -----
    Ties: the earliest arrival, the first type. A gang keeps its GPUs while it keeps its type, unless a larger gang
    takes them. A decision point takes O(jobs x types).
    """

    agent: str = ""
    path: str = ""
    clairvoyant: bool = field(init=False, default=True)
    weights: dict[str, float] = field(init=False, repr=False, default_factory=dict)
    prices: dict[str, float] = field(init=False, repr=False, default_factory=dict)
    knows_partitions = False  # it chooses machines itself

    def __post_init__(self) -> None:
        """Read the weights."""
        if bool(self.agent) == bool(self.path):
            raise SchedulerError("makespan index: give either the name of an agent or the path of its weights")
        file = read_card(self.agent).checked_file() if self.agent else Path(self.path)
        metadata, stored = read_checkpoint(file, FORMAT, "the weights of a makespan index")
        self.weights = dict(zip(WEIGHTS, stored["weights"].tolist(), strict=True))
        self.prices = dict(zip(metadata["types"], stored["prices"].tolist(), strict=True))

    @classmethod
    def playing(cls, weights: Mapping[str, float], prices: Mapping[str, float]) -> MakespanIndex:
        """Return a scheduler that plays weights that are in no file."""
        index = cls.__new__(cls)
        index.agent, index.path, index.clairvoyant = "", "", True
        index.weights, index.prices = dict(weights), dict(prices)
        return index

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def reset(self, view: ClusterView) -> None:
        """Find the prices of the cluster's types; no job has GPUs."""
        types = view.cluster.gpu_types
        if missing := [name for name in types if name not in self.prices]:
            raise SchedulerError(f"learned:{self.agent or self.path}: no price for GPU type {', '.join(missing)}")
        self._prices = np.array([self.prices[name] for name in types])
        nodes = view.cluster.nodes
        self._gpus = np.bincount(nodes["gpu_type"], nodes["gpus"], len(types)).astype(np.int64)
        self._seats = Seats(view.cluster)
        self._held: dict[int, tuple[int, tuple[int, ...]]] = {}  # type and GPUs of the gangs that run
        self._due_s = -math.inf

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Let the jobs choose types, preempt the gangs that move or lose their GPUs, and start the others."""
        assert isinstance(view, ClairvoyantView)
        rows = np.sort(np.concatenate([view.waiting, view.running]))
        if not len(rows):
            return
        held = {job: self._held[job] for job in view.running[~view.checkpointing].tolist()}
        stays = set(held)
        if view.now_s >= self._due_s or not len(view.waiting):
            self._due_s = view.now_s + self.weights["period_s"]
            stays = set()
        chosen = self._choose(view, rows, {job: seat[0] for job, seat in held.items()}, stays)
        gangs = dict(zip(rows.tolist(), view.gpus[rows].tolist(), strict=True))
        self._seats.of_job = dict(held)
        self._seats.seat([(job, kind, gangs[job]) for job, kind in chosen.items()])
        for job, seat in list(held.items()):
            if self._seats.of_job.get(job) != seat:
                yield Preempt(job)
                if not view.refusal:  # it is refused if the gang has started at this time
                    del held[job]
        for job, seat in self._seats.of_job.items():
            if job not in held:
                yield Start(job, gpus=seat[1])
                if not view.refusal:  # it is refused while GPUs or the job itself are in a checkpoint
                    held[job] = seat
        self._held = held
        yield Wait(self._due_s)

    def _choose(
        self, view: ClairvoyantView, rows: np.ndarray, held: Mapping[int, int], stays: set[int]
    ) -> dict[int, int]:
        """Return the GPU type of each job that should hold GPUs.

        Parameters
        ----------
        rows : all jobs in the system, ascending
        held : GPU type of each running job
        stays : running jobs that keep their types
        """
        rates, gangs = view.type_rates(rows), view.gpus[rows]
        best = rates.max(axis=1)
        if not best.all():
            job = int(rows[best.argmin()])
            raise SchedulerError(
                f"{self.name}: job {view.job_id[job]} fits on the GPUs of no single type; it mixes no types"
            )
        left_s = view.remaining_s(rows)
        times_s = np.where(rates > 0.0, (left_s * best)[:, None] / np.where(rates > 0.0, rates, 1.0), NEVER_S)
        costs = times_s * self._prices
        budget = arrays.total(self._gpus * self._prices)
        horizon_s = max(float(left_s.max()), arrays.total(gangs * costs.min(axis=1)) / budget)
        in_time = (times_s <= self.weights["limit"] * horizon_s) | (rates == best[:, None])
        for at, job in enumerate(rows.tolist()):
            if job in held:
                costs[at, held[job]] *= 1.0 - self.weights["hold"]
        wanted = np.where(in_time, costs, np.inf)
        cheapest = times_s[np.arange(len(rows)), wanted.argmin(axis=1)]
        keys = arrays.log(np.maximum(cheapest, 1e-3)) + self.weights["gang"] * arrays.log(gangs.astype(float))
        order = np.argsort(-np.round(keys, DECIMALS), kind="stable").tolist()
        free = self._gpus.tolist()
        chosen: dict[int, int] = {}
        names, sizes = rows.tolist(), gangs.tolist()
        for at in order:
            if names[at] in stays:
                chosen[names[at]] = held[names[at]]
                free[held[names[at]]] -= sizes[at]
        for preference, limit in ((wanted, np.inf), (times_s, NEVER_S)):
            ranked = np.argsort(np.round(preference, DECIMALS), axis=1, kind="stable").tolist()
            for at in order:
                if not any(free):
                    return chosen
                if names[at] in chosen:
                    continue
                for kind in ranked[at]:
                    if preference[at, kind] < limit and sizes[at] <= free[kind]:
                        chosen[names[at]] = kind
                        free[kind] -= sizes[at]
                        break
        return chosen


def save_weights(
    path: Path, weights: Mapping[str, float], prices: Mapping[str, float], about: Mapping[str, Any]
) -> None:
    """Write the weights and the price of each GPU type.

    Parameters
    ----------
    weights : of WEIGHTS
    about : provenance: versions, scenario, seeds
    """
    metadata = {"format": FORMAT, "types": list(prices), "about": dict(about)}
    stored = np.array([weights[name] for name in WEIGHTS])
    write_checkpoint(path, metadata, {"weights": stored, "prices": np.array(list(prices.values()))})
