"""YARN's capacity scheduler as the papers on learning clusters play it: arrival order, one switch for each gang."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpusched_env.baselines.estimates import is_strict
from gpusched_env.cluster import Cluster
from gpusched_env.simulator import ClusterView, Decision, Scheduler, rule_number


@dataclass
class YarnCapacity(Scheduler):
    """Start jobs in order of arrival, each on one machine or on whole machines and a rest below one switch.

    Parameters
    ----------
    placement : placement rule; "yarn" waits although GPUs are free elsewhere, "random" and "count" (GPU counting only)
        are the other modes of the authors' repository
    beyond : placement rule of the gangs that ``placement`` = "yarn" could not place below any one switch of the empty
        cluster; without it they would wait for ever

    Notes
    -----
    The first job that finds no place blocks all behind it, unless the scenario's ``queue`` says otherwise. Queues with
    capacities of their own, from which YARN has its name, are not played: jobs carry no queue. O(waiting) a decision
    point.

    References
    ----------
    J. Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019 (YARN-CS as a baseline);
    its repository SymbioticLab/Tiresias, simulator/switch.py.
    """

    placement: str = "yarn"
    beyond: str = "consolidate"
    _rules: dict[int, int] = field(init=False, repr=False, default_factory=dict)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "yarn-cs"

    def reset(self, view: ClusterView) -> None:
        """Forget which gangs one switch can hold: the cluster may be another one."""
        self._rules = {}

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Walk the queue in order of arrival."""
        waiting = view.waiting
        rules = np.array([self._rule(view, gang) for gang in view.gpus[waiting].tolist()], np.int32)
        return view.list_schedule(waiting, rules, is_strict(view, True))

    def _rule(self, view: ClusterView, gang: int) -> int:
        if gang not in self._rules:
            one_switch = self.placement != "yarn" or fits_one_switch(view.cluster, gang)
            self._rules[gang] = rule_number(self.placement if one_switch else self.beyond)
        return self._rules[gang]


def fits_one_switch(cluster: Cluster, gang: int) -> bool:
    """Tell whether the empty cluster has a machine, or below one switch whole machines and a rest, for a gang."""
    size = cluster.nodes["gpus"].max()
    if gang <= size:
        return True
    whole, rest = divmod(gang, int(size))
    machines = np.zeros(len(cluster.racks), np.int64)
    np.add.at(machines, cluster.nodes["rack"], cluster.nodes["gpus"] == size)
    with_rest = np.zeros(len(cluster.racks), np.int64)
    np.add.at(with_rest, cluster.nodes["rack"], cluster.nodes["gpus"] >= max(rest, 1))
    return bool(((machines >= whole) & (with_rest >= whole + (rest > 0))).any())
