"""
A first agent
=============

An agent chooses which waiting job starts and where, and which running job is preempted. This tutorial plays a
random agent and a simple rule, prints what they observe, and compares the rule with a published scheduler.
"""

# %%
# Make the environment
# --------------------
# The scenario ``tiny-v1`` has 8 GPUs and 12 jobs. ``queue_order`` sets the order in which the agent sees
# the waiting jobs: here the shortest job is first.

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

env = gymnasium.make(
    "gpusched_env:gpusched/Cluster-v0", scenario="tiny-v1", queue_order="shortest", render_mode="rgb_array"
)
observation, info = env.reset(seed=200_000)
print("actions:", env.action_space)
for name, array in observation.items():
    print(f"{name}: {array.shape}")

# %%
# Play at random
# --------------
# ``info["action_mask"]`` marks the feasible actions. The random agent chooses uniformly among them.


def play(choose, seed):
    """Play one episode and return its metrics."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(choose(info["action_mask"]))
        over = terminated or truncated
    return info["metrics"]


random_jct_s = [play(env.action_space.sample, seed)["mean_jct_s"] for seed in range(200_000, 200_010)]
print(f"random agent: mean JCT {np.mean(random_jct_s):.0f} s")

# %%
# A rule
# ------
# The queue window is the list of waiting jobs that the agent sees. Action 0 starts the first job of this
# list, which is the shortest job. The rule takes the first feasible start. If no start is feasible, it
# takes the action ``wait``, which waits for the next event.

windows = env.unwrapped.windows
starts = windows.queue_window * len(windows.rules)
wait = starts + windows.running_window


def shortest_first(mask):
    """Start the shortest job that fits; wait if none fits."""
    feasible = np.flatnonzero(mask[:starts])
    return int(feasible[0]) if len(feasible) else wait


rule_jct_s = [play(shortest_first, seed)["mean_jct_s"] for seed in range(200_000, 200_010)]
print(f"shortest first: mean JCT {np.mean(rule_jct_s):.0f} s")

# %%
# Compare with a scheduler
# ------------------------
# A scheduler also runs without the environment, and the same seeds give it the same jobs. SJF (shortest job
# first) with the placement rule ``pack`` is the rule above, so the results are equal to the last bit.

from gpusched_env.evaluation import evaluate

sjf = evaluate("tiny-v1", ["sjf"], range(200_000, 200_010), progress=False)
assert [run.metrics["mean_jct_s"] for run in sjf] == rule_jct_s
print("the rule and SJF decide alike")

# %%
# Look at the cluster
# -------------------
# The picture shows the cluster after twelve decisions of the rule.

env.reset(seed=200_000)
for _ in range(12):
    *_, info = env.step(shortest_first(env.unwrapped.mask))
plt.figure(figsize=(9.6, 6))
plt.imshow(env.render())
plt.axis("off")
plt.tight_layout()
