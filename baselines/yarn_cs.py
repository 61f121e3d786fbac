"""YARN-CS: YARN's capacity scheduler as papers on deep-learning clusters use it, without its queues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpusched_env.baselines.estimates import is_strict
from gpusched_env.problem.cluster import Cluster
from gpusched_env.simulator import ClusterView, Decision, Scheduler, rule_number


@dataclass
class YarnCapacity(Scheduler):
    """Start jobs in order of arrival, each gang below one switch; a gang that finds no such GPUs waits.

    Many papers compare with this baseline, which has strict consolidation and no preemption. A gang gets GPUs of one
    machine, or whole machines and the rest of its GPUs on one more machine, all below the same switch. The gang waits
    for such GPUs even if enough GPUs are free elsewhere, and it blocks all jobs behind it.

    Parameters
    ----------
    placement : placement rule; default "yarn", as described above. The authors' repository also has the modes "random"
        and "count", which take any free GPUs
    beyond : placement rule of the gangs that the rule "yarn" cannot place even in the empty cluster and that would
        otherwise wait for ever; default "consolidate"

    Notes
    -----
    The field ``queue`` of a scenario overrides the head-of-line blocking. The YARN scheduler is named after its queues
    with capacities. They are omitted here, because jobs have no queue attribute. A decision point takes O(waiting).

    References
    ----------
    J. Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019 (YARN-CS as a baseline);
    its repository SymbioticLab/Tiresias, simulator/switch.py.
    """

    placement: str = "yarn"
    beyond: str = "consolidate"
    _rules: dict[int, int] = field(init=False, repr=False, default_factory=dict)

    needs = ("spread",)
    knows_partitions = False  # its rule looks for racks of the whole cluster
    name = "yarn-cs"

    def reset(self, view: ClusterView) -> None:
        """Discard the cache of placement rules by gang size, which depends on the cluster."""
        self._rules = {}

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start jobs in order of arrival."""
        waiting = view.waiting
        rules = np.array([self._rule(view, gang) for gang in view.gpus[waiting].tolist()], np.int32)
        return view.list_schedule(waiting, rules, is_strict(view, True))

    def _rule(self, view: ClusterView, gang: int) -> int:
        if gang not in self._rules:
            one_switch = self.placement != "yarn" or fits_one_switch(view.cluster, gang)
            self._rules[gang] = rule_number(self.placement if one_switch else self.beyond)
        return self._rules[gang]


def fits_one_switch(cluster: Cluster, gang: int) -> bool:
    """Return whether the rule "yarn" can place a gang in the empty cluster."""
    size = cluster.nodes["gpus"].max()
    if gang <= size:
        return True
    whole, rest = divmod(gang, int(size))
    machines = np.zeros(len(cluster.racks), np.int64)
    np.add.at(machines, cluster.nodes["rack"], cluster.nodes["gpus"] == size)
    with_rest = np.zeros(len(cluster.racks), np.int64)
    np.add.at(with_rest, cluster.nodes["rack"], cluster.nodes["gpus"] >= max(rest, 1))
    return bool(((machines >= whole) & (with_rest >= whole + (rest > 0))).any())
