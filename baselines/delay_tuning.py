"""The hand auto-tuner of the authors' simulator: timers from the mean and spread of recent waits of the same demand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.baselines.delay_state import (
    MACHINE_WAITS,
    NETWORK_TIMER,
    RACK_TIMER,
    RACK_WAITS,
)
from gpusched_env.simulator.jit import helper, kernel

Array = np.ndarray[Any, Any]

MEAN_SIGMA, MEAN, P95, MAX = range(4)
P95_SHARE: Final = 0.95


@helper
def statistic(rules: Array, samples: Array, counts: Array, b: int, demand: int, which: int) -> float:
    """Condense a history [leases]; the value of an empty one, or one of zeros only, is a rule."""
    count = counts[b, demand, which]
    total = 0.0
    largest = 0.0
    for i in range(count):
        total += samples[b, demand, which, i]["wait"]
        largest = max(largest, samples[b, demand, which, i]["wait"])
    if total == 0.0:
        return rules[b]["empty_value"]
    if rules[b]["stat"] == MAX:
        return largest
    if rules[b]["stat"] == P95:  # nearest rank: the smallest sample that 95 % do not exceed
        best = largest
        for i in range(count):
            value = samples[b, demand, which, i]["wait"]
            below = 0
            for k in range(count):
                if samples[b, demand, which, k]["wait"] <= value:
                    below += 1
            if below >= P95_SHARE * count and value < best:
                best = value
        return best
    mean = total / count
    if rules[b]["stat"] == MEAN:
        return mean
    squares = 0.0
    for i in range(count):
        away = samples[b, demand, which, i]["wait"] - mean
        squares += away * away
    return mean + rules[b]["k_sigma"] * np.sqrt(squares / count)


@helper
def retune(
    rules: Array, samples: Array, counts: Array, demands: Array, waits_s: Array, factors: Array, b: int, demand: int,
) -> None:
    """Set the timers of a demand class by its histories."""
    r = rules[b]
    machine = statistic(rules, samples, counts, b, demand, MACHINE_WAITS)
    rack = statistic(rules, samples, counts, b, demand, RACK_WAITS)
    for_rack = r["lease_s"] * min(np.ceil(r["cap_rack"] * r["hist"]), max(r["floor_rack"], np.ceil(machine)))
    for_network = r["lease_s"] * min(r["hist"], max(r["floor_nw"], np.ceil(rack)))
    for gang in range(demands.shape[1]):
        if demands[b, gang] == demand:
            rack_s = for_rack * factors[b, gang, RACK_TIMER]
            network_s = for_network * factors[b, gang, NETWORK_TIMER]
            if waits_s[b, gang, RACK_TIMER] != rack_s or waits_s[b, gang, NETWORK_TIMER] != network_s:
                r["retuned"] = 1
            waits_s[b, gang, RACK_TIMER] = rack_s
            waits_s[b, gang, NETWORK_TIMER] = network_s


@helper
def forget(rules: Array, samples: Array, counts: Array, b: int, demand: int, which: int, now_s: float) -> None:
    """Drop expired samples; with quirk Q5 the one behind each dropped sample is passed over."""
    oldest_s = now_s - rules[b]["lease_s"] * rules[b]["hist"]
    count = counts[b, demand, which]
    kept = 0
    passed = False
    for i in range(count):
        sample = samples[b, demand, which, i]
        if sample["time_s"] < oldest_s and not passed:
            passed = rules[b]["prune"] == 1
        else:
            passed = False
            samples[b, demand, which, kept]["time_s"] = sample["time_s"]
            samples[b, demand, which, kept]["wait"] = sample["wait"]
            kept += 1
    counts[b, demand, which] = kept


@helper
def record(
    rules: Array, samples: Array, counts: Array, demands: Array, waits_s: Array, factors: Array, b: int, demand: int,
    which: int, now_s: float, wait_s: float,
) -> None:
    """Remember a wait that has ended, if it was long enough, and tune the timers if they follow from the histories."""
    wait = wait_s / rules[b]["lease_s"]
    if wait < rules[b]["min_sample"]:
        return
    sample = samples[b, demand, which, counts[b, demand, which]]
    sample["time_s"] = now_s
    sample["wait"] = wait
    counts[b, demand, which] += 1
    forget(rules, samples, counts, b, demand, which, now_s)
    if rules[b]["tuned"]:
        retune(rules, samples, counts, demands, waits_s, factors, b, demand)


@kernel
def tune_all(
    rules: Array, samples: Array, counts: Array, demands: Array, waits_s: Array, factors: Array, b: int,
) -> None:
    """Set the timers of all demand classes by their histories."""
    for demand in range(counts.shape[1]):
        retune(rules, samples, counts, demands, waits_s, factors, b, demand)
    rules[b]["retuned"] = 0
