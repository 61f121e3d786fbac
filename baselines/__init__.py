"""The published schedulers, one file each, all through the simulator's view and decision vocabulary."""

from gpusched_env.baselines.registry import BASELINES, list_baselines, make_scheduler, register_scheduler

__all__ = ["BASELINES", "list_baselines", "make_scheduler", "register_scheduler"]
