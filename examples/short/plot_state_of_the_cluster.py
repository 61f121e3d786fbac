"""
Print the cluster as text
=========================

Each character is a GPU. A letter names the job that holds the GPU, ``!`` means that this job is being checkpointed,
and a dot is a free GPU.
"""

import gymnasium
import numpy as np

env = gymnasium.make("gpusched_env:gpusched/Cluster-v0", scenario="philly-64-v1", render_mode="ansi")
_, info = env.reset(seed=200_000)
for _ in range(150):
    *_, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))  # the first feasible action
print(env.render())
