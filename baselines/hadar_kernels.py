"""FIND_ALLOC and the greedy walk of Hadar, compiled: which nodes a gang would get, and who gets some."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK, RACK
from gpusched_env.simulator.jit import helper, int64, kernel

Array = np.ndarray[Any, Any]


@helper
def payoff_of(jobs: Array, i: int, rate: float, price: float, now_s: float, round_s: float) -> float:
    """Utility of ending at this rate, less the price of the gang's GPUs [per round] in every round until then."""
    job = jobs[i]
    run_s = job["remaining"] / rate
    rounds = math.ceil(run_s / round_s)
    return job["worth"] / max(now_s + run_s - job["since_s"], 1.0) - rounds * price


@helper
def cheapest(
    rates: Array,
    nodes: Array,
    free: Array,
    prices: Array,
    trial: Array,
    job_class: int,
    tier: int,
    slowest: int,
    mixed: bool,
    priced: bool,
) -> int:
    """Find the cheapest node of a type as fast as ``slowest`` that has free GPUs and none in ``trial``; -1 = none.

    Of equal prices the node with more free GPUs, then the first. ``mixed`` False: nodes of the type ``slowest`` only.
    """
    picked = -1
    lowest = 0.0
    for node in range(len(nodes)):
        if free[node] == 0 or trial[node] > 0:
            continue
        gpu_type = int64(nodes[node]["gpu_type"])
        rate = rates[job_class, tier, gpu_type]
        if rate == 0.0 or rate < rates[job_class, tier, slowest] or not (mixed or gpu_type == slowest):
            continue
        price = prices[node, nodes[node]["gpus"] - free[node]] if priced else 0.0
        if picked < 0 or price < lowest or (price == lowest and free[node] > free[picked]):
            picked = node
            lowest = price
    return picked


@helper
def next_type(rates: Array, job_class: int, tier: int, previous: int) -> int:
    """Type that follows ``previous`` (-1 = none yet) in the order of descending rates, ties by number; -1 = no more."""
    following = -1
    for gpu_type in range(rates.shape[2]):
        rate = rates[job_class, tier, gpu_type]
        if rate == 0.0:
            continue
        if previous >= 0:
            bound = rates[job_class, tier, previous]
            if rate > bound or (rate == bound and gpu_type <= previous):
                continue
        if following < 0 or rate > rates[job_class, tier, following]:
            following = gpu_type
    return following


@helper
def fill(
    rates: Array,
    nodes: Array,
    free: Array,
    prices: Array,
    trial: Array,
    job_class: int,
    gang: int,
    tier: int,
    slowest: int,
    mixed: bool,
    priced: bool,
) -> float:
    """Fill a gang from the cheapest nodes of one threshold into ``trial``; its price [per round], -1 = too few GPUs."""
    for node in range(len(nodes)):
        trial[node] = 0
    left = gang
    price = 0.0
    while left > 0:
        node = cheapest(rates, nodes, free, prices, trial, job_class, tier, slowest, mixed, priced)
        if node < 0:
            return -1.0
        taken = min(int64(free[node]), left)
        if priced:
            price += taken * prices[node, nodes[node]["gpus"] - free[node]]
        trial[node] = taken
        left -= taken
    return price


@helper
def spread_rate(rates: Array, nodes: Array, trial: Array, job_class: int) -> float:
    """Rate [iterations/s] of a gang on the nodes in ``trial``: that of its slowest type; 0 if it is one node only."""
    used = 0
    rack = -1
    tier = RACK
    for node in range(len(nodes)):
        if trial[node] > 0:
            used += 1
            if rack >= 0 and nodes[node]["rack"] != rack:
                tier = NETWORK
            rack = int64(nodes[node]["rack"])
    rate = np.inf
    for node in range(len(nodes)):
        if trial[node] > 0:
            rate = min(rate, rates[job_class, tier, nodes[node]["gpu_type"]])
    return rate if used > 1 else 0.0


