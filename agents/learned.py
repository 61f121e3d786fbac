"""A trained agent as a scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoder import Encoder, Observation, Windows
from gpusched_env.envs.observation.columns import LINKS
from gpusched_env.envs.observation.sharing_columns import SHARING_TABLES
from gpusched_env.envs.observation.type_columns import TYPE_TABLES
from gpusched_env.errors import SchedulerError
from gpusched_env.portable import arrays
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Wait

MODEL_FILE: Final = "model.zip"
CONFIG_FILE: Final = "config.json"
LOGIT_DECIMALS: Final = 4  # decimals to which logits are rounded, so that close ones tie
_NUMBER_OF_THREADS: Final = 1  # more threads make such small matrices slower


@dataclass
class LearnedScheduler(Scheduler):
    """Play the actions of a trained agent, a saved MaskablePPO model.

    An agent was trained by reinforcement learning in one of the environments: it sees windows of the queue and of the
    running jobs, and starts, preempts or waits. Here the trained network takes the place of a heuristic. At each
    decision point it is asked for actions until it waits; actions that are not feasible are masked.

    Registered as ``learned``; it needs a path, as in ``learned:path=runs/default/model.zip``.

    Parameters
    ----------
    path : the model, ``model.zip`` as written by ``train.py``
    config : its ``config.json``; default empty = the one in the folder of the model
    greedy : True = take the most likely action; default False = draw actions from the policy as in training, since a
        wait may be more likely than each single one of many good starts
    seed : seed of the draws, default 0
    untrained : True = ignore the network and draw feasible actions uniformly, which shows what the windows alone are
        worth; default False

    Raises
    ------
    SchedulerError : a file is missing, damaged, or does not belong to this version

    Notes
    -----
    The scenario must show everything that the agent saw in training: GPU types, copies, sharing and links. Whether the
    agent reads true run times depends on its windows. Logits are rounded to four decimals, so that the same seed gives
    the same schedule on every processor.

    References
    ----------
    S. Huang, S. Ontanon, "A Closer Look at Invalid Action Masking in Policy Gradient Algorithms", FLAIRS 2022, arXiv
    2006.14171 (masking); J. Schulman et al., "Proximal Policy Optimization Algorithms", 2017, arXiv 1707.06347.
    """

    path: str = ""
    config: str = ""
    greedy: bool = False
    seed: int = 0
    untrained: bool = False
    _model: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Read the configuration; the network is loaded on first use."""
        if not self.path:
            raise SchedulerError("learned: give the model's path, for example learned:path=runs/philly-64-v1/model.zip")
        source = Path(self.config) if self.config else Path(self.path).with_name(CONFIG_FILE)
        try:
            training = json.loads(source.read_text(encoding="utf-8"))["training"]
            names = ("queue_window", "running_window", "queue_order", "running_order", "rules")
            fields = {name: training[name] for name in names}
            # Agents saved before this field learned without a limit.
            self._windows = Windows(**fields, least_run_s=training.get("least_run_s", 0.0))
        except OSError as error:
            raise SchedulerError(
                f"{source}: cannot be read ({error.strerror}); it is written beside the model"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise SchedulerError(f"{source}: not a configuration written by train.py ({error!r})") from error
        self.clairvoyant = self._windows.clairvoyant

    @property
    def name(self) -> str:
        """Name in tables."""
        return "untrained" if self.untrained else "learned"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the network: each worker process loads it itself."""
        return self.__dict__ | {"_model": None, "_encoder": None}

    def reset(self, view: ClusterView) -> None:
        """Make an encoder of a new simulation, and load the network if necessary."""
        self._generator = np.random.default_rng(self.seed)
        self._encoder = Encoder.for_view(self._windows, view)
        if self.untrained:
            return
        if self._model is None:
            self._model = self._load()
        self._check_observation(view)

    def _check_observation(self, view: ClusterView) -> None:
        """Refuse a scenario without the observations of the training: GPU types, sharing, links or tiers."""
        known = set(self._model.observation_space.spaces)
        if missing := sorted(known & set(TYPE_TABLES | SHARING_TABLES) - set(self._encoder.observation_names)):
            raise SchedulerError(
                f"{self.path}: the agent was trained with the observations {', '.join(missing)}, which this scenario "
                "does not have; train an agent on such a scenario"
            )
        learned = self._model.observation_space["links"].shape[1] == len(LINKS)
        if learned != (view.network.topology is not None):
            kinds = ("priced by tiers", "a topology")
            raise SchedulerError(
                f"{self.path}: the agent was trained on a network that is {kinds[learned]}, but this one is "
                f"{kinds[not learned]}; train an agent on such a scenario"
            )

    def _load(self) -> Any:
        try:
            import torch
            from sb3_contrib import MaskablePPO
        except ImportError as error:
            raise SchedulerError(
                f'a learned scheduler needs {error.name}: pip install "gpusched-env[train]"'
            ) from error

        torch.set_num_threads(_NUMBER_OF_THREADS)
        if not Path(self.path).is_file():
            raise SchedulerError(f"{self.path}: no such model; train one with train.py")
        try:
            return MaskablePPO.load(self.path, device="cpu")
        except Exception as error:
            raise SchedulerError(
                f"{self.path}: cannot be loaded as a MaskablePPO model ({error}); train it again with this version"
            ) from error

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Call the network until it waits or has no choice."""
        from gpusched_env.envs.step import NO_ACTION

        while len(view.waiting):
            observation, _, _ = self._encoder.play(NO_ACTION)
            mask = self._encoder.mask.astype(bool)
            if not mask[: self._windows.wait_action].any():
                return  # no choice: the environment would skip this wait as well
            action = self._choose(observation, mask)
            decision = self._encoder.decision_of(action)
            if decision is None:
                return
            yield decision
            if isinstance(decision, Wait):
                return

    def _choose(self, observation: Observation, mask: np.ndarray) -> int:
        if self.untrained:
            return int(self._generator.choice(np.flatnonzero(mask)))
        import torch

        with torch.inference_mode():
            # Only the inputs of the network: a scenario may have more observations than that of the training.
            batch = {key: torch.from_numpy(observation[key])[None] for key in self._model.observation_space.spaces}
            logits = self._model.policy.get_distribution(batch).distribution.logits[0].numpy()
        # Processors differ in the last bits of logits. Rounding turns near ties into ties: the lowest number wins.
        scores = np.where(mask, np.round(logits.astype(np.float64), LOGIT_DECIMALS), -np.inf)
        if self.greedy:
            return int(np.argmax(scores))
        # NumPy draws, not torch, so that a seed gives the same schedule with any number of workers.
        shares = np.cumsum(arrays.exp(scores - scores.max()))
        return int(np.searchsorted(shares, self._generator.random() * shares[-1], side="right"))
