"""One run of a list scheduler in a compiled loop."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.baselines.listed import kernels as listed_kernels
from gpusched_env.baselines.listed import keys as key_kernels
from gpusched_env.baselines.listed.state import LINE_DTYPE, LIST_DTYPE, RUNNERS_DTYPE, ListState
from gpusched_env.core.placement.rules import RULE_NUMBER, goes_anywhere, rule_number, shares_by
from gpusched_env.core.planning import Walk
from gpusched_env.simulator import Scheduler, Simulation

# Rules that are not monotone: a gang that finds no place may find one after others have taken GPUs.
_ERRATIC = ("least-busy-servers",)


@dataclasses.dataclass(frozen=True)
class ListRules:
    """The rules of a list scheduler.

    Parameters
    ----------
    order : order of the jobs, one of ARRIVAL, SIZE, ATTAINED and QUEUES (``keys.py``)
    placement : name of the placement rule
    preempts : whether running jobs may be preempted
    strict : whether the first job that does not fit blocks all jobs behind it
    by_gpus : whether the size of a job is multiplied by its gang size
    round_s : length of a round of the order ATTAINED [s]
    thresholds : upper limits of all queues but the last of the order QUEUES [GPU s]
    packlimit : limit of the skew of a model; gangs of several GPUs whose model exceeds this limit are placed by the
        rule "consolidate"
    incumbents : whether running jobs come first in their queue
    history : sizes of past jobs, ascending [GPU s]; within a queue, jobs are then ordered by their Gittins index. Empty
        = by their first start
    """

    order: int
    placement: str
    preempts: bool = False
    strict: bool = False
    by_gpus: bool = False
    round_s: float = 0.0
    thresholds: tuple[float, ...] = ()
    packlimit: float = math.inf
    incumbents: bool = False
    history: tuple[float, ...] = ()


class ListedRun(CompiledLoop):
    """Simulate a run from its first event on by :class:`ListRules`."""

    def __init__(self, simulation: Simulation, rules: ListRules) -> None:
        # Loops that order running jobs, too, must have seen their starts.
        self.takes_over = not rules.preempts and rules.order in (key_kernels.ARRIVAL, key_kernels.SIZE)
        instance = simulation.instance
        jobs = len(instance.workload)
        memory = np.zeros((), LIST_DTYPE)
        for name in ("order", "preempts", "strict", "by_gpus", "incumbents", "packlimit", "round_s"):
            memory[name] = getattr(rules, name)
        memory["rule"], memory["skewed_rule"] = rule_number(rules.placement), RULE_NUMBER["consolidate"]
        memory["monotone"] = rules.placement not in _ERRATIC and instance.is_open
        memory["longest_s"] = simulation.arrays.jobs["ideal_s"].max()
        gangs = instance.workload.jobs["gpus"]
        skew = np.ascontiguousarray(instance.workload.profiles.rows["skew"][instance.workload.jobs["profile"]])
        memory["along"] = listed_kernels.LINES
        if rules.order == key_kernels.ARRIVAL and rules.strict:
            memory["along"] = listed_kernels.HEAD
        elif not memory["monotone"]:
            memory["along"] = listed_kernels.LIST
        elif (
            rules.preempts or rules.order == key_kernels.ATTAINED
        ):  # lines need that numbers of GPUs alone decide which jobs start
            skewed = rules.order == key_kernels.QUEUES and bool(((skew > rules.packlimit) & (gangs > 1)).any())
            if not goes_anywhere(rules.placement) or skewed or instance.gpu_jobs > 1 or rules.history:
                memory["along"] = listed_kernels.LIST
        sizes, counts = np.unique(gangs, return_counts=True)
        lines = np.zeros(len(sizes), LINE_DTYPE)
        lines["gpus"], lines["begin"] = sizes, np.cumsum(counts) - counts
        line_of = np.zeros(sizes[-1] + 1, np.int32)
        line_of[sizes] = np.arange(len(sizes))
        # twice as many entries as gangs can run, so that ended jobs are rarely cleared away
        runners = np.zeros(len(sizes), RUNNERS_DTYPE)
        runners["room"] = 2 * (instance.cluster.gpus // sizes) + 2
        runners["begin"] = np.cumsum(runners["room"]) - runners["room"]
        replicas = len(simulation.arrays.replicas)
        order, listed_rules, verdict = (np.zeros(jobs, np.int32) for _ in range(3))
        plan = ListState(
            memory=memory,
            skew=skew,
            thresholds=np.array(rules.thresholds, float),
            history=np.array(rules.history, float),
            totals=np.concatenate([[0.0], np.cumsum(rules.history)]),
            order=order,
            walk=np.zeros(jobs, np.int32),
            scratch=np.zeros(jobs, np.int32),
            keys=np.zeros(jobs),
            ranks=np.zeros(jobs),
            rules=listed_rules,
            verdict=verdict,
            member=np.zeros(jobs, np.int8),
            failed=np.zeros(sizes[-1] + 1, np.int8),
            lines=lines,
            line_of=line_of,
            waiters=np.zeros(jobs, np.int32),
            left=np.zeros(3 * replicas, np.int32),
            runners=runners,
            runner_rows=np.zeros(runners["room"].sum(), np.int32),
            levels=np.zeros(jobs),
            tail=np.zeros(replicas, np.int32),
            changes_s=np.zeros(replicas),
            heap=np.zeros(replicas, np.int32),
            places=np.full(replicas, -1, np.int32),
            near=np.zeros(replicas, np.int32),
        )
        walk = Walk(order=order, rules=listed_rules, verdicts=verdict)
        super().__init__(simulation, listed_kernels.play_list, memory, plan, walk)

    @property
    def along(self) -> int:
        """Where the loop finds the next job: LIST, LINES or HEAD of ``kernels.py``."""
        return int(self._memory["along"])


def listed_run(scheduler: Scheduler, simulation: Simulation, rules: ListRules) -> ListedRun | None:
    """Return the compiled loop of a scheduler; None if the scenario has a feature that the loop does not support."""
    if simulation.instance.gpu_jobs > 1 and shares_by(rules.placement):
        return None
    scheduler.reset(simulation.view_for(scheduler))
    return ListedRun(simulation, rules)
