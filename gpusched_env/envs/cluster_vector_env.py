"""The vector environment: one call steps many environments in compiled code, on all cores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpusched_env.envs.actions import Action, meaning_of, number_of
from gpusched_env.envs.checks import check_instance
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.episode_seeds import NO_SEED
from gpusched_env.envs.options import EpisodeOptions, check_reset_options, made_of, signature_of
from gpusched_env.envs.step import SKIP
from gpusched_env.envs.step_results import DT, FIRST_COMPONENT, REFUSALS, REWARD, TERMINATED, TRUNCATED
from gpusched_env.envs.vector_runs import VectorRuns
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import metric_names

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario

Observations = dict[str, np.ndarray]


@dataclass(frozen=True)
class VectorOptions:
    """Arguments of :class:`ClusterVectorEnv` beside those of single environments."""

    copy: bool = True
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP
    threads: int | None = None
    keep_logs: bool = True
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.threads is not None and self.threads < 1:
            raise ScenarioError(f"threads is {self.threads}: it must be at least 1, or None for one per core")
        if self.max_episode_steps is not None and self.max_episode_steps < 1:
            raise ScenarioError(f"max_episode_steps is {self.max_episode_steps}: it must be at least 1")


class ClusterVectorEnv(VectorEnv[Observations, np.ndarray, np.ndarray]):
    """``num_envs`` copies of :class:`~gpusched_env.envs.cluster_env.ClusterEnv`, stepped by one call.

    ``gymnasium.make_vec("gpusched/Cluster-v0", num_envs=256)`` makes one. Each environment plays bit for bit like a
    single environment with the same seed, on any number of threads. Infos have the layout of ``SyncVectorEnv``. Where
    an episode ends they also hold ``episode_return`` and ``episode_length`` [step]. The key ``episode`` is left to
    ``gymnasium.wrappers.vector.RecordEpisodeStatistics``.

    Parameters
    ----------
    num_envs : B, number of environments
    scenario : one scenario for all environments, or one for each. All must have the same number of links and of GPU
        types, and all or none must allow sharing. In ``nodes`` and ``node_types``, rows beyond the nodes of an
        environment's own cluster are 0; so are all rows that the problem of a varying scenario lacks
    copy : True = observations and masks are fresh arrays; False = they are read-only views of the buffers that the next
        step overwrites in part
    autoreset_mode : "NextStep" (the step after the last one of an episode resets, whatever the action), "SameStep" (the
        last step resets; ``infos["final_obs"]`` and ``infos["final_info"]`` hold what it returned) or "Disabled" (call
        ``reset(options={"reset_mask": ...})``)
    threads : number of threads; None = one per core, at most one per 16 environments
    keep_logs : keep event logs, so that the last info of an episode holds ``metrics`` and ``digest`` as for a single
        environment; this costs milliseconds per episode. False = ``metrics`` are infinite and ``digest`` is empty
    max_episode_steps : number of steps after which an episode is truncated, as by the wrapper ``TimeLimit`` of a single
        environment: the remaining jobs are dropped. ``step_limit`` plays them
    options : the other arguments of ClusterEnv. With ``seeds`` other than "train", the environments play the range
        together: environment b begins with the seed first + b and goes on B seeds later
    """

    def __init__(
        self, num_envs: int = 1, scenario: str | Scenario | Sequence[str | Scenario] = "philly-64-v1", **options: Any
    ) -> None:
        if num_envs < 1:
            raise ScenarioError(f"num_envs is {num_envs}: it must be at least 1")
        if options.get("render_mode") is not None:
            raise ScenarioError("render_mode: only a single environment (gymnasium.make) can be drawn")
        own: VectorOptions = made_of(options, VectorOptions, Windows, EpisodeOptions)[0]
        options = {name: value for name, value in options.items() if not hasattr(own, name)}
        scenarios = (
            [scenario] * num_envs if isinstance(scenario, str) or not isinstance(scenario, Sequence) else scenario
        )
        if len(scenarios) != num_envs:
            raise ScenarioError(f"scenario names {len(scenarios)} scenarios for {num_envs} environments: give one each")
        self.singles = self._make_singles(scenarios, options)
        first = max(self.singles, key=lambda single: single.scenario.observed.nodes)
        self.autoreset_mode = AutoresetMode(own.autoreset_mode)  # TorchRL reads it, not the metadata
        self.metadata = dict(ClusterEnv.metadata) | {"autoreset_mode": self.autoreset_mode}
        self.num_envs, self.windows = num_envs, first.windows
        self.single_action_space, self.single_observation_space = first.action_space, first.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.copies, self._threads, self._keeps_logs = own.copy, own.threads, own.keep_logs
        self._shows_mask = "action_mask" in self.single_observation_space.spaces  # type: ignore[attr-defined]
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._runs: VectorRuns | None = None
        self._over = np.zeros(num_envs, bool)  # the episode has ended and no new one has begun
        self._seeds = np.full(num_envs, NO_SEED)  # of the last episodes
        self._most_steps = own.max_episode_steps
        self._unfinished: dict[str, Any] = {}  # infos of metrics and digests before the end of an episode

    # --- Gymnasium

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every environment, or only where ``options["reset_mask"]`` (bool [B]) is True.

        Parameters
        ----------
        seed : an int s gives environment b the seed s + b; a sequence gives one seed each. None = each environment
            draws a training seed from a random stream of its own, or plays the next one of ``seeds``
        """
        check_reset_options(options, ("reset_mask",))
        seeds = [seed] * self.num_envs if seed is None else seed
        if isinstance(seeds, int | np.integer):
            seeds = [int(seeds) + b for b in range(self.num_envs)]
        if len(seeds) != self.num_envs:
            raise ScenarioError(f"seed: {len(seeds)} seeds for {self.num_envs} environments; give one each")
        marked = self._reset_mask(options)
        self._begin(marked, seeds)
        runs = self._started_runs()
        runs.batch.actions[~marked] = SKIP
        self._play()
        return self._observation(), self._infos(marked)

    def step(self, actions: np.ndarray) -> tuple[Observations, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one action in each environment."""
        runs = self._started_runs()
        runs.batch.actions[:] = self._checked(actions)
        if self._over.any():
            if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
                raise gym.error.ResetNeeded(
                    'the episodes of some environments are over: reset(options={"reset_mask": ...})'
                )
            self._begin(self._over.copy(), [None] * self.num_envs)
        ends = self._play()
        results = runs.batch.results
        rewards = results[:, REWARD].copy()
        terminated, truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        over = np.zeros(self.num_envs, bool)
        final: dict[str, Any] = {}
        if ends:
            terminated, truncated = results[:, TERMINATED] > 0.0, results[:, TRUNCATED] > 0.0
            over = terminated | truncated
        if self._most_steps is not None:
            cut = runs.batch.episodes["steps"] >= self._most_steps
            truncated, over = truncated | cut, over | cut
        if self.autoreset_mode is AutoresetMode.SAME_STEP and over.any():
            final = self._final_infos(over)
            self._begin(over, [None] * self.num_envs)
            runs.batch.actions[~over] = SKIP
            self._play()
            over = np.zeros_like(over)
        self._over = over
        infos = self._infos(np.ones(self.num_envs, bool)) | final
        if self.autoreset_mode is not AutoresetMode.SAME_STEP and over.any():
            infos = self._with_episodes(infos, over)
        return self._observation(), rewards, terminated, truncated, infos

    def close_extras(self, **_: Any) -> None:
        """End the threads."""
        if self._runs is not None:
            self._runs.close()

    # --- beyond Gymnasium

    def action_masks(self) -> np.ndarray:
        """Feasible actions, bool [B, actions]."""
        mask = self._started_runs().batch.shown_mask.view(bool)
        return mask.copy() if self.copies else mask

    def action_meaning(self, action: int) -> Action:
        """Return what an action means, in every environment: the inverse of :meth:`action_of`."""
        return meaning_of(self.windows, self.windows.checked(action))

    def action_of(self, wanted: Action) -> int:
        """Return the number of an action; a GpuschedError says which arguments make one if there is none."""
        return number_of(self.windows, wanted)

    def train_on(self, **ranges: Any) -> None:
        """Draw training seeds whose problems lie in part of the scenario's variation; see ``ClusterEnv.train_on``."""
        singles = list(dict.fromkeys(self.singles))  # one for each scenario
        for single in singles:
            single.scenario.part(ranges)  # all are checked before one is changed
        for single in singles:
            single.train_on(**ranges)

    def event_log(self, b: int) -> EventLog:
        """Return the event log of the current episode of environment ``b``; logs must be kept."""
        if not self._keeps_logs:
            raise GpuschedError("event_log: make the environments with keep_logs=True")
        return self._started_runs().simulations[b].log()

    def copy_environment(self, source: int, target: int) -> None:
        """Put environment ``target`` into the state of ``source``: from now on equal actions give equal steps.

        The random stream from which ``target`` draws its next training seed stays its own.
        """
        runs = self._started_runs()
        for b in (source, target):
            if not 0 <= b < self.num_envs:
                raise GpuschedError(f"copy_environment: there is no environment {b}, only 0 to {self.num_envs - 1}")
        if self.singles[source] is not self.singles[target]:
            raise GpuschedError(f"copy_environment: environments {source} and {target} have different scenarios")
        if source != target:
            runs.copy(source, target)
            self._over[target], self._seeds[target] = self._over[source], self._seeds[source]

    # --- inside

    @staticmethod
    def _make_singles(scenarios: Sequence[str | Scenario], options: dict[str, Any]) -> list[ClusterEnv]:
        """Return a single environment for each; equal scenarios get the same object."""
        made: dict[Any, ClusterEnv] = {}
        for one in scenarios:
            key = one if isinstance(one, str) else id(one)
            if key not in made:
                made[key] = ClusterEnv(one, **options)
        shapes = [single.shapes(nodes=1) for single in made.values()]
        for name in sorted({name for shown in shapes for name in shown}):
            given = {shown.get(name, (0,)) for shown in shapes}
            if len(given) > 1:
                raise ScenarioError(
                    f"scenario: the observation {name!r} has shapes {sorted(given)}; they must be equal"
                )
        return [made[one if isinstance(one, str) else id(one)] for one in scenarios]

    def _started_runs(self) -> VectorRuns:
        if self._runs is None:
            raise gym.error.ResetNeeded("call reset() first: no episode is running")
        return self._runs

    def _play(self) -> bool:
        """Carry out the actions; return whether an episode has ended. After an error in a kernel, only reset helps."""
        runs = self._started_runs()
        try:
            return runs.play()
        except BaseException:
            if runs.has_failed:
                runs.close()
                self._runs = None
            raise

    def _reset_mask(self, options: dict[str, Any] | None) -> np.ndarray:
        """Return which environments to reset, bool [B]."""
        marked = (options or {}).get("reset_mask")
        if marked is None:
            return np.ones(self.num_envs, bool)
        if not isinstance(marked, np.ndarray) or marked.shape != (self.num_envs,) or marked.dtype != bool:
            raise GpuschedError(f"options['reset_mask'] must be a bool array of shape ({self.num_envs},)")
        if not marked.any():
            raise GpuschedError("options['reset_mask'] marks no environment")
        if self._runs is None and not marked.all():
            raise GpuschedError("options['reset_mask']: the first reset must include all environments")
        return marked

    def _begin(self, marked: np.ndarray, seeds: Sequence[int | None]) -> None:
        """Begin new episodes in the marked environments."""
        drawn = {}
        for b in np.flatnonzero(marked).tolist():
            seed = seeds[b]
            if seed is not None:
                self._generators[b] = seeding.np_random(seed)[0]
            elif self._generators[b] is None:
                self._generators[b] = seeding.np_random()[0]
            generator = self._generators[b]
            assert generator is not None
            if seed is None:
                seed = self.singles[b].draw_seed(generator, int(self._seeds[b]), b, self.num_envs)
            drawn[b] = int(seed)
        instances = {b: self.singles[b].scenario.instance(seed) for b, seed in drawn.items()}
        for b, instance in instances.items():
            check_instance(instance, self.singles[b].windows)
        if self._runs is None:
            self._runs = VectorRuns(self.singles, list(instances.values()), self._threads, self._keeps_logs)
        for b, seed in drawn.items():
            self._runs.begin(b, instances[b], seed)
            self._seeds[b] = seed
        self._over[marked] = False
        if not self._unfinished:  # of the first reset, which begins an episode in every environment
            for b, instance in instances.items():
                nothing = dict.fromkeys(metric_names(instance), math.inf)
                self._unfinished = self._add_info(self._unfinished, {"metrics": nothing, "digest": ""}, b)

    def _checked(self, actions: Any) -> np.ndarray:
        """Return the actions as int64 [B]; an invalid action raises an error that names its environment."""
        given = np.asarray(actions)
        if given.shape != (self.num_envs,):
            raise GpuschedError(f"actions have shape {given.shape}: give one for each of {self.num_envs} environments")
        # As unsigned integers, negative numbers are large: one comparison checks both bounds.
        if given.dtype == np.int64 and given.view(np.uint64).max() < self.windows.actions:
            return given
        if given.dtype.kind in "iu" and given.min() >= 0 and given.max() < self.windows.actions:
            return given
        whole = np.zeros(self.num_envs, np.int64)
        for b, action in enumerate(given.tolist()):
            if not self._over[b]:
                try:
                    whole[b] = self.windows.checked(action)
                except GpuschedError as error:
                    raise GpuschedError(f"environment {b}: {error}; no environment has been stepped") from None
        return whole

    def _observation(self) -> Observations:
        batch = self._started_runs().batch
        seen = batch.shown | ({"action_mask": batch.shown_mask} if self._shows_mask else {})
        return {name: array.copy() for name, array in seen.items()} if self.copies else seen

    def _infos(self, fresh: np.ndarray) -> dict[str, Any]:
        """Return the infos of all environments; ``fresh``, bool [B]: which ones this call has reset or stepped."""
        batch = self._started_runs().batch
        paid = {name: batch.results[:, FIRST_COMPONENT + i].copy() for i, name in enumerate(batch.names)}
        told = {
            "dt": batch.results[:, DT].copy(),
            "refusals": batch.results[:, REFUSALS].astype(np.int64),
            "rewards": marked(paid, fresh),
            "seed": self._seeds.copy(),
        }
        masks = {"action_mask": batch.mask.copy() if self.copies else batch.shown_mask}
        return marked(masks, np.ones(self.num_envs, bool)) | marked(told, fresh) | self._unfinished

    def _with_episodes(self, infos: dict[str, Any], over: np.ndarray) -> dict[str, Any]:
        """Return infos with the statistics of the episodes that have ended where ``over``, bool [B]."""
        runs = self._started_runs()
        episodes, results = runs.batch.episodes, runs.batch.results
        infos = infos | copied(self._unfinished)
        for b in np.flatnonzero(over).tolist():
            of_one = {
                "episode_return": float(episodes["episode_return"][b]),
                "episode_length": int(episodes["steps"][b]),
            }
            if results[b, TERMINATED] > 0.0 or results[b, TRUNCATED] > 0.0:  # max_episode_steps did not cut it off
                of_one |= runs.summary(b)
            infos = self._add_info(infos, of_one, b)
        return infos

    def _final_infos(self, over: np.ndarray) -> dict[str, Any]:
        """Return the last observations and infos of the episodes that have ended where ``over``, bool [B]."""
        batch = self._started_runs().batch
        shown = batch.shown | ({"action_mask": batch.mask} if self._shows_mask else {})
        observations = np.full(self.num_envs, None, object)
        for b in np.flatnonzero(over).tolist():
            observations[b] = {name: array[b].copy() for name, array in shown.items()}
        infos = only(self._with_episodes(self._infos(over), over), over)
        return {"final_obs": observations, "_final_obs": over, "final_info": infos, "_final_info": over.copy()}


def marked(infos: Mapping[str, Any], whose: np.ndarray) -> dict[str, Any]:
    """Return infos, each followed by the mask, bool [B], of the environments that it is about."""
    return {key: one for name, value in infos.items() for key, one in ((name, value), (f"_{name}", whose))}


def only(infos: Mapping[str, Any], whose: np.ndarray) -> dict[str, Any]:
    """Return what infos tell about some environments, bool [B]; zeros, or None, about the others."""
    found: dict[str, Any] = {}
    for name, value in infos.items():
        if isinstance(value, dict):
            found[name] = only(value, whose)
        elif name.startswith("_"):
            found[name] = value & whose
        else:
            found[name] = np.full_like(value, None if value.dtype == object else 0)
            found[name][whose] = value[whose]
    return found


def copied(infos: dict[str, Any]) -> dict[str, Any]:
    """Return infos with copies of all arrays."""
    return {name: copied(value) if isinstance(value, dict) else value.copy() for name, value in infos.items()}


ClusterVectorEnv.__signature__ = signature_of(  # type: ignore[attr-defined]
    ClusterVectorEnv, VectorOptions, Windows, EpisodeOptions
)
