"""Dally (Sharma et al., arXiv 2401.16492), after the authors' simulator: delay timers, leases, rivals, two sweeps."""

from gpusched_env.reproduce.dally.card import DallyCard

__all__ = ["DallyCard"]
