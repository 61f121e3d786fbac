"""What the observation shows of jobs, machines and links: one helper for each array."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MACHINE, SLOT, TIERS
from gpusched_env.envs import columns
from gpusched_env.envs.squashing import LANES, squash_all
from gpusched_env.simulator.binding import scratch
from gpusched_env.core.network.settling import alone_s, beside_company
from gpusched_env.core.events import productive_s, seconds_left
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.queries import link_load
from gpusched_env.core.state import CHECKPOINTING

Array = np.ndarray[Any, Any]

CLASS_DTYPE: Final = np.dtype(
    [
        ("ideal_iteration_s", "<f8"),
        ("rack_loss", "<f8"),
        ("network_loss", "<f8"),
        ("skew", "<f8"),
    ]
)
SHOWN_LINK_DTYPE: Final = np.dtype([("capacity", "<f8"), ("tier", "<f8")])  # as columns.LINKS shows them
# What the arrays of an observation hold since they were written last: only what has changed is written anew.
SEEN_DTYPE: Final = np.dtype(
    [
        ("machines", "<i8"),  # entirely free
        ("gpus", "<i8"),  # of these
        ("queue", "<i8"),  # slots that are filled
        ("running", "<i8"),
        # as WORLD had them when show_tiers added up last
        ("starts", "<i8"),
        ("returns", "<i8"),
    ]
)
UNSEEN: Final = -1  # what has not been shown yet: free GPUs of a machine or rack, a slot's job

_FLOAT32: Final = np.dtype(np.float32)
_FLOAT64: Final = np.dtype(np.float64)
_INT64: Final = np.dtype(np.int64)
_TOGETHER: Final = 16  # slots whose times are squashed together
_QUEUE_TIMES: Final = 5  # of a slot
_QUEUE_TIMES_OF_OLD: Final = 2  # of a slot that shows the same job as before
_RUNNING_TIMES: Final = 4
_MOST_TIMES: Final = 80 + LANES  # of so many slots, and room for squash_all
_MACHINES: Final = 8  # that are compared together
_FLOWS: Final = len(columns.FLOWS)
_TIERS: Final = len(TIERS)


@helper
def attained_by(world: Array, replicas: Array, b: int, number: int) -> float:
    """Attained service of the job of a running gang as of the clock, as :func:`events.attained_service` [GPU s]."""
    return (replicas[b, number]["service_s"] + productive_s(world, replicas, b, number)) * replicas[b, number]["gang"]


@helper
def showing(row: int, times: int) -> int:
    """Name what a slot shows: a job that waits after so many stops, or a start of that number, x 2 + 1 if it stops."""
    return times << 31 | row


@helper
def row_shown(who: int) -> int:
    """Job that a slot shows; a number that no job has if none."""
    return who & 0x7FFFFFFF


@helper
def starts_somehow(mask: Array, k: int, starts: int) -> int:
    """Tell whether a queue slot's job can be started; ``starts`` actions are a slot's."""
    somehow = 0
    for p in range(starts):
        somehow |= mask[k * starts + p]
    return somehow


@helper
def empty_slots(out: Array, shown: Array, first: int, end: int) -> None:
    """Write that these slots are empty."""
    for k in range(first, end):
        shown[k] = UNSEEN
        for c in range(out.shape[1]):
            out[k, c] = 0.0


@helper
def show_queue(
    world: Array,
    jobs: Array,
    replicas: Array,
    clairvoyant: int,
    classes: Array,
    b: int,
    queue: Array,
    filled: int,
    mask: Array,
    starts: int,
    stands: bool,
    seen: Array,
    shown: Array,
    out: Array,
) -> None:
    """Write the rows of columns.QUEUE; ``starts`` actions are a slot's.

    ``stands``: no time has passed, so that of a job that its slot showed before only its start may be possible now or
    no longer. ``shown``: who was shown (:func:`showing`).
    """
    w = world[b]
    seconds = scratch(_MOST_TIMES, _FLOAT64)
    times = scratch(_MOST_TIMES, _FLOAT32)
    group = scratch(_TOGETHER, _INT64)
    next_slot = int64(0)
    while next_slot < filled:
        count = int64(0)
        at = int64(0)
        while next_slot < filled and count < _TOGETHER:
            k = next_slot
            next_slot += 1
            row = int64(queue[k])
            out[k, 12] = starts_somehow(mask, k, starts)
            if stands and row_shown(shown[k]) == row:
                continue
            job = jobs[b, row]
            seconds[at] = w["clock_s"] - job["last_stop_s"]
            seconds[at + 1] = w["clock_s"] - job["arrival_s"]
            who = showing(row, int64(job["preemptions"]))
            if shown[k] == who:  # it has waited since: nothing else has changed
                group[count] = k * 2
                at += _QUEUE_TIMES_OF_OLD
            else:
                left = seconds_left(world, jobs, replicas, b, row) if clairvoyant else 0.0
                seconds[at + 2] = job["service_s"] * job["gpus"] / w["gpus"]
                seconds[at + 3] = left
                seconds[at + 4] = left * job["gpus"] / w["gpus"]
                group[count] = k * 2 + 1
                shown[k] = who
                at += _QUEUE_TIMES
            count += 1
        squash_all(seconds, at, times)
        at = int64(0)
        for i in range(count):
            k = group[i] // 2
            out[k, 3] = times[at]
            out[k, 4] = times[at + 1]
            if group[i] % 2 == 0:
                at += _QUEUE_TIMES_OF_OLD
                continue
            job = jobs[b, queue[k]]
            kind = classes[0, job["job_class"]]
            out[k, 0] = 1.0
            out[k, 1] = job["gpus"] / w["gpus"]
            out[k, 2] = min(job["gpus"] / w["node_gpus"], 1.0)
            out[k, 5] = times[at + 2]
            out[k, 6] = job["preemptions"] / (1.0 + job["preemptions"])
            out[k, 7] = times[at + 3]
            out[k, 8] = times[at + 4]
            out[k, 9] = kind["rack_loss"]
            out[k, 10] = kind["network_loss"]
            out[k, 11] = kind["skew"]
            at += _QUEUE_TIMES
    empty_slots(out, shown, filled, seen[b]["queue"])
    seen[b]["queue"] = filled


@helper
def show_running(
    world: Array,
    jobs: Array,
    replicas: Array,
    clairvoyant: int,
    classes: Array,
    b: int,
    victims: Array,
    filled: int,
    mask: Array,
    first_action: int,
    stands: bool,
    changed: int,
    seen: Array,
    shown: Array,
    out: Array,
) -> None:
    """Write the rows of columns.RUNNING; ``stands`` and ``shown`` as for :func:`show_queue`.

    Where gangs do not slow each other down, a decision that takes no time changes only the row of its own job,
    ``changed``, and who may be preempted.
    """
    w = world[b]
    steady = w["contention"] == 0 and w["sharing"] == 0 and w["changes"] == 0
    stands = stands and steady
    seconds = scratch(_MOST_TIMES, _FLOAT64)
    times = scratch(_MOST_TIMES, _FLOAT32)
    group = scratch(_TOGETHER, _INT64)
    next_slot = int64(0)
    while next_slot < filled:
        count = int64(0)
        at = int64(0)
        while next_slot < filled and count < _TOGETHER:
            v = next_slot
            next_slot += 1
            row = int64(victims[v])
            out[v, 10] = mask[first_action + v]
            if stands and row_shown(shown[v]) == row and row != changed:
                continue
            job = jobs[b, row]
            number = int64(job["replica"])
            left = seconds_left(world, jobs, replicas, b, row) if clairvoyant else 0.0
            seconds[at] = w["clock_s"] - replicas[b, number]["start_s"]
            seconds[at + 1] = attained_by(world, replicas, b, number) / w["gpus"]
            seconds[at + 2] = left
            seconds[at + 3] = left * job["gpus"] / w["gpus"]
            at += _RUNNING_TIMES
            stops = int64(replicas[b, number]["phase"] == CHECKPOINTING)
            who = showing(row, int64(replicas[b, number]["sequence"]) * 2 + stops)
            group[count] = v * 2 + int64(shown[v] != who or not steady)
            shown[v] = who
            count += 1
        squash_all(seconds, at, times)
        at = int64(0)
        for i in range(count):
            v = group[i] // 2
            job = jobs[b, victims[v]]
            r = replicas[b, job["replica"]]
            out[v, 2] = times[at]
            out[v, 3] = times[at + 1]
            out[v, 5] = times[at + 2]
            out[v, 6] = times[at + 3]
            at += _RUNNING_TIMES
            if group[i] % 2 == 0:  # it has run on, or still stops: nothing else has changed
                continue
            ideal_s = classes[0, job["job_class"]]["ideal_iteration_s"]
            out[v, 0] = 1.0
            out[v, 1] = job["gpus"] / w["gpus"]
            out[v, 4] = job["preemptions"] / (1.0 + job["preemptions"])
            out[v, 7] = shown_tier(r["tier"]) / (_TIERS - 1.0)
            out[v, 8] = max(1.0 - ideal_s / beside_company(replicas, b, int64(job["replica"])), 0.0)
            out[v, 9] = 1.0 if r["phase"] == CHECKPOINTING else 0.0
    empty_slots(out, shown, filled, seen[b]["running"])
    seen[b]["running"] = filled


@helper
def shown_tier(tier: int) -> int:
    """Tier as observations show it: a slot is a part of its machine."""
    return MACHINE if tier == SLOT else tier


@helper
def add_to_tier(replicas: Array, classes: Array, b: int, number: int, sums: Array) -> None:
    """Add a gang to the sums of its tier: GPUs, gangs, what they lose."""
    r = replicas[b, number]
    t = shown_tier(r["tier"])
    ideal_s = classes[0, r["job_class"]]["ideal_iteration_s"]
    sums[t, 0] += r["gpus"]
    sums[t, 1] += 1.0
    sums[t, 2] += max(1.0 - ideal_s / beside_company(replicas, b, number), 0.0)  # of copies < 0


@helper
def show_tiers(
    world: Array,
    replicas: Array,
    running: Array,
    classes: Array,
    b: int,
    stands: bool,
    seen: Array,
    sums: Array,
    out: Array,
) -> None:
    """Write the rows of columns.TIER_LINKS; ``stands`` as for :func:`show_queue`: then the latest start is added."""
    w = world[b]
    came, left = w["starts"] - seen[b]["starts"], w["returns"] - seen[b]["returns"]
    if stands and w["sharing"] == 0 and came <= 1 and left == 0:
        if came == 1:
            add_to_tier(replicas, classes, b, int64(running[b, w["running"] - 1]), sums)
    else:
        for t in range(_TIERS):
            for c in range(sums.shape[1]):
                sums[t, c] = 0.0
        for i in range(w["running"]):
            add_to_tier(replicas, classes, b, int64(running[b, i]), sums)
    seen[b]["starts"] = w["starts"]
    seen[b]["returns"] = w["returns"]
    for t in range(_TIERS):
        gpus, gangs, loss = sums[t, 0], sums[t, 1], sums[t, 2]
        out[t, 0] = gpus / (w["gpus"] * w["gpu_jobs"])
        out[t, 1] = gangs / (1.0 + gangs)
        out[t, 2] = loss / gangs if gangs > 0.0 else 0.0


@helper
def show_links(replicas: Array, links: Array, uses: Array, b: int, shown: Array, out: Array) -> None:
    """Write the rows of columns.LINKS."""
    for number in range(out.shape[0]):
        link = links[b, number]
        bound = 0
        load = 0.0  # as link_load
        use = link["first_use"]
        while use >= 0:
            u = uses[b, use]
            r = replicas[b, u["replica"]]
            load += u["weight"] * r["rate_Bps"]
            if r["bottleneck"] == number:
                bound += 1
            use = u["next_of_link"]
        out[number, 0] = min(load / link["capacity"], 1.0)
        out[number, 1] = link["flows"] / (1.0 + link["flows"])
        out[number, 2] = bound / (1.0 + bound)
        share = shown[0, number]["capacity"]
        if link["capacity"] != link["built_Bps"]:
            share *= link["capacity"] / link["built_Bps"]
        out[number, 3] = share
        out[number, 4] = shown[0, number]["tier"]


@helper
def show_flows(
    world: Array,
    jobs: Array,
    replicas: Array,
    links: Array,
    uses: Array,
    b: int,
    victims: Array,
    shown: Array,
    out: Array,
) -> None:
    """Write the rows of columns.FLOWS; a gang that is being checkpointed sends nothing."""
    for v in range(out.shape[0]):
        for c in range(_FLOWS):
            out[v, c] = 0.0
        if victims[v] < 0:
            continue
        number = int64(jobs[b, victims[v]]["replica"])
        r = replicas[b, number]
        out[v, 2] = 1.0 - 1.0 / r["machines"]
        if r["phase"] == CHECKPOINTING:
            continue
        out[v, 0] = max(1.0 - alone_s(world, replicas, b, number) / r["settled_s"], 0.0)
        out[v, 1] = max(1.0 - r["compute_s"] / r["settled_s"], 0.0)
        link = int64(r["bottleneck"])
        if link >= 0:
            flows = links[b, link]["flows"]
            out[v, 3] = min(link_load(replicas, links, uses, b, link) / links[b, link]["capacity"], 1.0)
            out[v, 4] = flows / (1.0 + flows)
            out[v, 5] = shown[0, link]["tier"]


@helper
def some_differ(free: Array, seen_free: Array, b: int, first: int) -> int:
    """Count those of _MACHINES machines whose free GPUs have changed."""
    differ = int64(0)
    for n in range(first, first + _MACHINES):
        differ += 1 if free[b, n] != seen_free[b, n] else 0
    return differ


@helper
def show_machines(
    world: Array, nodes: Array, racks: Array, free: Array, b: int, seen_free: Array, seen: Array, out: Array
) -> None:
    """Write columns.NODES of the machines whose free GPUs, or their rack's, have changed."""
    first_rack = nodes.shape[1]
    for first in range(0, world[b]["nodes"], _MACHINES):
        end = min(first + _MACHINES, int64(world[b]["nodes"]))
        differ = int64(1)
        if end - first == _MACHINES:
            differ = some_differ(free, seen_free, b, first)
        if differ == 0:
            continue
        for n in range(first, end):
            before = seen_free[b, n]
            if free[b, n] != before:
                gpus = nodes[b, n]["gpus"]
                if before == gpus:
                    seen[b]["machines"] -= 1
                    seen[b]["gpus"] -= gpus
                if free[b, n] == gpus:
                    seen[b]["machines"] += 1
                    seen[b]["gpus"] += gpus
                seen_free[b, n] = free[b, n]
                out[n, 0] = free[b, n] / gpus
    for r in range(world[b]["racks"]):
        rack_free = free[b, first_rack + r]
        if rack_free != seen_free[b, first_rack + r]:
            seen_free[b, first_rack + r] = rack_free
            rack = racks[b, r]
            for n in range(rack["first_node"], rack["first_node"] + rack["nodes"]):
                out[n, 2] = rack_free / rack["gpus"]


@helper
def show_cluster(world: Array, free: Array, b: int, window: int, seen: Array, out: Array) -> None:
    """Write columns.CLUSTER after :func:`show_machines`; ``window`` = slots of the queue."""
    w = world[b]
    largest = np.int32(0)
    for n in range(w["nodes"]):
        largest = max(largest, free[b, n])
    beyond = max(w["waiting"] - window, 0)
    supply = w["free_gpus"]
    out[0] = supply / w["gpus"]
    out[1] = seen[b]["machines"] / w["nodes"]
    out[2] = largest / w["node_gpus"]
    out[3] = 1.0 - seen[b]["gpus"] / supply if supply > 0 else 0.0
    out[4] = w["waiting"] / (32.0 + w["waiting"])
    out[5] = beyond / (32.0 + beyond)
    out[6] = w["waiting_gpus"] / (w["gpus"] + w["waiting_gpus"])
    out[7] = w["running"] / (w["gpus"] * w["gpu_jobs"])
    out[8] = w["next_arrival"] / w["jobs"]
    out[9] = w["finished"] / w["jobs"]
    out[10] = w["checkpointing_gpus"] / (w["gpus"] * w["gpu_jobs"])
