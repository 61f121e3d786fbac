"""A packing index: the set of jobs with the largest value runs, and the values have few learned weights."""
