"""The decision vocabulary: what heuristics, people and neural networks alike may say to the simulator."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Start(NamedTuple):
    """Give a waiting job its whole gang of GPUs now; resumes it if it was preempted.

    Parameters
    ----------
    job : row of the job
    rule : a name in PLACEMENT_RULES; ignored if ``gpus`` is given
    gpus : explicit GPU ids, as many as the gang is large, all free
    share : other jobs may hold some of the ``gpus``, where the scenario lets jobs share; the rules named share-* always
        look for company themselves
    sub_steps : gradient-accumulation sub-steps in which each GPU works its batch off; None = as the rule says, else as
        few as the memory left on the GPUs asks for
    """

    job: int
    rule: str = "pack"
    gpus: tuple[int, ...] | None = None
    share: bool = False
    sub_steps: int | None = None


class Preempt(NamedTuple):
    """Checkpoint a running job; its GPUs are free after ``checkpoint_s``. Refused in the instant of its start."""

    job: int


class Lease(NamedTuple):
    """Let a running gang hold its GPUs until ``until_s`` [s]; then they are offered again. inf = no lease.

    At the lease's end the scheduler is asked while the gang still holds its GPUs. A new lease lets it go on at no cost;
    if the scheduler neither grants one nor preempts the gang, the gang is preempted as soon as time moves. A later
    lease replaces an earlier one. Refused if the time is not in the future. Gangs are started without a lease. Where
    the scenario plays in rounds, a lease ends at the first round at or after ``until_s``.
    """

    job: int
    until_s: float


class Wait(NamedTuple):
    """Ask to be woken at ``until_s`` [s] at the latest; a time that is not in the future is ignored.

    Several waits of one decision point: the earliest counts. The next event wakes the scheduler anyway, and the wait is
    then over: ask again if you still want to be woken. Where the scenario plays in rounds, rounds alone wake it.
    """

    until_s: float


Decision: TypeAlias = Start | Preempt | Lease | Wait
