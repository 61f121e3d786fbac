"""The next event of each gang, and a tournament tree that finds the earliest of these events.

The leaves of the tree are the n rows of the replica table: leaf n + r is row r. Node i has the children 2 i and
2 i + 1. Each inner node holds the earlier of the events of its children, so node 1 holds the earliest event of all.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import CHECKPOINTING, IDLE, Run
from gpusched_env.event_log import LEASE_SLACK

# Kinds of a gang's next event: ACTIVE = it completes, CHECKPOINTING = it frees its GPUs, LEASE_ENDS = its lease ends.
# The first two equal the phase of the replica. Simultaneous events are processed in ascending order of their kinds.
LEASE_ENDS: Final = CHECKPOINTING + 1
FIRST: Final = 1  # node that holds the earliest event
_TOP: Final = 256  # below this node number there is no early exit: it would save little, and its branch is mispredicted


@helper
def comes_before(sim: Run, one_kind: int, one: int, other_kind: int, other: int) -> bool:
    """Return whether the event of ``one`` precedes that of ``other`` at the same time: by kind, then by job row."""
    if one_kind != other_kind:
        return one_kind < other_kind
    return sim.replicas[one]["job"] < sim.replicas[other]["job"]


@kernel
def set_due(sim: Run, number: int) -> None:
    """Update the tree after the phase, the completion, the release or the lease of a gang has changed."""
    r = sim.replicas[number]
    kind = r["phase"]
    due_s = np.inf if kind == IDLE else r["until_s"]
    if kind != IDLE and r["lease_s"] * (1.0 + LEASE_SLACK) < r["until_s"]:
        due_s = r["lease_s"]
        kind = LEASE_ENDS
    best = number
    node = sim.world["gpu_jobs"] * sim.world["gpus"] + number
    while True:
        winner = sim.due[node]
        winner["due_s"] = due_s
        winner["number"] = best
        winner["kind"] = kind
        if node == FIRST:
            return
        rival = sim.due[node ^ 1]
        rival_s, rival_number, rival_kind = rival["due_s"], rival["number"], rival["kind"]
        loses = rival_s < due_s
        if rival_s == due_s and due_s < np.inf:
            loses = comes_before(sim, rival_kind, rival_number, kind, best)
        due_s = rival_s if loses else due_s
        best = rival_number if loses else best
        kind = rival_kind if loses else kind
        node >>= 1
        if node >= _TOP and best != number and sim.due[node]["number"] == best:
            return  # this node held and holds another gang's event, so no node above changes
