"""The decisions that heuristics, people and neural networks make: Start, Preempt, Lease and Wait."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Start(NamedTuple):
    """Give a waiting job its whole gang of GPUs now; resumes it if it was preempted.

    Parameters
    ----------
    job : row of the job
    rule : a name in PLACEMENT_RULES; ignored if ``gpus`` is given
    gpus : explicit GPU ids, as many as the gang size, all free
    share : other jobs may hold some of ``gpus``, if the scenario lets jobs share GPUs; the rules named share-* always
        choose shared GPUs themselves
    sub_steps : number of gradient-accumulation sub-steps into which each GPU splits its batch; None = the rule's
        choice, else the fewest for which the free memory of the GPUs suffices
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
    """Let a running gang hold its GPUs until ``until_s`` [s]; inf = without a lease, which is how gangs start.

    When the lease ends, the scheduler is asked while the gang still holds its GPUs. A new lease lets the gang go on at
    no cost. If the scheduler neither grants one nor preempts the gang, the gang is preempted before time moves. A new
    lease replaces the old one. Refused if ``until_s`` is not in the future. If the scenario has rounds, a lease ends at
    the first round at or after ``until_s``.
    """

    job: int
    until_s: float


class Wait(NamedTuple):
    """Ask to be woken at ``until_s`` [s] at the latest; a time that is not in the future is ignored.

    Of several waits at one decision point, the earliest counts. The next event wakes the scheduler in any case and ends
    the wait; ask again if you still want to be woken. If the scenario has rounds, only rounds wake the scheduler.
    """

    until_s: float


Decision: TypeAlias = Start | Preempt | Lease | Wait
