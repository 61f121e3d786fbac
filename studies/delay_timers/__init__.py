"""Searches for delay timers of Dally: static pairs, and learned tuners."""
