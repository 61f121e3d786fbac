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

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from gpusched_env.agents.cloning import imitate
from gpusched_env.agents.compiled_policy import logits_for_play
from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.network import TokenNetwork, feasible_log_probabilities, masked_log_softmax
from gpusched_env.agents.run_folder import STATE_FILE
from gpusched_env.agents.step_storage import StepStorage
from gpusched_env.agents.tokens import Layout
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.step_results import DT, REWARD
from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.scenarios import Curriculum

if TYPE_CHECKING:
    from gpusched_env.agents.run_folder import RunFolder
    from gpusched_env.agents.training import TrainingConfig
    from gpusched_env.agents.validation import Validation

MAX_GRADIENT: Final = 0.5  # norm to which gradients are clipped


@dataclass
class Steps:
    """Steps of all episodes of an update, N rows in the order of time.

    ``episodes`` : int64 [N], the episode of each step; ``begins_s``, ``ends_s`` : simulated time of the decision and of
    the next one [s].
    """

    inputs: dict[str, torch.Tensor]
    masks: torch.Tensor
    actions: torch.Tensor
    log_probabilities: torch.Tensor
    episodes: np.ndarray
    begins_s: np.ndarray
    ends_s: np.ndarray
    rewards: np.ndarray

    def by_episode(self) -> list[np.ndarray]:
        """Return the rows of each episode, in the order of time."""
        order = np.argsort(self.episodes, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.episodes[order])) + 1)


