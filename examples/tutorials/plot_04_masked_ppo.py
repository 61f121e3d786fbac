"""
Masked PPO in one file
======================

This tutorial trains a scheduler with proximal policy optimisation (PPO, Schulman et al., 2017). It uses only
PyTorch and the compiled batch of environments, without a library for reinforcement learning. Infeasible actions
are masked (Huang and Ontanon, 2022).

The agent sees the 32 waiting jobs that arrived first, in order of arrival, with their run times. It must learn
that short jobs should start first.
"""

# %%
# Settings
# --------

import time

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

ENVIRONMENTS = 16
STEPS = 256  # steps of each environment between two updates
UPDATES = 40
VALIDATION = range(100_000, 100_005)  # seeds on which the agent is evaluated during training
EPOCHS = 4
MINIBATCH = 1024
LEARNING_RATE = 3e-3
LAMBDA = 0.97  # of generalised advantage estimation; the discount is 1, as decisions take no simulated time
CLIP = 0.2
OPTIONS = {"scenario": "philly-64-v1", "queue_window": 32, "running_window": 0, "reward": "jct"}
torch.manual_seed(0)
torch.set_num_threads(1)  # the network is small

# %%
# The network
# -----------
# A small network computes a score for each slot of the queue window, with the same weights for all slots. A
# second network scores the action that waits, and a third one estimates the return.


