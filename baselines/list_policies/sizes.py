"""Base class of the list schedulers that order jobs by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.baselines.estimates import EstimatingScheduler
from gpusched_env.baselines.list_policies.keys import SIZE
from gpusched_env.baselines.list_policies.scheduler import ListRules, ListScheduler
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import Simulation

KEYS: Final = ("time", "gpu-time")


@dataclass
class SizeOrderedScheduler(ListScheduler, EstimatingScheduler):
    """Base class of the schedulers that serve the smallest job first.

    Parameters
    ----------
    key : size of a job: "time" (default) = remaining run time [s], "gpu-time" = gang size x remaining run time [GPU s]
    placement : placement rule of all jobs; default best fit
    """

    key: str = "time"
    placement: str = "pack"

    def __post_init__(self) -> None:
        """Check the key."""
        super().__post_init__()
        if self.key not in KEYS:
            raise SchedulerError(unknown_name("key", self.key, KEYS))
        self.needs = ("gangs",) if self.key == "gpu-time" else ()

    def by_size(self, simulation: Simulation, **rules: Any) -> ListRules:
        """Return the rules of a scheduler of this order; ``rules`` are those beyond the order."""
        estimates = self.estimates(simulation)
        return ListRules(SIZE, self.placement, by_gpus=self.key == "gpu-time", estimates=estimates, **rules)
