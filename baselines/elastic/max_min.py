"""Elastic max-min fairness: equal numbers of GPUs for all jobs, as far as their sizes allow."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.baselines.elastic.granting import Grants, equally
from gpusched_env.baselines.elastic.sizes import SizingScheduler
from gpusched_env.simulator import ClusterView


@dataclass
class ElasticMaxMin(SizingScheduler):
    """Give every job its smallest size, then grant sizes to the jobs with the fewest GPUs.

    A simple rival of other elastic schedulers: it knows neither speeds nor run times.

    Notes
    -----
    Ties: the earliest arrival. A job that cannot use the GPUs that are left is passed over. A decision point takes
    O(n x GPUs), n = number of jobs in the system.
    """

    name = "max-min"

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs equally."""
        equally(grants, count, gpus)
