"""The auto-tuner of the authors' simulator, which computes timers from the mean and the spread of recent waits.

Gang sizes that share a history of waits form a demand class.
"""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.dally.state import MACHINE_WAITS, NETWORK_TIMER, RACK_TIMER, RACK_WAITS, Delay
from gpusched_env.core.handle import kernel


@kernel
def statistic(delay: Delay, demand: int, which: int) -> float:
    """Return the statistic of a history [leases]; ``empty_value`` if the history is empty or all its waits are 0."""
    count = delay.counts[demand, which]
    total = 0.0
    for i in range(count):
        total += delay.samples[demand, which, i]["wait"]
    if total == 0.0:
        return delay.rules["empty_value"]
    mean = total / count
    squares = 0.0
    for i in range(count):
        away = delay.samples[demand, which, i]["wait"] - mean
        squares += away * away
    return mean + delay.rules["k_sigma"] * np.sqrt(squares / count)


@kernel
def retune(delay: Delay, demand: int) -> None:
    """Set the timers of a demand class from its histories."""
    r = delay.rules
    machine = statistic(delay, demand, MACHINE_WAITS)
    rack = statistic(delay, demand, RACK_WAITS)
    for_rack = r["lease_s"] * min(np.ceil(r["cap_rack"] * r["hist"]), max(r["floor_rack"], np.ceil(machine)))
    for_network = r["lease_s"] * min(r["hist"], max(r["floor_nw"], np.ceil(rack)))
    for gang in range(delay.demands.shape[0]):
        if delay.demands[gang] == demand:
            rack_s = for_rack * delay.factors[gang, RACK_TIMER]
            network_s = for_network * delay.factors[gang, NETWORK_TIMER]
            if delay.waits_s[gang, RACK_TIMER] != rack_s or delay.waits_s[gang, NETWORK_TIMER] != network_s:
                r["retuned"] = 1
            delay.waits_s[gang, RACK_TIMER] = rack_s
            delay.waits_s[gang, NETWORK_TIMER] = network_s


@kernel
def forget(delay: Delay, demand: int, which: int, now_s: float) -> None:
    """Drop expired samples; with quirk Q5 the sample after each dropped one is kept without a test."""
    oldest_s = now_s - delay.rules["lease_s"] * delay.rules["hist"]
    count = delay.counts[demand, which]
    kept = 0
    passed = False
    for i in range(count):
        sample = delay.samples[demand, which, i]
        if sample["time_s"] < oldest_s and not passed:
            passed = delay.rules["prune"] == 1
        else:
            passed = False
            delay.samples[demand, which, kept]["time_s"] = sample["time_s"]
            delay.samples[demand, which, kept]["wait"] = sample["wait"]
            kept += 1
    delay.counts[demand, which] = kept


@kernel
def record(delay: Delay, demand: int, which: int, now_s: float, wait_s: float) -> None:
    """Record a wait that has ended, if it was long enough; then set the timers again if they are tuned."""
    wait = wait_s / delay.rules["lease_s"]
    if wait < delay.rules["min_sample"]:
        return
    sample = delay.samples[demand, which, delay.counts[demand, which]]
    sample["time_s"] = now_s
    sample["wait"] = wait
    delay.counts[demand, which] += 1
    forget(delay, demand, which, now_s)
    if delay.rules["tuned"]:
        retune(delay, demand)


@kernel
def tune_all(delay: Delay) -> None:
    """Set the timers of all demand classes from their histories."""
    for demand in range(delay.counts.shape[0]):
        retune(delay, demand)
    delay.rules["retuned"] = 0
