"""
Combine several rewards
=======================

The reward is one component or a weighted sum of components. ``info["rewards"]`` has the value of each component.
"""

import gymnasium

env = gymnasium.make(
    "gpusched_env:gpusched/Cluster-v0", scenario="tiny-v1", reward={"jct": 1.0, "fairness": 0.5, "makespan": 0.1}
)
_, info = env.reset(seed=0)
env.action_space.seed(0)
over, total = False, 0.0
while not over:
    _, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
    total += reward
    over = terminated or truncated
print("last step:", info["rewards"])
print(f"return: {total:.3f}")
