"""Hadar and HadarE (reconstructions): the abstracts' claims beside our results, utilities, rivals, slot lengths."""

from gpusched_env.reproduce.hadar.card import HadarCard

__all__ = ["HadarCard"]
