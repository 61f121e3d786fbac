"""SJF-BCO in plain Python, from algorithms 2 and 3 of the paper: the ledger of charges, and both readings of a plan.

M. Yu, B. Ji, H. Rajan, J. Liu, MobiHoc 2022 (arXiv 2207.07817).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gpusched_env.baselines.bco.kernels import POLICIES, Book
from gpusched_env.simulator import ClusterView, Outcome, Simulation, Start

SLACK_S = 1e-9  # [s] tolerance for rounding in the comparison with theta


class NoRoomError(Exception):
    """The limit theta leaves a gang too few GPUs, now and later."""


class Ledger:
    """Choose the GPUs of one gang after another by the charge of each GPU, and add a charge to each of these GPUs."""

    def __init__(self, simulation: Simulation, book: Book) -> None:
        m, nodes = book.memory, simulation.instance.cluster.nodes
        self.charged_s, self.binding = book.started_s.copy(), False
        self.policy, self.theta_s = POLICIES[m["policy"]], float(m["theta_s"])
        self.small, self.capacity = float(m["small"]), float(m["capacity"])
        self._first_gpu, self._sizes = nodes["first_gpu"], nodes["gpus"]
        self._node_of_gpu = simulation.instance.cluster.node_of_gpu
        self._down = np.zeros(len(nodes), np.int32)

    def look_at(self, copy: Simulation) -> None:
        """See which machines are down in a copy."""
        self._down = copy.arrays.down if len(copy.arrays.down) else self._down

    @property
    def alive(self) -> np.ndarray:
        """Boolean [G]: whether the machine of each GPU is up."""
        return self._down[self._node_of_gpu] == 0

    def place_ahead(self, gang: int, charge_s: float, able: np.ndarray) -> np.ndarray | None:
        """Choose GPUs that may be held; ones that are down only if too few others are left."""
        try:
            return self.place(gang, charge_s, self.alive, able & self.alive)
        except NoRoomError:
            return self.place(gang, charge_s, np.ones(len(able), bool), able)

    def place(self, gang: int, charge_s: float, free: np.ndarray, able: np.ndarray) -> np.ndarray | None:
        """Choose the GPUs of a gang and charge them; None = the gang must wait until other jobs have finished."""
        allowed = self.charged_s + charge_s <= self.theta_s + SLACK_S
        self.binding |= not allowed.all()
        allowed &= able
        if self.policy == "bco" and gang > self.small:
            allowed &= self._least_charged_servers(self.capacity * gang, able & self.alive)
        if np.count_nonzero(allowed) < gang:
            raise NoRoomError
        candidates = np.flatnonzero(allowed & free)
        if len(candidates) < gang:
            return None
        if self.policy != "ff":
            candidates = candidates[np.argsort(self.charged_s[candidates], kind="stable")]
        self.charged_s[candidates[:gang]] += charge_s
        return candidates[:gang]

    def _least_charged_servers(self, wanted: float, able: np.ndarray) -> np.ndarray:
        """Boolean [G]: GPUs of the least charged servers, as few as together have ``wanted`` GPUs, free or not."""
        order = np.argsort(np.add.reduceat(self.charged_s, self._first_gpu) / self._sizes, kind="stable")
        sizes = np.add.reduceat(able, self._first_gpu, dtype=np.int64)
        enough = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
        kept = np.zeros(len(order), bool)
        kept[order[:enough]] = True
        return kept[self._node_of_gpu]


def in_line(ledger: Ledger, jobs: list[tuple[int, int, float, np.ndarray]], view: ClusterView) -> Iterator[Start]:
    """Reading "idle": a gang takes free GPUs only, and a gang that must wait blocks all gangs behind it."""
    while jobs and jobs[0][0] in view.waiting:
        job, gang, charge_s, able = jobs[0]
        gpus = ledger.place(gang, charge_s, view.is_free, able)
        if gpus is None:
            return
        del jobs[0]
        yield Start(job, gpus=tuple(gpus.tolist()))


def of_queues(places: list[tuple[int, np.ndarray]], view: ClusterView) -> Iterator[Start]:
    """Reading "queue": a job starts when it is first in the queues of all its GPUs, and these are free."""
    free, behind = view.is_free, np.zeros(len(view.holders), bool)
    for job, gpus in list(places):
        if job in view.waiting and free[gpus].all() and not behind[gpus].any():
            places[:] = [place for place in places if place[0] != job]
            yield Start(job, gpus=tuple(gpus.tolist()))
        behind[gpus] = True


def rehearse(simulation: Simulation, book: Book, limit_s: float) -> tuple[float, bool]:
    """Return when the last job of a plan ends [s], nan = some job finds no place; and whether theta was binding."""
    count = int(book.memory["count"])
    rows, gangs, charges_s = (list_.tolist()[:count] for list_ in (book.order, book.gangs, book.charges_s))
    able = [book.able[at if len(book.able) > 1 else 0] for at in range(count)]
    jobs = list(zip(rows, gangs, charges_s, able, strict=True))
    ledger, copy = Ledger(simulation, book), simulation.rehearsal(limit_s)
    ledger.look_at(copy)
    view = ClusterView(copy)
    try:
        placed = [(job[0], ledger.place_ahead(*job[1:])) for job in jobs if book.memory["queues"]]
        outcome = Outcome.DECIDE
        while outcome is Outcome.DECIDE:
            for start in of_queues(placed, view) if placed else in_line(ledger, jobs, view):  # type: ignore[arg-type]
                copy.apply(start)
            if book.memory["queues"] and not placed:
                jobs = []
            outcome = copy.advance()
    except NoRoomError:
        return math.nan, ledger.binding
    return copy.now_s if outcome is Outcome.DONE else math.inf, ledger.binding
