"""Kernels that write the observation arrays ``queue`` and ``running``.

A start or a preemption takes no simulated time and changes few rows, so only what has changed is rewritten.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.cluster import TIERS
from gpusched_env.core.events import productive_s, seconds_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.settling import beside_company
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.network import observed_tier
from gpusched_env.envs.observation.time_scale import scaled_time

_TIERS: Final = len(TIERS)


@kernel
def attained_by(sim: Run, number: int) -> float:
    """Attained service of a running gang's job at the current time, as in :func:`events.attained_service` [GPU s]."""
    r = sim.replicas[number]
    service_s = r["service_s"] + productive_s(sim, number)
    if sim.world["elastic"]:  # a call of attained_service would cost every environment some of its speed
        job = sim.jobs[r["job"]]
        return job["earlier_gpu_s"] + (service_s - job["earlier_s"]) * r["gang"]
    return service_s * r["gang"]


@helper
def slot_key(row: int, times: int) -> int:
    """Return a key of what a slot shows, which changes with any column that does not depend on time alone.

    ``times`` is the number of preemptions of a waiting job; of a running gang, 2 x number of its start, plus 1 while it
    is being checkpointed.
    """
    return int(times) << 31 | int(row)  # both 32 bits wide in plain Python


@helper
def row_of_key(key: int) -> int:
    """Row of the job in a slot's key; of an empty slot, a number that no job has."""
    return key & 0x7FFFFFFF


@kernel
def write_queue(sim: Run, env: EnvArrays, filled: int, same_time: bool) -> None:
    """Write the rows of columns.QUEUE.

    ``same_time`` = no time has passed. A slot that still shows the same job then needs only its column ``fits``.
    """
    w = sim.world
    out = env.out_queue
    starts = (len(env.rules) + len(env.partners)) * env.config["options"]  # actions of a slot
    for k in range(filled):
        row = env.queue[k]
        fits = 0
        for p in range(k * starts, (k + 1) * starts):
            fits |= env.mask[p]
        out[k, 12] = fits
        if same_time and row_of_key(env.seen_queue[k]) == row:
            continue
        job = sim.jobs[row]
        out[k, 3] = scaled_time(w["clock_s"] - job["last_stop_s"])
        never_ran = job["last_stop_s"] == job["arrival_s"]
        out[k, 4] = out[k, 3] if never_ran else scaled_time(w["clock_s"] - job["arrival_s"])
        key = slot_key(row, job["preemptions"])
        if env.seen_queue[k] == key:  # the job has only waited: nothing else has changed
            continue
        env.seen_queue[k] = key
        kind = env.classes[job["job_class"]]
        left = seconds_left(sim, row) if env.config["clairvoyant"] else 0.0
        out[k, 0] = 1.0
        out[k, 1] = job["gpus"] / w["gpus"]
        out[k, 2] = min(job["gpus"] / w["node_gpus"], 1.0)
        out[k, 5] = scaled_time(
            (job["earlier_gpu_s"] + (job["service_s"] - job["earlier_s"]) * job["gpus"]) / w["gpus"]
        )
        out[k, 6] = job["preemptions"] / (1.0 + job["preemptions"])
        out[k, 7] = scaled_time(left)
        out[k, 8] = scaled_time(left * job["gpus"] / w["gpus"])
        out[k, 9] = kind["rack_loss"]
        out[k, 10] = kind["network_loss"]
        out[k, 11] = kind["skew"]
    for k in range(filled, env.seen["queue"]):
        env.seen_queue[k] = UNSEEN
        for c in range(out.shape[1]):
            out[k, c] = 0.0
    env.seen["queue"] = filled


@kernel
def write_running(sim: Run, env: EnvArrays, filled: int, same_time: bool, changed: int) -> None:
    """Write the rows of columns.RUNNING; ``same_time`` as for :func:`write_queue`.

    Where gangs do not slow each other down, a decision changes only the row of its own job, ``changed``, and the
    column ``preemptible``.
    """
    w = sim.world
    out = env.out_running
    first_action = len(env.mask) - 1 - len(env.delays) - len(env.victims)
    steady = w["contention"] == 0 and w["sharing"] == 0 and w["changes"] == 0
    for v in range(filled):
        row = env.victims[v]
        out[v, 10] = env.mask[first_action + v]
        if same_time and steady and row_of_key(env.seen_running[v]) == row and row != changed:
            continue
        job = sim.jobs[row]
        number = job["replica"]
        r = sim.replicas[number]
        left = seconds_left(sim, row) if env.config["clairvoyant"] else 0.0
        out[v, 2] = scaled_time(w["clock_s"] - r["start_s"])
        out[v, 3] = scaled_time(attained_by(sim, number) / w["gpus"])
        out[v, 5] = scaled_time(left)
        out[v, 6] = scaled_time(left * job["gpus"] / w["gpus"])
        stops = 1 if r["phase"] == CHECKPOINTING else 0
        key = slot_key(row, r["sequence"] * 2 + stops)
        if steady and env.seen_running[v] == key:  # it kept running or checkpointing: nothing else has changed
            continue
        env.seen_running[v] = key
        ideal_s = env.classes[job["job_class"]]["ideal_iteration_s"]
        out[v, 0] = 1.0
        out[v, 1] = job["gpus"] / w["gpus"]
        out[v, 4] = job["preemptions"] / (1.0 + job["preemptions"])
        out[v, 7] = observed_tier(r["tier"]) / (_TIERS - 1.0)
        out[v, 8] = max(1.0 - ideal_s / beside_company(sim, number), 0.0)
        out[v, 9] = stops
    for v in range(filled, env.seen["running"]):
        env.seen_running[v] = UNSEEN
        for c in range(out.shape[1]):
            out[v, c] = 0.0
    env.seen["running"] = filled
