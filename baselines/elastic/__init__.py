"""Schedulers that choose the sizes of elastic jobs."""