class Agent(nn.Module):
    """Score the slots of the queue window and the action that waits; estimate the return."""

    def __init__(self, job_columns, cluster_columns, width=64):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(job_columns + cluster_columns, width), nn.Tanh(), nn.Linear(width, 1))
        self.wait = nn.Sequential(nn.Linear(cluster_columns, width), nn.Tanh(), nn.Linear(width, 1))
        self.value = nn.Sequential(nn.Linear(cluster_columns + job_columns, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, queue, cluster, mask):
        """Return a distribution over actions and the value of each state."""
        context = cluster[:, None, :].expand(-1, queue.shape[1], -1)
        scores = self.score(torch.cat([queue, context], dim=2))[:, :, 0]
        logits = torch.cat([scores, self.wait(cluster)], dim=1).masked_fill(~mask, -1e9)
        value = self.value(torch.cat([cluster, queue.mean(1)], dim=1))[:, 0]
        return torch.distributions.Categorical(logits=logits), value


def tensors(observations, masks):
    """Convert a batch of observations and masks to the tensors that the network reads."""
    return (
        torch.as_tensor(observations["queue"]),
        torch.as_tensor(observations["cluster"]),
        torch.as_tensor(masks, dtype=torch.bool),
    )


# %%
# The environments
# ----------------
# ``make_vec`` makes a batch whose environments are all stepped in one compiled call. With ``SameStep``, the
# last step of an episode returns the first observation of the next episode.


def make_environments(count, **vector_options):
    """Make a compiled batch of ``count`` environments."""
    return gymnasium.make_vec(
        "gpusched_env:gpusched/Cluster-v0",
        num_envs=count,
        vectorization_mode="vector_entry_point",
        autoreset_mode="SameStep",
        **vector_options,
        **OPTIONS,
    )


# %%
# Evaluation
# ----------
# A batch plays ten report seeds, which training never uses. The agent takes its most likely action.


def evaluate(agent, seeds=range(200_000, 200_010)):
    """Return the mean JCT [s] of each seed."""
    envs = make_environments(len(seeds), keep_logs=True)
    observations, infos = envs.reset(seed=list(seeds))
    mean_jct_s = np.full(len(seeds), np.nan)
    while np.isnan(mean_jct_s).any():
        with torch.no_grad():
            policy, _ = agent(*tensors(observations, infos["action_mask"]))
        observations, _, terminated, truncated, infos = envs.step(policy.probs.argmax(1).numpy())
        for i in np.flatnonzero(terminated | truncated):
            if np.isnan(mean_jct_s[i]):  # later episodes of this environment have other seeds
                mean_jct_s[i] = infos["final_info"]["metrics"]["mean_jct_s"][i]
    return mean_jct_s


# %%
# Training
# --------
# Each update plays ``STEPS`` steps in each environment and estimates the advantages of the actions. It then
# trains on these steps for ``EPOCHS`` passes.

envs = make_environments(ENVIRONMENTS)
agent = Agent(*(envs.single_observation_space[key].shape[-1] for key in ("queue", "cluster")))
initial = evaluate(agent)
optimiser = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE)
begun = time.perf_counter()
observations, infos = envs.reset(seed=0)
validation_jct_s = []
for update in range(UPDATES):
    optimiser.param_groups[0]["lr"] = LEARNING_RATE * (1 - update / UPDATES)
    states, actions, logs, values, rewards, ends = [], [], [], [], [], []
    for _ in range(STEPS):
        state = tensors(observations, infos["action_mask"])
        with torch.no_grad():
            policy, value = agent(*state)
            action = policy.sample()
        observations, reward, terminated, truncated, infos = envs.step(action.numpy())
        over = terminated | truncated
        for store, item in zip(
            (states, actions, logs, values, rewards, ends),
            (state, action, policy.log_prob(action), value, torch.as_tensor(reward), torch.as_tensor(over)),
            strict=True,
        ):
            store.append(item)

    # Generalised advantage estimation, from the last step back to the first
    with torch.no_grad():
        following = agent(*tensors(observations, infos["action_mask"]))[1]
    advantage, advantages = torch.zeros(ENVIRONMENTS), []
    for t in reversed(range(STEPS)):
        going_on = 1.0 - ends[t].float()
        delta = rewards[t].float() + going_on * following - values[t]
        advantage = delta + LAMBDA * going_on * advantage
        advantages.append(advantage)
        following = values[t]
    advantages = torch.cat(advantages[::-1])
    targets = advantages + torch.cat(values)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    played = [torch.cat(part) for part in zip(*states, strict=True)]
    actions, logs = torch.cat(actions), torch.cat(logs)

    for _ in range(EPOCHS):
        for rows in torch.randperm(len(actions)).split(MINIBATCH):
            policy, value = agent(*(part[rows] for part in played))
            ratio = (policy.log_prob(actions[rows]) - logs[rows]).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = torch.minimum(ratio * advantages[rows], clipped * advantages[rows]).mean()
            loss = -gain + 0.5 * (value - targets[rows]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()
    if (update + 1) % 5 == 0:
        validation_jct_s.append(evaluate(agent, VALIDATION).mean())
steps = UPDATES * STEPS * ENVIRONMENTS
print(f"{steps:,} steps in {time.perf_counter() - begun:.0f} s")

# %%
# Did it learn?
# -------------
# The initial network sees the same jobs as the trained one, so the difference between them is what training
# has added. SJF is the rule that the agent could learn. The intervals are 95 % intervals of the paired
# ratio over ten seeds.

from gpusched_env.evaluation import evaluate as evaluate_schedulers
from gpusched_env.metrics import paired_ratio

trained = evaluate(agent)
runs = evaluate_schedulers("philly-64-v1", ["fifo-skip", "sjf"], range(200_000, 200_010), progress=False)
rivals = {"initial network": initial}
for name in ("fifo-skip", "sjf"):
    rivals[name] = np.array([run.metrics["mean_jct_s"] for run in runs if run.spec == name])
print(f"trained agent: mean JCT {trained.mean() / 3600:.2f} h")
for name, mean_jct_s in rivals.items():
    ratio = paired_ratio(trained, mean_jct_s)
    print(
        f"trained / {name:15} {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]  ({mean_jct_s.mean() / 3600:.2f} h)"
    )

plt.figure(figsize=(7, 3.5))
plt.plot(np.arange(5, UPDATES + 1, 5) * STEPS * ENVIRONMENTS, np.array(validation_jct_s) / 3600, "o-")
plt.xlabel("environment steps")
plt.ylabel("mean JCT on validation seeds [h]")
plt.tight_layout()
