"""Rates of a run, recomputed from its log alone: in NumPy, gang by gang, without code of the simulator.

It shares the formulas of gpusched_env.network (costs of collectives, k-way contention, tables of pairs, the hash of
paths) with the package, whose compiled kernels have copies of them. Tests compute each by hand:
test_network_collectives, test_network_contention and test_network_ecmp. The hash is ours (docs/network.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from crux_reference import strict_rates
from max_min_reference import max_min_rates
from network_interference import degradation, flat_goodput_factor, pairwise_ratios, part_time_slowdown

from gpusched_env.event_log import COMPLETE, PREEMPT, RATE, RESUME, START, EventLog
from gpusched_env.network import LINK_TIERS
from gpusched_env.network.collectives import Gangs, Links, collective_cost
from gpusched_env.network.ecmp import path_hash
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.performance import overlapped
from studies.reproduce import kway

Array = np.ndarray[Any, Any]


@dataclass
class Gang:
    """A running gang on the GPUs that the log says."""

    job: int
    gpus: Array
    start: int  # starts of the job before this one
    on: Array  # int [N], GPUs on each machine
    compute_s: float
    overlap: float
    profile: int
    fixed_s: float
    wire_bytes: float
    solo_Bps: float
    use: dict[int, float] = field(default_factory=dict)  # use of each link by a unit of rate

    def iteration_s(self, slowdown: float = 1.0) -> float:
        communication = self.fixed_s
        if self.wire_bytes:
            communication += self.wire_bytes / self.solo_Bps * slowdown
        return float(overlapped(np.array(self.compute_s), np.array(communication), np.array(self.overlap)))

    @property
    def duty(self) -> float:
        return (self.fixed_s + self.wire_bytes / self.solo_Bps) / self.iteration_s()


def capacities(instance: Instance, time_s: float) -> Array:
    """Capacity of every link after the changes up to a time [byte/s]."""
    capacity = instance.links["capacity"].copy()
    for change in sorted(instance.network.changes, key=lambda change: change.time_s):
        if change.time_s <= time_s:
            there = instance.links["tier"] == LINK_TIERS.index(change.tier)
            capacity[there] = instance.links["capacity"][there] / change.slowdown
    return capacity


def lay(instance: Instance, job: int, gpus: Array, start: int, capacity: Array) -> Gang:
    """Price a gang on an idle network; ``start`` = number of earlier starts of the job."""
    cluster, topology, network = instance.cluster, instance.topology, instance.network
    assert topology is not None
    of_class = int(instance.job_class[job])
    profile, size = instance.classes[of_class].tolist()
    row = instance.workload.profiles.rows[profile]
    machine = cluster.node_of_gpu[gpus]
    on = np.bincount(machine, minlength=len(cluster.nodes))
    machines = np.flatnonzero(on)
    tier = 0 if len(machines) == 1 else 1 if len(set(cluster.nodes["rack"][machines].tolist())) == 1 else 2
    types = cluster.nodes["gpu_type"][machine]
    slowest = types[int(np.argmax(instance.iteration_s[of_class, tier, types]))]

    use: dict[int, float] = {}

    def cross(link: int, weight: float) -> None:
        use[link] = use.get(link, 0.0) + weight

    weight = 0.5 if topology.duplex else 1.0
    step_s, cap = 0.0, np.inf
    if len(machines) > 1:
        for edge, (a, b) in enumerate(zip(np.roll(machines, 1).tolist(), machines.tolist(), strict=True)):
            cross(int(instance.first_row[topology.access[a, 0]]), weight)
            cross(int(instance.first_row[topology.access[b, 1]]), weight)
            groups = int(topology.edge[a]), int(topology.edge[b])
            for link, share in zip(*topology.route(*groups), strict=True):
                first = int(instance.first_row[link])
                members = int(instance.links["members"][first])
                if members > 1:
                    first += path_hash(network.contention.path_seed, job, start, edge) % members
                cross(first, weight * float(share))
            step_s = max(step_s, float(topology.latency_s[groups]))
        cap = (topology.nic_Bps * np.minimum(on[machines], topology.nics) / topology.nics).min()
    buses = np.flatnonzero(instance.links["tier"] == -1)
    if len(buses) and size > 1:
        for m in machines:
            cross(int(buses[m]), 1.0)
    alone = min([cap, *(capacity[link] / count for link, count in use.items())])
    built = min([cap, *(instance.links["capacity"][link] / count for link, count in use.items())])
    widest = int(on.max())
    gradient = float(row["gradient_bytes"])
    links = Links(
        topology.gpu_Bps if len(machines) > 1 else min(topology.gpu_Bps, alone), alone, topology.gpu_latency_s, step_s,
        np.inf if network.reduction_GBps is None else network.reduction_GBps * 1e9,
        topology.switch_share, topology.depth_s,
    )  # fmt: skip
    collective = dict(network.profile_collectives).get(str(row["name"]), network.collective)
    cost = collective_cost(collective, Gangs(size, len(machines), widest, gradient), links)
    solo = min(alone, float(cost.cap_Bps))
    fixed, wire = float(cost.fixed_s), float(cost.wire_bytes)
    compute = float(instance.compute_s[of_class, tier, slowest])
    if network.contention.model == "budget":
        compute, fixed, wire = float(instance.iteration_s[of_class, 0, slowest]), 0.0, 0.0
    else:
        fixed += network.machine_overhead_s * len(machines)
        if instance.measured[of_class, tier, slowest]:
            fixed, wire = 0.0, float(instance.communication_s[of_class, tier, slowest])
            wire *= min(built, float(cost.cap_Bps))
        if wire == 0.0:
            use = {}
    return Gang(job, gpus, start, on, compute, float(row["overlap"]), profile, fixed, wire, solo, use)


def price(instance: Instance, gangs: list[Gang], capacity: Array) -> tuple[list[list[float]], Array]:
    """Seconds of one iteration of each gang beside the others [s], and the rate of its ring [byte/s].

    The first has several values for a gang with several possible bottlenecks, if the price depends on their other
    gangs.
    """
    rule = instance.network.contention
    solo = np.array([gang.solo_Bps for gang in gangs])
    if not gangs:
        return [], solo
    # a gang that sends nothing straddles no machine
    on = np.array([gang.on * bool(gang.use) for gang in gangs])
    rates, seconds = solo.copy(), np.array([gang.iteration_s() for gang in gangs])
    if rule.model == "maxmin":
        weights = np.zeros((len(gangs), len(capacity)))
        for row, gang in zip(weights, gangs, strict=True):
            row[list(gang.use)] = list(gang.use.values())
        rates = max_min_rates(capacity, weights, solo)
        full = np.abs(rates @ weights - capacity) <= 1e-9 * capacity
        options = []
        for i, gang in enumerate(gangs):
            slowdown = max(solo[i] / rates[i], 1.0)
            shares = [1.0]
            if rule.duty == "const":
                shares = [rule.xi1]
            elif rule.duty == "solo" and slowdown > 1 + 1e-9:
                there = [weights[:, link] > 0 for link in np.flatnonzero(full & (weights[i] > 0))]
                there = [on_link for on_link in there if rates[i] >= rates[on_link].max() * (1 - 1e-9)]
                others = [[g.duty for j, g in enumerate(gangs) if j != i and on_link[j]] for on_link in there]
                shares = [float(np.mean(duties)) if duties else 1.0 for duties in others]
            options.append([gang.iteration_s(float(part_time_slowdown(slowdown, share))) for share in shares])
        return options, rates
    if rule.model == "strict-priority":
        rates = strict_rates(gangs, capacity, rule)
        slower = np.divide(solo, rates, out=np.full(len(gangs), np.inf), where=rates > 0)
        seconds = np.array([gang.iteration_s(float(s)) for gang, s in zip(gangs, slower, strict=True)])
    elif rule.model in ("kway", "budget"):
        k = kway.effective_contenders(kway.straddle_counts(on), rule.k_mode, rule.xi1)
        f = degradation(k, rule.alpha)
        if rule.model == "kway":
            rates = solo / f
            seconds = np.array([gang.iteration_s(s) for gang, s in zip(gangs, f, strict=True)])
        else:
            most = kway.effective_contenders(np.array([8]), rule.k_mode, rule.xi1)
            worst = degradation(most, rule.alpha)[0] - 1.0
            count = np.array([(gang.on > 0).sum() for gang in gangs])
            used = (0.5 * (f - 1) / worst if worst > 0 else 0.0) + 0.5 * (count - 1) / 7
            seconds *= 1 + np.where(count > 1, np.minimum(1.0, used), 0.0) * rule.extra / (1 - rule.extra)
    elif rule.model == "flat":
        seconds /= flat_goodput_factor(on, rule.shared_loss)
    elif rule.model == "table":
        seconds /= pairwise_ratios(on, np.array([gang.profile for gang in gangs]), instance.ratios)
    return [[value] for value in seconds.tolist()], rates


@dataclass
class Instant:
    """Events of a log at one time, and the gangs that run from then on."""

    time_s: float
    gangs: list[Gang]
    told: dict[int, float]  # current seconds of one iteration, by job
    rates: Array  # RATE events at this time
    before: dict[int, float]  # logged before
    capacity: Array  # [byte/s] of each link from then on


def instants(instance: Instance, log: EventLog) -> Iterator[Instant]:
    """Iterate over a log, one time after the other."""
    running: dict[int, Gang] = {}
    starts = np.zeros(len(instance.workload), int)
    told: dict[int, float] = {}
    changes = [change.time_s for change in instance.network.changes]
    last = log.events["time_s"][-1]
    for time_s in np.unique([*log.events["time_s"], *(c for c in changes if c <= last)]).tolist():
        capacity = capacities(instance, time_s)
        now = np.flatnonzero(log.events["time_s"] == time_s)
        for index in now.tolist():
            event = log.events[index]
            job, kind = int(event["job"]), int(event["kind"])
            if kind in (START, RESUME):
                running[job] = lay(instance, job, log.gang(index), int(starts[job]), capacity)
                starts[job] += 1
                told.pop(job, None)
            elif kind in (PREEMPT, COMPLETE):
                del running[job]
        if time_s in changes:
            running = {j: lay(instance, j, gang.gpus, gang.start, capacity) for j, gang in running.items()}
        rates = log.events[now][log.events["kind"][now] == RATE]
        before = dict(told)
        told |= {int(rate["job"]): float(rate["value"]) for rate in rates}
        yield Instant(float(time_s), list(running.values()), told, rates, before, capacity)
