"""A trained agent as a scheduler."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.cards import read_card
from gpusched_env.agents.checkpoints import DAMAGED
from gpusched_env.envs.encoder import Observation
from gpusched_env.envs.policy_scheduler import PolicyScheduler
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import SchedulerError
from gpusched_env.portable import arrays
from gpusched_env.simulator import ClusterView, Decision, Scheduler

MODEL: Final = "model"
INITIAL: Final = "initial"  # the network before training
CLONED: Final = "cloned"  # the network after imitation of the teacher, before it learns from rewards
CONFIG_FILE: Final = "config.json"
_STEMS: Final = (INITIAL, CLONED)
LOGIT_DECIMALS: Final = 4  # decimals to which logits are rounded, so that close ones tie
_BEFORE: Final[dict[str, Any]] = {"least_run_s": 0.0}  # windows of old agents, where they differ from the defaults
_NUMBER_OF_THREADS: Final = 1  # more threads make such small matrices slower


@dataclass
class LearnedScheduler(Scheduler):
    """Play the actions of a trained agent.

    An agent was trained by reinforcement learning in one of the environments: it sees windows of the queue and of the
    running jobs, and starts, preempts or waits. Here the trained network takes the place of a heuristic. At each
    decision point it is asked for actions until it waits; actions that are not feasible are masked.

    Registered as ``learned``: ``learned:NAME`` plays an agent of the package (``gpusched agents list``), and
    ``learned:path=runs/philly-64/model.npz`` one of your own. A file of another kind of agent, such as an index policy,
    is played by the scheduler that reads it.

    Parameters
    ----------
    path : the model as written by ``train.py``: ``model.npz``
    config : its ``config.json``; default empty = the one in the folder of the model
    greedy : True = take the most likely action; default False = as the agent was validated: if its configuration does
        not say ``greedy``, actions are drawn from the policy as in training, since a wait may be more likely than each
        single one of many good starts
    seed : seed of the draws, default 0
    untrained : True = ignore the network and draw feasible actions uniformly, which shows what the windows alone are
        worth; default False
    initial : True = play ``initial.npz`` beside the model, the network at its initial weights, which shows what
        training adds; default False
    cloned : True = play ``cloned.npz`` beside the model, the network that has imitated its teacher but has not yet
        learned from rewards; default False
    queue_window, running_window, partner_window : numbers of jobs that the agent sees here; default 0 = as in training
    tenant_window : number of tenants that it sees here; default 0 = as in training
    agent : name of an agent of the package, instead of a path; its card is the configuration

    Notes
    -----
    An agent plays on clusters of any size. What it saw in training and the scenario does not show, such as GPU types,
    counts as empty. Only tiers cannot take the place of a topology, nor a topology that of tiers. Whether an
    agent reads true run times depends on its windows. Logits are computed in float64 and rounded to four decimals, so
    that the same seed gives the same schedule on every processor, alone and in a batch of many seeds.

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
    initial: bool = False
    cloned: bool = False
    queue_window: int = 0
    running_window: int = 0
    partner_window: int = 0
    tenant_window: int = 0
    agent: str = ""
    windows: Windows = field(init=False, repr=False, default_factory=Windows)
    _model: Any = field(init=False, repr=False, default=None)
    _player: PolicyScheduler | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Read the configuration; the network is loaded on first use."""
        source = self._configuration()
        try:
            training = json.loads(source.read_text(encoding="utf-8"))["training"]
            self.windows = windows_of(training)
        except OSError as error:
            raise SchedulerError(
                f"{source}: cannot be read ({error.strerror}); it stands beside the model, so check the model's path"
            ) from error
        except DAMAGED as error:
            raise SchedulerError(f"{source}: not a configuration written by train.py ({error!r})") from error
        self.greedy = self.greedy or training.get("greedy", False)
        windows = ("queue_window", "running_window", "partner_window", "tenant_window")
        seen = {name: getattr(self, name) for name in windows}
        self.windows = dataclasses.replace(self.windows, **{name: count for name, count in seen.items() if count})
        self.clairvoyant = self.windows.clairvoyant
        deadlines = any("deadlines" in extra for extra in self.windows.extras)
        uses = {"sizes": self.windows.sizes, "deadlines": deadlines, "tenants": self.windows.tenant_window}
        self.needs = tuple(need for need, used in uses.items() if used)

    def _configuration(self) -> Path:
        """Return the file that holds the windows."""
        if self.agent:
            if self.path or self.config or self.initial or self.cloned:
                raise SchedulerError(f"learned:{self.agent}: leave out path, config, initial and cloned")
            return read_card(self.agent).file.with_suffix(".json")
        if not self.path:
            raise SchedulerError(
                "learned: name an agent of `gpusched agents list`, or give the model's path, for example "
                "learned:path=runs/philly-64/model.npz"
            )
        return Path(self.config) if self.config else Path(self.path).with_name(CONFIG_FILE)

    @property
    def name(self) -> str:
        """Name in tables."""
        return next((name for name in (*_STEMS, "untrained") if getattr(self, name)), "learned")

    @property
    def model_file(self) -> Path:
        """Path of the network that is played."""
        if self.agent:
            return read_card(self.agent).checked_file()
        path = Path(self.path)
        return next((path.with_stem(stem) for stem in _STEMS if getattr(self, stem)), path)

    def references(self) -> list[str]:
        """Return the fields that play something else than the trained network, where its files are there."""
        saved = [stem for stem in _STEMS if self.path and Path(self.path).with_stem(stem).is_file()]
        return [*saved, "untrained"]

    def reference(self, name: str) -> LearnedScheduler:
        """Return a copy that plays one of :meth:`references`."""
        player = dataclasses.replace(self)
        setattr(player, name, True)
        return player

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the network: each worker process loads it itself."""
        return self.__dict__ | {"_model": None, "_player": None}

    def reset(self, view: ClusterView) -> None:
        """Make an encoder of a new simulation, and load the network if necessary."""
        generator = np.random.default_rng(self.seed)

        def policy(observation: Observation, mask: np.ndarray) -> int:
            batch = {name: array[None] for name, array in observation.items()}
            return self.choose(batch, mask[None], [generator])[0]

        self._player = PolicyScheduler(policy, self.windows)
        self._player.reset(view)
        batch = self._player.encoder.batch
        self.prepare({name: array.shape[1:] for name, array in batch.observations.items()})

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Call the network until it waits."""
        assert self._player is not None
        return self._player.decide(view)

    def prepare(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Load the network if necessary; refuse a scenario whose observations are not those of the training.

        Parameters
        ----------
        shapes : shapes of the observation arrays that the windows show of the scenario
        """
        if self.untrained:
            return
        if self._model is None:
            self._model = self._load()
        if why := self._model.refusal(shapes, self.windows):
            raise SchedulerError(f"{self.agent or self.path}: the agent was {why}; train an agent on such a scenario")

    def _load(self) -> Any:
        path = self.model_file
        if not path.is_file():
            raise SchedulerError(f"{path}: no such model; train one with train.py")
        try:
            import torch

            torch.set_num_threads(_NUMBER_OF_THREADS)
            from gpusched_env.agents.network import TokenNetwork

            return TokenNetwork.load(path).double()
        except ImportError as error:
            raise SchedulerError(
                f'a learned scheduler needs {error.name}: pip install "gpusched-env[train]"'
            ) from error

    def choose(
        self, observations: Mapping[str, np.ndarray], masks: np.ndarray, generators: Sequence[np.random.Generator]
    ) -> list[int]:
        """Return an action for each of B runs.

        Parameters
        ----------
        observations : float32 [B, ...] by name
        masks : bool [B, actions], feasible actions, at least one in each row
        generators : of the draws, one for each run
        """
        if self.untrained:
            return [int(one.choice(np.flatnonzero(mask))) for mask, one in zip(masks, generators, strict=True)]
        scores = np.where(masks, self._rounded_logits(observations), -np.inf)
        if self.greedy:
            return [int(best) for best in np.argmax(scores, axis=1)]
        # NumPy draws, not torch, so that a seed gives the same schedule with any number of workers.
        shares = np.cumsum(arrays.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
        return [
            int(np.searchsorted(row, one.random() * row[-1], side="right"))
            for row, one in zip(shares, generators, strict=True)
        ]

    def _rounded_logits(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the logits of all actions, float64 [B, actions].

        Processors and batch sizes change the last bits of logits. Rounding turns near ties into ties, and float64 makes
        it very unlikely that such a bit changes a rounded logit.
        """
        import torch

        with torch.inference_mode():
            batch = {name: torch.from_numpy(array).double() for name, array in observations.items()}
            logits: np.ndarray = self._model.log_probabilities(batch).numpy()
        return np.round(logits, LOGIT_DECIMALS)


def windows_of(training: Mapping[str, Any]) -> Windows:
    """Return the windows in a configuration that training saved.

    A field that an older file lacks has the value with which all agents learned then.
    """
    saved = {**_BEFORE, **training}
    names = [one.name for one in dataclasses.fields(Windows) if one.name in saved]
    return Windows(**{name: saved[name] for name in ["queue_window", *names]})
