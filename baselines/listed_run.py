"""One run of a scheduler that is an order of jobs and a walk along it, in a compiled loop."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gpusched_env.baselines import key_kernels, listed_kernels
from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.baselines.line_kernels import LINE_DTYPE
from gpusched_env.baselines.runner_kernels import RUNNERS_DTYPE
from gpusched_env.simulator import Scheduler, Simulation
from gpusched_env.simulator.calls import plan_table
from gpusched_env.simulator.jit import announce_compilation
from gpusched_env.core.placement.placing import ANYWHERE, SHARING, rule_number

# Rules that may place a gang once others have taken GPUs, though they could not before.
_ERRATIC = ("least-busy-servers",)


@dataclasses.dataclass(frozen=True)
class ListRules:
    """What the loop must know of a scheduler.

    Parameters
    ----------
    order : ARRIVAL, SIZE, ATTAINED or QUEUES of key_kernels
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


class ListedRun(CompiledLoop):
    """Play a simulation from its first event by :class:`ListRules`."""

    def __init__(self, simulation: Simulation, rules: ListRules) -> None:
        announce_compilation("play_list")
        instance = simulation.instance
        jobs = len(instance.workload)
        list_ = np.zeros(1, listed_kernels.LIST_DTYPE)
        memory = list_[0]
        for name in ("order", "preempts", "strict", "by_gpus", "incumbents", "packlimit", "round_s"):
            memory[name] = getattr(rules, name)
        memory["rule"], memory["skewed_rule"] = rule_number(rules.placement), rule_number("consolidate")
        memory["monotone"] = rules.placement not in _ERRATIC and bool(np.isfinite(instance.iteration_s).all())
        memory["longest_s"] = simulation.state.jobs["ideal_s"][simulation.b].max()
        gangs = instance.workload.jobs["gpus"]
        skew = np.ascontiguousarray(instance.workload.profiles.rows["skew"][instance.workload.jobs["profile"]])
        memory["along"] = listed_kernels.LINES
        if rules.order == key_kernels.ARRIVAL and rules.strict:
            memory["along"] = listed_kernels.HEAD
        elif not memory["monotone"]:
            memory["along"] = listed_kernels.LIST
        elif rules.preempts or rules.order == key_kernels.ATTAINED:  # who starts must follow from counts alone
            skewed = rules.order == key_kernels.QUEUES and bool(((skew > rules.packlimit) & (gangs > 1)).any())
            if memory["rule"] not in ANYWHERE or skewed or instance.gpu_jobs > 1:
                memory["along"] = listed_kernels.LIST
        sizes, counts = np.unique(gangs, return_counts=True)
        lines = np.zeros(len(sizes), LINE_DTYPE)
        lines["gpus"], lines["begin"] = sizes, np.cumsum(counts) - counts
        line_of = np.zeros(sizes[-1] + 1, np.int32)
        line_of[sizes] = np.arange(len(sizes))
        # twice as many as can run, so that those who have ended are seldom cleared away
        runners = np.zeros(len(sizes), RUNNERS_DTYPE)
        runners["room"] = 2 * (instance.cluster.gpus // sizes) + 2
        runners["begin"] = np.cumsum(runners["room"]) - runners["room"]
        replicas = simulation.state.replicas.shape[1]
        order, listed_rules, verdict = (np.zeros(jobs, np.int32) for _ in range(3))
        state = simulation.state
        # kept, since it holds the arrays whose addresses it tells; those of moves are kept by the simulation
        self._plans = plan_table(state, order, listed_rules, verdict)
        arguments = (
            state.world,
            state.jobs,
            state.replicas,
            state.waiting,
            state.running,
            simulation.b,
            simulation.moves,
            self._plans.table,
            list_,
            skew,
            np.array(rules.thresholds, float),
            order,
            np.zeros(jobs, np.int32),  # walk
            np.zeros(jobs, np.int32),  # scratch
            np.zeros(jobs),  # keys
            np.zeros(jobs),  # ranks
            listed_rules,
            verdict,
            np.zeros(jobs, np.int8),  # member
            np.zeros(sizes[-1] + 1, np.int8),  # failed
            lines,
            line_of,
            np.zeros(jobs, np.int32),  # waiters
            np.zeros(3 * replicas, np.int32),  # left: who is stopped, who cannot start yet, who was stopped before
            runners,
            np.zeros(runners["room"].sum(), np.int32),  # runner_rows
            np.zeros(jobs),  # levels
            np.zeros(replicas, np.int32),  # tail
            np.zeros(replicas),  # changes_s
            np.zeros(replicas, np.int32),  # heap
            np.full(replicas, -1, np.int32),  # places
            np.zeros(replicas, np.int32),  # near
        )
        super().__init__(simulation, listed_kernels.play_list, list_, arguments)

    @property
    def along(self) -> int:
        """What the loop walks along: LIST, LINES or HEAD of listed_kernels."""
        return int(self._memory[0]["along"])


def listed_run(scheduler: Scheduler, simulation: Simulation, rules: ListRules) -> ListedRun | None:
    """Give the compiled loop of a scheduler; None where the scenario asks for what it does not do."""
    if simulation.instance.gpu_jobs > 1 and rule_number(rules.placement) in SHARING:
        return None
    scheduler.reset(simulation.view_for(scheduler))
    return ListedRun(simulation, rules)
