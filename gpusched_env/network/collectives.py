"""Cost of one all-reduce, split into a fixed part and a part that depends on the rate of the links.

A gang of N GPUs is on S servers, with at most g GPUs on one server. It reduces M bytes in ``fixed_s + V / r`` seconds.
V is the number of bytes over each edge between servers, and r is the rate of such an edge, with or without contention.
If the gang is on one server, V and r are those of the edges between its GPUs. To add a collective, write a function of
the same signature and add a line to COLLECTIVES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.portable import arrays

Array = np.ndarray[Any, Any]


class Gangs(NamedTuple):
    """Size and placement of C gangs; each field is an array [C], or one number for all gangs."""

    gpus: Array  # int, N, GPUs of the gang
    servers: Array  # int, S, servers that the gang spans, at most N
    widest: Array  # int, g, largest number of the gang's GPUs on one server
    gradient_bytes: Array  # float64, M, bytes reduced in an iteration


class Links(NamedTuple):
    """Rates and latencies of the links of C gangs; each field is float64 [C], or one number for all gangs."""

    gpu_Bps: float | Array  # B_i, one-way rate of a GPU's port inside the server [byte/s]
    server_Bps: float | Array  # rate of one edge between servers when the gang is alone [byte/s]
    gpu_latency_s: float | Array  # a_i, latency of one step inside a server [s]
    server_latency_s: float | Array  # a_e, latency of one step between servers [s]
    reduction_Bps: float | Array = np.inf  # C, rate at which a GPU adds two buffers [byte/s]
    switch_share: float = 0.0  # share of B_i that a gang reaches while the switch reduces; 0 = it does not reduce
    # d, depth of the pipeline inside a server and between servers [s]: latencies are measured, those of a whole gang
    depth_s: tuple[float, float] | None = None


class Cost(NamedTuple):
    """Cost of one all-reduce of each of C gangs; every field is float64 [C]."""

    fixed_s: Array  # latency of all steps and time of the reduction; on several servers also transfers inside them [s]
    wire_bytes: Array  # V, bytes over each edge between servers; on one server, over each edge between its GPUs [byte]
    cap_Bps: Array  # upper limit on the rate of such an edge, set by the GPUs' ports [byte/s]

    def seconds(self, rate_Bps: float | Array) -> Array:
        """Return the time of the all-reduce, ``fixed_s + V / min(rate_Bps, cap_Bps)``; float64 [C] [s].

        The rate is that of an edge between servers, inf for a gang on one; rate 0: the time of bytes is infinite.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            transfer = self.wire_bytes / np.minimum(rate_Bps, self.cap_Bps)
        return self.fixed_s + np.where(self.wire_bytes > 0.0, transfer, 0.0)


TREE_SHARE: Final = 0.92  # share of a rate that trees over servers reach: NVIDIA/nccl, tuning.cc
# From this size on, the buffers are full: 16 channels of NCCL_BUFFSIZE = 4 MiB. Chosen with all measured times in view;
# of powers of two, it also fits those best on which studies.reproduce.testbeds.fabrics calibrates.
KNEE_BYTES: Final = 2.0**26
ALIKE: Final = 1.0 + 1e-12  # if the times of two collectives differ by at most this factor, they are a tie


def ring(gangs: Gangs, links: Links) -> Cost:
    """Return the cost of one ring through all GPUs.

    The ring takes 2(N-1) steps of M/N bytes, so V = 2(N-1)/N M. Of these steps, 2(S-1) count as steps between servers
    for the latency. All edges move in lock step, so an edge between servers is never faster than a GPU's port inside a
    server. Sources: SJF-BCO, MobiHoc 2022, section 3 and eq. 8; for the latency, NVIDIA/nccl, tuning.cc.
    """
    between = 2.0 * (gangs.servers - 1)
    inside = 2.0 * (gangs.gpus - 1) - between
    latency_s = inside * links.gpu_latency_s + between * links.server_latency_s
    wire_bytes = 2.0 * (gangs.gpus - 1) / gangs.gpus * gangs.gradient_bytes
    return Cost(latency_s, wire_bytes, links.gpu_Bps + np.zeros_like(wire_bytes))


