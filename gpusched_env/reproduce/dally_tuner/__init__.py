"""Dally's delay timers: learned, tuned by hand, and the best static ones, on test seeds (docs/delay_timers.md)."""

from gpusched_env.reproduce.dally_tuner.card import DallyTunerCard

__all__ = ["DallyTunerCard"]
