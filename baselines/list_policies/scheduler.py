"""Schedulers that sort the jobs and start them in that order: their rules, and the arrays of their policy."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusched_env.baselines.estimates import ORACLE, PREDICTED, USER, EstimatingScheduler, check_claims, no_estimates
from gpusched_env.baselines.list_policies import policy as listed_policy
from gpusched_env.baselines.list_policies.keys import ARRIVAL, ATTAINED, QUEUES, SIZE
from gpusched_env.baselines.list_policies.state import LINE_DTYPE, LIST_DTYPE, QUEUED_DTYPE, RUNNERS_DTYPE, ListState
from gpusched_env.core.placement.rules import RULE_NUMBER, goes_anywhere, rule_number, shares_by
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import CompiledScheduler, Simulation

# Rules that are not monotone: a gang that finds no place may find one after others have taken GPUs.
_ERRATIC = ("least-busy-servers",)


@dataclass(frozen=True)
class ListRules:
    """The rules of a list scheduler.

    Parameters
    ----------
    order : order of the jobs, one of ARRIVAL, SIZE, ATTAINED and QUEUES (``keys.py``)
    placement : name of the placement rule
    preempts : whether running jobs may be preempted
    strict : whether the first job that does not fit blocks all jobs behind it
    by_gpus : whether the size of a job is multiplied by its gang size
    largest : whether the largest job comes first
    backfills : whether later jobs start if they do not delay the first one (EASY)
    choices : flags of ``core/sharing/choices.py`` by which jobs share GPUs; -1 = as the placement rule says
    round_s : length of a round, at which jobs of the order ATTAINED are preempted, or of the order SIZE or ARRIVAL
        start [s]; 0 = no rounds
    thresholds : upper limits of all queues but the last of the order QUEUES [GPU s]
    packlimit : limit of the skew of a model; gangs of several GPUs whose model exceeds this limit are placed by the
        rule "consolidate"
    incumbents : whether running jobs come first in their queue
    history : sizes of past jobs, ascending [GPU s]; within a queue, jobs are then ordered by their Gittins index. Empty
        = by their first start
    by_entry : whether jobs are ordered by the times at which they entered their queue
    tail : whether, besides, jobs that change their queue go to its tail, and running jobs move ahead of waiting ones
        after each decision
    by_held : whether service is the time for which a gang has held its GPUs
    by_claims : whether the queue of a job follows from its estimated GPU time if that exceeds its attained service
    knob : PROMOTEKNOB of Tiresias; inf = no promotion
    estimates : source of run times, as :meth:`EstimatingScheduler.estimates` returns it
    """

    order: int
    placement: str
    preempts: bool = False
    strict: bool = False
    by_gpus: bool = False
    largest: bool = False
    backfills: bool = False
    choices: int = -1
    round_s: float = 0.0
    thresholds: tuple[float, ...] = ()
    packlimit: float = math.inf
    incumbents: bool = False
    history: tuple[float, ...] = ()
    by_entry: bool = False
    tail: bool = False
    by_held: bool = False
    by_claims: bool = False
    knob: float = math.inf
    estimates: dict[str, np.ndarray] = field(default_factory=no_estimates)


class ListScheduler(CompiledScheduler):
    """Base class of list schedulers. A subclass says by which rules they decide."""

    @classmethod
    def policy_kernel(cls) -> Any:
        """Return the policy of all list schedulers."""
        return listed_policy.next_of_list

    @abstractmethod
    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules for a run."""

    def begin(self, simulation: Simulation, alone: bool) -> ListState:
        """Return the arrays of the policy for a run."""
        return list_state(simulation, self.rules(simulation), alone)

    def assist(self, simulation: Simulation, own: ListState) -> None:
        """Predict, or refuse a claim that is missing, when it is read."""
        if own.source["estimator"] == PREDICTED:
            assert isinstance(self, EstimatingScheduler)
            self.predict(simulation, own)
        else:
            row = listed_policy.unclaimed(simulation.arrays, own)
            check_claims(simulation.instance.workload.jobs["id"][row:], own.told[row : row + 1])


