"""Kernels that start a job on a chosen number of GPUs, and that resize or move a running gang."""

from __future__ import annotations

from gpusched_env.core.events import (
    EXPLICIT,
    delay_progress,
    preempt_refusal,
    requeue,
    reshard_s,
    start,
    touch,
    write_event,
)
from gpusched_env.core.handle import kernel
from gpusched_env.core.network.flows import end_flow
from gpusched_env.core.placement.placing import reserve
from gpusched_env.core.placement.taking import FREE, unreserve
from gpusched_env.core.planning import lend
from gpusched_env.core.refusals import APPLIED, BAD_SIZE, NO_JOB, NO_PLACE, TOO_FEW_GPUS
from gpusched_env.core.seating import reserve_given
from gpusched_env.core.sizes import set_size, size_row
from gpusched_env.core.state import WAITING, Run
from gpusched_env.event_log import RESIZE


@kernel(lazy=True)
def choose_size(sim: Run, row: int, size: int) -> int:
    """Let a waiting job start on ``size`` GPUs next; return an index into REFUSALS, APPLIED = it has this size.

    A job that does not wait is left as it is: ``start`` refuses it with the right reason.
    """
    if row < 0 or row >= sim.world["jobs"]:
        return NO_JOB
    if sim.jobs[row]["status"] == WAITING:
        chosen = size_row(sim, row, size)
        if chosen < 0:
            return BAD_SIZE
        set_size(sim, row, chosen)
    return APPLIED


@kernel(lazy=True)
def ask_again(sim: Run, row: int) -> None:
    """Give a job whose start was refused the size that it requests."""
    if sim.jobs[row]["status"] == WAITING:
        set_size(sim, row, size_row(sim, row, sim.jobs[row]["asked"]))


@kernel(lazy=True)
def holds_chosen(sim: Run, replica: int, count: int) -> bool:
    """Return whether a replica holds exactly the distinct GPUs ``chosen[:count]``."""
    held = 0
    seat = sim.replicas[replica]["first_gpu"]
    while seat >= 0:
        held += 1
        seat = sim.gpu_next[seat]
    if held != count:
        return False
    for i in range(count):
        gpu = sim.chosen[i]
        if gpu < 0 or sim.holder[gpu] != replica:
            return False
    return True


@kernel(lazy=True)
def resize(sim: Run, row: int, size: int, rule: int, explicit: int) -> int:
    """Let a running gang go on on ``size`` GPUs, after ``resize_s`` seconds without progress.

    The log must have room (``events.has_room``).

    The gang's own GPUs count as free for the placement rule. If the gang already runs on ``size`` GPUs, a placement
    rule leaves it where it is, and nothing happens; so do explicit GPUs that are those it holds.

    Parameters
    ----------
    row : row of the job
    size : number of GPUs, one of the job's sizes
    rule : number of the placement rule, or EXPLICIT
    explicit : number of GPUs in ``chosen`` if ``rule`` is EXPLICIT; it must be ``size``

    Returns
    -------
    index into REFUSALS; APPLIED = the gang has its GPUs, or nothing was to be done
    """
    w = sim.world
    refusal = preempt_refusal(sim, row)
    if refusal != APPLIED:
        return refusal
    chosen = size_row(sim, row, size)
    number = sim.jobs[row]["replica"]
    copies = sim.replicas[number]["gpus"] > sim.replicas[number]["gang"]
    if chosen < 0 or copies or (rule == EXPLICIT and explicit != size):
        return BAD_SIZE
    if size == sim.replicas[number]["gpus"] and (rule != EXPLICIT or holds_chosen(sim, number, size)):
        return APPLIED

    # Find the GPUs before the gang gives up its own, so that a refusal changes nothing.
    kind = sim.sizes[chosen]["job_class"]
    random = w["random"]
    lent = lend(sim, number, FREE)
    end = size
    if rule == EXPLICIT:
        refusal = reserve_given(sim, kind, size, size, False)
    elif size > w["free_gpus"] + lent:
        refusal = TOO_FEW_GPUS
    else:
        end = reserve(sim, 0, kind, size, rule, w["free_gpus"] + lent)
        refusal = NO_PLACE if end == 0 else APPLIED
    if refusal == APPLIED:
        unreserve(sim, 0, end)
    lend(sim, number, number)
    if refusal != APPLIED:
        w["random"] = random
        return refusal

    touch(sim, number)
    write_event(sim, RESIZE, row, number, sim.jobs[row]["remaining"])
    if w["contention"] > 0:
        end_flow(sim, number)
    requeue(sim, number)
    set_size(sim, row, chosen)
    since_s = w["clock_s"] + w["resize_s"] + reshard_s(sim, row, kind)
    started = start(sim, row, EXPLICIT, size, False, 0)
    delay_progress(sim, sim.jobs[row]["replica"], since_s)
    return started
