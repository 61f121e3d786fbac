"""FIND_ALLOC and the greedy walk of Hadar, compiled: the best placement of a gang, and the grants of a round."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.baselines.hadar.prices import ASKING_DTYPE
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.problem.cluster import MACHINE, NETWORK, NODE_DTYPE, RACK

ROUND_DTYPE: Final = np.dtype(
    [
        ("now_s", "<f8"),  # [s]
        ("round_s", "<f8"),  # [s]
        ("mixed", "<i8"),  # 1 = a gang may sit on several GPU types
        ("priced", "<i8"),  # 0 = GPUs cost nothing (pass 2)
    ]
)


class Asking(Handle):
    """The input of a round and its result."""

    round = array(ROUND_DTYPE)
    jobs = array(ASKING_DTYPE, "jobs")  # best first; the results are ``payoff`` (0 = nothing granted) and ``rate``
    rates = array(np.float64, "classes", "tiers", "types")  # [iterations/s] of each job class
    nodes = array(NODE_DTYPE, "nodes")
    free = array(np.int32, "nodes")  # [GPU] not granted yet
    prices = array(np.float64, "nodes", "granted")  # utility per GPU and round, by GPUs granted; see prices.py
    trial = array(np.int32, "nodes")  # scratch
    counts = array(np.int32, "jobs", "nodes")  # [GPU] of each node that each job is granted


@kernel
def payoff_of(ask: Asking, i: int, rate: float, price: float) -> float:
    """Return the payoff of a job that runs at ``rate``: its utility minus the price of its GPUs until its end."""
    job = ask.jobs[i]
    run_s = job["remaining"] / rate
    rounds = math.ceil(run_s / ask.round["round_s"])
    return job["worth"] / max(ask.round["now_s"] + run_s - job["since_s"], 1.0) - rounds * price


@kernel
def cheapest(ask: Asking, job_class: int, tier: int, slowest: int) -> int:
    """Find the cheapest node with free GPUs, of a type as fast as ``slowest``, that ``trial`` does not use; -1 = none.

    Ties: more free GPUs, then the lower index. Without ``mixed`` only nodes of the type ``slowest`` are considered.
    """
    picked = -1
    lowest = 0.0
    for node in range(len(ask.nodes)):
        if ask.free[node] == 0 or ask.trial[node] > 0:
            continue
        gpu_type = ask.nodes[node]["gpu_type"]
        rate = ask.rates[job_class, tier, gpu_type]
        if rate == 0.0 or rate < ask.rates[job_class, tier, slowest] or not (ask.round["mixed"] or gpu_type == slowest):
            continue
        price = ask.prices[node, ask.nodes[node]["gpus"] - ask.free[node]] if ask.round["priced"] else 0.0
        if picked < 0 or price < lowest or (price == lowest and ask.free[node] > ask.free[picked]):
            picked = node
            lowest = price
    return picked


@kernel
def next_type(ask: Asking, job_class: int, tier: int, previous: int) -> int:
    """Return the GPU type after ``previous`` (-1 = none yet), by descending rate, then index; -1 = no more types."""
    following = -1
    for gpu_type in range(ask.rates.shape[2]):
        rate = ask.rates[job_class, tier, gpu_type]
        if rate == 0.0:
            continue
        if previous >= 0:
            bound = ask.rates[job_class, tier, previous]
            if rate > bound or (rate == bound and gpu_type <= previous):
                continue
        if following < 0 or rate > ask.rates[job_class, tier, following]:
            following = gpu_type
    return following


@kernel
def fill(ask: Asking, job_class: int, gang: int, tier: int, slowest: int) -> float:
    """Place a gang on the cheapest nodes that are at least as fast as type ``slowest``; the result is in ``trial``.

    Returns the price of the gang for one round; -1 = no room.
    """
    for node in range(len(ask.nodes)):
        ask.trial[node] = 0
    left = gang
    price = 0.0
    while left > 0:
        node = cheapest(ask, job_class, tier, slowest)
        if node < 0:
            return -1.0
        taken = min(ask.free[node], left)
        if ask.round["priced"]:
            price += taken * ask.prices[node, ask.nodes[node]["gpus"] - ask.free[node]]
        ask.trial[node] = taken
        left -= taken
    return price


@kernel
def spread_rate(ask: Asking, job_class: int) -> float:
    """Return the rate of a gang on the nodes in ``trial`` [iterations/s]; 0 if ``trial`` is only one node.

    The rate is that of the slowest GPU type of these nodes.
    """
    used = 0
    rack = -1
    tier = RACK
    for node in range(len(ask.nodes)):
        if ask.trial[node] > 0:
            used += 1
            if rack >= 0 and ask.nodes[node]["rack"] != rack:
                tier = NETWORK
            rack = ask.nodes[node]["rack"]
    rate = np.inf
    for node in range(len(ask.nodes)):
        if ask.trial[node] > 0:
            rate = min(rate, ask.rates[job_class, tier, ask.nodes[node]["gpu_type"]])
    return rate if used > 1 else 0.0


@kernel
def find_alloc(ask: Asking, i: int) -> float:
    """Write the best placement of job ``i`` to ``counts[i]`` and its rate to the job; return its payoff, 0 = none."""
    job_class = ask.jobs[i]["job_class"]
    gang = ask.jobs[i]["gpus"]
    tier = ask.jobs[i]["tier"]
    best = 0.0
    ask.jobs[i]["rate"] = 0.0
    for node in range(len(ask.nodes)):
        rate = ask.rates[job_class, MACHINE, ask.nodes[node]["gpu_type"]]
        if ask.free[node] < gang or rate == 0.0:
            continue
        price = gang * ask.prices[node, ask.nodes[node]["gpus"] - ask.free[node]] if ask.round["priced"] else 0.0
        payoff = payoff_of(ask, i, rate, price)
        if payoff > best:
            best = payoff
            ask.jobs[i]["rate"] = rate
            for other in range(len(ask.nodes)):
                ask.counts[i, other] = 0
            ask.counts[i, node] = gang
    fewest = 1 if best > 0.0 else len(ask.nodes) + 1
    slowest = next_type(ask, job_class, tier, -1) if gang > 1 else -1
    while slowest >= 0:
        price = fill(ask, job_class, gang, tier, slowest)
        rate = spread_rate(ask, job_class) if price >= 0.0 else 0.0
        slowest = next_type(ask, job_class, tier, slowest)
        if rate == 0.0 or rate < ask.jobs[i]["least_rate"]:
            continue
        payoff = payoff_of(ask, i, rate, price)
        used = 0
        for node in range(len(ask.nodes)):
            used += ask.trial[node] > 0
        if payoff > best or (payoff == best and payoff > 0.0 and used < fewest):
            best = payoff
            fewest = used
            ask.jobs[i]["rate"] = rate
            for node in range(len(ask.nodes)):
                ask.counts[i, node] = ask.trial[node]
    return best


@kernel
def walk(ask: Asking) -> None:
    """Grant each job without GPUs, in order, the placement that FIND_ALLOC finds."""
    left = 0
    for node in range(len(ask.nodes)):
        left += ask.free[node]
    for i in range(len(ask.jobs)):
        if left == 0:
            break
        if ask.jobs[i]["payoff"] > 0.0 or ask.jobs[i]["gpus"] > left:
            continue
        payoff = find_alloc(ask, i)
        ask.jobs[i]["payoff"] = payoff
        if payoff > 0.0:
            left -= ask.jobs[i]["gpus"]
            for node in range(len(ask.nodes)):
                ask.free[node] -= ask.counts[i, node]
