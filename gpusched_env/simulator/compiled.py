"""Schedulers whose policy is a kernel: the driver plays it, and ``decide`` yields from the same kernel."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from gpusched_env.core import driver, events
from gpusched_env.core.handle import Handle, bound
from gpusched_env.core.placement.rules import RULE_NUMBER, rule_name
from gpusched_env.core.refusals import REFUSALS
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator.decisions import Decision, Lease, Preempt, Start, Wait
from gpusched_env.simulator.scheduler import Scheduler
from gpusched_env.simulator.simulation import OUTCOMES, Outcome, Simulation
from gpusched_env.simulator.view import ClusterView


class CompiledScheduler(Scheduler):
    """Base class of schedulers whose policy is a kernel.

    A subclass names its kernel, which is registered by ``@policy`` (core/driver.py), and implements :meth:`begin`. A
    subclass of such a scheduler that has a ``decide`` of its own is played by that.
    """

    policy: ClassVar[Any]
    """The kernel."""

    reads_log: ClassVar[bool] = False
    """True = if it plays alone, the policy follows the log: READS_LOG tells it that the log will be emptied."""

    @classmethod
    def policy_kernel(cls) -> Any:
        """Return the kernel; a scheduler with a parameter named ``policy`` overrides this."""
        return cls.policy

    @abstractmethod
    def begin(self, simulation: Simulation, alone: bool) -> Handle:
        """Return the arrays of the policy for a run.

        Parameters
        ----------
        alone : True = no gang has started yet, and only this policy will make decisions. False = gangs may run already,
            and others may start and preempt gangs as well, or gangs may fail, so the policy must read from the run
            which gangs do
        """

    def assist(self, simulation: Simulation, own: Any) -> None:
        """Do what the policy cannot do in a kernel; called when it returns ASSIST.

        Parameters
        ----------
        own : the handle that :meth:`begin` has returned
        """
        raise SchedulerError(f"scheduler {self.name!r}: its policy returns ASSIST, and it has no method assist")

    def player(self, simulation: Simulation) -> Player | None:
        """Return the driver of the policy; None if a subclass has a ``decide`` of its own."""
        if type(self).decide is not CompiledScheduler.decide:
            return None
        return Player(self, simulation)

    def reset(self, view: ClusterView) -> None:
        """Allocate the arrays of a new run."""
        self._choice = driver.new_choice()
        self._own = self.begin(view.simulation, alone=False)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Yield what the policy decides."""
        simulation, choice, made, own = view.simulation, self._choice, self._choice.made, self._own
        following = bound(self.policy_kernel(), simulation.arrays, choice, own)
        made["first"], made["at"] = driver.BEGINS, 0
        vain = 0
        while vain <= events.IDLE_LIMIT + len(simulation.instance.workload):
            kind = following()
            made["first"] = driver.GOES_ON
            if kind == driver.NOTHING:
                return
            if kind == driver.ASSIST:
                self.assist(simulation, own)
                vain += 1
                continue
            yield decision_of(self, simulation, choice, kind)
            refusal = simulation.refusal
            made["refusal"] = REFUSALS.index(refusal) if refusal in REFUSALS else -1
            vain = 0 if kind <= driver.PREEMPT and not refusal else vain + 1
        raise in_vain(self)


def in_vain(scheduler: Scheduler) -> SchedulerError:
    """Return an error about a policy that makes no progress."""
    return SchedulerError(
        f"scheduler {scheduler.name!r}: its policy goes on for ever with decisions that start and preempt nothing"
    )


def no_rule(scheduler: Scheduler, choice: driver.Choice) -> SchedulerError:
    """Return an error about a start by a placement rule that does not exist."""
    return SchedulerError(
        f"scheduler {scheduler.name!r}: its policy starts a job by placement rule {choice.made['rule']}, which does "
        "not exist; take the number from rule_number(name)"
    )


def decision_of(scheduler: Scheduler, simulation: Simulation, choice: driver.Choice, kind: int) -> Decision:
    """Return a decision that a policy has written, as an object."""
    made = choice.made
    row = int(made["row"])
    if kind == driver.START and made["gpus"] > 0:
        gpus = tuple(simulation.arrays.chosen[: made["gpus"]].tolist())
        return Start(row, gpus=gpus, share=bool(made["share"]), sub_steps=int(made["sub_steps"]) or None)
    if kind == driver.START and not 0 <= made["rule"] < len(RULE_NUMBER):
        raise no_rule(scheduler, choice)
    if kind == driver.START:
        return Start(row, rule_name(int(made["rule"])), sub_steps=int(made["sub_steps"]) or None)
    if kind == driver.PREEMPT:
        return Preempt(row)
    if kind == driver.LEASE:
        return Lease(row, float(made["until_s"]))
    if kind == driver.WAIT:
        return Wait(float(made["until_s"]))
    raise SchedulerError(f"scheduler {scheduler.name!r}: its policy returns {kind}, which is no kind of decision")


class Player:
    """Simulate a run together with a policy, in compiled code.

    Parameters
    ----------
    scheduler : its policy plays
    simulation : the run; if gangs have started already, the policy takes over
    """

    takes_over = True

    def __init__(self, scheduler: CompiledScheduler, simulation: Simulation) -> None:
        self.simulation, self.scheduler = simulation, scheduler
        self.choice = driver.new_choice()
        alone = not simulation.has_begun and simulation.instance.recovery is None  # else gangs stop by themselves
        self.choice.made["reads_log"] = scheduler.reads_log and alone
        self.own = scheduler.begin(simulation, alone)
        self._number = driver.number_of(scheduler.policy_kernel())

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Simulate to the end of the run, or until a time.

        Parameters
        ----------
        until_s : stop at the first decision point at or after this time [s], before its decisions
        tell : called whenever the driver returns to Python, to show progress

        Returns
        -------
        Outcome : DECIDE if the run stopped at ``until_s``, otherwise the reason why it ended
        """
        self.choice.made["stop_s"], self.choice.made["rules"] = until_s, len(RULE_NUMBER)
        if self.choice.made["reads_log"]:  # whoever has read the log in a pause has emptied it
            self.simulation.drain()
        while True:
            code = driver.drive(self.simulation.arrays, self.choice, self._number, self.own)
            if code == driver.ASSISTED:
                self.assist()
                continue
            if tell is not None:
                tell()
            if code in OUTCOMES or code >= driver.PAUSED:
                self.simulation.make_room()
                return self._outcome(code)
            self.simulation.drain()  # the log is full, or it was quiet for long

    def _outcome(self, code: int) -> Outcome:
        if code == driver.IN_VAIN:
            raise in_vain(self.scheduler)
        if code == driver.UNKNOWN:
            raise SchedulerError(
                f"scheduler {self.scheduler.name!r}: its policy returns a number that is no kind of decision"
            )
        if code == driver.NO_RULE:
            raise no_rule(self.scheduler, self.choice)
        return Outcome.DECIDE if code == driver.PAUSED else Outcome(code)

    def assist(self) -> None:
        """Do what the policy cannot do in a kernel."""
        self.scheduler.assist(self.simulation, self.own)
