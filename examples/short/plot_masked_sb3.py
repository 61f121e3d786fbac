"""
Train with stable-baselines3
============================

``ClusterVecEnv`` makes a compiled batch of environments usable by stable-baselines3. MaskablePPO reads the action
masks from it.
"""

import gymnasium
from sb3_contrib import MaskablePPO

from gpusched_env.integrations.stable_baselines3 import ClusterVecEnv

envs = gymnasium.make_vec(
    "gpusched_env:gpusched/Cluster-v0",
    num_envs=8,
    vectorization_mode="vector_entry_point",
    autoreset_mode="SameStep",
    scenario="tiny-v1",
    queue_order="shortest",
)
model = MaskablePPO("MultiInputPolicy", ClusterVecEnv(envs), n_steps=64, batch_size=256, seed=0, device="cpu")
model.learn(2_048)
print(f"{model.num_timesteps:,} steps")
