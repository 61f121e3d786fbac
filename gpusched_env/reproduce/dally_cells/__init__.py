"""Dally's delay timers over cells of all kinds: one learned tuner, the hand tuner and static timers."""

from gpusched_env.reproduce.dally_cells.card import DallyCellsCard

__all__ = ["DallyCellsCard"]
