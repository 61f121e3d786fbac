"""What a step tells beside the observation: columns of ``told``, then one column a reward component."""

REWARD, DT, REFUSALS, TERMINATED, TRUNCATED, FIRST_COMPONENT = range(6)
