"""Bus bandwidth: the figure that benchmarks of collectives print, and SimAI's analytic estimate of it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError, unknown_name

Array = np.ndarray[Any, Any]

# Share of M/T by operation: (a, b) gives a (n-b)/n for n ranks (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
_FACTORS: Final = {
    "all-reduce": (2.0, 1),
    "reduce-scatter": (1.0, 1),
    "all-gather": (1.0, 1),
    "all-to-all": (1.0, 1),
    "broadcast": (1.0, 0),
    "reduce": (1.0, 0),
}
# Rate of a collective that the NVSwitch adds up (NVLS), eight GPUs [1e9 byte/s] (aliyun/SimAI, calbusbw.h).
NVLS_GBps: Final = {"H100": 475.0, "H800": 215.0}
SIMAI_ALGORITHMS: Final = ("ring", "tree", "nvls")
_FEW_SERVERS: Final = {2: 2.0, 3: 4.0 / 3.0}  # SimAI's factor on the network rate of a tree
NVLS_GPUS: Final = 8  # [GPU] the only server that these rates are for


def bus_bandwidth_factor(operation: str, ranks: int | Array) -> Array:
    """Bus bandwidth per algorithm bandwidth M/T: what an operation of M bytes moves over each port, per byte of M.

    An all-reduce without latency has a bus bandwidth of exactly the rate of its slowest edge.

    Raises
    ------
    GpuschedError : unknown operation
    """
    if operation not in _FACTORS:
        raise GpuschedError(unknown_name("operation", operation, _FACTORS))
    scale, idle = _FACTORS[operation]
    return scale * (ranks - idle) / np.asarray(ranks)


def simai_bus_bandwidth_GBps(
    algorithm: str,
    gpus_per_server: int,
    servers: int,
    nvlink_GBps: float,
    server_GBps: float,
    crosses_ports: bool = False,
) -> float:
    """Bus bandwidth of an all-reduce on whole servers by SimAI's formulas (aliyun/SimAI, calbusbw.cc) [1e9 byte/s].

    Parameters
    ----------
    algorithm : "ring", "tree" or "nvls", a tree whose switches inside the servers add
    nvlink_GBps : one-way rate of a GPU inside a server; for "nvls" a rate of NVLS_GBps
    server_GBps : one-way rate of all ports of a server together
    crosses_ports : the ring leaves a server by another port than it enters, so NVLink carries g-1 of g parts

    Raises
    ------
    GpuschedError : unknown algorithm, or "nvls" on servers that do not have eight GPUs
    """
    if algorithm not in SIMAI_ALGORITHMS:
        raise GpuschedError(unknown_name("algorithm", algorithm, SIMAI_ALGORITHMS))
    if algorithm == "nvls" and gpus_per_server != NVLS_GPUS:
        raise GpuschedError(
            f"algorithm 'nvls' is known for {NVLS_GPUS} GPUs a server, not {gpus_per_server}: take 'tree'"
        )
    parts = gpus_per_server / (gpus_per_server - 1) if gpus_per_server > 1 else np.inf
    inside_GBps = nvlink_GBps * parts
    if servers == 1:
        return {"ring": nvlink_GBps, "tree": nvlink_GBps / parts, "nvls": nvlink_GBps}[algorithm]
    if algorithm == "ring":
        return min(inside_GBps if crosses_ports else nvlink_GBps, server_GBps)
    ranks = gpus_per_server * servers
    return min(server_GBps * _FEW_SERVERS.get(servers, 1.0), inside_GBps) * (ranks - 1) / ranks
