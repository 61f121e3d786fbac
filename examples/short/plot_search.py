"""
Search with snapshots
=====================

``env.unwrapped.snapshot()`` returns the state of an environment as a value, and ``restore`` continues from it. A search
can thus try several actions from the same state. Here a rule starts the shortest job that fits. Beam search plays this
rule too, but also tries other actions, and keeps the states that promise the best return.

The search sees the true future: it plays the very arrivals that will come. It shows what better decisions could gain,
not what a scheduler can reach.
"""

import gymnasium
import numpy as np

WIDTH = 3  # states that are kept
CHOICES = 3  # actions that are tried from each state
EVERY = 2  # the rule plays all other decisions


def rule(mask):
    """Start the first job in the queue that fits: the shortest one. Wait if none fits."""
    return int(np.flatnonzero(mask)[0])


def play_rule(env, mask, steps=None):
    """Play the rule for some steps, or to the end; return the rewards, whether the episode is over, and the mask."""
    rewards, over = 0.0, False
    while not over and steps != 0:
        _, reward, terminated, truncated, info = env.step(rule(mask))
        rewards, over, mask = rewards + reward, terminated or truncated, info["action_mask"]
        steps = None if steps is None else steps - 1
    return rewards, over, mask


def beam_search(env, seed):
    """Return the best return that was found for the workload of a seed."""
    _, info = env.reset(seed=seed)
    beam = [(0.0, env.snapshot())]  # (rewards so far, state)
    best = -np.inf
    while beam:
        found = []
        for before, state in beam:
            mask = env.restore(state)[1]["action_mask"]
            for action in np.flatnonzero(mask)[:CHOICES]:
                env.restore(state)
                _, reward, terminated, truncated, info = env.step(int(action))
                if terminated or truncated:
                    best = max(best, before + reward)
                    continue
                more, over, mask = play_rule(env, info["action_mask"], EVERY)
                rewards, reached = before + reward + more, env.snapshot()
                promised = rewards if over else rewards + play_rule(env, mask)[0]  # what the rule would get from here
                best = max(best, promised)
                if not over:
                    found.append((promised, rewards, reached))
        found.sort(key=lambda one: -one[0])
        beam = [(rewards, state) for _, rewards, state in found[:WIDTH]]
    return best


env = gymnasium.make(
    "gpusched_env:gpusched/Cluster-v0", scenario="tiny-v1", queue_window=8, running_window=0, queue_order="shortest"
).unwrapped
for seed in range(200_000, 200_005):
    _, info = env.reset(seed=seed)
    ruled = play_rule(env, info["action_mask"])[0]
    print(f"seed {seed}: return of the rule {ruled:.3f}, of the search {beam_search(env, seed):.3f}")
