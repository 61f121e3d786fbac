"""Hadar and HadarE."""
