"""A rehearsal of SJF-BCO, compiled: place a job, play on, until all have ended or the plan fails.

It does what HeadOfLine (bco_plans.py) and Ledger (bco_ledger.py) do, to the last bit; tests compare them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.baselines.bco_ledger import SLACK_S
from gpusched_env.core.events import BUFFER_FULL, DECIDE, EXPLICIT, LOG_FULL
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.moves import advance_by, start_by

Array = np.ndarray[Any, Any]

FIRST_FIT, LEAST_CHARGED, BALANCED = range(3)  # policies "ff", "ls", "bco"
NO_PLACE: Final = 100  # outcome beside those of ``advance``: some job finds no place under theta
MOST_OF_A_MACHINE: Final = 129  # [GPU] NumPy adds up more in another order

LEDGER_DTYPE: Final = np.dtype(
    [
        ("policy", "<i8"),
        ("theta_s", "<f8"),  # [s] the most that a GPU may be charged
        ("small", "<f8"),  # [GPU] gangs of up to so many are small
        ("capacity", "<f8"),  # lambda
        ("binding", "<i8"),  # 1 = theta has shut some GPU out
    ]
)


@helper
def sum_of(values: Array, begin: int, end: int) -> float:
    """Add up in the order of numpy.add.reduceat, up to MOST_OF_A_MACHINE values."""
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
def keep_servers(
    nodes: Array, charged_s: Array, able: Array, mean_s: Array, kept: Array, wanted: float, b: int
) -> None:
    """Mark the fewest servers, least mean charge first, that have ``wanted`` GPUs on which the gang can run."""
    for node in range(len(mean_s)):
        first = int64(nodes[b, node]["first_gpu"])
        gpus = int64(nodes[b, node]["gpus"])
        mean_s[node] = sum_of(charged_s, first, first + gpus) / gpus
        kept[node] = 0
    found = 0
    for _ in range(len(mean_s)):
        best = -1
        for node in range(len(mean_s)):
            if not kept[node] and (best < 0 or mean_s[node] < mean_s[best]):
                best = node
        kept[best] = 1
        first = nodes[b, best]["first_gpu"]
        for gpu in range(first, first + nodes[b, best]["gpus"]):
            found += able[gpu]
        if found >= wanted:
            break


@helper
def place_gang(
    nodes: Array,
    holder: Array,
    gpu_node: Array,
    chosen: Array,
    ledger: Array,
    charged_s: Array,
    able: Array,
    mean_s: Array,
    kept: Array,
    b: int,
    gang: int,
    charge_s: float,
) -> int:
    """Choose a gang's GPUs and charge them: 1 = done, 0 = not now, -1 = it would find no place on free GPUs either."""
    book = ledger[0]
    gpus = len(charged_s)
    limited = book["policy"] == BALANCED and gang > book["small"]
    if limited:
        keep_servers(nodes, charged_s, able, mean_s, kept, book["capacity"] * gang, b)
    allowed = 0
    candidates = 0
    taken = int64(0)
    for gpu in range(gpus):
        if not charged_s[gpu] + charge_s <= book["theta_s"] + SLACK_S:
            book["binding"] = 1
            continue
        if not able[gpu] or (limited and not kept[gpu_node[b, gpu]]):
            continue
        allowed += 1
        if holder[b, gpu] >= 0:
            continue
        candidates += 1
        at = taken
        if book["policy"] != FIRST_FIT:  # the least charged so far, in order
            while at > 0 and charged_s[gpu] < charged_s[chosen[b, at - 1]]:
                at -= 1
        if at < gang:
            taken = min(taken + 1, gang)
            for i in range(taken - 1, at, -1):
                chosen[b, i] = chosen[b, i - 1]
            chosen[b, at] = gpu
    if allowed < gang:
        return int64(-1)
    if candidates < gang:
        return int64(0)
    for i in range(gang):
        charged_s[chosen[b, i]] += charge_s
    return int64(1)


@kernel
def rehearse_in_line(
    world: Array,
    nodes: Array,
    holder: Array,
    gpu_node: Array,
    chosen: Array,
    b: int,
    moves: int,
    ledger: Array,
    order: Array,
    gangs: Array,
    charges_s: Array,
    able: Array,
    charged_s: Array,
    mean_s: Array,
    kept: Array,
) -> int:
    """Place one job after the other, each when it can be, and play to the end; the log is thrown away.

    ``able`` has one row for all jobs, or one for each. Returns NO_PLACE, or what stopped ``advance``.
    """
    w = world[b]
    at = 0
    while True:
        while at < len(order):
            row = int64(order[at])
            gang = int64(gangs[at])
            found = place_gang(
                nodes,
                holder,
                gpu_node,
                chosen,
                ledger,
                charged_s,
                able[at if len(able) > 1 else 0],
                mean_s,
                kept,
                b,
                gang,
                charges_s[at],
            )
            if found < 0:
                return NO_PLACE
            if found == 0:
                break
            if start_by(moves, b, row, int64(EXPLICIT), gang) == BUFFER_FULL:
                w["events"] = 0
                w["event_gpus"] = 0
                start_by(moves, b, row, int64(EXPLICIT), gang)
            at += 1
        outcome = int64(LOG_FULL)
        while outcome == LOG_FULL:
            w["events"] = 0
            w["event_gpus"] = 0
            outcome = advance_by(moves, b)
        if outcome != DECIDE:
            return outcome
