"""Strict priority by Crux's rule (Cao et al., SIGCOMM 2024, section 4), gang by gang in NumPy: every cut is tried.

Ours, docs/network.md: FLOPs are GPUs x compute time, a lower level gets what is left in the mean over time, ten orders
drawn by hash; the gang that sends most, equal keys and equal cuts go to the lower job and the earlier block.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from max_min_reference import max_min_rates

from gpusched_env.network.ecmp import path_hash

Array = np.ndarray[Any, Any]


def rounded(value: float) -> float:
    """Ten decimal digits: sums in another order tie. That keys are rounded is our choice, not the paper's."""
    return float(f"{value:.9e}")


def lost(gang: Any, duty: float) -> float:
    """What a gang loses behind another one with this duty [iterations/s]."""
    left = 1.0 - duty
    return 1.0 / gang.iteration_s() - 1.0 / gang.iteration_s(1.0 / left if left > 1e-9 else np.inf)


def priorities(gangs: list[Any]) -> tuple[Array, Array]:
    """Priority and intensity of gangs, which are sorted by job."""
    transfer = np.array([gang.wire_bytes / gang.solo_Bps for gang in gangs])
    compute = np.array([gang.compute_s * len(gang.gpus) for gang in gangs])
    intensity = compute / transfer
    most = int(np.argmax([rounded(gang.wire_bytes * len(gang.gpus)) for gang in gangs]))
    duty = [gang.duty for gang in gangs]
    keys = intensity.copy()
    for i, gang in enumerate(gangs):
        if i != most and intensity[i] > 0:
            own, other = transfer[i] * lost(gang, duty[most]), transfer[most] * lost(gangs[most], duty[i])
            keys[i] *= own / other if other > 0 else np.inf if own > 0 else 1.0
    return np.array([rounded(key) for key in keys]), intensity


def levels_of(gangs: list[Any], linked: Array, levels: int, seed: int) -> Array:
    """Level of each gang, 0 = first; ``linked`` [F, F] says which share links."""
    keys, intensity = priorities(gangs)
    ranks = np.unique(-keys, return_inverse=True)[1]
    if ranks.max() < levels:
        return ranks
    by_key = np.argsort(-keys, kind="stable")
    edges = np.where(linked & (keys[:, None] > keys), intensity[:, None], 0.0)  # from the first to the second
    before = linked & (keys[:, None] > keys)
    best, found = np.inf, ranks
    for number in range(10):
        drawn = {i: path_hash(seed, gang.job, gang.start, number) for i, gang in enumerate(gangs)}
        order: list[int] = []
        while len(order) < len(gangs):
            left = [i for i in by_key.tolist() if i not in order]
            order.append(min((i for i in left if not before[left, i].any()), key=lambda i: drawn[i]))
        placed = edges[np.ix_(order, order)]
        for begins in itertools.combinations_with_replacement(range(len(gangs)), levels - 1):
            ends = [0, *begins, len(gangs)]
            cost = rounded(sum(placed[a:b, a:b].sum() for a, b in itertools.pairwise(ends)))
            if cost < best:
                best, found = cost, np.empty(len(gangs), int)
                for level, (a, b) in enumerate(itertools.pairwise(ends)):
                    found[order[a:b]] = level
    return found


def part_time(gangs: list[Any], uses: Array, left: Array, rates: Array, rule: Any) -> Array:
    """Rates of the gangs of a level that contend for a part of their time only."""
    if rule.duty == "always":
        return rates
    full = np.abs(rates @ uses - left) <= 1e-9 * left
    found = rates.copy()
    for i, gang in enumerate(gangs):
        crossed = uses[i] > 0
        alone = min(gang.solo_Bps, (left[crossed] / uses[i][crossed]).min())
        if 0 < rates[i] < gang.solo_Bps * (1 - 1e-12):
            part = rule.xi1
            if rule.duty == "solo":
                there = [uses[:, link] > 0 for link in np.flatnonzero(full & crossed)]
                lowest = next(on for on in there if rates[i] >= rates[on].max() * (1 - 1e-9))
                duties = [g.duty for g in np.array(gangs)[lowest] if g is not gang]
                part = np.mean(duties) if duties else 1.0
            found[i] = alone / (1 + part * (alone / rates[i] - 1))
    return found


def strict_rates(gangs: list[Any], capacity: Array, rule: Any) -> Array:
    """Rate of each gang's ring [byte/s]."""
    rates = np.array([gang.solo_Bps for gang in gangs])
    weights = np.zeros((len(gangs), len(capacity)))
    for row, gang in zip(weights, gangs, strict=True):
        row[list(gang.use)] = list(gang.use.values())
    shared = (weights > 0).sum(axis=0) > 1
    those = [i for i in np.argsort([gang.job for gang in gangs]).tolist() if (weights[i] > 0)[shared].any()]
    if not those:
        return rates
    some, uses = [gangs[i] for i in those], weights[those]
    level = levels_of(some, (uses > 0) @ (uses > 0).T.astype(int) > 0, rule.levels, rule.path_seed)
    left = capacity.copy()
    for number in range(rule.levels):
        now = np.flatnonzero(level == number)
        found = max_min_rates(left, uses[now], rates[[those[i] for i in now]])
        found = part_time([some[i] for i in now], uses[now], left, found, rule)
        for i, rate in zip(now.tolist(), found.tolist(), strict=True):
            gang = some[i]
            rates[those[i]] = rate
            mean = gang.wire_bytes / gang.iteration_s(gang.solo_Bps / rate) if rate > 0 else 0.0
            left = left - mean * uses[i]
        left = np.where(left > 1e-9 * capacity, left, 0.0)
    return rates
