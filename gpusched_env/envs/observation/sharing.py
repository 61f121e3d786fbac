"""The observation arrays of scenarios in which jobs may share GPUs."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.events import work_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.beside import room_beside
from gpusched_env.core.sharing.partners import alone_s, tightest_tier
from gpusched_env.core.sharing.seats import slowdown_by_company
from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import COUNT, SHARE, TIME, Column, indices
from gpusched_env.envs.observation.jobs import GANG_COLUMNS
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.envs.sharing_actions import open_gpus, place_beside

_XI: Final = "1 - 1/xi; 1 = the two must not share"
SUB_BATCHES_COLUMNS: Final = (
    Column("memory", "fraction of a GPU's memory that the job needs at this sub-batch, at most 1", SHARE),
    Column("speed", "iteration time alone at the whole batch / at this sub-batch; 0 = no such sub-batch", SHARE),
)
SUB_BATCHES: Final = indices(SUB_BATCHES_COLUMNS)
COMPANY_COLUMNS: Final = (
    *GANG_COLUMNS,
    Column("left", "seconds left if the gang had its GPUs alone (L of Theorem 1); 0 unless clairvoyant", TIME),
    Column("memory", "fraction of a GPU's memory that the gang uses, at most 1", SHARE),
    Column("sub_steps", "gradient-accumulation sub-steps beyond the first", COUNT),
    Column("open", "its GPUs that hold fewer jobs than may share a GPU (memory is not checked) / its GPUs", SHARE),
    Column("shared", "its GPUs that other jobs hold too / its GPUs", SHARE),
    Column("slowdown", "1 - 1/xi, where xi is the slowdown by sharing on its slowest GPU", SHARE),
)
COMPANY: Final = indices(COMPANY_COLUMNS)
PAIRS_COLUMNS: Final = (
    Column("joins", "1 if the waiting job can start beside the running job now, otherwise 0", SHARE),
    Column(
        "offers",
        "GPUs of the running gang with room for the waiting job, at its largest feasible sub-batch / its gang size",
        "at most 1",
    ),
    Column("slows_running", "xi of the running job beside the waiting job", _XI),
    Column("slows_waiting", "xi of the waiting job beside the running job", _XI),
    Column(
        "benefit",
        "T_seq / (T_seq + T_con) of the pair at that sub-batch: above 1/2 if sharing lowers its mean JCT (Theorem 1 "
        "of SJF-BSBF); 0 if the job cannot join, if not clairvoyant, or without `pair_benefit`",
        SHARE,
    ),
)
PAIRS: Final = indices(PAIRS_COLUMNS)
SEATS_COLUMNS: Final = (
    Column("one_job", "GPUs that exactly one job holds / GPUs of the cluster", SHARE),
    Column("shared", "GPUs that several jobs hold / GPUs of the cluster", SHARE),
    Column("slowdown", "mean over the running gangs of (1 - 1/xi), where xi is the gang's slowdown by sharing", SHARE),
)
SEATS: Final = indices(SEATS_COLUMNS)
SHARED: Final = Group(
    "### Where jobs may share GPUs",
    """
    S is at least 1: without `sub_batches`, only the whole batch is shown. xi is the slowdown of sharing:
    iteration time beside the other job / iteration time alone, on the GPU type of the running gang's first GPU.
    """,
    "sharing",
)


@helper
def several_on(sim: Run, gpu: int) -> bool:
    """Return whether several gangs hold a GPU. Lower seats are taken first, so the second seat decides."""
    return sim.world["gpu_jobs"] > 1 and sim.holder[gpu + sim.world["gpus"]] >= 0


@kernel
def type_of(sim: Run, number: int) -> int:
    """GPU type of the first GPU of a running gang."""
    return sim.nodes[sim.gpu_node[sim.replicas[number]["first_gpu"] % sim.world["gpus"]]]["gpu_type"]


@helper
def alone_left_s(sim: Run, row: int) -> float:
    """Remaining time of a running job if it had its GPUs alone: L of Theorem 1 [s]."""
    return work_left(sim, row) * sim.replicas[sim.jobs[row]["replica"]]["solo_s"]


@observation_array(
    "sub_batches", SUB_BATCHES_COLUMNS, ("queue", "sub_batches"), SHARED,
    "one row per queue slot and sub-batch: row k S + s",
)  # fmt: skip
@kernel
def write_sub_batches(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Describe each sub-batch on the GPU type on which the job needs the least memory."""
    sizes = max(env.config["sub_batches"], 1)
    for k in range(len(env.queue)):
        row = env.queue[k]
        for size in range(sizes):
            at = k * sizes + size
            out.values[at, SUB_BATCHES.memory] = 0.0
            out.values[at, SUB_BATCHES.speed] = 0.0
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
                out.values[at, SUB_BATCHES.memory] = min(sim.sub_batches[kind, size, best]["memory"], 1.0)
                whole_s = alone_s(sim, kind, 0, tier, best)
                out.values[at, SUB_BATCHES.speed] = min(whole_s / alone_s(sim, kind, size, tier, best), 1.0)


