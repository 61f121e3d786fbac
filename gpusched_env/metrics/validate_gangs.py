"""Part two of the validator: gangs have the right size and tier, and hold GPUs and nodes that they may hold."""

from __future__ import annotations

import numpy as np

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.metrics.refusal import refusal, refuse
from gpusched_env.metrics.segments import fail_events, segments
from gpusched_env.metrics.validate_sharing import check_company
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.node_counts import NodeCounts
from gpusched_env.problem.partitions import NodeSets


def check_gangs(instance: Instance, log: EventLog, complete: bool) -> np.ndarray:
    """Check the gangs and the GPUs that they hold; return the segments, which can be computed only for valid gangs."""
    events, cluster = log.events, instance.cluster
    places = (events["kind"] == START) | (events["kind"] == RESUME)
    starts = np.flatnonzero(places)
    gang, _ = instance.gangs(events["job"], events["gpu_count"])
    copies = events["gpu_count"] // gang
    whole = (copies * gang == events["gpu_count"]) & (copies >= 1) & (copies <= instance.semantics.max_copies)
    refuse(log, places & ~whole, "the gang has the wrong size")
    count = events["gpu_count"][starts].astype(np.int64)
    first = np.cumsum(count) - count
    bad_address = np.zeros(len(events), bool)
    bad_address[starts] = events["gpu_at"][starts] != first
    refuse(log, bad_address, "gpu_at is not where the previous gang's GPU ids end")
    if len(log.gpus) != count.sum():
        raise ScheduleError(f"the log lists {len(log.gpus)} GPU ids, but its gangs have {count.sum()}")
    if not len(starts):
        return segments(instance, log)

    event_of = np.repeat(starts, count)
    outside = (log.gpus < 0) | (log.gpus >= cluster.gpus)
    if outside.any():
        at = int(np.argmax(outside))
        raise refusal(log, int(event_of[at]), f"GPU {log.gpus[at]} does not exist: the cluster has {cluster.gpus}")

    wrong_tier = np.zeros(len(events), bool)
    wrong_tier[starts] = events["tier"][starts] != cluster.tier_of(log.gpus, first)
    refuse(log, wrong_tier, "its GPUs are not on the tier that it names")

    if instance.node_counts is not None:
        _refuse_split_parts(instance, instance.node_counts, log, event_of, gang[starts])
    table = segments(instance, log, None if complete else float(events["time_s"][-1]))
    freed = np.zeros(len(events), np.int64)  # for each start, the number of the event that frees its GPUs
    freed[table["start_event"]] = np.where(table["free_event"] >= 0, table["free_event"], len(events))
    if instance.sharing is None:
        _refuse_sharing(log, "GPU", log.gpus, event_of, freed)
    else:
        check_company(instance, log, table)
    _refuse_sharing(log, "replica", events["replica"][starts], starts, freed)
    return table


def _refuse_split_parts(
    instance: Instance, counts: NodeCounts, log: EventLog, event_of: np.ndarray, gang: np.ndarray
) -> None:
    """Refuse a gang, or a copy of it, with a part that is split over nodes, or with too many GPUs on one node."""
    _, first, count = np.unique(event_of, return_index=True, return_counts=True)
    copies = count // gang
    before = np.repeat(np.cumsum(copies) - copies, count)  # number of copies of all earlier gangs
    copy = before + (np.arange(len(event_of)) - np.repeat(first, count)) // np.repeat(gang, count)
    keys = copy * len(instance.cluster.nodes) + instance.cluster.node_of_gpu[log.gpus]
    found, at, held = np.unique(keys, return_index=True, return_counts=True)
    demand = counts.of_job[log.events["job"][event_of[at]]]
    part = counts.part[demand]
    bad = (part > 0) & ((held % np.maximum(part, 1) > 0) | (held > counts.most[demand]))
    if bad.any():
        worst = int(np.argmax(bad))
        node = found[worst] % len(instance.cluster.nodes)
        raise refusal(
            log, int(event_of[at[worst]]),
            f"{held[worst]} of its GPUs are on node {node}: expected parts of {part[worst]} GPUs, at most "
            f"{counts.most[demand[worst]]} on one node",
        )  # fmt: skip