def list_state(simulation: Simulation, rules: ListRules, alone: bool) -> ListState:
    """Return the arrays for a run by some rules; ``alone`` as for :meth:`CompiledScheduler.begin`."""
    instance = simulation.instance
    jobs, replicas = len(instance.workload), len(simulation.arrays.replicas)
    gangs, profiles = instance.workload.jobs["gpus"], instance.workload.profiles.rows
    skew = np.ascontiguousarray(profiles["skew"][instance.workload.jobs["profile"]])
    memory = np.zeros((), LIST_DTYPE)
    for name in ("order", "preempts", "strict", "by_gpus", "largest", "backfills", "incumbents", "by_entry", "by_held",
                 "by_claims", "tail", "knob", "packlimit", "round_s"):  # fmt: skip
        memory[name] = getattr(rules, name)
    memory["rule"], memory["skewed_rule"] = rule_number(rules.placement), RULE_NUMBER["consolidate"]
    estimator = rules.estimates["source"]["estimator"]
    memory["asks"] = estimator == PREDICTED or (estimator == USER and np.isnan(rules.estimates["told"]).any())
    memory["choices"] = rules.choices
    if rules.choices < 0 and instance.gpu_jobs > 1:
        memory["choices"] = shares_by(rules.placement) or -1
    memory["if_full"] = rules.choices >= 0 or rules.order != SIZE
    memory["monotone"] = rules.placement not in _ERRATIC and instance.is_open
    memory["longest_s"] = simulation.arrays.jobs["ideal_s"].max()
    claims = estimator >= USER and rules.preempts
    memory["goes_on"] = rules.order == QUEUES or rules.round_s > 0 or rules.backfills or claims
    memory["alone"] = alone
    memory["along"] = _along(instance, rules, skew, memory) if alone else listed_policy.LIST
    sizes, counts = np.unique(gangs, return_counts=True)
    lines = np.zeros(len(sizes), LINE_DTYPE)
    lines["gpus"], lines["begin"] = sizes, np.cumsum(counts) - counts
    line_of = np.zeros(sizes[-1] + 1, np.int32)
    line_of[sizes] = np.arange(len(sizes))
    # twice as many entries as gangs can run, so that ended jobs are rarely cleared away
    runners = np.zeros(len(sizes), RUNNERS_DTYPE)
    runners["room"] = 2 * (instance.cluster.gpus // sizes) + 2
    runners["begin"] = np.cumsum(runners["room"]) - runners["room"]
    rows = {name: np.zeros(jobs, np.int32) for name in ("order", "rules", "verdicts", "walk", "scratch", "waiters")}
    numbers = {name: np.zeros(jobs) for name in ("keys", "ranks", "levels")}
    gang_rows = {name: np.zeros(replicas, np.int32) for name in ("tail", "heap", "near")}
    return ListState(
        memory=memory,
        skew=skew,
        slowest_s=instance.slowest_iteration_s if rules.backfills else np.empty(0),
        queued=np.zeros(jobs, QUEUED_DTYPE),
        thresholds=np.array(rules.thresholds, float),
        history=np.array(rules.history, float),
        totals=np.concatenate([[0.0], np.cumsum(rules.history)]),
        member=np.zeros(jobs, np.int8),
        failed=np.zeros(sizes[-1] + 1, np.int8),
        lines=lines,
        line_of=line_of,
        left=np.zeros(3 * replicas, np.int32),
        runners=runners,
        runner_rows=np.zeros(runners["room"].sum(), np.int32),
        changes_s=np.zeros(replicas),
        places=np.full(replicas, -1, np.int32),
        **rules.estimates,
        **rows,
        **numbers,
        **gang_rows,
    )


def _along(instance: Instance, rules: ListRules, skew: np.ndarray, memory: np.ndarray) -> int:
    """Return what a policy that is alone walks along: LIST, LINES or HEAD of ``policy.py``."""
    if memory["choices"] >= 0 or instance.recovery is not None:  # a job that has started may wait again
        return listed_policy.LIST
    if rules.order == ARRIVAL and rules.strict:
        return listed_policy.HEAD
    if not memory["monotone"]:
        return listed_policy.LIST
    estimator = rules.estimates["source"]["estimator"]
    if not rules.preempts and rules.order != ATTAINED and not (rules.order == SIZE and estimator == PREDICTED):
        return listed_policy.LINES
    if instance.semantics.restart_all_s is not None:  # the keys of running jobs stand still for a while
        return listed_policy.LIST
    # Numbers of GPUs alone must decide which jobs start, and keys of running jobs must change at known rates.
    skewed = rules.order == QUEUES and bool(((skew > rules.packlimit) & (instance.workload.jobs["gpus"] > 1)).any())
    known = not rules.history and not rules.by_entry and not rules.by_held and math.isinf(rules.knob)
    if not goes_anywhere(rules.placement) or skewed or instance.gpu_jobs > 1 or not known or estimator != ORACLE:
        return listed_policy.LIST
    return listed_policy.LINES
