"""The arrays of the network for kernels: links, routes, and the links that each ring crosses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.network import COLLECTIVES, CONTENTION_MODELS, DUTIES, K_MODES, LINK_TIERS, collectives_of
from gpusched_env.problem.instance import Instance

if TYPE_CHECKING:
    from gpusched_env.core.state import State

LINK_STATE_DTYPE: Final = np.dtype(
    [
        # hot, 64 bytes
        ("capacity", "<f8"),  # [byte/s]
        ("built_Bps", "<f8"),  # [byte/s] capacity before any change
        ("total", "<f8"),  # weight of all its flows
        ("level", "<f8"),  # [byte/s] max-min: rate of the flows that it bounds; inf = it bounds no flow
        ("first_use", "<i4"),  # head of its linked list of ``uses``; -1 = none
        ("flows", "<i4"),  # length of that list
        ("can_fill", "<i4"),  # 1 = the rates alone of its flows add up to more than its capacity
        ("is_stale", "<i4"),  # scratch: 1 = ``right`` is out of date, because rates of its flows have changed
        ("place", "<i4"),  # scratch: index in the queue; -1 = not in it
        ("is_changed", "<i4"),
        ("tier", "<i4"),  # index into LINK_TIERS; -1 = bus of a machine, -2 = no link
        ("members", "<i4"),  # number of parallel links in this row and those after it
        # max-min
        ("right", "<f8"),  # [byte/s] scratch: correct level
        ("key", "<f8"),  # [byte/s] scratch: key in the queue
        ("room", "<f8"),  # [byte/s] scratch: capacity minus the flows that it does not bound
        ("held", "<f8"),  # scratch: weight of the flows that it bounds
        # In addition, row i stores change i of the links, and entry i of several lists.
        ("change_s", "<f8"),  # [s] time of change i
        ("change_slowdown", "<f8"),  # built capacity / capacity from then on
        ("change_tier", "<i4"),  # which links change, index into LINK_TIERS
        ("port", "<i4"),  # 1 = a machine's own port
        ("heap", "<i4"),  # scratch: entry i of the queue
        ("changed", "<i4"),  # entry i of the list of changed links
    ]
)
USE_DTYPE: Final = np.dtype(
    [
        ("weight", "<f8"),  # ring edges on the link
        ("rate", "<f8"),  # [byte/s] of the replica's ring
        ("replica", "<i4"),
        ("link", "<i4"),
        ("next_of_replica", "<i4"),  # linked list of a replica's uses; also of unused rows
        ("next_of_link", "<i4"),
        ("previous_of_link", "<i4"),
        ("is_held", "<i4"),  # scratch of max-min: 1 = this link bounds the flow
    ]
)
RANKED_DTYPE: Final = np.dtype(  # scratch of strict priority: gangs that share links, by descending priority
    [
        ("intensity", "<f8"),  # [GPU] compute of an iteration / time of its transfers alone
        ("key", "<f8"),  # priority
        ("share", "<f8"),  # [byte/s] rate that its links leave to it now
        ("inside", "<f8"),  # intensity within a block that begins at this place; [byte/s] its rate, < 0 = rising
        ("hash", "<i8"),
        ("number", "<i4"),  # replica
        ("level", "<i4"),  # 0 = first
        ("order", "<i4"),  # row at this place of the drawn order; link that bounds its share
        ("above", "<i4"),  # gangs that come before it and are not drawn yet; -1 = it is drawn
    ]
)
CUT_DTYPE: Final = np.dtype([("cost", "<f8"), ("begin", "<i4"), ("padding", "<i4")])
ROUTE_DTYPE: Final = np.dtype([("share", "<f8"), ("link", "<i4"), ("padding", "<i4")])
PAIR_DTYPE: Final = np.dtype([("latency_s", "<f8"), ("begin", "<i4"), ("end", "<i4")])  # rows of ROUTE_DTYPE


def network_sizes(instance: Instance) -> dict[str, int]:
    """Return the lengths of the arrays of the network for one instance; each is 1 without a topology."""
    topology = instance.topology
    if topology is None:
        return dict(
            links=1, uses=1, routes=1, pairs=1, profiles=1, ranked=0, levels=0, places_of_order=0, planned_classes=0,
            ranks=0,
        )  # fmt: skip
    crossed = 2 + int(np.diff(topology.route_at).max(initial=0))  # most links that a ring edge crosses
    most = instance.cluster.gpus * (instance.gpu_jobs + 1)  # machines of all gangs, and of one that a query adds
    contention, sharers = instance.network.contention, 0
    if contention.model == "strict-priority":
        sharers = most // 2 + 2  # gangs of one GPU use no link; one row is free
    plans = instance.workload.profiles.plans
    if len(plans) and not topology.duplex:  # groups may cross links that a ring does not
        gangs = instance.cluster.gpus * instance.gpu_jobs // int(plans["gpus"].min()) + 1
        most += -(-gangs * len(instance.links) // (crossed + 1))
    return dict(
        ranked=sharers,
        levels=contention.levels + 1 if sharers else 0,
        places_of_order=sharers + 1 if sharers else 0,
        links=max(len(instance.links), len(instance.network.changes)),
        uses=most * (crossed + 1),  # + 1: the bus
        routes=max(len(topology.route_link), 1),
        pairs=len(topology.route_at) - 1,
        profiles=len(instance.workload.profiles.rows) if instance.ratios is not None else 1,
        planned_classes=len(instance.classes) if len(plans) else 0,
        ranks=instance.cluster.gpus if len(plans) else 0,
    )


def empty_network(state: State) -> None:
    """Set the initial values of the network's arrays; rows that an instance does not use keep them."""
    links = state.links
    links["first_use"] = links["place"] = state.replicas["first_use"] = state.racks["uplink"] = -1
    links["level"] = np.inf
    links["tier"] = -2


