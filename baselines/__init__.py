"""The published schedulers, one per file. They see the cluster through the simulator's view and return decisions."""

from gpusched_env.baselines.domains import outside_domain, register_need
from gpusched_env.baselines.registry import BASELINES, list_baselines, make_scheduler, register_scheduler

__all__ = ["BASELINES", "list_baselines", "make_scheduler", "outside_domain", "register_need", "register_scheduler"]