class Learner:
    """A network in training, with all that the next update depends on.

    ``storage`` : memory of the steps of an update; ``workloads`` : seeds of the next update; ``done`` : steps so far.
    """

    def __init__(self, config: TrainingConfig, environment: ClusterEnv) -> None:
        self.config, self.environment = config, environment
        self.rng = np.random.default_rng(config.seed)
        self.curriculum, self.done = Curriculum.parse(config.curriculum), 0
        self.workloads = self.draw(config.workloads)
        first = Episodes(environment, self.workloads)
        self.horizon_s = config.horizon * float(np.mean([instance.ideal_s.mean() for instance in first.instances]))
        layout = Layout.of(first.shapes, config.windows)
        self.network = TokenNetwork(layout, config.width).to(config.device)
        # RAdam: the first steps of Adam are as long as all others, which can destroy what imitation has learned.
        self.weights = weights_of(self.network)
        self.optimizer = torch.optim.RAdam([self.weights], lr=config.learning_rate, eps=1e-5)
        self.storage = StepStorage()

    def draw(self, count: int) -> list[int]:
        """Draw the seeds of some workloads, from the part of the problems that the curriculum gives now."""
        scenario = self.environment.scenario
        part = scenario.part(self.curriculum.at(self.done / max(self.config.steps, 1)))
        return [scenario.train_seed(self.rng, part) for _ in range(count)]

    def update(self) -> dict[str, float]:
        """Play, improve the network, draw the next workloads, and return numbers for the log."""
        rate = self.config.learning_rate * (1.0 - self.done / self.config.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        seeds = np.repeat(self.workloads, self.config.copies).tolist()
        steps = play(self.network, self.environment, seeds, self.storage)
        gains = advantages(steps, self.config.copies, self.horizon_s)
        numbers = improve(self.network, self.weights, self.optimizer, self.config, steps, gains)
        self.done += len(steps.rewards)
        episodes = len(self.workloads) * self.config.copies
        self.workloads = self.draw(self.config.workloads)
        return {
            "steps": self.done,
            "mean_return": steps.rewards.sum() / episodes,
            "steps_per_episode": len(steps.rewards) / episodes,
            "advantage_std": gains.std(),
            "learning_rate": rate,
            **numbers,
        }

    def state(self) -> dict[str, Any]:
        """Return everything that :meth:`restore` needs, as tensors and plain values."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "rng": json.dumps(self.rng.bit_generator.state),
            "workloads": self.workloads,
            "done": self.done,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state: all later updates are those of the run that saved it."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch_rng"])
        self.rng.bit_generator.state = json.loads(state["rng"])
        self.workloads, self.done = state["workloads"], state["done"]


def weights_of(network: nn.Module) -> nn.Parameter:
    """Return all weights of a network as one vector; what changes the vector changes the network, and vice versa.

    A step of an optimizer on one long vector takes a tenth of the time of a step on thirty short ones.
    """
    weights = nn.Parameter(parameters_to_vector(network.parameters()).detach())
    vector_to_parameters(weights.data, network.parameters())  # they are views of the vector from now on
    return weights


def learn(config: TrainingConfig, environment: ClusterEnv, validation: Validation, folder: RunFolder) -> None:
    """Train a network; ``validation`` keeps the best one."""
    learner = Learner(config, environment)
    if (state := folder.state) is not None:
        try:
            learner.restore(state["learner"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise GpuschedError(
                f"{folder.folder / STATE_FILE}: saved by another version of the learner ({error}); resume with the "
                "version that config.json names, or train without --resume"
            ) from error
        validation.restore(state["validation"], learner.network.save)
    else:
        validation.begin(learner.network.save)
        if config.imitates:
            imitate(learner.network, config, environment, learner.draw)
            validation.cloned()
            folder.save({"learner": learner.state(), "validation": validation.state()})
    while learner.done < config.steps:
        folder.log(learner.update())
        if validation.after(learner.done):
            folder.save({"learner": learner.state(), "validation": validation.state()})
    validation.end()


def play(network: TokenNetwork, environment: ClusterEnv, seeds: Sequence[int], storage: StepStorage) -> Steps:
    """Play an episode of each workload to its end, with actions drawn from the policy.

    Each observation is copied once, from the buffers of the environments to the storage; both the policy and the update
    read it there.
    """
    episodes = Episodes(environment, seeds)
    storage.begin(network.layout, episodes)
    logits_of, device = logits_for_play(network, storage, len(seeds)), network.device
    clock_s = episodes.clock_s()
    drawn: list[tuple[torch.Tensor, torch.Tensor]] = []
    played: list[tuple[np.ndarray, ...]] = []
    while len(rows := episodes.waiting()):
        steps = storage.write(rows)
        with torch.inference_mode():
            log_probabilities = masked_log_softmax(logits_of(steps), storage.masks[steps].to(device))
            shares = torch.softmax(log_probabilities, 1)
            # torch.multinomial without its checks: the largest of shares divided by exponentials is such a draw
            actions = (shares / torch.empty_like(shares).exponential_()).argmax(1, keepdim=True)
            drawn.append((actions, log_probabilities.gather(1, actions)))
        results = episodes.play(rows, actions[:, 0].cpu().numpy())
        begins_s = clock_s[rows]
        clock_s[rows] += results[:, DT]
        played.append((rows, begins_s, clock_s[rows], results[:, REWARD]))
    actions, log_probabilities = (torch.cat(parts) for parts in zip(*drawn, strict=True))
    return Steps(
        {name: array[: storage.count].to(device) for name, array in storage.inputs.items()},
        storage.masks[: storage.count].to(device),
        actions,
        log_probabilities,
        *(np.concatenate(parts) for parts in zip(*played, strict=True)),
    )


def advantages(steps: Steps, copies: int, horizon_s: float) -> np.ndarray:
    """Return by how much the rewards after each step exceed those of the other copies, float64 [N].

    The advantage of a step at time t is the sum over all later steps of (reward - mean reward of the copies of the
    workload during the same simulated time) x exp(-(time of the step - t) / ``horizon_s``). Decisions at one time are
    thus not discounted against each other.

    Episodes ``g * copies`` to ``(g + 1) * copies - 1`` play the same workload. An infinite horizon: no discount.
    """
    parts = steps.by_episode()
    times_s = [np.append(steps.begins_s[rows[0]], steps.ends_s[rows]) for rows in parts]
    paid = [np.append(0.0, np.cumsum(steps.rewards[rows])) for rows in parts]
    found = np.zeros(len(steps.rewards))
    for episode, rows in enumerate(parts):
        first = episode // copies * copies
        group = range(first, first + copies)
        others = np.mean([np.diff(paid_until(times_s[episode], times_s[g], paid[g])) for g in group], axis=0)
        kept = arrays.exp((steps.begins_s[rows] - steps.ends_s[rows]) / horizon_s)
        later, sums = 0.0, []
        for gain, share in zip((steps.rewards[rows] - others)[::-1].tolist(), kept[::-1].tolist(), strict=True):
            later = gain + share * later
            sums.append(later)
        found[rows[::-1]] = sums
    return found


def paid_until(times_s: np.ndarray, ends_s: np.ndarray, paid: np.ndarray) -> np.ndarray:
    """Return the rewards that an episode has received by these times; between two decisions they grow linearly."""
    last = np.append(np.diff(ends_s) > 0.0, True)
    return np.interp(times_s, ends_s[last], paid[last])


def improve(
    network: TokenNetwork,
    weights: nn.Parameter,
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    steps: Steps,
    gains: np.ndarray,
) -> dict[str, float]:
    """Improve the policy by several passes over the steps of an update (PPO's clipped objective).

    The passes end early when the mean KL divergence from the policy that played exceeds ``target_kl``.
    Returns KL divergence, share of clipped steps and entropy of the last minibatch, and the number of minibatches.
    """
    parameters, improved = list(network.parameters()), 0
    scaled = torch.from_numpy((gains - gains.mean()) / (gains.std() + 1e-8)).float().unsqueeze(1).to(network.device)
    for rows in minibatches(len(scaled), config, network.device):
        log_probabilities = feasible_log_probabilities(network, steps.inputs, steps.masks, rows)
        log_ratio = log_probabilities.gather(1, steps.actions[rows]) - steps.log_probabilities[rows]
        ratio = log_ratio.exp()
        divergence = float((ratio.detach() - 1.0 - log_ratio.detach()).mean())
        if divergence > config.target_kl:
            break
        clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        gain = scaled[rows]
        loss = -torch.min(ratio * gain, clipped * gain).mean()
        if config.entropy:
            loss = loss - config.entropy * entropy_of(log_probabilities)
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        weights.grad = torch.cat([gradient.flatten() for gradient in gradients])
        nn.utils.clip_grad_norm_(weights, MAX_GRADIENT)
        optimizer.step()
        improved += 1
    with torch.no_grad():
        return {
            "kl_divergence": divergence,
            "clipped": float(((ratio - 1.0).abs() > config.clip).float().mean()),
            "entropy": float(entropy_of(log_probabilities)),
            "minibatches": improved,
        }


def minibatches(count: int, config: TrainingConfig, device: torch.device) -> Iterator[torch.Tensor]:
    """Yield the rows of each minibatch of ``config.epochs`` passes over ``count`` steps, in random order."""
    for _ in range(config.epochs):
        yield from torch.split(torch.randperm(count, device=device), config.batch)


def entropy_of(log_probabilities: torch.Tensor) -> torch.Tensor:
    """Return the mean entropy of N policies, from logarithms of the probabilities of all actions, [N, actions]."""
    # softmax is exp here; exp itself takes several times as long for the infeasible actions
    return -(torch.softmax(log_probabilities, 1) * log_probabilities).sum(1).mean()
