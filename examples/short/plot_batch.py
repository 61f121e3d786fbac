"""
Step 256 environments in one call
=================================

``make_vec`` makes a batch of environments. Compiled code steps all of them in one call, on several cores.
"""

import time

import gymnasium

envs = gymnasium.make_vec(
    "gpusched_env:gpusched/Cluster-v0",
    num_envs=256,
    vectorization_mode="vector_entry_point",
    scenario="philly-64-v1",
    copy=False,  # observations are not copied: read them before the next step overwrites them
)
_, infos = envs.reset(seed=0)
begun = time.perf_counter()
for _ in range(100):
    actions = infos["action_mask"].argmax(axis=1)  # the first feasible action of each environment
    *_, infos = envs.step(actions)
print(f"{100 * 256 / (time.perf_counter() - begun):,.0f} steps per second")
