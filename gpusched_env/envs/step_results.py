"""Columns of ``results``, the results of a step beside the observation; the last columns are the reward components."""

REWARD, DT, REFUSALS, TERMINATED, TRUNCATED, FIRST_COMPONENT = range(6)