@helper
def find_alloc(
    jobs: Array,
    i: int,
    rates: Array,
    nodes: Array,
    free: Array,
    prices: Array,
    trial: Array,
    counts: Array,
    now_s: float,
    round_s: float,
    mixed: bool,
    priced: bool,
) -> float:
    """Write the best placement of job ``i`` to ``counts[i]`` and its rate to the job; return its payoff, 0 = none."""
    job_class = int64(jobs[i]["job_class"])
    gang = int64(jobs[i]["gpus"])
    tier = int64(jobs[i]["tier"])
    best = 0.0
    jobs[i]["rate"] = 0.0
    for node in range(len(nodes)):
        rate = rates[job_class, MACHINE, nodes[node]["gpu_type"]]
        if free[node] < gang or rate == 0.0:
            continue
        price = gang * prices[node, nodes[node]["gpus"] - free[node]] if priced else 0.0
        payoff = payoff_of(jobs, i, rate, price, now_s, round_s)
        if payoff > best:
            best = payoff
            jobs[i]["rate"] = rate
            for other in range(len(nodes)):
                counts[i, other] = 0
            counts[i, node] = gang
    fewest = 1 if best > 0.0 else len(nodes) + 1
    slowest = next_type(rates, job_class, tier, -1) if gang > 1 else -1
    while slowest >= 0:
        price = fill(rates, nodes, free, prices, trial, job_class, gang, tier, slowest, mixed, priced)
        rate = spread_rate(rates, nodes, trial, job_class) if price >= 0.0 else 0.0
        slowest = next_type(rates, job_class, tier, slowest)
        if rate == 0.0 or rate < jobs[i]["least_rate"]:
            continue
        payoff = payoff_of(jobs, i, rate, price, now_s, round_s)
        used = 0
        for node in range(len(nodes)):
            used += trial[node] > 0
        if payoff > best or (payoff == best and payoff > 0.0 and used < fewest):
            best = payoff
            fewest = used
            jobs[i]["rate"] = rate
            for node in range(len(nodes)):
                counts[i, node] = trial[node]
    return best


@kernel
def find_one(
    jobs: Array,
    i: int,
    rates: Array,
    nodes: Array,
    free: Array,
    prices: Array,
    trial: Array,
    counts: Array,
    now_s: float,
    round_s: float,
    mixed: bool,
    priced: bool,
) -> float:
    """FIND_ALLOC of one job; arguments as in :func:`walk`, ``i`` = row of ``jobs``. Nothing is granted."""
    return find_alloc(jobs, i, rates, nodes, free, prices, trial, counts, now_s, round_s, mixed, priced)


@kernel
def walk(
    jobs: Array,
    rates: Array,
    nodes: Array,
    free: Array,
    prices: Array,
    trial: Array,
    counts: Array,
    now_s: float,
    round_s: float,
    mixed: bool,
    priced: bool,
) -> None:
    """Grant, in order, every job that has nothing yet what FIND_ALLOC finds for it.

    Parameters
    ----------
    jobs : ASKING_DTYPE [Q], best first; ``payoff`` (0 = nothing granted) and ``rate`` are filled
    rates : float64 [C, tiers, T], iterations a second of each job class
    nodes : NODE_DTYPE [N]
    free : int32 [N], GPUs not granted yet; reduced by what is granted
    prices : float64 [N, c + 1], utility per GPU and round by GPUs granted; see hadar_prices
    trial : int32 [N], scratch
    counts : int32 [Q, N], GPUs of each node that each job is granted
    mixed : a gang may sit on several GPU types
    priced : False = GPUs cost nothing (pass 2)
    """
    left = 0
    for node in range(len(nodes)):
        left += free[node]
    for i in range(len(jobs)):
        if left == 0:
            break
        if jobs[i]["payoff"] > 0.0 or jobs[i]["gpus"] > left:
            continue
        payoff = find_alloc(jobs, i, rates, nodes, free, prices, trial, counts, now_s, round_s, mixed, priced)
        jobs[i]["payoff"] = payoff
        if payoff > 0.0:
            left -= jobs[i]["gpus"]
            for node in range(len(nodes)):
                free[node] -= counts[i, node]
