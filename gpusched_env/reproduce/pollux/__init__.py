"""Pollux (Qiao et al., OSDI 2021): elastic jobs on 64 T4 under Pollux, Optimus and Tiresias."""

from gpusched_env.reproduce.pollux.card import PolluxCard

__all__ = ["PolluxCard"]
