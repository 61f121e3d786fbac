"""Reconstructions of Hadar and HadarE: the claims of the papers' abstracts beside our results."""

from gpusched_env.reproduce.hadar.card import HadarCard

__all__ = ["HadarCard"]
