"""Kernels that write the observation arrays of scenarios in which jobs may share GPUs."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import work_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.beside import room_beside
from gpusched_env.core.placement.taking import FREE
from gpusched_env.core.sharing.partners import alone_s, tightest_tier
from gpusched_env.core.sharing.seats import slowdown_by_company
from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.envs.sharing_actions import open_gpus, place_beside

Array = np.ndarray


@helper
def several_on(sim: Run, gpu: int) -> bool:
    """Return whether several gangs hold a GPU. Lower seats are taken first, so the second seat decides."""
    return sim.world["gpu_jobs"] > 1 and sim.holder[gpu + sim.world["gpus"]] != FREE


@kernel
def type_of(sim: Run, number: int) -> int:
    """GPU type of the first GPU of a running gang."""
    return sim.nodes[sim.gpu_node[sim.replicas[number]["first_gpu"] % sim.world["gpus"]]]["gpu_type"]


@helper
def alone_left_s(sim: Run, row: int) -> float:
    """Remaining time of a running job if it had its GPUs alone: L of Theorem 1 [s]."""
    return work_left(sim, row) * sim.replicas[sim.jobs[row]["replica"]]["solo_s"]


@kernel
def write_sub_batches(sim: Run, env: EnvArrays, sizes: int) -> None:
    """Write the rows of SUB_BATCHES, on the GPU type on which the job needs the least memory."""
    for k in range(len(env.queue)):
        row = env.queue[k]
        for size in range(sizes):
            at = k * sizes + size
            env.out_sub_batches[at, 0] = 0.0
            env.out_sub_batches[at, 1] = 0.0
            if row < 0 or size >= sim.sub_batches.shape[1]:
                continue
            kind = sim.jobs[row]["job_class"]
            if sim.sub_batches[kind, size, 0]["sub_steps"] == 0:
                continue
            tier = tightest_tier(sim, sim.jobs[row]["gpus"])
            best = -1
            for gpu_type in range(sim.world["types"]):
                if np.isfinite(sim.paces[kind, tier, gpu_type]["iteration_s"]) and (
                    best < 0
                    or sim.sub_batches[kind, size, gpu_type]["memory"] < sim.sub_batches[kind, size, best]["memory"]
                ):
                    best = gpu_type
            if best >= 0:
                env.out_sub_batches[at, 0] = min(sim.sub_batches[kind, size, best]["memory"], 1.0)
                whole_s = alone_s(sim, kind, 0, tier, best)
                env.out_sub_batches[at, 1] = min(whole_s / alone_s(sim, kind, size, tier, best), 1.0)


@helper
def write_company(sim: Run, clairvoyant: int, slots: Array, out: Array) -> None:
    """Write the rows of COMPANY for the running jobs in ``slots``."""
    w = sim.world
    for i in range(len(slots)):
        row = slots[i]
        for c in range(out.shape[1]):
            out[i, c] = 0.0
        if row < 0:
            continue
        job = sim.jobs[row]
        number = job["replica"]
        r = sim.replicas[number]
        size = sim.sub_batches[job["job_class"], r["sub_batch"], type_of(sim, number)]
        shared = 0
        seat = r["first_gpu"]
        while seat >= 0:
            if several_on(sim, seat % w["gpus"]):
                shared += 1
            seat = sim.gpu_next[seat]
        xi = slowdown_by_company(sim, number)
        out[i, 0] = 1.0
        out[i, 1] = job["gpus"] / w["gpus"]
        out[i, 2] = scaled_time(w["clock_s"] - r["start_s"])
        if clairvoyant:
            out[i, 3] = scaled_time(alone_left_s(sim, row))
        out[i, 4] = min(size["memory"], 1.0)
        out[i, 5] = 1.0 - 1.0 / size["sub_steps"]
        out[i, 6] = open_gpus(sim, number) / r["gpus"]
        out[i, 7] = shared / r["gpus"]
        out[i, 8] = 1.0 - 1.0 / xi


@kernel
def write_pair(sim: Run, env: EnvArrays, slot: int, place: int, at: int) -> None:
    """Write row ``at`` of PAIRS, for the jobs in a queue slot and in a partner slot."""
    row, partner = env.queue[slot], env.partners[place]
    sizes = max(env.config["sub_batches"], 1)
    first = slot * (len(env.rules) + len(env.partners)) * sizes + (len(env.rules) + place) * sizes
    size = 0
    while size < sizes and env.mask[first + size] == 0:
        size += 1
    joins = size < sizes
    number = sim.jobs[partner]["replica"]
    kind = sim.jobs[row]["job_class"]
    beside = sim.jobs[partner]["job_class"]
    gpu_type = type_of(sim, number)
    xi_running = sim.interference[beside, kind, gpu_type]
    xi_waiting = sim.interference[kind, beside, gpu_type]
    env.out_pairs[at, 0] = 1.0 if joins else 0.0
    env.out_pairs[at, 2] = 1.0 - 1.0 / xi_running  # 1 if xi is infinite
    env.out_pairs[at, 3] = 1.0 - 1.0 / xi_waiting
    if not joins:
        return
    option = size
    if env.config["sub_batches"] == 0:  # the largest sub-batch for which there is a place
        option = 0
        while sim.sub_batches[kind, option, 0]["sub_steps"] == 0 or not place_beside(sim, row, number, option):
            option += 1
    room = room_beside(sim, kind, option, number)
    env.out_pairs[at, 1] = min(room / sim.jobs[row]["gpus"], 1.0)
    if env.config["pair_benefit"] > 0 and env.config["clairvoyant"] > 0:
        tier = tightest_tier(sim, sim.jobs[row]["gpus"])
        remaining = sim.jobs[row]["remaining"]
        left_s = alone_left_s(sim, partner)
        whole_s = remaining * alone_s(sim, kind, 0, tier, gpu_type)
        new_s = remaining * alone_s(sim, kind, option, tier, gpu_type)
        sequence_s = mean_in_sequence(left_s, whole_s)
        env.out_pairs[at, 4] = sequence_s / (sequence_s + mean_sharing(left_s, new_s, xi_running, xi_waiting))


@kernel
def write_seats(sim: Run, env: EnvArrays) -> None:
    """Write SEATS."""
    w = sim.world
    single = 0
    several = 0
    for gpu in range(w["gpus"]):
        if several_on(sim, gpu):
            several += 1
        elif sim.holder[gpu] != FREE:
            single += 1
    loss = 0.0
    for i in range(w["running"]):
        loss += 1.0 - 1.0 / slowdown_by_company(sim, sim.running[i])
    env.out_seats[0] = single / w["gpus"]
    env.out_seats[1] = several / w["gpus"]
    env.out_seats[2] = loss / w["running"] if w["running"] > 0 else 0.0


@kernel(lazy=True)
def write_sharing(sim: Run, env: EnvArrays) -> None:
    """Write all arrays of sharing_columns.SHARING_TABLES."""
    write_sub_batches(sim, env, max(env.config["sub_batches"], 1))
    write_company(sim, env.config["clairvoyant"], env.victims, env.out_company)
    write_company(sim, env.config["clairvoyant"], env.partners, env.out_partners)
    write_seats(sim, env)
    for k in range(len(env.queue)):
        for i in range(len(env.partners)):
            at = k * len(env.partners) + i
            for c in range(env.out_pairs.shape[1]):
                env.out_pairs[at, c] = 0.0
            if env.queue[k] >= 0 and env.partners[i] >= 0:
                write_pair(sim, env, k, i, at)
