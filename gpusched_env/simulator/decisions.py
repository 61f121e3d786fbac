"""The six decisions that a scheduler can make: Start, Resize, Preempt, Lease, Refuse and Wait."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Start(NamedTuple):
    """Start a waiting job now, on all GPUs of its gang. A job that was preempted is resumed.

    Parameters
    ----------
    job : row of the job
    rule : name of the placement rule that chooses the GPUs, one of PLACEMENT_RULES; ignored if ``gpus`` is given
    gpus : ids of the GPUs to use; their number must be the gang size, or a size of an elastic job. All must be free
        unless ``share`` is True
    share : True = other jobs may hold some of ``gpus``, provided that the scenario lets jobs share GPUs. The rules
        named ``share-*`` choose shared GPUs whatever this value is
    sub_steps : number of gradient-accumulation sub-steps into which each GPU splits its batch. None = the number that
        the rule chooses; if the rule chooses none, the smallest number for which the free memory of the GPUs suffices
    size : number of GPUs on which an elastic job starts, one of its sizes. None = the number of ``gpus``; if these are
        not given either, the number that the job requests
    """

    job: int
    rule: str = "pack"
    gpus: tuple[int, ...] | None = None
    share: bool = False
    sub_steps: int | None = None
    size: int | None = None


class Resize(NamedTuple):
    """Let a running gang go on on another number of GPUs, or on other GPUs.

    The gang gives its GPUs back and takes the new ones at once. It then holds them for ``Semantics.resize_s`` without
    progress. Its own GPUs count as free for the placement rule. A gang that already runs on ``size`` GPUs stays where
    it is, at no cost, unless ``gpus`` names others. The gang has no lease afterwards. The decision is refused, and
    changes nothing, if the GPUs are not free, if the job does not have this size, or if the gang has started at the
    present time.

    Parameters
    ----------
    job : row of the job
    size : number of GPUs, one of the job's sizes
    rule : name of the placement rule that chooses the GPUs, one of PLACEMENT_RULES; ignored if ``gpus`` is given
    gpus : ids of the GPUs to use, ``size`` of them; each must be free or held by this gang
    """

    job: int
    size: int
    rule: str = "pack"
    gpus: tuple[int, ...] | None = None


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


class Refuse(NamedTuple):
    """Refuse a waiting job: it leaves the system and is never run. Admission control decides so.

    The decision is refused if the job has run before.

    Parameters
    ----------
    job : row of the job
    """

    job: int


class Wait(NamedTuple):
    """Ask for a decision point at ``until_s`` at the latest.

    If a scheduler waits several times at one decision point, the earliest time counts. Any event before ``until_s``
    leads to a decision point too, and ends the wait. The scheduler must then wait again if it still needs ``until_s``.
    If the scenario has rounds, there are decision points at rounds only.

    Parameters
    ----------
    until_s : time [s]; inf = the next event. A time that is not in the future is an error, because the clock would not
        advance
    """

    until_s: float


Decision: TypeAlias = Start | Resize | Preempt | Lease | Refuse | Wait
