"""Imitation of a scheduler: the network learns which actions a teacher would take, before it learns from rewards.

The teacher plays the first episodes. Then the network plays, and the teacher is asked at every decision what it would
do there, so that the network also learns to correct its own errors. A teacher may make several decisions at one
decision point, in an order of its own: all of them count as right.

References
----------
S. Ross, G. Gordon, D. Bagnell, "A Reduction of Imitation Learning and Structured Prediction to No-Regret Online
Learning", AISTATS 2011, arXiv 1011.0686.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.network import TokenNetwork, feasible_log_probabilities, masked_log_softmax
from gpusched_env.agents.teachers import Teachers
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.support.plugins import from_clone

if TYPE_CHECKING:
    from gpusched_env.agents.training import TrainingConfig

ROUNDS: Final = 3  # the teacher plays in the first one, the network in the others
EPOCHS: Final = 6  # passes over all steps so far, at the end of each round
LEARNING_RATE: Final = 3e-3  # at the begin of a round; it decreases linearly to 0


@dataclass
class Answers:
    """What a teacher would do at N steps: inputs of the network, feasible actions, and those that it would take."""

    inputs: dict[str, torch.Tensor]
    masks: torch.Tensor
    right: torch.Tensor


def imitate(
    network: TokenNetwork, config: TrainingConfig, environment: ClusterEnv, draw: Callable[[int], list[int]]
) -> None:
    """Train a network on the actions in ``config.dataset``, and then to take the actions of ``config.teacher``."""
    if config.dataset:
        fit(network, answers_of(config.dataset, network), config.batch, ROUNDS * EPOCHS)
    if not config.teacher:
        return
    parts: list[Answers] = []
    for number in range(ROUNDS):
        workloads = draw(config.teacher_episodes)
        parts += ask(config.teacher, environment, workloads, network, network_plays=number > 0)
        fit(network, joined(parts), config.batch)


def ask(
    teacher: str, environment: ClusterEnv, seeds: Sequence[int], network: TokenNetwork, network_plays: bool
) -> list[Answers]:
    """Play an episode of each workload; return the answers of the teacher at all steps, one part per call.

    ``network_plays`` : actions are drawn from the network, else each is the first right one.
    """
    episodes = Episodes(environment, seeds)
    teachers = Teachers(teacher, episodes, environment.windows)
    parts: list[Answers] = []
    while len(rows := episodes.waiting()):
        observations, masks = episodes.seen(rows)
        right, first = teachers.right(rows, masks)
        with torch.inference_mode():
            inputs, feasible = network.seen(observations, masks)
            part = Answers(inputs, feasible, torch.from_numpy(right).to(network.device))
            if network_plays:
                likely = masked_log_softmax(network(inputs), feasible).exp()
                first = torch.multinomial(likely, 1)[:, 0].cpu().numpy()
        episodes.play(rows, first)
        parts.append(part)
    return parts


def answers_of(dataset: str, network: TokenNetwork) -> Answers:
    """Return the steps of a dataset that ``tools/datasets`` wrote."""
    reading, parts = from_clone("tools.datasets.reading", "--dataset"), []
    with reading.readable(dataset):
        for episode in reading.read_dataset(dataset):
            observations = {name: array[:-1] for name, array in episode.observations.items()}
            masks = observations.pop("action_mask").astype(bool)
            right = torch.from_numpy(episode.infos["right_actions"][1:]).to(network.device)
            parts.append(Answers(*network.seen(observations, masks), right))
        return joined(parts)


def joined(parts: Sequence[Answers]) -> Answers:
    """Join the answers of several calls."""
    return Answers(
        {name: torch.cat([part.inputs[name] for part in parts]) for name in parts[0].inputs},
        torch.cat([part.masks for part in parts]),
        torch.cat([part.right for part in parts]),
    )


def fit(network: TokenNetwork, answers: Answers, batch: int, passes: int = EPOCHS) -> None:
    """Maximise the mean logarithm of the probability that an action is right, by several passes over the answers."""
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    minibatches = passes * -(-len(answers.right) // batch)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, minibatches)
    for _ in range(passes):
        for rows in torch.split(torch.randperm(len(answers.right), device=network.device), batch):
            likely = feasible_log_probabilities(network, answers.inputs, answers.masks, rows)
            loss = -torch.logsumexp(likely.masked_fill(~answers.right[rows], -torch.inf), dim=1).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            decay.step()
