"""Elastic max-min fairness: equal numbers of GPUs for all jobs, as far as their sizes allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.elastic.sizes import Ladder, SizingScheduler, one_size_each
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

    @property
    def name(self) -> str:
        """Name in tables."""
        return "max-min"

    def shares(self, view: ClusterView, rows: np.ndarray, gpus: int) -> list[Ladder]:
        """Divide the GPUs equally."""
        ladders = Ladder.of(view, rows)
        gpus = one_size_each(ladders, gpus)
        while fitting := [each for each in ladders if each.gpus and not each.at_most and each.more <= gpus]:
            gpus -= min(fitting, key=lambda each: each.gpus).climb()
        return ladders
