"""Meters: what the GPUs draw, costs and emits, added up while time passes (docs/energy.md)."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.problem.energy import COMMUNICATING, COMPUTING, IDLE


@helper
def area(sim: Run, m: int, time_s: float) -> float:
    """Return the integral of the series of a meter up to a time [s] that is not before its present row."""
    at = sim.meters[m]["at"]
    while at + 1 < sim.meters[m]["end"] and sim.series[at + 1]["time_s"] <= time_s:
        at += 1
    return sim.series[at]["area"] + sim.series[at]["value"] * (time_s - sim.series[at]["time_s"])


@kernel(lazy=True)
def held_watts(sim: Run, number: int, state: int) -> float:
    """Return what the GPUs of a gang draw for it in a state [W]: of n gangs on a GPU, each counts 1/n."""
    w = sim.world
    r = sim.replicas[number]
    if w["types"] == 1 and w["gpu_jobs"] == 1:
        return r["gpus"] * sim.watts[0, state]
    watts = 0.0
    seat = r["first_gpu"]
    while seat >= 0:
        gpu = seat % w["gpus"]
        gangs = 0
        for layer in range(w["gpu_jobs"]):
            if sim.holder[gpu + layer * w["gpus"]] >= 0:
                gangs += 1
        watts += sim.watts[sim.nodes[sim.gpu_node[gpu]]["gpu_type"], state] / gangs
        seat = sim.gpu_next[seat]
    return watts


@kernel(lazy=True)
def computes_s(sim: Run, number: int, pace: int) -> float:
    """Return the compute time of a sub-step of a gang on its ``chosen`` GPUs [s], the longest over their types."""
    r = sim.replicas[number]
    longest_s = 0.0
    for i in range(r["gang"] if sim.world["types"] > 1 else 1):
        gpu_type = sim.nodes[sim.gpu_node[sim.chosen[i]]]["gpu_type"]
        longest_s = max(longest_s, sim.paces[r["job_class"], pace, gpu_type]["compute_s"])
    return longest_s * r["compute_share"]


@helper
def compute_share(sim: Run, number: int) -> float:
    """Return the share of the time of an iteration in which a gang computes."""
    r = sim.replicas[number]
    sub_steps = sim.sub_batches[r["job_class"], r["sub_batch"], 0]["sub_steps"]
    return r["compute_s"] * sub_steps * r["slowdown"] / r["iteration_s"]


@kernel(lazy=True)
def used_by_gangs(sim: Run, m: int, until_s: float) -> float:
    """Return what the gangs add to a meter from now to ``until_s`` [s]."""
    now_s = sim.world["clock_s"]
    end = area(sim, m, until_s)
    used = 0.0
    for i in range(sim.world["running"]):
        number = sim.running[i]
        r = sim.replicas[number]
        watts = held_watts(sim, number, COMMUNICATING)
        used += watts * (end - area(sim, m, now_s))
        if r["phase"] == ACTIVE and r["since_s"] < until_s:
            computes = compute_share(sim, number) * (end - area(sim, m, max(r["since_s"], now_s)))
            used += (held_watts(sim, number, COMPUTING) - watts) * computes
    return used


@helper
def without_gangs(sim: Run, node: int) -> int:
    """Return the number of GPUs of a node that no gang holds; those of a node that is down are not free."""
    if sim.world["recovers"] == 0 or sim.down[node] == 0:
        return sim.free[node]
    count = 0
    for gpu in range(sim.nodes[node]["first_gpu"], sim.nodes[node]["first_gpu"] + sim.nodes[node]["gpus"]):
        if sim.holder[gpu] < 0:
            count += 1
    return count


@kernel(lazy=True)
def used_by_others(sim: Run, m: int, until_s: float) -> float:
    """Return what GPUs without gangs, and machines that wake now, add to a meter from now to ``until_s`` [s]."""
    w = sim.world
    now_s = w["clock_s"]
    end = area(sim, m, until_s)
    used = 0.0
    for node in range(w["nodes"]):
        n = sim.nodes[node]
        watts = sim.watts[n["gpu_type"], IDLE]
        unheld = without_gangs(sim, node)
        used += unheld * watts * (end - area(sim, m, now_s))
        sleeps_s = min(sim.idle_since_s[node], now_s) + w["sleep_after_s"]
        if unheld == n["gpus"] and sleeps_s < until_s:
            used -= n["gpus"] * (watts - w["sleep_w"]) * (end - area(sim, m, max(sleeps_s, now_s)))
        elif unheld < n["gpus"] and sleeps_s < now_s:
            used += w["wake_j"] * sim.series[sim.meters[m]["at"]]["value"]
    return used


@kernel(lazy=True)
def meter(sim: Run, until_s: float) -> None:
    """Let all meters run from now to ``until_s`` [s], while every gang keeps its GPUs and its rate."""
    w = sim.world
    for m in range(w["meters"]):
        shown = sim.meters[m]
        if shown["at"] < shown["end"]:
            shown["total"] += used_by_gangs(sim, m, until_s) + used_by_others(sim, m, until_s)
            while shown["at"] + 1 < shown["end"] and sim.series[shown["at"] + 1]["time_s"] <= until_s:
                shown["at"] += 1
    for node in range(w["nodes"]):
        since_s = min(sim.idle_since_s[node], w["clock_s"])
        sim.idle_since_s[node] = since_s if without_gangs(sim, node) == sim.nodes[node]["gpus"] else np.inf
