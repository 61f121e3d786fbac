"""Tiresias for elastic jobs: least attained service first; gangs shrink for newcomers, and grow if GPUs are left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.checking import FINITE, check
from gpusched_env.baselines.elastic.granting import Grants, in_order
from gpusched_env.baselines.elastic.sizes import SizingScheduler
from gpusched_env.simulator import ClusterView


@dataclass
class ElasticTiresias(SizingScheduler):
    """Serve jobs with little attained service first: their smallest size, then the requested one, then larger ones.

    A job is in the first queue until its attained service reaches the threshold, then in the second. Jobs are taken in
    the order of their queues, and by arrival within a queue. In this order, each job first gets its smallest size, as
    far as the GPUs last. The GPUs that are left let jobs grow to the size that they request, and then to larger sizes
    that speed them up, each time in the same order. So more jobs run at the same time than under Tiresias, which they
    pay for with smaller gangs, and no GPU idles while some job would use it.

    Parameters
    ----------
    threshold : limit of the attained service of the first queue [GPU s]; default 3,600

    Notes
    -----
    A simple rival of ours; no paper describes it. The queues are those of Tiresias (Gu et al., NSDI 2019), without
    promotion. Demotions take effect at the next decision point. A decision point takes O(n log n + n x sizes), n =
    number of jobs in the system.
    """

    threshold: float = 3600.0
    name = "tiresias-elastic"

    def __post_init__(self) -> None:
        """Check the threshold."""
        check("tiresias-elastic", self, threshold=FINITE)

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs in the order of the queues."""
        rows = grants.listed[:count].copy()
        demoted = np.round(view.attained_gpu_s(rows), 3) >= self.threshold
        order = rows[np.argsort(demoted, kind="stable")]
        grants.listed[:count] = order
        grants.left[:count] = view.gpus[order]
        in_order(grants, count, gpus)
