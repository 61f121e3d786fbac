"""Part of the validator: gangs hold only nodes that their jobs may use."""

from __future__ import annotations

import numpy as np

from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.metrics.refusal import refusal
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.partitions import NodeSets


def chosen_pairs(instance: Instance, sets: NodeSets, log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and resume events, and the pair of a job and a partition under which each gang runs."""
    events = log.events
    starts = np.flatnonzero((events["kind"] == START) | (events["kind"] == RESUME))
    gang = np.repeat(np.arange(len(starts)), events["gpu_count"][starts])
    return starts, sets.choice_of(events["job"][starts], gang, instance.cluster.node_of_gpu[log.gpus])


def check_nodes(instance: Instance, sets: NodeSets, log: EventLog, table: np.ndarray) -> None:
    """Refuse a gang that is in none of its job's partitions, or on a node while it is reserved for others."""
    events = log.events
    starts, pair = chosen_pairs(instance, sets, log)
    event_of = np.repeat(starts, events["gpu_count"][starts])
    group = np.repeat(sets.choices.node_set[pair], events["gpu_count"][starts])
    node = instance.cluster.node_of_gpu[log.gpus]
    free_s = np.full(len(events), np.inf)
    free_s[table["start_event"]] = table["free_s"]
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
        bad &= (free_s[event_of] > start_s) | (held_s >= closes_s[row])
        if bad.any():
            at = int(np.argmax(bad))
            raise refusal(log, int(event_of[at]), f"node {node[at]} is reserved for others from {start_s} to {end_s} s")