def _two_levels(gangs: Gangs, links: Links, between: Array, between_bytes: Array) -> Cost:
    """Return the cost of a reduce-scatter inside servers, an exchange between them, and an all-gather inside them.

    The exchange takes ``between`` steps, and ``between_bytes`` is its V. Each of the g GPUs on a server sends its own
    part, so the rate between servers is at most g B_i. g is the largest number of the gang's GPUs on one server
    (choice).
    """
    one = gangs.servers == 1
    latency_s = 2.0 * (gangs.widest - 1) * links.gpu_latency_s + between * links.server_latency_s
    inside_bytes = 2.0 * (gangs.widest - 1) / gangs.widest * gangs.gradient_bytes
    fixed_s = latency_s + np.where(one, 0.0, inside_bytes / links.gpu_Bps)
    return Cost(fixed_s, np.where(one, inside_bytes, between_bytes), np.where(one, 1, gangs.widest) * links.gpu_Bps)


def hierarchical(gangs: Gangs, links: Links) -> Cost:
    """Return the cost of a reduce-scatter inside the servers, a ring between them, and an all-gather inside them.

    T = 2(g-1) a_i + 2(S-1) a_e + 2(g-1)/g M/B_i + V/r with V = 2(S-1)/S M.
    """
    between = 2.0 * (gangs.servers - 1)
    return _two_levels(gangs, links, between, between / gangs.servers * gangs.gradient_bytes)


def double_tree(gangs: Gangs, links: Links) -> Cost:
    """Return the cost of two binary trees over the servers, each of which carries half of the data.

    Inside the servers, the collective is the same as in :func:`hierarchical`. T = 2 log2(S) a_e + V/r + the time inside
    the servers, with V = 2M. The reason for 2M: a server that is a leaf of one tree is an inner node of the other tree,
    so it sends and receives 2M in all.
    """
    wire_bytes = 2.0 * gangs.gradient_bytes + np.zeros(np.shape(gangs.servers))
    return _two_levels(gangs, links, 2.0 * arrays.log2(gangs.servers), wire_bytes)


def nccl_tree(gangs: Gangs, links: Links) -> Cost:
    """Return the cost of NCCL's trees over S servers, whose parts run at once: the slowest link sets the rate.

    An edge between servers carries min(S, 4)/2 M: M between two servers, 3/2 M between three, 2M between more
    (aliyun/SimAI, calbusbw.cc). Meanwhile, each GPU passes 2M along a chain, on one server 2(g-1)/g M along a ring. If
    the switch reduces (NVLS), a GPU sends its M bytes to the switch, which adds them, and the sum of its part of 1/g to
    all others: (g+1)/g M, at ``switch_share`` of the rate.
    """
    one, g, edge = gangs.servers == 1, gangs.widest, np.minimum(gangs.servers, 4) / 2.0
    steps, inside, port = 2.0 * (g - 1), 2.0 * (g - 1) / g, np.full_like(edge, 2.0)
    if links.switch_share > 0.0:
        steps, inside = np.full_like(edge, 2.0), (g + 1.0) / g / links.switch_share
        port = inside
    latency_s = steps * links.gpu_latency_s + 2.0 * arrays.log2(gangs.servers) * links.server_latency_s
    wire_bytes = np.where(one, inside, edge / TREE_SHARE) * gangs.gradient_bytes
    return Cost(latency_s, wire_bytes, links.gpu_Bps * np.where(one, 1.0, edge / port))


