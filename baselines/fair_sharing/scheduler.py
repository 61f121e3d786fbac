"""DRF, and YARN's fair and capacity schedulers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusched_env.baselines.estimates import is_strict
from gpusched_env.baselines.queues.scheduler import OrderedQueues
from gpusched_env.baselines.queues.state import CAPACITY, DRF, FAIR
from gpusched_env.simulator import ClusterView


@dataclass
class FairSharing(OrderedQueues):
    """Start the next job of the tenant that is furthest below its share of the cluster; preempt none.

    At each level of the tree, from the root down, the tenant with the lowest ratio comes first. Its first job starts:
    the one of the highest priority class, then the oldest.

    * ``drf``: ratio = dominant share / weight: the part of the GPUs, or of another resource if that is more.
    * ``fair``: tenants below their minimum first, by GPUs held / minimum; then the others, by GPUs held / weight. The
      minimum is the quota, or the demand if that is less.
    * ``capacity``: ratio = GPUs held / quota; tenants without quota come last, by GPUs held / weight.

    Parameters
    ----------
    order : "drf" (default), "fair" or "capacity", see above
    strict : True = if the first job of the first tenant does not fit, all jobs wait; default False = such jobs are
        skipped
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    If the tenants list no other resource, GPUs are the dominant one, and DRF is weighted max-min fairness of GPUs. With
    other resources, ``drf`` skips jobs for which the cluster has too little of one. The field ``most`` of a tenant caps
    its GPUs (YARN's maximum-capacity); jobs above the cap are skipped in every order. Quotas cap nothing. Ties: the
    tenant that the scenario lists first. Preemption, which YARN has off by default, user limits and delay scheduling
    are left out. The field ``queue`` of a scenario overrides ``strict``.

    References
    ----------
    A. Ghodsi et al., "Dominant Resource Fairness: Fair allocation of multiple resource types", NSDI 2011; Apache Hadoop
    YARN, documentation of the fair and the capacity scheduler.
    """

    orders: ClassVar = {"drf": DRF, "fair": FAIR, "capacity": CAPACITY}
    order: str = "drf"
    strict: bool = False
    placement: str = "pack"

    def rules(self, view: ClusterView) -> dict[str, int | float]:
        """Return the rules of the kernels."""
        return {"policy": self.orders[self.order], "strict": is_strict(view, self.strict)}
