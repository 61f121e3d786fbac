"""The environment whose actions are the delay timers of Dally's scheduler (docs/delay_timers.md)."""
