"""The observation array ``groups``: how the parallel groups of gangs that train LLMs cross machines and racks."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.flows import machine_of
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.column import SHARE, Column, indices
from gpusched_env.envs.observation.jobs import slot_key
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array

Array = np.ndarray
_NEXT: Final = "GPUs whose next peer in their {} group is {} / GPUs of the gang"
GROUPS_COLUMNS: Final = tuple(
    Column(f"{group[0]}p_{tier}", _NEXT.format(f"{group}-parallel", where), SHARE)
    for group in ("tensor", "expert", "data", "pipeline")
    for tier, where in (("machine", "on another machine"), ("rack", "in another rack"))
)
GROUPS: Final = indices(GROUPS_COLUMNS)
PLANNED: Final = Group(
    "### Where gangs train LLMs by plans",
    """
    The groups are those of the plan by which a gang divides its model (`Profiles.plans`); rows of gangs without a plan,
    and of gangs on one machine, are 0. Links of a topology only.
    """,
    "plans",
)


@helper
def count_crossing(sim: Run, machine: int, peer: int, out: Array, v: int, column: int) -> None:
    """Count a pair of peers in ``column`` if they are on two machines, and in the next one if in two racks."""
    if machine != peer:
        out[v, column] += 1.0
        if sim.nodes[machine]["rack"] != sim.nodes[peer]["rack"]:
            out[v, column + 1] += 1.0


@kernel(lazy=True)
def write_crossings(sim: Run, number: int, out: Shown, v: int) -> None:
    """Write row ``v``: shares of the GPUs of a gang whose next peers are on another machine, or in another rack."""
    shown = out.values
    plan = sim.plans[sim.replicas[number]["job_class"]]
    rank = 0
    for gpu in range(sim.world["gpus"]):
        if sim.holder[gpu] == number:
            sim.ranks[rank] = sim.gpu_node[gpu]
            rank += 1
    tp, ep, pp = plan["tp"], plan["ep"], plan["pp"]
    size = tp * plan["cp"] * plan["dp"]  # GPUs of a stage
    for stage in range(pp):
        for place in range(size):
            here = machine_of(sim, plan, stage, place)
            inside = place % tp
            peer = machine_of(sim, plan, stage, place - inside + (inside + 1) % tp)
            count_crossing(sim, here, peer, shown, v, GROUPS.tp_machine)
            inside = place % ep
            peer = machine_of(sim, plan, stage, place - inside + (inside + 1) % ep)
            count_crossing(sim, here, peer, shown, v, GROUPS.ep_machine)
            peer = machine_of(sim, plan, stage, (place + tp) % size)
            count_crossing(sim, here, peer, shown, v, GROUPS.dp_machine)
            peer = machine_of(sim, plan, (stage + 1) % pp, place)
            count_crossing(sim, here, peer, shown, v, GROUPS.pp_machine)
    for column in range(shown.shape[1]):
        shown[v, column] /= rank


@observation_array("groups", GROUPS_COLUMNS, "running", PLANNED, "one row per running slot, as in `running`")
@kernel
def write_groups(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all running slots; that of a gang that stays where it is does not change."""
    for v in range(len(out.slots)):
        row = out.slots[v]
        key = UNSEEN if row < 0 else slot_key(row, sim.replicas[sim.jobs[row]["replica"]]["sequence"])
        if out.keys[v] == key:
            continue
        out.keys[v] = key
        clear_row(out.values, v)
        if row < 0:
            continue
        number = sim.jobs[row]["replica"]
        if sim.replicas[number]["machines"] > 1 and sim.plans[sim.replicas[number]["job_class"]]["gpus"] > 0:
            write_crossings(sim, number, out, v)
