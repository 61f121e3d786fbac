"""Record those decisions of a scheduler that have an effect."""

from __future__ import annotations

from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.applying_decisions import Carrying
from gpusched_env.leaderboard.columns import pack
from gpusched_env.leaderboard.entry import Decisions
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Decision, Outcome, Scheduler, Wait
from gpusched_env.simulator.simulation import Progress, Until


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
    """Run a scheduler on a problem; return the event log and the decisions that had an effect.

    Parameters
    ----------
    instance : the problem
    scheduler : the scheduler
    seed : seed of the simulation's random numbers
    progress : function that is called with the progress of the run

    Raises
    ------
    SchedulerError : the scheduler leaves jobs waiting forever
    """
    simulation = Recording(instance, seed)
    simulation.run(scheduler, progress)
    return simulation.log(), simulation.decisions()
