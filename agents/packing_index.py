"""A packing index: the set of jobs with the largest value runs, and the values have few learned weights.

A knapsack tells which jobs run, and in which order they start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.searched import SearchedRule
from gpusched_env.baselines.list_policies.lines import sort_rows
from gpusched_env.core.driver import ASSIST, BEGINS, Choice, policy
from gpusched_env.core.events import seconds_left
from gpusched_env.core.handle import array, kernel
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.core.planning import Walk, next_of_plan, plan_preemptive
from gpusched_env.core.state import Run
from gpusched_env.portable.elementary import exp, log
from gpusched_env.simulator import CompiledScheduler, Simulation

NEAR: Final = 10.0  # costs of a preemption in which a job is near its end
SHORTEST_S: Final = 1.0  # [s] shortest remaining time whose logarithm is taken
DECIMALS: Final = 1e9  # logarithms of values are rounded to nine decimals: closer ones tie

MEMORY_DTYPE: Final = np.dtype(
    [
        ("listed", "<i8"),  # entries of ``order``; 0 = nothing is planned
        ("planned", "<i8"),  # 0 = the table is too small for the plan of this decision point
        ("least_bonus", "<f8"),  # of the logarithm of the value of a running job
    ]
)


class PackingState(Walk):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(MEMORY_DTYPE)
    weights = array(np.float64, "terms")  # in the order of scheduler.NAMES
    rule_of_size = array(np.int32, "sizes")  # placement rule of each gang size
    scratch = array(np.int32, "jobs")
    values = array(np.float64, "jobs")  # ln(value)
    keys = array(np.float64, "jobs")  # minus ln(value per GPU): small keys come first
    ranks = array(np.float64, "jobs")
    best = array(np.float64, "sizes")  # value of the best set of the first jobs, for each budget of GPUs
    takes = array(np.int8, "entries", "sizes")  # 1 = the best set of the first jobs contains this one, by budget


@kernel
def list_values(sim: Run, plan: PackingState) -> int:
    """List the jobs in the system, largest value per GPU first; return their number. Ties: running jobs, lower rows."""
    w = sim.world
    cost_s = w["checkpoint_s"] + w["restore_s"]
    count = w["running"] + w["waiting"]
    for i in range(count):
        runs = i < w["running"]
        row = sim.replicas[sim.running[i]]["job"] if runs else sim.waiting[w["first_waiting"] + i - w["running"]]
        left_s = max(seconds_left(sim, row), SHORTEST_S)
        size = log(float(sim.jobs[row]["gpus"]))
        value = plan.weights[1] * size + plan.weights[2] * size * size - plan.weights[0] * log(left_s)
        if runs:
            bonus = plan.weights[3] + plan.weights[4] * log(1.0 + NEAR * cost_s / left_s)
            value += max(bonus, plan.memory["least_bonus"])
        plan.order[i] = row
        plan.values[row] = np.rint(value * DECIMALS) / DECIMALS
        plan.keys[row] = size - plan.values[row]
        plan.ranks[row] = 0.0 if runs else 1.0
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)
    plan.memory["listed"] = count
    return count


@kernel
def pack_best(sim: Run, plan: PackingState, count: int) -> None:
    """Move those of the listed jobs forward whose gangs fit together on all GPUs and whose total value is largest.

    Ties: a job joins a set only if the value rises, so earlier jobs stay. O(count x GPUs).
    """
    gpus = sim.world["gpus"]
    most = -math.inf
    demand = 0
    for i in range(count):
        most = max(most, plan.values[plan.order[i]])
        demand += sim.jobs[plan.order[i]]["gpus"]
    if demand > gpus:
        for budget in range(gpus + 1):
            plan.best[budget] = 0.0
        for i in range(count):
            gang = sim.jobs[plan.order[i]]["gpus"]
            value = exp(plan.values[plan.order[i]] - most)
            for budget in range(gpus, -1, -1):
                plan.takes[i, budget] = 0
                if budget >= gang and plan.best[budget - gang] + value > plan.best[budget]:
                    plan.best[budget] = plan.best[budget - gang] + value
                    plan.takes[i, budget] = 1
        budget = gpus
        for i in range(count - 1, -1, -1):
            plan.verdicts[i] = plan.takes[i, budget]
            if plan.verdicts[i] == 1:
                budget -= sim.jobs[plan.order[i]]["gpus"]
        at = 0
        for chosen in range(1, -1, -1):
            for i in range(count):
                if plan.verdicts[i] == chosen:
                    plan.scratch[at] = plan.order[i]
                    at += 1
        for i in range(count):
            plan.order[i] = plan.scratch[i]
    for i in range(count):
        plan.rules[i] = plan.rule_of_size[sim.jobs[plan.order[i]]["gpus"]]


@policy
@kernel
def next_packed(sim: Run, choice: Choice, plan: PackingState) -> int:
    """Write the next decision of the decision point, and return its kind; ASSIST: the table is too small."""
    m = plan.memory
    if choice.made["first"] == BEGINS:
        m["listed"] = 0
        m["planned"] = 0
    if m["planned"] == 0 and sim.world["waiting"] > 0:
        if sim.world["waiting"] + sim.world["running"] > len(plan.takes):
            return ASSIST
        pack_best(sim, plan, list_values(sim, plan))
        plan_preemptive(sim, plan, m["listed"])
    m["planned"] = 1
    return next_of_plan(sim, choice, plan, m["listed"])


FORMAT: Final = "gpusched-packing-index-1"
# Weights of the logarithm of a job's value; the defaults give it the value 1 / remaining run time.
NAMES: Final = ("time", "gang", "square", "hold", "near")
DEFAULTS: Final = (1.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class PackingIndex(SearchedRule, CompiledScheduler):
    """Run the set of jobs that fits on the GPUs and has the largest value; preempt the others.

    The logarithm of the value of a job of g GPUs with r seconds left is, with c the cost of a preemption [s]::

        - time ln(r) + gang ln(g) + square ln(g)^2, if it runs + max(hold + near ln(1 + 10 c / r), 0)

    A gang of several GPUs that fits into a machine waits for one; all others take any GPUs.

    Notes
    -----
    Value per GPU orders the jobs of the set, which start in this order, and then the others. Ties: running jobs, then
    the lower row. A decision point takes O(n x GPUs), n = number of jobs in the system.
    """

    policy: ClassVar = next_packed
    kind: ClassVar = "packing index"
    format: ClassVar = FORMAT
    names: ClassVar = NAMES
    clairvoyant: bool = field(init=False, default=True)
    # Instead of the 0 in the value of a running job; below 0, jobs could take turns without progress for ever.
    least_bonus: float = field(init=False, repr=False, default=0.0)

    def begin(self, simulation: Simulation, alone: bool) -> PackingState:
        """Return the arrays of a run."""
        jobs, cluster = len(simulation.instance.workload), simulation.instance.cluster
        sizes = np.arange(cluster.gpus + 1)
        narrow = (sizes > 1) & (sizes <= cluster.nodes["gpus"].max())
        rules = np.where(narrow, RULE_NUMBER["consolidate"], RULE_NUMBER["pack"]).astype(np.int32)
        memory = np.zeros((), MEMORY_DTYPE)
        memory["least_bonus"] = self.least_bonus
        order, scratch, listed_rules, verdicts = (np.zeros(jobs, np.int32) for _ in range(4))
        values, keys, ranks = (np.zeros(jobs) for _ in range(3))
        return PackingState(
            memory=memory,
            weights=np.array(self.rule),
            rule_of_size=rules,
            order=order,
            scratch=scratch,
            values=values,
            keys=keys,
            ranks=ranks,
            rules=listed_rules,
            verdicts=verdicts,
            best=np.zeros(len(sizes)),
            takes=np.zeros((0, len(sizes)), np.int8),
        )

    def assist(self, simulation: Simulation, own: PackingState) -> None:
        """Make a table for twice as many jobs as there are now."""
        world = simulation.arrays.world
        jobs = int(world["waiting"] + world["running"])
        own.replace("takes", np.zeros((2 * jobs, own.takes.shape[1]), np.int8))