def fastest(candidates: Sequence[Collective], gangs: Gangs, links: Links) -> Cost:
    """Return the cost of the candidate that is fastest for each gang on an idle network; ties: the first one.

    The choice does not change when contention changes the rates, because a communication library chooses once.
    """
    costs = [candidate(gangs, links) for candidate in candidates]
    seconds = np.array([cost.seconds(solo_rate_Bps(gangs, links)) for cost in costs])
    choice = np.argmax(seconds <= seconds.min(axis=0) * ALIKE, axis=0)
    fields = (np.broadcast_arrays(*field, choice)[:-1] for field in zip(*costs, strict=True))
    return Cost(*(np.choose(choice, field) for field in fields))


Collective = Callable[[Gangs, Links], Cost]
COLLECTIVES: Final[dict[str, Collective]] = {
    "ring": ring,
    "hierarchical": hierarchical,
    "double-tree": double_tree,
    # Of gradients, then of parameters (ZeRO 1 and 2): two passes of N-1 steps and (N-1)/N M bytes, as in a ring. If
    # they differ in size, M is the mean. ZeRO 3 gathers twice: set M to 3/2 of the bytes, without the latency of that.
    "reduce-scatter-all-gather": ring,
    "best": partial(fastest, (ring, hierarchical, double_tree)),
    "nccl-tree": nccl_tree,
    "nvls": nccl_tree,  # with a switch that reduces
    "nccl": partial(fastest, (ring, nccl_tree)),
}
MEASURED: Final = ("nccl", "nccl-tree", "nvls")  # those with which measured latencies were calibrated


def solo_rate_Bps(gangs: Gangs, links: Links) -> Array:
    """Return the rate of an edge between servers on an idle network [byte/s]; inf for a gang on one server."""
    return np.where(gangs.servers > 1, links.server_Bps, np.inf)


def collective_cost(name: str, gangs: Gangs, links: Links) -> Cost:
    """Return the cost of one all-reduce of each gang; it is 0 for a gang of one GPU and for 0 bytes.

    Notes
    -----
    A finite reduction rate C adds (N-1)/N M/C seconds to every collective, because each GPU adds N-1 parts of M/N bytes
    to its own part (SJF-BCO, eq. 8). Latency and bytes follow the alpha-beta model, which was not validated for
    arbitrary placements.
    """
    gangs = Gangs(*(np.asarray(field) for field in gangs))
    steps = links if links.depth_s is None else links._replace(gpu_latency_s=0.0, server_latency_s=0.0)
    cost = COLLECTIVES[name](gangs, steps)
    fixed_s, wire_bytes, cap_Bps = cost if links.depth_s is None else _measured(gangs, links, cost)
    fixed_s = fixed_s + (gangs.gpus - 1) / gangs.gpus * gangs.gradient_bytes / links.reduction_Bps
    silent = (gangs.gpus <= 1) | (gangs.gradient_bytes == 0.0)
    return Cost(np.where(silent, 0.0, fixed_s), np.where(silent, 0.0, wire_bytes), cap_Bps)


def _measured(gangs: Gangs, links: Links, cost: Cost) -> Cost:
    """Add the measured latency to a cost without latency: T = a + c sqrt(min(M, KNEE_BYTES)) + V/r.

    A pipeline of depth d moves V bytes at the rate r in d + V/r + 2 sqrt(d V/r), if it cuts them into the best number
    of chunks (derived). So c sqrt(M) = 2 sqrt(d V/r), at the rate r without other gangs, until the buffers are full.
    """
    several = gangs.servers > 1
    inside_s, between_s = links.depth_s or (0.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone_s = cost.wire_bytes / np.minimum(solo_rate_Bps(gangs, links), cost.cap_Bps)
        full = np.minimum(1.0, KNEE_BYTES / gangs.gradient_bytes)
    chunks_s = 2.0 * np.sqrt(np.where(several, between_s, inside_s) * alone_s * full)
    latency_s = np.where(several, links.server_latency_s, links.gpu_latency_s)
    return cost._replace(fixed_s=cost.fixed_s + latency_s + chunks_s)
