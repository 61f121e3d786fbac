"""The four decisions that a scheduler can make: Start, Preempt, Lease and Wait."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Start(NamedTuple):
    """Start a waiting job now, on all GPUs of its gang. A job that was preempted is resumed.

    Parameters
    ----------
    job : row of the job
    rule : name of the placement rule that chooses the GPUs, one of PLACEMENT_RULES; ignored if ``gpus`` is given
    gpus : ids of the GPUs to use; their number must be the gang size, and all must be free unless ``share`` is True
    share : True = other jobs may hold some of ``gpus``, provided that the scenario lets jobs share GPUs. The rules
        named ``share-*`` choose shared GPUs whatever this value is
    sub_steps : number of gradient-accumulation sub-steps into which each GPU splits its batch. None = the number that
        the rule chooses; if the rule chooses none, the smallest number for which the free memory of the GPUs suffices
    """

    job: int
    rule: str = "pack"
    gpus: tuple[int, ...] | None = None
    share: bool = False
    sub_steps: int | None = None


class Preempt(NamedTuple):
    """Checkpoint a running job; its GPUs are free after ``checkpoint_s``.

    The decision is refused if the job has started at the present time.

    Parameters
    ----------
    job : row of the job
    """

    job: int


class Lease(NamedTuple):
    """Grant a running gang a lease: the gang may hold its GPUs until ``until_s``.

    When the lease ends, the simulator asks the scheduler while the gang still holds its GPUs. If the scheduler grants a
    new lease, the gang continues at no cost. Otherwise the gang is preempted before time moves. A new lease replaces
    the present one, even before it ends. If the scenario has rounds, a lease ends at the first round at or after
    ``until_s``.

    Parameters
    ----------
    job : row of the job
    until_s : end of the lease [s]; the decision is refused if this time is not in the future. inf = the gang holds its
        GPUs without a lease, as every gang does when it starts
    """

    job: int
    until_s: float


class Wait(NamedTuple):
    """Ask for a decision point at ``until_s`` at the latest.

    If a scheduler waits several times at one decision point, the earliest time counts. Any event before ``until_s``
    leads to a decision point too, and ends the wait. The scheduler must then wait again if it still needs ``until_s``.
    If the scenario has rounds, there are decision points at rounds only.

    Parameters
    ----------
    until_s : time [s]; a time that is not in the future is ignored
    """

    until_s: float


Decision: TypeAlias = Start | Preempt | Lease | Wait
