"""Best fit among some of the free GPUs, for schedulers that keep GPUs from jobs; placement rules see all free GPUs."""

from __future__ import annotations

import numpy as np

from gpusched_env.problem.cluster import Cluster
from gpusched_env.simulator import ClusterView


def usable_gpus(view: ClusterView, job: int) -> np.ndarray:
    """Boolean [G]: whether each GPU is free, of a type that can run the job, and on a node that is open to it."""
    able = view.able_gpus(np.array([job]))
    return view.is_free if able is None else view.is_free & able[0]


def packed(cluster: Cluster, usable: np.ndarray, gang: int) -> tuple[int, ...]:
    """Return GPUs of ``usable``, Boolean [G], for a gang as the rule "pack" chooses them; () = they are too few."""
    nodes = cluster.nodes
    room = np.bincount(cluster.node_of_gpu[usable], minlength=len(nodes))
    if room.sum() < gang:
        return ()
    of_rack = np.bincount(nodes["rack"], weights=room).astype(np.int64)
    chosen: list[int] = []
    rack = -1 if room.max() >= gang else _fitting(of_rack, gang)
    while (left := gang - len(chosen)) > 0:
        inside = room if rack < 0 else np.where(nodes["rack"] == rack, room, 0)
        node = _fitting(inside, left)
        first = nodes["first_gpu"][node]
        free = first + np.flatnonzero(usable[first : first + nodes["gpus"][node]])
        chosen += free[:left].tolist()
        room[node] = 0
        of_rack[nodes["rack"][node]] -= len(free)
        if rack >= 0 and of_rack[rack] == 0 and len(chosen) < gang:
            rack = _fitting(of_rack, gang - len(chosen))
    return tuple(chosen)


def _fitting(room: np.ndarray, gang: int) -> int:
    """Return the place with the least room that holds the gang, else that with the most; of several, the first."""
    enough = room >= gang
    return int(np.where(enough, room, room.max() + 1).argmin() if enough.any() else room.argmax())
