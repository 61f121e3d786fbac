"""Masked PPO in one file: whole episodes, each judged against other episodes of the same workload.

An update plays ``workloads`` x ``copies`` episodes: every workload several times, with other random actions. What a
schedule costs depends far more on the arrivals than on the actions. The copies of a workload have equal arrivals, so
the cost of a copy minus the mean cost of all copies during the same simulated time shows what its actions were worth.
This difference takes the place of a value network, which learns the effect of arrivals slowly and with larger errors.

References
----------
J. Schulman et al., "Proximal Policy Optimization Algorithms", 2017, arXiv 1707.06347; H. Mao et al., "Variance
Reduction for Reinforcement Learning in Input-Driven Environments", ICLR 2019, arXiv 1807.02264 (a baseline from other
episodes with the same input); S. Huang, S. Ontanon, "A Closer Look at Invalid Action Masking in Policy Gradient
Algorithms", FLAIRS 2022, arXiv 2006.14171.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import nn

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.network import SlotNetwork
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.step_results import DT, REWARD
from gpusched_env.portable import arrays

if TYPE_CHECKING:
    from gpusched_env.agents.training import TrainingConfig
    from gpusched_env.agents.validation import Validation

MAX_GRADIENT: Final = 0.5  # norm to which gradients are clipped
INFEASIBLE: Final = -1e9  # logit of an action that the mask forbids


@dataclass
class Steps:
    """Steps of all episodes of an update, N rows in the order of time.

    Attributes
    ----------
    inputs : of the network, float32 [N, ...] by name
    masks : bool [N, actions], feasible actions
    actions : int64 [N, 1]
    log_probabilities : float32 [N, 1], logarithm of the probability with which the action was drawn
    episodes : int64 [N], the episode to which the step belongs
    begins_s, ends_s : float64 [N], simulated time of the decision and of the next one [s]
    rewards : float64 [N]
    """

    inputs: dict[str, torch.Tensor]
    masks: torch.Tensor
    actions: torch.Tensor
    log_probabilities: torch.Tensor
    episodes: np.ndarray
    begins_s: np.ndarray
    ends_s: np.ndarray
    rewards: np.ndarray


def learn(config: TrainingConfig, environment: ClusterEnv, validation: Validation) -> None:
    """Train a network; ``validation`` keeps the best one."""
    rng = np.random.default_rng(config.seed)
    seeds = environment.scenario.seeds.train
    workloads = rng.integers(*seeds, size=config.workloads)
    first = Episodes(environment, workloads.tolist())
    horizon_s = config.horizon * float(np.mean([instance.ideal_s.mean() for instance in first.instances]))
    network = SlotNetwork(first.shapes, config.windows.slot_starts, 1 + len(config.delays_s))
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5)
    validation.begin(network.save)
    done = 0
    while done < config.steps:
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * (1.0 - done / config.steps)
        steps = play(network, environment, np.repeat(workloads, config.copies).tolist())
        improve(network, optimizer, config, steps, advantages(steps, config.copies, horizon_s))
        done += len(steps.rewards)
        validation.after(done)
        workloads = rng.integers(*seeds, size=config.workloads)
    validation.end()


def play(network: SlotNetwork, environment: ClusterEnv, seeds: Sequence[int]) -> Steps:
    """Play an episode of each workload to its end, with actions drawn from the policy."""
    episodes = Episodes(environment, seeds)
    clock_s = episodes.clock_s()
    parts: list[Steps] = []
    while len(rows := episodes.waiting()):
        observations, masks = episodes.seen(rows)
        with torch.inference_mode():
            inputs = network.encoder.inputs({name: torch.from_numpy(array) for name, array in observations.items()})
            feasible = torch.from_numpy(masks)
            log_probabilities = feasible_log_probabilities(network, inputs, feasible)
            actions = torch.multinomial(log_probabilities.exp(), 1)
            log_probabilities = log_probabilities.gather(1, actions)
        results = episodes.play(rows, actions[:, 0].numpy())
        begins_s = clock_s[rows]
        clock_s[rows] += results[:, DT]
        parts.append(
            Steps(inputs, feasible, actions, log_probabilities, rows, begins_s, clock_s[rows], results[:, REWARD])
        )
    return Steps(
        {name: torch.cat([part.inputs[name] for part in parts]) for name in parts[0].inputs},
        torch.cat([part.masks for part in parts]),
        torch.cat([part.actions for part in parts]),
        torch.cat([part.log_probabilities for part in parts]),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("episodes", "begins_s", "ends_s", "rewards")
        ),
    )


def feasible_log_probabilities(
    network: SlotNetwork, inputs: dict[str, torch.Tensor], masks: torch.Tensor
) -> torch.Tensor:
    """Return the logarithms of the probabilities of all actions, [N, actions]; infeasible ones have probability 0."""
    return torch.log_softmax(network(inputs).masked_fill(~masks, INFEASIBLE), dim=1)


def advantages(steps: Steps, copies: int, horizon_s: float) -> np.ndarray:
    """Return by how much the rewards after each step exceed those of the other copies, float64 [N].

    The advantage of a step at time t is the sum over all later steps of (reward - mean reward of the copies of the
    workload during the same simulated time) x exp(-(time of the step - t) / ``horizon_s``). Decisions at one time are
    thus not discounted against each other.

    Parameters
    ----------
    copies : episodes ``g * copies`` to ``(g + 1) * copies - 1`` play the same workload
    horizon_s : time after which an effect counts 1/e [s]; infinity = no discount
    """
    order = np.argsort(steps.episodes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(steps.episodes[order])) + 1)  # rows of each episode
    ends_s = [np.append(steps.begins_s[rows[0]], steps.ends_s[rows]) for rows in parts]
    paid = [np.append(0.0, np.cumsum(steps.rewards[rows])) for rows in parts]
    found = np.zeros(len(steps.rewards))
    for episode, rows in enumerate(parts):
        first = episode // copies * copies
        group = range(first, first + copies)
        others = np.mean(
            [paid_until(steps.ends_s[rows], ends_s[g], paid[g]) - paid_until(steps.begins_s[rows], ends_s[g], paid[g])
             for g in group],
            axis=0,
        )  # fmt: skip
        gains = steps.rewards[rows] - others
        kept = arrays.exp((steps.begins_s[rows] - steps.ends_s[rows]) / horizon_s)
        later = 0.0
        for k in range(len(rows) - 1, -1, -1):
            later = gains[k] + kept[k] * later
            found[rows[k]] = later
    return found


def paid_until(times_s: np.ndarray, ends_s: np.ndarray, paid: np.ndarray) -> np.ndarray:
    """Return the rewards that an episode has received by these times; between two decisions they grow linearly.

    Parameters
    ----------
    ends_s, paid : ascending times, and the sum of all rewards up to each of them; of equal times, the last one counts
    """
    last = np.append(np.diff(ends_s) > 0.0, True)
    return np.interp(times_s, ends_s[last], paid[last])


def improve(
    network: SlotNetwork,
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    steps: Steps,
    gains: np.ndarray,
) -> None:
    """Improve the policy by several passes over the steps of an update (PPO's clipped objective).

    The passes end early when the mean KL divergence from the policy that played exceeds ``target_kl``.
    """
    scaled = torch.from_numpy((gains - gains.mean()) / (gains.std() + 1e-8)).float().unsqueeze(1)
    for _ in range(config.epochs):
        for rows in torch.split(torch.randperm(len(scaled)), config.batch):
            inputs = {name: array[rows] for name, array in steps.inputs.items()}
            log_probabilities = feasible_log_probabilities(network, inputs, steps.masks[rows])
            log_ratio = log_probabilities.gather(1, steps.actions[rows]) - steps.log_probabilities[rows]
            ratio = log_ratio.exp()
            if float((ratio.detach() - 1.0 - log_ratio.detach()).mean()) > config.target_kl:
                return
            clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
            loss = -torch.min(ratio * scaled[rows], clipped * scaled[rows]).mean()
            if config.entropy:
                loss = loss + config.entropy * (log_probabilities.exp() * log_probabilities).sum(1).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(network.parameters(), MAX_GRADIENT)
            optimizer.step()
