"""The published schedulers, one per file. They see the cluster through the simulator's view and return decisions."""

from gpusched_env.baselines.registry import BASELINES, list_baselines, make_scheduler, register_scheduler

__all__ = ["BASELINES", "list_baselines", "make_scheduler", "register_scheduler"]
