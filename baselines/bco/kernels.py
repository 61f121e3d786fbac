"""SJF-BCO as a policy: jobs are placed in a given order on the GPUs that a book of charges chooses."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.driver import ASSIST, BEGINS, NOTHING, START, Choice, policy
from gpusched_env.core.handle import Handle, array, helper, kernel
from gpusched_env.core.placement.taking import FREE
from gpusched_env.core.reservations import is_down
from gpusched_env.core.state import WAITING, Run

Array = np.ndarray

POLICIES = ("ff", "ls", "bco", "rand")
FIRST_FIT, LEAST_CHARGED, BALANCED, RANDOM = range(4)
FREE_NOW, ALIVE, ALL = range(3)  # GPUs on which ``place_gang`` may place a gang; ALIVE: held ones, but not down ones
SLACK_S = 1e-9  # [s] tolerance for rounding in the comparison with theta
NO_PLACE, WAITS, PLACED, DRAWS = range(-1, 3)  # results of ``place_gang``
PLAN = 3  # what the policy asks Python to do, in addition to NO_PLACE and DRAWS

LEDGER_DTYPE = np.dtype(
    [
        ("policy", "<i8"),  # index into POLICIES
        ("theta_s", "<f8"),  # [s] largest charge of a GPU
        ("small", "<f8"),  # [GPU] largest small gang
        ("capacity", "<f8"),  # lambda
        ("queues", "<i8"),  # 1 = every GPU has a queue of gangs, and all jobs have been placed
        ("binding", "<i8"),  # 1 = theta has excluded a GPU
        ("count", "<i8"),  # jobs of the plan
        ("known", "<i8"),  # jobs that had entered the system when the plan was made
        ("changes", "<i8"),  # machines that had gone down or come back by then
        ("left", "<i8"),  # jobs of the plan that have not started
        ("at", "<i8"),  # index in ``order`` of the next job to place; of queues: of the next job to look at
        ("candidates", "<i8"),  # GPUs from which to draw
        ("drawn", "<i8"),  # 1 = the GPUs of this job have been drawn
        ("asks", "<i8"),  # what the policy asks Python to do
    ]
)


class Book(Handle):
    """A plan: the first ``count`` jobs in the order in which they are placed, and the charges of GPUs."""

    memory = array(LEDGER_DTYPE)
    order = array(np.int64, "jobs")  # rows of the jobs; of queues: -1 = it has started
    gangs = array(np.int64, "jobs")  # [GPU]
    charges_s = array(np.float64, "jobs")  # [s] that each job adds to its GPUs
    able = array(np.bool_, "able", "gpus")  # GPUs that can run each job; one row if they are the same for all
    charged_s = array(np.float64, "gpus")  # [s] charges of all gangs placed so far
    started_s = array(np.float64, "gpus")  # [s] charges of the gangs that have started
    places = array(np.int64, "chosen")  # of queues: the GPUs of all jobs, in order
    ends = array(np.int64, "jobs")  # of queues: index after the last GPU of each job in ``places``
    mean_s = array(np.float64, "nodes")  # scratch
    kept = array(np.int8, "nodes")  # scratch
    taken = array(np.int8, "gpus")  # scratch, of queues: 1 = an earlier job waits for this GPU


@helper
def sum_of(values: Array, begin: int, end: int) -> float:
    """Add values in the same order as numpy.add.reduceat does for up to 129 values."""
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
    """Mark the least charged servers, as few as have ``wanted`` GPUs that can run the gang and are not down."""
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
            found += able[gpu] and not is_down(sim, gpu)
        if found >= wanted:
            break


@helper
def place_gang(sim: Run, book: Book, at: int, where: int) -> int:
    """Write the GPUs of the job at index ``at`` of the plan to ``chosen``, the least charged or the first ones.

    Returns PLACED; WAITS = too few GPUs are free now; NO_PLACE = there would be too few even if all were free; DRAWS =
    ``chosen`` begins with the candidates, from which Python must draw. ``where``: FREE_NOW, ALIVE or ALL.

    References
    ----------
    M. Yu, B. Ji, H. Rajan, J. Liu, MobiHoc 2022 (arXiv 2207.07817), algorithms 2 and 3; section 7 for the baselines.
    """
    m = book.memory
    able = book.able[at if len(book.able) > 1 else 0]
    gang = book.gangs[at]
    limited = m["policy"] == BALANCED and gang > m["small"]
    if limited:
        keep_servers(sim, book, able, m["capacity"] * gang)
    allowed = 0
    candidates = 0
    taken = 0
    for gpu in range(len(book.charged_s)):
        if not book.charged_s[gpu] + book.charges_s[at] <= m["theta_s"] + SLACK_S:
            m["binding"] = 1
            continue
        if not able[gpu] or (limited and not book.kept[sim.gpu_node[gpu]]):
            continue
        if where == ALIVE and is_down(sim, gpu):
            continue
        allowed += 1
        if where == FREE_NOW and sim.holder[gpu] != FREE:
            continue
        candidates += 1
        if m["policy"] == RANDOM:
            sim.chosen[candidates - 1] = gpu
            continue
        i = taken
        if m["policy"] != FIRST_FIT:  # insertion sort: the least charged GPUs so far
            while i > 0 and book.charged_s[gpu] < book.charged_s[sim.chosen[i - 1]]:
                i -= 1
        if i < gang:
            taken = min(taken + 1, gang)
            for k in range(taken - 1, i, -1):
                sim.chosen[k] = sim.chosen[k - 1]
            sim.chosen[i] = gpu
    if allowed < gang:
        return NO_PLACE
    if candidates < gang:
        return WAITS
    m["candidates"] = candidates
    return DRAWS if m["policy"] == RANDOM else PLACED


@kernel
def place_at_once(sim: Run, book: Book, at: int) -> int:
    """Choose the GPUs of a job, held ones included; ones that are down only if too few others are left."""
    found = place_gang(sim, book, at, ALIVE)
    return place_gang(sim, book, at, ALL) if found == NO_PLACE else found


@helper
def begin_gang(sim: Run, choice: Choice, book: Book, at: int) -> int:
    """Charge the chosen GPUs for the job at index ``at`` of the plan, and start it there."""
    for i in range(book.gangs[at]):
        book.started_s[sim.chosen[i]] += book.charges_s[at]
        if not book.memory["queues"]:
            book.charged_s[sim.chosen[i]] += book.charges_s[at]
    book.memory["left"] -= 1
    choice.made["row"] = book.order[at]
    choice.made["gpus"] = book.gangs[at]
    return START


@helper
def next_in_line(sim: Run, choice: Choice, book: Book) -> int:
    """Start the next job if it fits: a gang takes free GPUs only, and a gang that waits blocks all gangs behind it."""
    m = book.memory
    at = m["at"]
    if at == m["count"] or sim.jobs[book.order[at]]["status"] != WAITING:  # a gang that has failed is released later
        return NOTHING
    found = PLACED if m["drawn"] else place_gang(sim, book, at, FREE_NOW)
    if found == WAITS:
        return NOTHING
    if found != PLACED:
        m["asks"] = found
        return ASSIST
    m["drawn"] = 0
    m["at"] += 1
    return begin_gang(sim, choice, book, at)


@helper
def next_of_queues(sim: Run, choice: Choice, book: Book) -> int:
    """Start the next job that is first in the queues of all its GPUs, if these are free."""
    m = book.memory
    if m["at"] == 0:
        for gpu in range(len(book.taken)):
            book.taken[gpu] = 0
    while m["at"] < m["count"]:
        at = m["at"]
        m["at"] += 1
        if book.order[at] < 0:
            continue
        first = book.ends[at] - book.gangs[at]
        ready = sim.jobs[book.order[at]]["status"] == WAITING
        for i in range(first, book.ends[at]):
            gpu = book.places[i]
            ready = ready and sim.holder[gpu] == FREE and book.taken[gpu] == 0
            book.taken[gpu] = 1
            sim.chosen[i - first] = gpu
        if ready:
            kind = begin_gang(sim, choice, book, at)
            book.order[at] = -1
            return kind
    return NOTHING


@policy
@kernel
def next_of_book(sim: Run, choice: Choice, book: Book) -> int:
    """Ask for a new plan if jobs or machines came or failed; start the jobs that the plan allows to start now."""
    m = book.memory
    changed = sim.world["recovers"] > 0 and sim.world["next_closing"] > m["changes"]
    if sim.world["entered"] > m["known"] or sim.world["waiting"] > m["left"] or changed:
        m["asks"] = PLAN
        return ASSIST
    if not m["queues"]:
        return next_in_line(sim, choice, book)
    if choice.made["first"] == BEGINS:
        m["at"] = 0
    return next_of_queues(sim, choice, book)
