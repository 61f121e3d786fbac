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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.network import SlotNetwork, feasible_log_probabilities
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.encoder import Windows
from gpusched_env.simulator import Decision, Preempt, Start

if TYPE_CHECKING:
    from gpusched_env.agents.training import TrainingConfig

ROUNDS: Final = 3  # the teacher plays in the first one, the network in the others
EPOCHS: Final = 6  # passes over all steps so far, at the end of each round
LEARNING_RATE: Final = 3e-3  # at the begin of a round; it decreases linearly to 0


@dataclass
class Answers:
    """What a teacher would do at N steps.

    Attributes
    ----------
    inputs : of the network, float32 [N, ...] by name
    masks : bool [N, actions], feasible actions
    right : bool [N, actions], feasible actions that the teacher would take; at least one in each row
    """

    inputs: dict[str, torch.Tensor]
    masks: torch.Tensor
    right: torch.Tensor


def imitate(network: SlotNetwork, config: TrainingConfig, environment: ClusterEnv, rng: np.random.Generator) -> None:
    """Train a network to take the actions of ``config.teacher``."""
    parts: list[Answers] = []
    for number in range(ROUNDS):
        workloads = rng.integers(*environment.scenario.seeds.train, size=config.teacher_episodes).tolist()
        parts += ask(config.teacher, environment, workloads, network, network_plays=number > 0)
        fit(network, joined(parts), config.batch)


def ask(
    teacher: str, environment: ClusterEnv, seeds: Sequence[int], network: SlotNetwork, network_plays: bool
) -> list[Answers]:
    """Play an episode of each workload; return the answers of the teacher at all steps, one part per call.

    Parameters
    ----------
    teacher : spec of a scheduler; every episode has a scheduler of its own
    network_plays : True = actions are drawn from the network, False = each is the first right one
    """
    episodes = Episodes(environment, seeds)
    teachers = [make_scheduler(teacher) for _ in seeds]
    views = [one.view_for(scheduler) for one, scheduler in zip(episodes.simulations, teachers, strict=True)]
    for scheduler, view in zip(teachers, views, strict=True):
        scheduler.reset(view)
    parts: list[Answers] = []
    while len(rows := episodes.waiting()):
        observations, masks = episodes.seen(rows)
        right, first = np.zeros_like(masks), np.empty(len(rows), np.int64)
        for i, b in enumerate(rows):
            actions = right_actions(teachers[b].decide(views[b]), environment.windows, masks[i], *episodes.slots(b))
            right[i, actions] = True
            first[i] = actions[0]
        with torch.inference_mode():
            inputs = network.encoder.inputs({name: torch.from_numpy(array) for name, array in observations.items()})
            part = Answers(inputs, torch.from_numpy(masks), torch.from_numpy(right))
            if network_plays:
                likely = feasible_log_probabilities(network, inputs, part.masks).exp()
                first = torch.multinomial(likely, 1)[:, 0].numpy()
        episodes.play(rows, first)
        parts.append(part)
    return parts


def right_actions(
    decisions: Iterable[Decision], windows: Windows, mask: np.ndarray, queue: np.ndarray, running: np.ndarray
) -> list[int]:
    """Return the feasible actions that stand for a scheduler's decisions; if there are none, the action of waiting.

    A start on GPUs that the scheduler names itself, or by a rule that the agent does not have, stands for every start
    of that job. Decisions about jobs in no slot, leases and bounded waits have no action. None of the decisions is
    carried out, so a scheduler that repeats one is asked no further.

    Parameters
    ----------
    mask : bool [actions], feasible actions
    queue, running : job in each queue slot and in each running slot
    """
    found: list[int] = []
    seen: set[Decision] = set()
    for decision in decisions:
        if decision in seen:  # it expects that the decision was carried out
            break
        seen.add(decision)
        if isinstance(decision, Start):
            starts, sizes = windows.slot_starts, max(windows.sub_batches, 1)
            places = range(starts)
            if decision.gpus is None and decision.rule in windows.rules:
                first = windows.rules.index(decision.rule) * sizes
                places = range(first, first + sizes)
            found += [starts * k + place for k in np.flatnonzero(queue == decision.job).tolist() for place in places]
        elif isinstance(decision, Preempt):
            found += [windows.first_preemption + v for v in np.flatnonzero(running == decision.job).tolist()]
    return [action for action in found if mask[action]] or [windows.wait_action]


def joined(parts: Sequence[Answers]) -> Answers:
    """Join the answers of several calls."""
    return Answers(
        {name: torch.cat([part.inputs[name] for part in parts]) for name in parts[0].inputs},
        torch.cat([part.masks for part in parts]),
        torch.cat([part.right for part in parts]),
    )


def fit(network: SlotNetwork, answers: Answers, batch: int) -> None:
    """Maximise the mean logarithm of the probability that an action is right, by several passes over the answers."""
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    minibatches = EPOCHS * -(-len(answers.right) // batch)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, minibatches)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(answers.right)), batch):
            inputs = {name: array[rows] for name, array in answers.inputs.items()}
            likely = feasible_log_probabilities(network, inputs, answers.masks[rows])
            loss = -torch.logsumexp(likely.masked_fill(~answers.right[rows], -torch.inf), dim=1).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            decay.step()
