"""When offers are made: at scheduled times, when a timer expires, and as a retry if nothing else is left."""

from __future__ import annotations

from typing import Final

from gpusched_env.baselines.dally.state import NETWORK_TIMER, RACK_TIMER, Delay
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run

MOST_STATISTICS: Final = 1 << 27  # statistics events that are counted


@helper
def offer_at(sim: Run, delay: Delay, time_s: float) -> None:
    """Schedule an offer; an offer at the present time is due at once."""
    if time_s <= sim.world["clock_s"]:
        delay.rules["due"] += 1
    else:
        delay.offers[delay.rules["later"]] = time_s
        delay.rules["later"] += 1


@helper
def take_due(sim: Run, delay: Delay) -> None:
    """Remove the scheduled offers whose time has come from the schedule, and count them as due."""
    r = delay.rules
    kept = 0
    for i in range(r["later"]):
        if delay.offers[i] <= sim.world["clock_s"]:
            r["due"] += 1
        else:
            delay.offers[kept] = delay.offers[i]
            kept += 1
    r["later"] = kept
    if r["exact"]:
        r["due"] = 1


@helper
def next_expiry(sim: Run, delay: Delay, at_s: float) -> float:
    """Return the time at which the next timer of a waiting job expires, or ``at_s`` if this is earlier [s]."""
    now_s = sim.world["clock_s"]
    r = delay.rules
    for i in range(r["queued"]):
        task = delay.tasks[delay.queue[i]]
        gang = task["gpus"]
        rack_s = delay.waits_s[gang, RACK_TIMER]
        network_s = delay.waits_s[gang, NETWORK_TIMER]
        if gang <= r["machine_gpus"] and now_s < task["last_s"] + rack_s < at_s:
            at_s = task["last_s"] + rack_s
        if gang <= r["rack_gpus"] and now_s < task["last_s"] + network_s < at_s:
            at_s = task["last_s"] + network_s
    return at_s


@kernel
def idle_retry(sim: Run, delay: Delay) -> float:
    """Return the time of an offer if no other event is left [s]; after statistics events with quirk Q4."""
    r = delay.rules
    now_s = sim.world["clock_s"]
    retry_s = now_s
    if r["statistics"]:
        every_s = 0.1 * r["lease_s"]
        retry_s = delay.tasks[0]["arrival_s"] + 1.0
        # added up one by one as in the authors' code, so that times agree to the last bit
        for _ in range(MOST_STATISTICS):
            if retry_s > now_s or retry_s + every_s == retry_s:
                break
            retry_s += every_s
        retry_s = max(retry_s, now_s)  # of leases so short that they are not counted to the end
        r["statistics"] = 0
    return retry_s + r["idle_retry_s"]


@kernel
def next_wake(sim: Run, delay: Delay) -> float:
    """Return the time of the next offer, timer expiry or tuning [s]; inf = never."""
    r = delay.rules
    if r["exact"]:
        return next_expiry(sim, delay, r["next_tune_s"])
    if r["later"] == 0 and r["held"] == 0 and r["queued"] > 0 and sim.world["entered"] == sim.world["jobs"]:
        offer_at(sim, delay, idle_retry(sim, delay))
    at_s = r["next_tune_s"]
    for i in range(r["later"]):
        at_s = min(at_s, delay.offers[i])
    return at_s
