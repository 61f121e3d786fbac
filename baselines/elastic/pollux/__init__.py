"""Pollux: the allocation that maximises the fairness of goodputs, found by a genetic search."""
