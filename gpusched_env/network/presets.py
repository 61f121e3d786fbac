"""Presets of servers and networks, and the effective rates of links from which they are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from gpusched_env.network.topology_spec import TopologySpec

_NCCL: Final = "NVIDIA/nccl, src/graph/topo.h"
_SIMAI: Final = "aliyun/SimAI, calbusbw.h"


class Rate(NamedTuple):
    """Rate of one direction of a link."""

    raw_GBps: float | None  # nominal rate [1e9 byte/s]; None = the source does not give it
    effective_GBps: float  # rate that collectives reach [1e9 byte/s]
    source: str


# A rate of NVLink is the sum over all links of one GPU: effective rate of a link x number of links.
RATES: Final[dict[str, Rate]] = {
    "nvlink-p100": Rate(80.0, 4 * 18.0, _NCCL),
    "nvlink-v100": Rate(150.0, 6 * 20.0, _NCCL),
    "nvlink-a100": Rate(300.0, 12 * 20.0, _NCCL),
    "nvlink-h100": Rate(450.0, 18 * 20.6, _NCCL),
    "nvlink-b200": Rate(900.0, 18 * 40.1, _NCCL),
    "nvlink-a800": Rate(None, 8 * 20.0, _SIMAI),
    "nvlink-h800": Rate(None, 8 * 20.6, _SIMAI),
    "pcie3-x16": Rate(15.75, 12.0, _NCCL),
    "pcie4-x16": Rate(31.5, 25.6, f"{_NCCL}; {_SIMAI}"),
    "pcie5-x16": Rate(63.0, 51.2, f"{_NCCL}; {_SIMAI}"),
    "socket-broadwell": Rate(None, 6.0, _NCCL),
    "socket-skylake": Rate(None, 10.0, _NCCL),
    "socket-sapphire-rapids": Rate(None, 22.0, _NCCL),
    "socket-emerald-rapids": Rate(None, 40.0, _NCCL),
    "ethernet-10g": Rate(1.25, 1.17, "about 95 % of raw (choice)"),
    "ethernet-25g": Rate(3.125, 2.97, "about 95 % of raw (choice)"),
    "ethernet-40g": Rate(5.0, 4.75, "about 95 % of raw (choice)"),
    "infiniband-40g": Rate(5.0, 4.8, "96 % of raw (choice)"),
    "rdma-100g": Rate(12.5, 12.0, _NCCL),
    "rdma-200g": Rate(25.0, 23.5, f"{_NCCL}; {_SIMAI}"),
    "rdma-400g": Rate(50.0, 48.5, f"{_NCCL}; {_SIMAI}"),
}

# Latency of one step [s]. The source is NVIDIA/nccl, src/graph/tuning.cc, protocol Simple. The latency of TCP is a
# choice from the range 10 to 50 us.
NVLINK_S: Final = 3.4e-6
PCIE_S: Final = 5.7e-6
RDMA_S: Final = 14e-6
TCP_S: Final = 50e-6


class NetworkPreset(NamedTuple):
    """A kind of server and a network; the topology can be built for any cluster of such servers."""

    topology: TopologySpec
    gpus: tuple[int, ...]  # GPUs of a server; several values if the servers differ [GPU]
    description: str


def _server(port: str, nic: str, gpu_latency_s: float, nic_latency_s: float, nics: int = 1) -> TopologySpec:
    """Return the spec of servers with ``nics`` equal NICs at one switch."""
    return TopologySpec(
        "single-switch",
        gpu_GBps=RATES[port].effective_GBps,
        gpu_latency_s=gpu_latency_s,
        nic_GBps=nics * RATES[nic].effective_GBps,
        nic_latency_s=nic_latency_s,
        nics=nics,
    )


_V100_100G: Final = replace(_server("nvlink-v100", "rdma-100g", NVLINK_S, RDMA_S), kind="leaf-spine")

NETWORK_PRESETS: Final[dict[str, NetworkPreset]] = {
    "pcie4-10g": NetworkPreset(
        _server("pcie3-x16", "ethernet-10g", PCIE_S, TCP_S),
        (4,),
        "4 V100 on PCIe, 10 Gb/s Ethernet, as in testbeds of papers",
    ),
    "pcie8-25g": NetworkPreset(
        _server("pcie3-x16", "ethernet-25g", PCIE_S, TCP_S),
        (8,),
        "8 GTX 1080 Ti on PCIe, 25 Gb/s Ethernet, as in testbeds of papers",
    ),
    "dgxv-25g": NetworkPreset(
        _server("nvlink-v100", "ethernet-25g", NVLINK_S, TCP_S),
        (8,),
        "8 V100 on NVLink, 25 Gb/s Ethernet, as in testbeds of papers",
    ),
    "titan-ib40": NetworkPreset(
        _server("pcie3-x16", "infiniband-40g", PCIE_S, RDMA_S),
        (8,),
        "8 TITAN Xp on PCIe, 40 Gb/s InfiniBand; 4 servers",
    ),
    "dgxv-100g": NetworkPreset(_V100_100G, (8,), "8 V100 on NVLink, 100 Gb/s RDMA, leaf-spine 1:1 (choice)"),
    "a100-4x200": NetworkPreset(
        replace(_server("nvlink-a100", "rdma-200g", NVLINK_S, RDMA_S, nics=4), kind="leaf-spine"),
        (8,),
        "8 A100 on NVSwitch, 4 x 200 Gb/s, leaf-spine 1:1 (choice)",
    ),
    "h100-8x400": NetworkPreset(
        replace(_server("nvlink-h100", "rdma-400g", NVLINK_S, RDMA_S, nics=8), kind="leaf-spine"),
        (8,),
        "8 H100 on NVSwitch, 8 x 400 Gb/s, leaf-spine 1:1 (choice)",
    ),
    # A rack represents a segment of the paper: 128 servers below 16 switches, each with 60 uplinks of 400 Gb/s.
    "h800-2tier": NetworkPreset(
        replace(
            _server("nvlink-h800", "rdma-200g", NVLINK_S, RDMA_S),
            kind="three-tier",
            nic_GBps=8 * 2 * RATES["rdma-200g"].effective_GBps,
            nics=8,
            oversubscription=128 * 200 / (60 * 400),
            uplinks=16 * 60,
            racks_per_pod=15,
            pod_oversubscription=15.0,
            pod_uplinks=16 * 60,
        ),
        (8,),
        "8 H800, 8 NICs of 2 x 200 Gb/s, three tiers 1.0667:1 and 15:1 (Qian et al., Alibaba HPN, SIGCOMM 2024)",
    ),
    "sjfbco20": NetworkPreset(
        TopologySpec("single-switch", gpu_GBps=20.0, gpu_latency_s=0.0, nic_GBps=1.0, nic_latency_s=0.0),
        (4, 8, 16, 32),
        "20 servers of 4 to 32 GPUs, rates relative to a NIC (Yu et al., MobiHoc 2022, section 7; 20 is a choice)",
    ),
    "oversub4": NetworkPreset(
        replace(_V100_100G, oversubscription=4.0, uplinks=2),
        (8,),
        "dgxv-100g below a spine oversubscribed 4:1, 2 uplinks a rack; for contention: 4 racks of 8 servers (choice)",
    ),
}
