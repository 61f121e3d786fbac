"""Which bytes a gang that trains an LLM sends over which links, by the plan of its parallel groups (PLAN_DTYPE).

The ranks of a gang are its GPUs in the order of racks, machines and slots. The GPUs of a pipeline stage have places,
from 0, in the order of their ranks. With t = ``tp``, place p belongs

* to the tensor-parallel group p // t. Its members gather A bytes: inside each of its S machines, and in a ring over
  them, in which each machine sends A (S-1)/S to the next
* to the data-parallel ring of p % t, whose next member has the place p + t; there are ``cp dp`` of them
* to the expert-parallel group p // ``ep``, in which each GPU sends equally much to each other one

and sends to the same place of the next and of the previous stage, in a circle, as interleaved stages do.

A gang is one flow, whose rate is that of the machine that sends most bytes, V. A link that carries b of its bytes has
the weight b / V. The kernels (``core/network/flows.py``) find the weights of each placement; the functions here tell
the bytes of one placement, and the time on an idle network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.network.topology import Topology
from gpusched_env.problem.cluster import NETWORK, Cluster


def rank_of(order: int, unit: int, dp: int, pp: int, stage: int, place: int) -> int:
    """Return the rank of a place of a pipeline stage; ``unit`` = tp cp, ``order`` as in PLAN_DTYPE."""
    block = place // unit
    return (block * pp + stage if order else stage * dp + block) * unit + place % unit


def sent_bytes(plan: Any, machine: np.ndarray) -> np.ndarray:
    """Return the bytes that each machine of a gang sends to each other one in an iteration; float64 [S, S].

    Parameters
    ----------
    plan : a row of PLAN_DTYPE
    machine : int [N], the machine of each rank, from 0 to S - 1
    """
    order, unit, dp, pp, tp, ep = (int(plan[name]) for name in ("order", "tp", "dp", "pp", "tp", "ep"))
    unit *= int(plan["cp"])
    size = unit * dp
    ranks = np.arange(len(machine))
    places = ranks.reshape(dp, pp, unit).transpose(1, 0, 2) if order else ranks
    on = machine[places.reshape(pp, size)]  # of each stage and place
    sent = np.zeros((machine.max() + 1,) * 2)
    np.add.at(sent, (on, np.roll(on, -tp, axis=1)), float(plan["dp_bytes"]))
    for step in (-1, 1):
        np.add.at(sent, (on, np.roll(on, step, axis=0)), float(plan["pp_bytes"]) / 2.0)
    experts = on.reshape(-1, ep)
    for step in range(1, ep):
        np.add.at(sent, (experts, np.roll(experts, step, axis=1)), float(plan["ep_bytes"]) / (ep - 1))
    for group in on.reshape(-1, tp) if tp > 1 else ():
        machines = np.unique(group)
        share = (len(machines) - 1) / len(machines)
        sent[machines, np.roll(machines, -1)] += float(plan["tp_bytes"]) * tp / (tp - 1) * share
    np.fill_diagonal(sent, 0.0)
    return sent


def link_bytes(topology: Topology, sent: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the bytes on each link, of one direction; float64 [L]. Machine i is node ``nodes[i]``."""
    load, groups = np.zeros(len(topology.links)), len(topology.latency_s)
    for side, column in enumerate((sent.sum(axis=1), sent.sum(axis=0))):
        np.add.at(load, topology.access[nodes, side], column)
    edge = topology.edge[nodes].astype(np.int64)
    between = np.bincount((edge[:, None] * groups + edge).reshape(-1), sent.reshape(-1), groups * groups)
    for pair in np.flatnonzero(between).tolist():
        links, shares = topology.route(*divmod(pair, groups))
        load[links] += between[pair] * shares
    return load / 2.0 if topology.duplex else load


def planned_s(topology: Topology, plan: Any, node_of_rank: np.ndarray) -> float:
    """Return the communication time of a gang with a plan between its machines, alone on the network [s]."""
    nodes, machine, gpus = np.unique(node_of_rank, return_inverse=True, return_counts=True)
    sent = sent_bytes(plan, machine)
    load = link_bytes(topology, sent, nodes)
    ports = topology.nic_Bps * np.minimum(gpus, topology.nics) / topology.nics
    times = [load / (topology.links["capacity"] * topology.links["members"]), sent.sum(axis=1) / ports]
    return float(max(part.max() for part in (*times, sent.sum(axis=1) / topology.host_bus_Bps)))


def nearest_nodes(cluster: Cluster, gpus: int, tier: int) -> np.ndarray:
    """Return the node of each rank of a gang on the fewest machines of a tier, but at least two; int [N].

    On the tier "network" the machines are evenly on the fewest racks, but at least two.
    """
    rack = cluster.nodes["rack"]
    machines = min(max(-(-gpus // int(cluster.nodes["gpus"].max())), 2), gpus, len(rack))
    racks = max(-(-machines // int(cluster.racks["nodes"].max())), 2)
    most = -(-machines // racks) if tier == NETWORK else machines  # in a rack
    place = np.arange(len(rack)) - cluster.racks["first_node"][rack]
    nodes = np.sort(np.lexsort((place, rack, place >= most))[:machines])
    return nodes[np.arange(gpus) * machines // gpus]
