"""Delay scheduling: Dally and its rivals in the same simulator."""
