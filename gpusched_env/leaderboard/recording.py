"""Write down what a scheduler decides, whoever it is: everything that had an effect passes through here."""

from __future__ import annotations

from gpusched_env.event_log import EventLog
from gpusched_env.instance import Instance
from gpusched_env.leaderboard.columns import pack
from gpusched_env.leaderboard.entry import Decisions
from gpusched_env.simulator import Decision, Lease, Outcome, Scheduler, Simulation, Start, Wait, rule_number
from gpusched_env.simulator.placing import SHARE_FIRST_FIT
from gpusched_env.simulator.simulation import Progress


class Recording(Simulation):
    """A simulation that keeps the decisions that had an effect: starts with the GPUs that they got, leases as granted.

    A scheduler with a compiled player is played through ``decide``, which yields the same decisions.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        super().__init__(instance, seed)
        self._point = -1
        self._times_s: list[float] = []
        self._points: list[int] = []
        self._decisions: list[Decision] = []
        self._wait = -1  # number of the wait that counts at this decision point

    def advance(self) -> Outcome:
        """Play on; a wait that another event overtook is forgotten."""
        outcome = super().advance()
        if self._wait >= 0:
            wait = self._decisions[self._wait]
            assert isinstance(wait, Wait)
            if outcome is not Outcome.DECIDE or wait.until_s != self.now_s:
                self._forget_wait()
            self._wait = -1
        self._point += outcome is Outcome.DECIDE
        return outcome

    def apply(self, decision: Decision) -> str:
        """Carry out one decision, and keep it unless it is refused."""
        timer_s = float(self._world["timer_s"])
        refusal = super().apply(decision)
        if refusal:
            return refusal
        if isinstance(decision, Wait):
            if float(self._world["timer_s"]) == timer_s:
                return refusal  # not in the future, or later than another
            if self._wait >= 0:
                self._forget_wait()
            self._wait = len(self._decisions)
            decision = Wait(float(decision.until_s))
        elif isinstance(decision, Start):
            decision = self._as_started(decision)
        elif isinstance(decision, Lease):
            row = int(decision.job)
            replica = self.state.jobs["replica"][self.b, row]
            decision = Lease(row, float(self.state.replicas["lease_s"][self.b, replica]))  # in rounds, a round's time
        else:
            decision = type(decision)(int(decision.job))
        self._points.append(self._point)
        self._times_s.append(self.now_s)
        self._decisions.append(decision)
        return refusal

    def run(self, scheduler: Scheduler, progress: Progress | None = None) -> None:
        """Let a scheduler play to the end, decision by decision."""
        view = self.view_for(scheduler)
        if self._ask(scheduler, view, progress) is Outcome.STALLED:
            raise self._stall(scheduler, view)

    def decisions(self) -> Decisions:
        """Everything decided so far, by columns."""
        return pack(self._points, self._times_s, self._decisions)

    def _as_started(self, decision: Start) -> Start:
        """Name the GPUs, and where jobs share them the sub-steps, that a start has just got: those of its event."""
        event = self.state.events[self.b, self._world["events"] - 1]
        end = int(self._world["event_gpus"])
        gpus = tuple(self.state.event_gpus[self.b, end - int(event["gpu_count"]) : end].tolist())
        if self.instance.sharing is None:
            return Start(int(decision.job), gpus=gpus)
        by_rule = decision.gpus is None and rule_number(decision.rule) >= SHARE_FIRST_FIT
        shares = self.instance.gpu_jobs > 1 and (by_rule or bool(decision.share))
        return Start(int(decision.job), gpus=gpus, share=shares, sub_steps=int(event["sub_steps"]))

    def _forget_wait(self) -> None:
        for column in (self._points, self._times_s, self._decisions):
            del column[self._wait]
        self._wait = -1


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
