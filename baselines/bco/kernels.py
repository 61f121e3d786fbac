"""A compiled rehearsal of SJF-BCO: place jobs and process events until all jobs have finished or the plan fails.

The results of the kernels are bit-identical to those of HeadOfLine (plans.py) and Ledger (ledger.py); tests compare the
results.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.bco.ledger import SLACK_S
from gpusched_env.core.events import DECIDE, EXPLICIT, LOG_FULL, advance, start
from gpusched_env.core.handle import Handle, array, helper, kernel
from gpusched_env.core.refusals import BUFFER_FULL
from gpusched_env.core.state import Run

Array = np.ndarray

FIRST_FIT, LEAST_CHARGED, BALANCED = range(3)  # policies "ff", "ls", "bco"
NO_PLACE: Final = 100  # an outcome in addition to those of ``advance``: theta leaves a job no GPUs
MOST_OF_A_MACHINE: Final = 129  # [GPU] numpy adds more values than this in another order

LEDGER_DTYPE: Final = np.dtype(
    [
        ("policy", "<i8"),
        ("theta_s", "<f8"),  # [s] largest charge of a GPU
        ("small", "<f8"),  # [GPU] largest small gang
        ("capacity", "<f8"),  # lambda
        ("binding", "<i8"),  # 1 = theta has excluded a GPU
        ("at", "<i8"),  # index in ``order`` of the next job to place
        ("resumes", "<i8"),  # 1 = a full log has stopped the simulation between two decision points
    ]
)


class Book(Handle):
    """The arrays that a rehearsal reads and writes, in addition to those of the run."""

    memory = array(LEDGER_DTYPE)
    order = array(np.int64, "placed")  # rows of the jobs
    gangs = array(np.int64, "placed")  # [GPU]
    charges_s = array(np.float64, "placed")  # [s] that each job adds to its GPUs
    able = array(np.bool_, "able", "gpus")  # GPUs that can run each job; one row if they are the same for all
    charged_s = array(np.float64, "gpus")  # [s]
    mean_s = array(np.float64, "nodes")  # scratch
    kept = array(np.int8, "nodes")  # scratch


@helper
def sum_of(values: Array, begin: int, end: int) -> float:
    """Add values in the same order as numpy.add.reduceat, for up to MOST_OF_A_MACHINE values."""
    total = 0.0
    at = begin + 1
    if end - at >= 8:
        a, b, c, d = values[at], values[at + 1], values[at + 2], values[at + 3]
        e, f, g, h = values[at + 4], values[at + 5], values[at + 6], values[at + 7]
        at += 8
        while end - at >= 8:
            a += values[at]
            b += values[at + 1]
            c += values[at + 2]
            d += values[at + 3]
            e += values[at + 4]
            f += values[at + 5]
            g += values[at + 6]
            h += values[at + 7]
            at += 8
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while at < end:
        total += values[at]
        at += 1
    return values[begin] + total


@helper
def keep_servers(sim: Run, book: Book, able: Array, wanted: float) -> None:
    """Mark the least charged servers, as few as together have ``wanted`` GPUs that can run the gang."""
    for node in range(len(book.mean_s)):
        first = sim.nodes[node]["first_gpu"]
        gpus = sim.nodes[node]["gpus"]
        book.mean_s[node] = sum_of(book.charged_s, first, first + gpus) / gpus
        book.kept[node] = 0
    found = 0
    for _ in range(len(book.mean_s)):
        best = -1
        for node in range(len(book.mean_s)):
            if not book.kept[node] and (best < 0 or book.mean_s[node] < book.mean_s[best]):
                best = node
        book.kept[best] = 1
        first = sim.nodes[best]["first_gpu"]
        for gpu in range(first, first + sim.nodes[best]["gpus"]):
            found += able[gpu]
        if found >= wanted:
            break


@helper
def place_gang(sim: Run, book: Book, able: Array, gang: int, charge_s: float) -> int:
    """Choose the GPUs of a gang and charge them.

    Returns 1 = the gang is placed; 0 = too few GPUs are free now; -1 = there would be too few even if all were free.
    """
    rules = book.memory
    gpus = len(book.charged_s)
    limited = rules["policy"] == BALANCED and gang > rules["small"]
    if limited:
        keep_servers(sim, book, able, rules["capacity"] * gang)
    allowed = 0
    candidates = 0
    taken = 0
    for gpu in range(gpus):
        if not book.charged_s[gpu] + charge_s <= rules["theta_s"] + SLACK_S:
            rules["binding"] = 1
            continue
        if not able[gpu] or (limited and not book.kept[sim.gpu_node[gpu]]):
            continue
        allowed += 1
        if sim.holder[gpu] >= 0:
            continue
        candidates += 1
        at = taken
        if rules["policy"] != FIRST_FIT:  # insertion sort: the least charged GPUs so far
            while at > 0 and book.charged_s[gpu] < book.charged_s[sim.chosen[at - 1]]:
                at -= 1
        if at < gang:
            taken = min(taken + 1, gang)
            for i in range(taken - 1, at, -1):
                sim.chosen[i] = sim.chosen[i - 1]
            sim.chosen[at] = gpu
    if allowed < gang:
        return -1
    if candidates < gang:
        return 0
    for i in range(gang):
        book.charged_s[sim.chosen[i]] += charge_s
    return 1


@kernel
def rehearse_in_line(sim: Run, book: Book) -> int:
    """Place one job after another, each as soon as it fits, and simulate to the end; the event log is discarded.

    Returns NO_PLACE, LOG_FULL (call again: a long run returns now and then), or the outcome of ``advance`` that ended
    the run.
    """
    w = sim.world
    m = book.memory
    while True:
        while m["resumes"] == 0 and m["at"] < len(book.order):
            at = m["at"]
            row = book.order[at]
            gang = book.gangs[at]
            found = place_gang(sim, book, book.able[at if len(book.able) > 1 else 0], gang, book.charges_s[at])
            if found < 0:
                return NO_PLACE
            if found == 0:
                break
            if start(sim, row, EXPLICIT, gang, False, 0) == BUFFER_FULL:
                w["events"] = 0
                w["event_gpus"] = 0
                start(sim, row, EXPLICIT, gang, False, 0)
            m["at"] = at + 1
        w["events"] = 0
        w["event_gpus"] = 0
        outcome = advance(sim)
        m["resumes"] = 1 if outcome == LOG_FULL else 0
        if outcome != DECIDE:
            return outcome
