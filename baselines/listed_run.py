"""One run of a scheduler that is an order of jobs and a walk along it, in a compiled loop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from gpusched_env.baselines import listed_kernels
from gpusched_env.simulator import Outcome, Scheduler, Simulation, events
from gpusched_env.simulator.jit import announce_compilation
from gpusched_env.simulator.placing import SHARE_FIRST_FIT, rule_number

# Rules that may place a gang once others have taken GPUs, though they could not before.
_ERRATIC = ("least-busy-servers",)


@dataclasses.dataclass(frozen=True)
class ListRules:
    """What the loop must know of a scheduler.

    Parameters
    ----------
    order : ARRIVAL, SIZE, ATTAINED or QUEUES of listed_kernels
    placement : placement rule
    preempts : running jobs may be preempted
    strict : the first job that does not fit blocks all behind it
    by_gpus : sizes are multiplied by the gang
    round_s : quantum of ATTAINED [s]
    thresholds : upper bounds of all QUEUES but the last [GPU s]
    packlimit : models with more skew, of more than one GPU, are placed by "consolidate"
    incumbents : running jobs lead their queue
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


class ListedRun:
    """Play a simulation from its first event by :class:`ListRules`."""

    def __init__(self, simulation: Simulation, rules: ListRules) -> None:
        announce_compilation("play_list")
        self.simulation = simulation
        instance = simulation.instance
        jobs = len(instance.workload)
        self._list = np.zeros(1, listed_kernels.LIST_DTYPE)
        memory = self._list[0]
        for name in ("order", "preempts", "strict", "by_gpus", "incumbents", "packlimit", "round_s"):
            memory[name] = getattr(rules, name)
        memory["rule"], memory["skewed_rule"] = rule_number(rules.placement), rule_number("consolidate")
        memory["monotone"] = rules.placement not in _ERRATIC and bool(np.isfinite(instance.iteration_s).all())
        largest = int(instance.workload.jobs["gpus"].max())
        self._memory = (
            self._list,
            np.ascontiguousarray(instance.workload.profiles.rows["skew"][instance.workload.jobs["profile"]]),
            np.array(rules.thresholds, float),
            np.zeros(jobs, np.int32),  # order
            np.zeros(jobs, np.int32),  # walk
            np.zeros(jobs, np.int32),  # scratch
            np.zeros(jobs),  # keys
            np.zeros(jobs),  # ranks
            np.zeros(jobs, np.int32),  # rules
            np.zeros(jobs, np.int32),  # verdict
            np.zeros(jobs, np.int8),  # member
            np.zeros(largest + 1, np.int8),  # failed
        )

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Play to the end, or until a time, and there until something is to be decided."""
        self._list["until_s"] = until_s
        while True:
            code = listed_kernels.play_list(*self.simulation.arguments, *self._memory)
            if tell is not None:
                tell()
            if code == listed_kernels.PAUSED:
                return Outcome.DECIDE
            if code != events.LOG_FULL:
                return Outcome(code)
            self.simulation.drain()


def listed_run(scheduler: Scheduler, simulation: Simulation, rules: ListRules) -> ListedRun | None:
    """Give the compiled loop of a scheduler; None where the scenario asks for what it does not do."""
    if simulation.instance.gpu_jobs > 1 and rule_number(rules.placement) >= SHARE_FIRST_FIT:
        return None
    scheduler.reset(simulation.view_for(scheduler))
    return ListedRun(simulation, rules)
