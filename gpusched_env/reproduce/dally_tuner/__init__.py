"""Delay timers of Dally: problems, grids, and the contenders of the card (docs/delay_timers.md)."""
