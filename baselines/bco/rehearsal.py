"""Rehearsals: a plan is simulated in a copy of the run, so that its contention is exactly that of the real run."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.baselines.bco import kernels
from gpusched_env.baselines.bco.ledger import NoPlaceError
from gpusched_env.baselines.bco.plans import HeadOfLine, Plan
from gpusched_env.core.events import LOG_FULL
from gpusched_env.simulator import ClairvoyantView, Outcome, Simulation

POLICY: Final = {"ff": kernels.FIRST_FIT, "ls": kernels.LEAST_CHARGED, "bco": kernels.BALANCED}


class Rehearser:
    """Simulate plans ahead from the present state of a run; the run itself does not change.

    Plans of the reading "idle" (:class:`HeadOfLine`) are simulated in a compiled loop.

    Parameters
    ----------
    view : view of the run; the copy omits jobs that have not arrived
    compiled : False = simulate every plan in Python
    """

    def __init__(self, view: ClairvoyantView, compiled: bool = True) -> None:
        self._view = view
        self._compiled = compiled and int(view.cluster.nodes["gpus"].max()) <= kernels.MOST_OF_A_MACHINE
        self._copy: Simulation | None = None

    def end_s(self, plan: Plan, limit_s: float) -> float:
        """Return the simulated time at which the last of the arrived jobs would finish under a plan [s].

        inf = at the simulated time ``limit_s`` [s], some job would not have finished.

        Raises
        ------
        NoPlaceError : theta leaves a job too few GPUs
        """
        if self._compiled and type(plan) is HeadOfLine and plan.ledger.policy in POLICY:
            outcome = self._play(plan, limit_s)
            assert self._copy is not None
            return self._copy.now_s if outcome is Outcome.DONE else math.inf
        simulation, ahead = self._view.rehearsal(limit_s)
        while True:
            for start in plan.starts(ahead):
                simulation.apply(start)
            outcome = simulation.advance()
            if outcome is not Outcome.DECIDE:
                return simulation.now_s if outcome is Outcome.DONE else math.inf

    def _play(self, plan: Plan, limit_s: float) -> Outcome:
        """Simulate a plan in the copy."""
        if self._copy is None:
            self._copy = self._view.simulation.rehearsal(limit_s)
        else:
            self._view.simulation.rehearsal(limit_s, self._copy)
        ledger = plan.ledger
        book = np.zeros((), kernels.LEDGER_DTYPE)
        book["policy"] = POLICY[ledger.policy]
        for name in ("theta_s", "small", "capacity"):
            book[name] = getattr(ledger, name)
        able = np.ones((1, len(ledger.charged_s)), bool) if plan.able is None else np.ascontiguousarray(plan.able)
        nodes = len(self._view.cluster.nodes)
        asked = kernels.Book(
            memory=book,
            order=plan.order.astype(np.int64),
            gangs=plan.gangs.astype(np.int64),
            charges_s=plan.charges_s,
            able=able,
            charged_s=ledger.charged_s,
            mean_s=np.zeros(nodes),
            kept=np.zeros(nodes, np.int8),
        )
        code = LOG_FULL
        while code == LOG_FULL:
            code = kernels.rehearse_in_line(self._copy.arrays, asked)
        ledger.binding = bool(book["binding"])
        if code == kernels.NO_PLACE:
            raise NoPlaceError(f"theta = {ledger.theta_s:g} s leaves some gang no place: give a larger one")
        return Outcome(code)