def _refuse_sharing(log: EventLog, what: str, ids: np.ndarray, event_of: np.ndarray, freed: np.ndarray) -> None:
    """Refuse two gangs that hold the same id, of a GPU or of a replica, at the same time."""
    order = np.argsort(ids, kind="stable")
    held, start = ids[order], event_of[order]
    same = held[1:] == held[:-1]
    clash = np.flatnonzero(same & (start[1:] < freed[start[:-1]]))
    if not len(clash):
        return
    at = clash[np.argmin(start[1:][clash])]
    if start[at + 1] == start[at]:
        raise refusal(log, int(start[at]), f"{what} {held[at]} occurs twice in the gang")
    raise refusal(log, int(start[at + 1]), f"{what} {held[at]} is held by job {log.events['job'][start[at]]}")


def chosen_pairs(instance: Instance, sets: NodeSets, log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and resume events, and the pair of a job and a partition under which each gang runs."""
    events = log.events
    starts = np.flatnonzero((events["kind"] == START) | (events["kind"] == RESUME))
    gang = np.repeat(np.arange(len(starts)), events["gpu_count"][starts])
    return starts, sets.choice_of(events["job"][starts], gang, instance.cluster.node_of_gpu[log.gpus])


def check_cap(instance: Instance, log: EventLog, table: np.ndarray) -> None:
    """Refuse a gang that holds a node while a power cap closes it; one whose node has crashed may be found late."""
    at = np.repeat(np.arange(len(table)), table["gpus"])
    node = np.concatenate([np.empty(0, int), *(log.gang(event) for event in table["start_event"])])
    node = instance.cluster.node_of_gpu[node.astype(int)]
    grace_s = instance.semantics.detection_s
    for row, closes_s in zip(instance.capped, instance.cap_closes_s, strict=True):
        leaves_s = max(row["start_s"], closes_s + instance.semantics.checkpoint_s) + grace_s
        bad = (node == row["node"]) & (table["hold_s"][at] < row["end_s"])
        bad &= (table["free_s"][at] > leaves_s) | ((table["hold_s"][at] >= closes_s) & (closes_s > 0))
        bad &= table["free_s"][at] > closes_s
        if bad.any():
            event = int(table["start_event"][at[np.argmax(bad)]])
            raise refusal(log, event, f"node {row['node']} is closed by the power cap from {row['start_s']} s")


def check_nodes(instance: Instance, sets: NodeSets, log: EventLog, table: np.ndarray) -> None:
    """Refuse a gang that is in none of its job's partitions, or on a node while it is reserved for others."""
    events = log.events
    starts, pair = chosen_pairs(instance, sets, log)
    event_of = np.repeat(starts, events["gpu_count"][starts])
    group = np.repeat(sets.choices.node_set[pair], events["gpu_count"][starts])
    node = instance.cluster.node_of_gpu[log.gpus]
    free_s = np.full(len(events), np.inf)
    fails = fail_events(log, table)  # a crash may be found late
    free_s[table["start_event"]] = np.where(fails >= 0, events["time_s"][fails], table["free_s"])
    outside = ~sets.belongs[group, node]
    if outside.any():
        at = int(np.argmax(outside))
        several = np.diff(sets.choices.first)[events["job"][event_of[at]]] > 1
        where = "the first of the job's partitions, and the gang in no other" if several else "the job's partition"
        raise refusal(log, int(event_of[at]), f"node {node[at]} is outside {where}")
    closes_s = sets.closes_s(instance.semantics)
    for row, nodes in enumerate(sets.reserved):
        start_s, end_s = sets.start_s[row], sets.end_s[row]
        held_s = events["time_s"][event_of]
        bad = sets.barred[row, group] & nodes[node] & (held_s < end_s)
        bad &= ((free_s[event_of] > start_s) & ~sets.drains[row]) | (held_s >= closes_s[row])
        if bad.any():
            at = int(np.argmax(bad))
            raise refusal(log, int(event_of[at]), f"node {node[at]} is reserved for others from {start_s} to {end_s} s")
