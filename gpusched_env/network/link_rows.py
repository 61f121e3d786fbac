"""The links as the simulator uses them: one row for each resource that flows share."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.network.topology import Topology

LINK_ROW_DTYPE: Final = np.dtype(
    [
        ("name", "<U80"),
        ("capacity", "<f8"),  # [byte/s] one way
        ("members", "<i4"),  # number of rows of the bundle that begins with this row; 1 = the row is the whole link
        ("tier", "<i4"),  # index into LINK_TIERS; -1 = bus of a machine
        ("port", "?"),  # whether the row holds a machine's own ports
    ]
)


def link_rows(topology: Topology | None, hashed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a topology's links, and the first row of each link.

    The ports of a machine always share one row, because rings use all of them.

    Parameters
    ----------
    topology : the topology; None = no rows
    hashed : True = a bundle of parallel links has a row for each member, because each ring edge takes one member;
        False = a bundle has one row with the summed capacity of its members

    Returns
    -------
    rows : LINK_ROW_DTYPE, the rows of the links, then those of the buses of the machines if they have any
    first : int32 [L], first row of each link of the topology
    """
    if topology is None:
        return np.zeros(0, LINK_ROW_DTYPE), np.zeros(0, np.int32)
    links = topology.links
    port = np.zeros(len(links), bool)
    port[topology.access] = True
    members = np.where(port | (not hashed), 1, links["members"])
    first = np.cumsum(members) - members
    machines = len(topology.access) if np.isfinite(topology.host_bus_Bps) else 0
    rows = np.zeros(int(members.sum()) + machines, LINK_ROW_DTYPE)
    link = np.repeat(np.arange(len(links)), members)
    told = rows[: len(link)]
    told["tier"], told["port"] = links["tier"][link], port[link]
    told["capacity"] = (links["capacity"] * links["members"] / members)[link]
    told["members"] = 1
    told["members"][first] = members
    number = np.arange(len(link)) - first[link]
    told["name"] = [
        f"{name} #{i + 1}" if count > 1 else name
        for name, i, count in zip(links["name"][link].tolist(), number, members[link], strict=True)
    ]
    rows["tier"][len(link) :] = -1
    rows["members"][len(link) :] = 1
    rows["capacity"][len(link) :] = topology.host_bus_Bps
    rows["name"][len(link) :] = [f"bus of machine {node}" for node in range(machines)]
    return rows, first.astype(np.int32)
