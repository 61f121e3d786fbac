"""The observation arrays ``queue`` and ``running``.

A start or a preemption takes no simulated time and changes few rows, so only what has changed is rewritten.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.core.events import productive_s, seconds_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.settling import beside_company
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.column import COUNT, GPU_TIME, SHARE, TIME, Column, indices
from gpusched_env.envs.observation.registry import ALWAYS, Shown, clear_row, observation_array
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.problem.cluster import MACHINE, SLOT, TIERS

SERVICE_COLUMNS: Final = (  # of queue and running
    Column("attained", "attained service: gang size x productive seconds", GPU_TIME),
    Column("preemptions", "number of times that the job was preempted", COUNT),
    Column("remaining", "seconds left on the ideal placement; 0 unless clairvoyant", TIME),
    Column("remaining_service", "gang size x seconds left; 0 unless clairvoyant", GPU_TIME),
)
GANG_COLUMNS: Final = (  # of running and company
    Column("present", "1 if the slot holds a running job; otherwise the whole row is 0", SHARE),
    Column("gang_of_cluster", "gang size / GPUs of the cluster", SHARE),
    Column("held", "seconds since the gang got its GPUs", TIME),
)
QUEUE_COLUMNS: Final = (
    Column("present", "1 if the slot holds a waiting job; otherwise the whole row is 0", SHARE),
    Column("gang_of_cluster", "gang size / GPUs of the cluster", SHARE),
    Column("gang_of_node", "gang size / GPUs of the largest node, at most 1", SHARE),
    Column("waited", "seconds since the job last held GPUs; since its arrival if it never did", TIME),
    Column("age", "seconds since the job's arrival", TIME),
    *SERVICE_COLUMNS,
    Column("loss_at_rack", "1 - ideal iteration time / iteration time within one rack, at least 0", SHARE),
    Column("loss_at_network", "1 - ideal iteration time / iteration time across racks, at least 0", SHARE),
    Column("skew", "bytes of the largest tensor / bytes of all tensors", SHARE),
    Column("fits", "1 if the job can start now: an enabled placement rule finds a place, or a partner has room", SHARE),
)
QUEUE: Final = indices(QUEUE_COLUMNS)
RUNNING_COLUMNS: Final = (
    *GANG_COLUMNS,
    *SERVICE_COLUMNS,
    Column("tier", "tier of the placement: machine (or a slot of it) 0, rack 1/2, network 1", SHARE),
    Column("loss", "1 - ideal iteration time / iteration time on this placement, at least 0", SHARE),
    Column("checkpointing", "1 while the gang is being checkpointed", SHARE),
    Column("preemptible", "1 if the action that preempts the gang is feasible now", SHARE),
)
RUNNING: Final = indices(RUNNING_COLUMNS)
_TIERS: Final = len(TIERS)


@helper
def observed_tier(tier: int) -> int:
    """Return the tier as observations show it: a slot counts as its machine."""
    return MACHINE if tier == SLOT else tier


@helper
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


@helper
def clear_from(out: Shown, filled: int) -> None:
    """Clear the rows of the slots that have become empty: those from ``filled`` on that still have a key."""
    for k in range(filled, len(out.keys)):
        if out.keys[k] == UNSEEN:
            break
        out.keys[k] = UNSEEN
        clear_row(out.values, k)


@observation_array(
    "queue", QUEUE_COLUMNS, "queue", ALWAYS,
    "one row per queue slot (`queue_window` = K; `queue_order` chooses the jobs)",
)  # fmt: skip
@kernel
def write_queue(sim: Run, env: EnvArrays, out: Shown) -> None:
    """If no time has passed, a slot that still shows the same job needs only its column ``fits``."""
    w = sim.world
    shown = out.values
    filled = env.ranked["queue_slots"]
    same_time = env.changed["same_time"] > 0
    starts = (len(env.rules) + len(env.partners)) * env.config["options"]  # actions of a slot
    for k in range(filled):
        row = env.queue[k]
        fits = 0
        for p in range(k * starts, (k + 1) * starts):
            fits |= env.mask[p]
        shown[k, QUEUE.fits] = fits
        if same_time and row_of_key(out.keys[k]) == row:
            continue
        job = sim.jobs[row]
        shown[k, QUEUE.waited] = scaled_time(w["clock_s"] - job["last_stop_s"])
        never_ran = job["last_stop_s"] == job["arrival_s"]
        shown[k, QUEUE.age] = shown[k, QUEUE.waited] if never_ran else scaled_time(w["clock_s"] - job["arrival_s"])
        key = slot_key(row, job["preemptions"])
        if out.keys[k] == key:  # the job has only waited: nothing else has changed
            continue
        out.keys[k] = key
        kind = env.classes[job["job_class"]]
        left = seconds_left(sim, row) if env.config["clairvoyant"] else 0.0
        shown[k, QUEUE.present] = 1.0
        shown[k, QUEUE.gang_of_cluster] = job["gpus"] / w["gpus"]
        shown[k, QUEUE.gang_of_node] = min(job["gpus"] / w["node_gpus"], 1.0)
        shown[k, QUEUE.attained] = scaled_time(
            (job["earlier_gpu_s"] + (job["service_s"] - job["earlier_s"]) * job["gpus"]) / w["gpus"]
        )
        shown[k, QUEUE.preemptions] = job["preemptions"] / (1.0 + job["preemptions"])
        shown[k, QUEUE.remaining] = scaled_time(left)
        shown[k, QUEUE.remaining_service] = scaled_time(left * job["gpus"] / w["gpus"])
        shown[k, QUEUE.loss_at_rack] = kind["rack_loss"]
        shown[k, QUEUE.loss_at_network] = kind["network_loss"]
        shown[k, QUEUE.skew] = kind["skew"]
    clear_from(out, filled)


@observation_array(
    "running", RUNNING_COLUMNS, "running", ALWAYS,
    "one row per running slot (`running_window` = V; `running_order` chooses the jobs)",
)  # fmt: skip
@kernel
def write_running(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Where gangs do not slow each other down, a decision changes only the row of its job and ``preemptible``."""
    w = sim.world
    shown = out.values
    filled = env.ranked["running_slots"]
    same_time = env.changed["same_time"] > 0
    first_action = env.config["first_preemption"]
    changed = env.changed["job"]
    steady = w["contention"] == 0 and w["sharing"] == 0 and w["changes"] == 0
    for v in range(filled):
        row = env.victims[v]
        shown[v, RUNNING.preemptible] = env.mask[first_action + v]
        if same_time and steady and row_of_key(out.keys[v]) == row and row != changed:
            continue
        job = sim.jobs[row]
        number = job["replica"]
        r = sim.replicas[number]
        left = seconds_left(sim, row) if env.config["clairvoyant"] else 0.0
        shown[v, RUNNING.held] = scaled_time(w["clock_s"] - r["start_s"])
        shown[v, RUNNING.attained] = scaled_time(attained_by(sim, number) / w["gpus"])
        shown[v, RUNNING.remaining] = scaled_time(left)
        shown[v, RUNNING.remaining_service] = scaled_time(left * job["gpus"] / w["gpus"])
        stops = 1 if r["phase"] == CHECKPOINTING else 0
        key = slot_key(row, r["sequence"] * 2 + stops)
        if steady and out.keys[v] == key:  # it kept running or checkpointing: nothing else has changed
            continue
        out.keys[v] = key
        ideal_s = env.classes[job["job_class"]]["ideal_iteration_s"]
        shown[v, RUNNING.present] = 1.0
        shown[v, RUNNING.gang_of_cluster] = job["gpus"] / w["gpus"]
        shown[v, RUNNING.preemptions] = job["preemptions"] / (1.0 + job["preemptions"])
        shown[v, RUNNING.tier] = observed_tier(r["tier"]) / (_TIERS - 1.0)
        shown[v, RUNNING.loss] = max(1.0 - ideal_s / beside_company(sim, number), 0.0)
        shown[v, RUNNING.checkpointing] = stops
    clear_from(out, filled)
