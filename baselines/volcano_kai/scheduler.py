"""Volcano and KAI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusched_env.baselines.estimates import is_strict
from gpusched_env.baselines.queues.scheduler import OrderedQueues
from gpusched_env.baselines.queues.state import ANY, KAI, LOWER, NEVER, VOLCANO
from gpusched_env.simulator import ClusterView


@dataclass
class DeservedShares(OrderedQueues):
    """Serve the queue that holds least of what it deserves; reclaim GPUs from queues that hold more than they deserve.

    At each decision point it is computed how many GPUs each queue deserves, level by level from the root. Free GPUs are
    allocated first: at each level the queue with the lowest held / deserved comes first, and its first job, by priority
    class, then age, starts. Then jobs that find no place preempt, in the same order of queues.

    * ``volcano``, plugins gang, priority and proportion: GPUs are divided by weight, no queue gets more than it
      requests, and quotas count nothing. A queue that holds what it deserves gets no more. Jobs preempt jobs of
      lower priority in their queue, and, while their queue holds less than it deserves, jobs of other queues that
      keep what these deserve; at every level below the lowest common ancestor.
    * ``kai``: each queue deserves its quota, or its request if that is less, and a part of the rest by weight, in
      whole GPUs. A job reclaims if its queue, with it, holds no more than it deserves. Just below the lowest common
      ancestor, it takes from queues that hold more than they deserve, or more than their quota while its own side
      stays within quota. No queue above it may then hold more than it deserves and have no lower held / deserved
      than a sibling that loses jobs. Otherwise the job may preempt jobs of lower priority in its queue.

    Parameters
    ----------
    order : "volcano" (default) or "kai", see above
    reclaim : False = jobs of other queues are not preempted; default True
    within : False = jobs of the own queue are not preempted; default True
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    GPUs are the only resource. A job is a gang of one size, which is preempted whole. If a job demands a number of
    nodes, others are preempted only if the placement rule then finds a place for it. docs/volcano.md lists all choices
    and what is left out.

    References
    ----------
    Volcano, documentation of actions and plugins, pkg/scheduler/plugins/proportion; KAI Scheduler, documentation of
    fairness, resource_division.go and reclaimable.go.
    """

    orders: ClassVar = {"volcano": VOLCANO, "kai": KAI}
    order: str = "volcano"
    reclaim: bool = True
    within: bool = True
    placement: str = "pack"

    def rules(self, view: ClusterView) -> dict[str, int | float]:
        """Return the rules of the kernels."""
        return {
            "policy": self.orders[self.order],
            "strict": is_strict(view, False),
            "within": LOWER if self.within else NEVER,
            "reclaim": ANY if self.reclaim else NEVER,
        }
