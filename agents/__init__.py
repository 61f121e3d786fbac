"""Learned schedulers: networks, training, and trained agents as schedulers; tuners of delay timers."""
