"""Gavel (Narayanan et al., OSDI 2020): one-GPU jobs on 36 V100, 36 P100 and 36 K80, at low to excessive loads."""

from gpusched_env.reproduce.gavel.card import GavelCard

__all__ = ["GavelCard"]