@observation_array("partners", COMPANY_COLUMNS, "partners", SHARED, "one row per partner slot")
@observation_array("company", COMPANY_COLUMNS, "running", SHARED, "one row per running slot")
@kernel
def write_company(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all slots."""
    shown = out.values
    w = sim.world
    for i in range(len(out.slots)):
        row = out.slots[i]
        clear_row(shown, i)
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
        shown[i, COMPANY.present] = 1.0
        shown[i, COMPANY.gang_of_cluster] = job["gpus"] / w["gpus"]
        shown[i, COMPANY.held] = scaled_time(w["clock_s"] - r["start_s"])
        if env.config["clairvoyant"] > 0:
            shown[i, COMPANY.left] = scaled_time(alone_left_s(sim, row))
        shown[i, COMPANY.memory] = min(size["memory"], 1.0)
        shown[i, COMPANY.sub_steps] = 1.0 - 1.0 / size["sub_steps"]
        shown[i, COMPANY.open] = open_gpus(sim, number) / r["gpus"]
        shown[i, COMPANY.shared] = shared / r["gpus"]
        shown[i, COMPANY.slowdown] = 1.0 - 1.0 / xi


@kernel
def write_pair(sim: Run, env: EnvArrays, out: Shown, slot: int, place: int, at: int) -> None:
    """Describe in row ``at`` the jobs in a queue slot and in a partner slot."""
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
    out.values[at, PAIRS.joins] = 1.0 if joins else 0.0
    out.values[at, PAIRS.slows_running] = 1.0 - 1.0 / xi_running  # 1 if xi is infinite
    out.values[at, PAIRS.slows_waiting] = 1.0 - 1.0 / xi_waiting
    if not joins:
        return
    option = size
    if env.config["sub_batches"] == 0:  # the largest sub-batch for which there is a place
        option = 0
        while sim.sub_batches[kind, option, 0]["sub_steps"] == 0 or not place_beside(sim, row, number, option):
            option += 1
    room = room_beside(sim, kind, option, number)
    out.values[at, PAIRS.offers] = min(room / sim.jobs[row]["gpus"], 1.0)
    if env.config["pair_benefit"] > 0 and env.config["clairvoyant"] > 0:
        tier = tightest_tier(sim, sim.jobs[row]["gpus"])
        remaining = sim.jobs[row]["remaining"]
        left_s = alone_left_s(sim, partner)
        whole_s = remaining * alone_s(sim, kind, 0, tier, gpu_type)
        new_s = remaining * alone_s(sim, kind, option, tier, gpu_type)
        sequence_s = mean_in_sequence(left_s, whole_s)
        out.values[at, PAIRS.benefit] = sequence_s / (sequence_s + mean_sharing(left_s, new_s, xi_running, xi_waiting))


@observation_array(
    "pairs", PAIRS_COLUMNS, ("queue", "partners"), SHARED, "one row per queue slot and partner slot: row k C + i"
)
@kernel
def write_pairs(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Describe each pair of a waiting job and a partner."""
    for k in range(len(env.queue)):
        for i in range(len(env.partners)):
            at = k * len(env.partners) + i
            clear_row(out.values, at)
            if env.queue[k] >= 0 and env.partners[i] >= 0:
                write_pair(sim, env, out, k, i, at)


@observation_array("seats", SEATS_COLUMNS, (), SHARED)
@kernel
def write_seats(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Describe the seats of the whole cluster."""
    w = sim.world
    single = 0
    several = 0
    for gpu in range(w["gpus"]):
        if several_on(sim, gpu):
            several += 1
        elif sim.holder[gpu] >= 0:
            single += 1
    loss = 0.0
    for i in range(w["running"]):
        loss += 1.0 - 1.0 / slowdown_by_company(sim, sim.running[i])
    out.values[0, SEATS.one_job] = single / w["gpus"]
    out.values[0, SEATS.shared] = several / w["gpus"]
    out.values[0, SEATS.slowdown] = loss / w["running"] if w["running"] > 0 else 0.0
