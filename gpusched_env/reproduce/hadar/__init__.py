"""Hadar and HadarE (reconstructions): their abstracts' claims beside ours, utilities, rivals, slot lengths."""

from gpusched_env.reproduce.hadar.card import HadarCard

__all__ = ["HadarCard"]
