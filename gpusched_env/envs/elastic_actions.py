"""Kernels of the actions that choose the sizes of elastic jobs: which starts and resizes are feasible.

With sizes, queue slot k has ``P x S`` starts for P placement rules and S sizes, and so has running slot v resizes.
"""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import lease
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.placing import fits, goes_anywhere_now, reserve
from gpusched_env.core.placement.taking import FREE, unreserve
from gpusched_env.core.planning import lend
from gpusched_env.core.resizing import resize
from gpusched_env.core.sizes import size_row
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays


@kernel(lazy=True)
def mark_start_sizes(sim: Run, env: EnvArrays, row: int, at: int) -> int:
    """Mark, from ``at`` on, the sizes on which a waiting job can start by each rule; return their number."""
    sizes = len(env.gang_sizes)
    choices = 0
    for s in range(sizes):
        option = size_row(sim, row, env.gang_sizes[s])
        for p in range(len(env.rules)):
            feasible = 0
            if option >= 0 and fits(sim, sim.sizes[option]["job_class"], env.gang_sizes[s], env.rules[p]):
                feasible = 1
            env.mask[at + p * sizes + s] = feasible
            choices += feasible
    return choices


@kernel(lazy=True)
def has_room(sim: Run, number: int, kind: int, size: int, rule: int) -> bool:
    """Return whether a rule places a gang on ``size`` GPUs of a job class, as :func:`resize` would.

    The GPUs that the gang holds count as free.
    """
    supply = sim.world["free_gpus"] + sim.replicas[number]["gpus"]
    if size > supply or goes_anywhere_now(sim, kind, rule):
        return size <= supply
    random = sim.world["random"]
    lend(sim, number, FREE)
    end = reserve(sim, 0, kind, size, rule, supply)
    unreserve(sim, 0, end)
    lend(sim, number, number)
    sim.world["random"] = random
    return end > 0


@kernel(lazy=True)
def mark_resizes(sim: Run, env: EnvArrays) -> int:
    """Mark the sizes to which each running slot can be resized by each rule; return their number.

    A gang may be resized whenever it might be preempted, and the present size of a gang is not marked.
    """
    sizes = len(env.gang_sizes)
    choices = 0
    at = env.config["first_preemption"] - len(env.victims) * len(env.rules) * sizes  # the resizes come before
    for v in range(len(env.victims)):
        row = env.victims[v]
        can_go = row >= 0 and env.first_gangs[v] & 1 > 0  # lowest bit: slots.entry_of
        for s in range(sizes):
            option = size_row(sim, row, env.gang_sizes[s]) if can_go else -1
            if option >= 0 and env.gang_sizes[s] == sim.jobs[row]["gpus"]:
                option = -1
            for p in range(len(env.rules)):
                feasible = 0
                if option >= 0:
                    kind = sim.sizes[option]["job_class"]
                    if has_room(sim, sim.jobs[row]["replica"], kind, env.gang_sizes[s], env.rules[p]):
                        feasible = 1
                env.mask[at + p * sizes + s] = feasible
                choices += feasible
        at += len(env.rules) * sizes
    return choices


@kernel(lazy=True)
def act_resize(sim: Run, env: EnvArrays, action: int) -> int:
    """Carry out a feasible resize, the ``action``-th one; return the row of its job."""
    sizes = len(env.gang_sizes)
    place = action % (len(env.rules) * sizes)
    row = env.victims[action // (len(env.rules) * sizes)]
    resize(sim, row, env.gang_sizes[place % sizes], env.rules[place // sizes], 0)
    if env.config["lease_s"] < np.inf:
        lease(sim, row, sim.world["clock_s"] + env.config["lease_s"])
    return row
