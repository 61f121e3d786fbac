"""Write down what a scheduler decides, whoever it is: everything that had an effect passes through here."""

from __future__ import annotations

from gpusched_env.event_log import EventLog
from gpusched_env.instance import Instance
from gpusched_env.leaderboard.carrying import Carrying
from gpusched_env.leaderboard.columns import pack
from gpusched_env.leaderboard.entry import Decisions
from gpusched_env.simulator import Decision, Outcome, Scheduler, Wait
from gpusched_env.simulator.simulation import Progress, Until


class Recording(Carrying):
    """A simulation that keeps the decisions that had an effect, as they were carried out.

    A scheduler with a compiled player is played through ``decide``, which yields the same decisions.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        super().__init__(instance, seed)
        self._point = -1
        self._kept: list[tuple[int, float, Decision]] = []  # decision point, time [s], decision
        self._wait = -1  # number of the wait that counts at this decision point

    def advance(self) -> Outcome:
        """Play on; a wait that another event overtook is forgotten."""
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
        """Carry out one decision, and keep it unless it is refused."""
        timer_s = float(self._world["timer_s"])
        done = self.carry_out(decision)
        if done is None:
            return self.refusal
        if self.vain:
            return ""
        if isinstance(done, Wait):
            if float(self._world["timer_s"]) == timer_s:
                return ""  # not in the future, or later than another
            if self._wait >= 0:
                del self._kept[self._wait]
            self._wait = len(self._kept)
        self._kept.append((self._point, self.now_s, done))
        return ""

    def run(self, scheduler: Scheduler, progress: Progress | None = None, until: Until | None = None) -> None:
        """Let a scheduler play to the end, or until these jobs have finished, decision by decision."""
        view = self.view_for(scheduler)
        if self._ask(scheduler, view, progress, until) is Outcome.STALLED:
            raise self._stall(scheduler, view)

    def decisions(self) -> Decisions:
        """Everything decided so far, by columns."""
        points, times_s, decisions = zip(*self._kept, strict=True) if self._kept else ((), (), ())
        return pack(points, times_s, decisions)


def record(
    instance: Instance, scheduler: Scheduler, seed: int = 0, progress: Progress | None = None
) -> tuple[EventLog, Decisions]:
    """Let a scheduler play, and give the event log and the decisions that made it.

    Raises
    ------
    SchedulerError : the scheduler leaves jobs waiting for ever
    """
    simulation = Recording(instance, seed)
    simulation.run(scheduler, progress)
    return simulation.log(), simulation.decisions()
