"""Dally's delay timers over cells of all kinds: the cells, and the contenders of the card (docs/delay_timers.md)."""
