"""Presets of servers and networks, and the effective rates of links from which they are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from gpusched_env.network.topology_spec import TopologySpec

# Rate of one direction of a link that collectives reach [1e9 byte/s]. A rate of NVLink is the sum over all links of one
# GPU: rate of a link x number of links. The source is NVIDIA/nccl, src/graph/topo.h, unless a comment gives another.
RATES_GBps: Final = {
    "nvlink-v100": 6 * 20.0,
    "nvlink-a100": 12 * 20.0,
    "nvlink-h100": 18 * 20.6,
    "nvlink-h800": 8 * 20.6,  # aliyun/SimAI, calbusbw.h
    "nvlink-b200": 18 * 40.1,
    "pcie3-x16": 12.0,
    "ethernet-10g": 1.17,  # about 95 % of the nominal rate (choice)
    "ethernet-25g": 2.97,  # about 95 % of the nominal rate (choice)
    "infiniband-40g": 4.8,  # 96 % of the nominal rate (choice)
    "rdma-100g": 12.0,
    "rdma-200g": 23.5,  # also aliyun/SimAI, calbusbw.h
    "rdma-400g": 48.5,
    "rdma-800g": 2 * 48.5,  # two links of 400 Gb/s (choice)
}

# Latency of one step [s]. The source is NVIDIA/nccl, src/graph/tuning.cc, protocol Simple. The latency of TCP is a
# choice from the range 10 to 50 us.
NVLINK_S: Final = 3.4e-6
PCIE_S: Final = 5.7e-6
RDMA_S: Final = 14e-6
TCP_S: Final = 50e-6

HOPPER: Final = 0.85  # share of NVLink's rate while the switch reduces (NVLS): NVIDIA/nccl, tuning.cc

# Fabric -> latency of an all-reduce, and depth of its pipeline [s]; the versions of NCCL are not stated. The latency of
# nvlink and ib is one measured time of 32 KiB, fewer bytes were not measured; that of efa is the median to 64 KiB.
# studies.reproduce.testbeds.fabrics calibrates them.
FABRICS: Final = {"nvlink": (3.982e-5, 3.365e-6), "efa": (7.406e-5, 1.130e-4), "ib": (6.901e-5, 3.815e-6)}


class NetworkPreset(NamedTuple):
    """A kind of server and a network; the topology can be built for any cluster of such servers (docs/network.md)."""

    topology: TopologySpec
    gpus: tuple[int, ...]  # GPUs of a server; several values if the servers differ [GPU]


def _server(port: str, nic: str, gpu_latency_s: float, nic_latency_s: float, nics: int = 1) -> TopologySpec:
    """Return the spec of servers with ``nics`` equal NICs at one switch."""
    return TopologySpec(
        "single-switch",
        gpu_GBps=RATES_GBps[port],
        gpu_latency_s=gpu_latency_s,
        nic_GBps=nics * RATES_GBps[nic],
        nic_latency_s=nic_latency_s,
        nics=nics,
    )


def _measured(port: str, nic: str, nics: int, fabric: str, switch_share: float = 0.0) -> TopologySpec:
    """Return the spec of servers with NVLink and a fabric between them whose latencies were measured."""
    (gpu_s, gpu_depth_s), (nic_s, nic_depth_s) = FABRICS["nvlink"], FABRICS[fabric]
    spec = replace(_server(port, nic, gpu_s, nic_s, nics), kind="leaf-spine", switch_share=switch_share)
    return replace(spec, latency="measured", gpu_depth_s=gpu_depth_s, nic_depth_s=nic_depth_s)


_V100_100G: Final = replace(_server("nvlink-v100", "rdma-100g", NVLINK_S, RDMA_S), kind="leaf-spine")

NETWORK_PRESETS: Final[dict[str, NetworkPreset]] = {
    "pcie4-10g": NetworkPreset(_server("pcie3-x16", "ethernet-10g", PCIE_S, TCP_S), (4,)),
    "pcie8-25g": NetworkPreset(_server("pcie3-x16", "ethernet-25g", PCIE_S, TCP_S), (8,)),
    "dgxv-25g": NetworkPreset(_server("nvlink-v100", "ethernet-25g", NVLINK_S, TCP_S), (8,)),
    "titan-ib40": NetworkPreset(_server("pcie3-x16", "infiniband-40g", PCIE_S, RDMA_S), (8,)),
    "dgxv-100g": NetworkPreset(_V100_100G, (8,)),
    "a100-4x200": NetworkPreset(
        replace(_server("nvlink-a100", "rdma-200g", NVLINK_S, RDMA_S, nics=4), kind="leaf-spine"), (8,)
    ),
    "h100-8x400": NetworkPreset(
        replace(_server("nvlink-h100", "rdma-400g", NVLINK_S, RDMA_S, nics=8), kind="leaf-spine"), (8,)
    ),
    # Qian et al., Alibaba HPN, SIGCOMM 2024. A rack represents a segment of the paper: 128 servers below 16 switches,
    # each with 60 uplinks of 400 Gb/s. A server has 8 NICs of 2 x 200 Gb/s.
    "h800-2tier": NetworkPreset(
        replace(
            _server("nvlink-h800", "rdma-200g", NVLINK_S, RDMA_S),
            kind="three-tier",
            nic_GBps=8 * 2 * RATES_GBps["rdma-200g"],
            nics=8,
            oversubscription=128 * 200 / (60 * 400),
            uplinks=16 * 60,
            racks_per_pod=15,
            pod_oversubscription=15.0,
            pod_uplinks=16 * 60,
        ),
        (8,),
    ),
    # Yu et al., MobiHoc 2022, section 7: rates relative to a NIC; the rate inside a server is a choice
    "sjfbco20": NetworkPreset(
        TopologySpec("single-switch", gpu_GBps=20.0, gpu_latency_s=0.0, nic_GBps=1.0, nic_latency_s=0.0),
        (4, 8, 16, 32),
    ),
    "b200-8x400": NetworkPreset(
        replace(_server("nvlink-b200", "rdma-400g", NVLINK_S, RDMA_S, nics=8), kind="leaf-spine"), (8,)
    ),
    "b300-8x800": NetworkPreset(
        replace(_server("nvlink-b200", "rdma-800g", NVLINK_S, RDMA_S, nics=8), kind="leaf-spine"), (8,)
    ),
    "gb200-nvl72": NetworkPreset(  # a machine is an NVLink domain
        replace(_server("nvlink-b200", "rdma-400g", NVLINK_S, RDMA_S, nics=72), kind="leaf-spine"), (72,)
    ),
    # Llama Team, arXiv 2407.21783, section 3.3.1: racks of two servers, pods of 192 racks at full rate, 1:7 above
    "llama3-roce": NetworkPreset(
        replace(
            _server("nvlink-h100", "rdma-400g", NVLINK_S, RDMA_S, nics=8),
            kind="three-tier",
            racks_per_pod=192,
            pod_oversubscription=7.0,
        ),
        (8,),
    ),
    # Wang et al., arXiv 2307.12169: a switch for each NIC of the servers and none above, here one switch of all NICs;
    # bytes for another rail cross NVLink first, which is time inside servers
    "rail-only": NetworkPreset(_server("nvlink-h100", "rdma-400g", NVLINK_S, RDMA_S, nics=8), (8,)),
    "oversub4": NetworkPreset(replace(_V100_100G, oversubscription=4.0, uplinks=2), (8,)),  # for contention (choice)
    "a100-ib": NetworkPreset(_measured("nvlink-a100", "rdma-200g", 4, "ib"), (8,)),
    "p4de-efa": NetworkPreset(_measured("nvlink-a100", "rdma-100g", 4, "efa"), (8,)),
    "p5-efa": NetworkPreset(_measured("nvlink-h100", "rdma-400g", 8, "efa", HOPPER), (8,)),
    "h100-ib": NetworkPreset(_measured("nvlink-h100", "rdma-400g", 8, "ib", HOPPER), (8,)),
}
