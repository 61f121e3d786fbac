"""Columns of the observation arrays, shared by the kernels, the spaces and the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

DAY_S: Final = 86_400.0
LONGEST_S: Final = 30 * DAY_S  # [s] longer times are shown as 1


class Column(NamedTuple):
    """One column of an observation array; every value lies in [0, 1]."""

    name: str
    meaning: str
    scale: str  # how the raw value becomes a number in [0, 1]


def markdown_rows(columns: Sequence[Column]) -> list[str]:
    """Return the Markdown table of an array's columns, line by line."""
    head = ["| # | column | meaning | scale |", "|---|---|---|---|"]
    return head + [f"| {i} | `{c.name}` | {c.meaning} | {c.scale} |" for i, c in enumerate(columns)]


TIME: Final = "log: ln(1 + x/60 s) / ln(1 + 30 d/60 s), at most 1"
GPU_TIME: Final = "log, as for times, of x / GPUs of the cluster"
SHARE: Final = "as is"
COUNT: Final = "x / (1 + x)"
_SEATS: Final = "(GPUs of the cluster x jobs that may share one GPU)"
_LINK_TIER: Final = "machine bus 1/5, machine port 2/5, rack link 3/5, pod link 4/5, link above the pods 1"

QUEUE: Final = (
    Column("present", "1 if the slot holds a waiting job; otherwise the whole row is 0", SHARE),
    Column("gang_of_cluster", "gang size / GPUs of the cluster", SHARE),
    Column("gang_of_node", "gang size / GPUs of the largest node, at most 1", SHARE),
    Column("waited", "seconds since the job last held GPUs; since its arrival if it never did", TIME),
    Column("age", "seconds since the job's arrival", TIME),
    Column("attained", "attained service: gang size x productive seconds", GPU_TIME),
    Column("preemptions", "number of times that the job was preempted", COUNT),
    Column("remaining", "seconds left on the ideal placement; 0 unless clairvoyant", TIME),
    Column("remaining_service", "gang size x seconds left; 0 unless clairvoyant", GPU_TIME),
    Column("loss_at_rack", "1 - ideal iteration time / iteration time within one rack, at least 0", SHARE),
    Column("loss_at_network", "1 - ideal iteration time / iteration time across racks, at least 0", SHARE),
    Column("skew", "bytes of the largest tensor / bytes of all tensors", SHARE),
    Column("fits", "1 if the job can start now: an enabled placement rule finds a place, or a partner has room", SHARE),
)
RUNNING: Final = (
    Column("present", "1 if the slot holds a running job; otherwise the whole row is 0", SHARE),
    Column("gang_of_cluster", "gang size / GPUs of the cluster", SHARE),
    Column("held", "seconds since the gang got its GPUs", TIME),
    Column("attained", "attained service: gang size x productive seconds", GPU_TIME),
    Column("preemptions", "number of times that the job was preempted", COUNT),
    Column("remaining", "seconds left on the ideal placement; 0 unless clairvoyant", TIME),
    Column("remaining_service", "gang size x seconds left; 0 unless clairvoyant", GPU_TIME),
    Column("tier", "tier of the placement: machine (or a slot of it) 0, rack 1/2, network 1", SHARE),
    Column("loss", "1 - ideal iteration time / iteration time on this placement, at least 0", SHARE),
    Column("checkpointing", "1 while the gang is being checkpointed", SHARE),
    Column("preemptible", "1 if the action that preempts the gang is feasible now", SHARE),
)
NODES: Final = (
    Column("free", "free GPUs / GPUs of the node", SHARE),
    Column("size", "GPUs of the node / GPUs of the largest node", SHARE),
    Column("rack_free", "free GPUs of its rack / GPUs of its rack", SHARE),
    Column("rack", "index of its rack / number of racks", SHARE),
)
TIER_LINKS: Final = (
    Column("gpus", f"GPUs held by gangs of this tier / {_SEATS}", SHARE),
    Column("gangs", "gangs whose placement is of this tier", COUNT),
    Column("loss", "mean over these gangs of (1 - ideal iteration time / iteration time), at least 0", SHARE),
)
LINKS: Final = (
    Column("load", "what the gangs send over the link in one direction / its capacity, at most 1", SHARE),
    Column("flows", "gangs whose rings cross the link", COUNT),
    Column("bound", "gangs whose bottleneck is this link: other gangs slow them down on it", COUNT),
    Column("capacity", "capacity of the link now / capacity of the largest link", SHARE),
    Column("tier", _LINK_TIER, SHARE),
)
FLOWS: Final = (
    Column("slowdown", "1 - iteration time without the other gangs / iteration time with them", SHARE),
    Column("communication", "fraction of an iteration that is not compute", SHARE),
    Column("machines", "1 - 1 / machines that the gang spans", SHARE),
    Column("bottleneck_load", "load of the bottleneck: the link where others slow the gang down; 0 if none", SHARE),
    Column("bottleneck_flows", "gangs whose rings cross the bottleneck; 0 if none", COUNT),
    Column("bottleneck_tier", f"tier of the bottleneck: 0 if none, {_LINK_TIER}", SHARE),
)
CLUSTER: Final = (
    Column("free", "free GPUs / GPUs of the cluster", SHARE),
    Column("empty_nodes", "entirely free nodes / nodes", SHARE),
    Column("largest_node", "most free GPUs on one node / GPUs of the largest node", SHARE),
    Column("fragmentation", "fraction of the free GPUs that are on partly used nodes", SHARE),
    Column("waiting", "waiting jobs", "x / (32 + x)"),
    Column("beyond_window", "waiting jobs that are in no queue slot", "x / (32 + x)"),
    Column("queued_demand", "GPUs demanded by waiting jobs", "x / (GPUs of the cluster + x)"),
    Column("running", f"gangs that hold GPUs / {_SEATS}", SHARE),
    Column("arrived", "arrived jobs / all jobs", SHARE),
    Column("finished", "finished jobs / all jobs", SHARE),
    Column("checkpointing", f"GPUs held by gangs that are being checkpointed / {_SEATS}", SHARE),
)
TABLES: Final = {"queue": QUEUE, "running": RUNNING, "nodes": NODES, "links": TIER_LINKS, "cluster": CLUSTER}
# Where the network is a topology.
LINK_TABLES: Final = TABLES | {"links": LINKS, "flows": FLOWS}