def lay_network(state: State, b: int, instance: Instance) -> None:
    """Fill the network's arrays of one environment."""
    topology, network = instance.topology, instance.network
    assert topology is not None
    contention = network.contention
    world = state.world[b]
    world["contention"] = 1 + list(CONTENTION_MODELS).index(contention.model)  # as core.network.contention.model_number
    of_profile = collectives_of(network, instance.workload.profiles.rows["name"].tolist())
    numbers = np.array([list(COLLECTIVES).index(name) for name in of_profile])
    state.paces["collective"][b, : len(instance.classes)] = numbers[instance.classes[:, 0], None, None]
    world["k_mode"], world["duty"] = K_MODES.index(contention.k_mode), DUTIES.index(contention.duty)
    for name in ("xi1", "alpha", "shared_loss", "extra", "path_seed", "levels"):
        world[name] = getattr(contention, name)
    if len(instance.workload.profiles.plans):
        world["planned"] = 1
        state.plans[b, : len(instance.classes)] = instance.workload.profiles.plans_of(instance.classes)
    world["duplex"], world["nics"] = topology.duplex, topology.nics
    world["edges"] = int(topology.edge.max()) + 1
    for name in ("gpu_Bps", "gpu_latency_s", "nic_Bps", "switch_share"):
        world[name] = getattr(topology, name)
    world["gpu_depth_s"], world["nic_depth_s"] = topology.depth_s or (-1.0, -1.0)
    for name in ("reduction_Bps", "machine_overhead_s"):
        world[name] = getattr(network, name)

    first, nodes = instance.first_row, state.nodes[b, : len(instance.cluster.nodes)]
    nodes["out"], nodes["into"] = first[topology.access[:, 0]], first[topology.access[:, 1]]
    nodes["edge"], nodes["bus"] = topology.edge, -1
    buses = np.flatnonzero(instance.links["tier"] < 0)
    if len(buses):
        nodes["bus"] = buses
    uplinks = topology.uplinks[topology.edge[instance.cluster.racks["first_node"]]]
    state.racks["uplink"][b, : len(uplinks)] = np.where(uplinks >= 0, first[uplinks], -1)
    links = state.links[b]
    for name in ("capacity", "members", "tier"):
        links[name][: len(instance.links)] = instance.links[name]
    links["built_Bps"] = links["capacity"]
    changes = sorted(network.changes, key=lambda change: change.time_s)
    world["changes"] = len(changes)
    for row, change in zip(links, changes, strict=False):
        row["change_s"], row["change_slowdown"] = change.time_s, change.slowdown
        row["change_tier"] = LINK_TIERS.index(change.tier)
    links["port"][first[topology.access[:, 0]]] = 1  # one direction suffices to count straddling gangs
    uses = state.uses[b, : network_sizes(instance)["uses"]]
    uses["next_of_replica"] = np.append(np.arange(1, len(uses)), -1)
    routes, pairs = state.routes[b, : len(topology.route_link)], state.pairs[b, : len(topology.route_at) - 1]
    routes["link"], routes["share"] = first[topology.route_link], topology.route_share
    pairs["begin"], pairs["end"] = topology.route_at[:-1], topology.route_at[1:]
    pairs["latency_s"] = topology.latency_s.reshape(-1)
    if instance.ratios is not None:
        state.ratios[b, : len(instance.ratios), : len(instance.ratios)] = instance.ratios
