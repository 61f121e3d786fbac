"""Apply decisions in their canonical form, the only one allowed in entries, and record those that have an effect."""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.core.placement.taking import FREE
from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.columns import pack
from gpusched_env.leaderboard.entry import Decisions
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Decision, Lease, Outcome, Resize, Scheduler, Simulation, Start, Wait
from gpusched_env.simulator.simulation import Progress, Until


class Carrying(Simulation):
    """A simulation that returns decisions in canonical form; ``vain``: the latest one was without effect."""

    vain = False

    def carry_out(self, decision: Decision) -> Decision | None:
        """Apply a decision and return its canonical form; None if it was refused, and :attr:`refusal` says why.

        In canonical form, a start and a resize give their GPUs, whose number is the size. If the scenario has sharing,
        a start also gives its number of sub-steps and whether it shares a GPU. A lease gives the time at which it
        actually ends; with rounds, this is the end of a round.
        """
        held = self._held_by(decision) if isinstance(decision, Resize) else None
        was_free = None if self.instance.gpu_jobs == 1 else self._free_gpus()
        before_s = self._lease_end_s(decision) if isinstance(decision, Lease) else None
        self.vain = False
        if Simulation.apply(self, decision):
            return None
        if isinstance(decision, Start):
            return self._started(int(decision.job), was_free)
        if isinstance(decision, Resize):
            after = self._held_by(decision)
            self.vain = after == held
            gpus = after if self.vain else self._latest()[1]
            return Resize(int(decision.job), len(gpus), gpus=gpus)
        if isinstance(decision, Lease):
            lease = Lease(int(decision.job), self._lease_end_s(decision))
            self.vain = lease.until_s == before_s and not self._commits_company
            return lease
        if isinstance(decision, Wait):
            return Wait(float(decision.until_s))
        return type(decision)(int(decision.job))

    @property
    def _commits_company(self) -> bool:
        """Whether a lease updates slowdowns; if so, it has an effect even if it ends when the previous lease ends."""
        return bool(self.instance.semantics.pace_until_lease) and self.instance.gpu_jobs > 1

    def _lease_end_s(self, decision: Lease) -> float:
        """Return the end of the job's current lease [s]; inf = no lease; NaN = the job has no replica yet."""
        row = self.row_of(decision)
        replica = -1 if row < 0 else int(self.arrays.jobs["replica"][row])
        return math.nan if replica < 0 else float(self.arrays.replicas["lease_s"][replica])

    def _free_gpus(self) -> np.ndarray:
        """Return which GPUs are held by no gang; bool [G]."""
        free: np.ndarray = self.arrays.holder[: self._world["gpus"]] == FREE
        return free

    def _started(self, job: int, was_free: np.ndarray | None) -> Start:
        """Return the canonical form of the start that was just applied; its event gives the GPUs."""
        event, gpus = self._latest()
        if self.instance.sharing is None:
            return Start(job, gpus=gpus)
        shares = was_free is not None and not bool(was_free[list(gpus)].all())
        return Start(job, gpus=gpus, share=shares, sub_steps=int(event["sub_steps"]))

    def _latest(self) -> tuple[np.void, tuple[int, ...]]:
        """Return the latest event and its GPUs, from the log: its buffers may have been emptied since."""
        self.drain()
        event = self._drained_events[-1:][0]
        first, count = int(event["gpu_at"]), int(event["gpu_count"])
        return event, tuple(self._drained_gpus[first : first + count].tolist())

    def _held_by(self, decision: Resize) -> tuple[int, ...]:
        """Return the GPUs that the gang of a job holds, ascending; none if it does not run."""
        row = self.row_of(decision)
        replica = -1 if row < 0 else int(self.arrays.jobs["replica"][row])
        held = np.flatnonzero(self.arrays.holder[: self._world["gpus"]] == replica) if replica >= 0 else ()
        return tuple(map(int, held))


class Recording(Carrying):
    """A simulation that records the decisions that have an effect, in canonical form.

    A scheduler with a compiled player is called through its ``decide`` method, which yields the same decisions.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        super().__init__(instance, seed)
        self._point = -1
        self._kept: list[tuple[int, float, Decision]] = []  # (decision point, time [s], decision)
        self._wait = -1  # index in _kept of the wait of this decision point that has an effect; -1 = none

    def advance(self) -> Outcome:
        """Advance to the next decision point; if an event came before the end of a wait, do not record the wait."""
        outcome = super().advance()
        if self._wait >= 0:
            wait = self._kept[self._wait][2]
            assert isinstance(wait, Wait)
            if outcome is not Outcome.DECIDE or wait.until_s != self.now_s:
                del self._kept[self._wait]
            self._wait = -1
        self._point += outcome is Outcome.DECIDE
        return outcome

    def apply(self, decision: Decision) -> str:
        """Apply one decision, and record it if it has an effect."""
        timer_s = float(self._world["timer_s"])
        done = self.carry_out(decision)
        if done is None:
            return self.refusal
        if self.vain:
            return ""
        if isinstance(done, Wait):
            if float(self._world["timer_s"]) == timer_s:
                return ""  # a wait that ends after a pending wait has no effect
            if self._wait >= 0:
                del self._kept[self._wait]
            self._wait = len(self._kept)
        self._kept.append((self._point, self.now_s, done))
        return ""

    def run(self, scheduler: Scheduler, progress: Progress | None = None, until: Until | None = None) -> None:
        """Run a scheduler, decision by decision, to the end or until the jobs of ``until`` have finished."""
        view = self.view_for(scheduler)
        if self._ask(scheduler, view, progress, until) is Outcome.STALLED:
            raise self._stall(scheduler, view)

    def decisions(self) -> Decisions:
        """Return the decisions that were recorded so far, as columns."""
        points, times_s, decisions = zip(*self._kept, strict=True) if self._kept else ((), (), ())
        return pack(points, times_s, decisions)


def record(
    instance: Instance, scheduler: Scheduler, seed: int = 0, progress: Progress | None = None
) -> tuple[EventLog, Decisions]:
    """Run a scheduler on a problem; return the event log and the decisions that had an effect."""
    simulation = Recording(instance, seed)
    simulation.run(scheduler, progress)
    return simulation.log(), simulation.decisions()
