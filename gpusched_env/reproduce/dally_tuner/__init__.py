"""Dally's delay timers: learned, tuned by hand, and the best that never change, on seeds that nobody trained on."""

from gpusched_env.reproduce.dally_tuner.card import DallyTunerCard

__all__ = ["DallyTunerCard"]
