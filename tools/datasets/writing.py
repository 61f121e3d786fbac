"""Play episodes, write them, and play them again from the file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
import numpy as np

import gpusched_env
from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.teachers import Teachers
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.step_results import REWARD, TERMINATED, TRUNCATED
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.files import visible
from tools.datasets.own_play import OwnPlay
from tools.datasets.reading import ENVIRONMENT, ROOT, minari_library, readable, window_settings

if TYPE_CHECKING:
    from minari import MinariDataset

_NAME: Final = re.compile(r"([\w-]+/)*[\w-]+-v\d+")
TOGETHER: Final = 32  # episodes that are played side by side


@dataclasses.dataclass
class Played:
    """An episode of T steps.

    ``observations`` : [T + 1, ...] by name, with ``action_mask``. ``terminated``, ``truncated`` : of the last step.
    ``right`` : bool [T, actions], feasible actions that the scheduler would have taken as well; only the action taken
    if the scheduler relies on its decisions. ``digest`` : of the event log.
    """

    seed: int
    observations: dict[str, np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    right: np.ndarray
    digest: str
    mean_jct_s: float


def play_episodes(scheduler: str, environment: ClusterEnv, seeds: Sequence[int]) -> list[Played]:
    """Play an episode of each seed; at each step, take the first action that the scheduler would take."""
    episodes = Episodes(environment, seeds, keep_logs=True)
    teachers: OwnPlay | Teachers
    if make_scheduler(scheduler).relies_on_decisions:
        teachers = OwnPlay(scheduler, environment, episodes, seeds)
    else:
        teachers = Teachers(scheduler, episodes, environment.windows)
    parts: list[list[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, int, float]]] = [[] for _ in seeds]
    ends = np.zeros((len(seeds), 2), bool)
    while len(rows := episodes.waiting()):
        observations, masks = episodes.seen(rows)
        right, first = teachers.right(rows, masks)
        results = episodes.play(rows, first)
        for i, b in enumerate(rows):
            seen = {name: array[i] for name, array in observations.items()}
            parts[b].append((seen, masks[i], right[i], int(first[i]), float(results[i, REWARD])))
        ends[rows] = results[:, [TERMINATED, TRUNCATED]] > 0.0
    last, last_masks = episodes.seen(np.arange(len(seeds)))
    found = []
    for b, (seed, steps) in enumerate(zip(seeds, parts, strict=True)):
        observed = {name: np.array([step[0][name] for step in steps] + [last[name][b]]) for name in last}
        observed["action_mask"] = np.array([step[1] for step in steps] + [last_masks[b]], np.int8)
        summary = environment.summary(episodes.simulations[b])
        found.append(
            Played(
                seed, observed, np.array([step[3] for step in steps]), np.array([step[4] for step in steps]),
                bool(ends[b, 0]), bool(ends[b, 1]), np.array([step[2] for step in steps]), summary["digest"],
                summary["metrics"]["mean_jct_s"],
            )
        )  # fmt: skip
    return found


def write_dataset(
    scheduler: str,
    scenario: str,
    seeds: Sequence[int],
    windows: Windows | None = None,
    name: str = "",
    root: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MinariDataset:
    """Play a scheduler through an environment, and write its episodes as a Minari dataset that was read again.

    Observations have the arrays of the environment and ``action_mask``. The infos of a step hold ``right_actions``,
    bool [actions]: all feasible actions that the scheduler would have taken, in any order; only the action taken if the
    scheduler relies on its decisions. The metadata of an episode hold its seed, the digest of its event log and its
    mean JCT.

    ``name`` is ``namespace/dataset-v0``, by default ``gpusched/<scenario>-<scheduler>-v0``; ``root`` is the folder of
    Minari datasets; ``progress`` gets (episodes done, all episodes).

    Raises
    ------
    GpuschedError : no seeds, Minari is not installed, the dataset exists, the scheduler remembers GPUs, or a replay
        differs from what was read
    """
    if not seeds:
        raise GpuschedError("dataset: give at least one seed")
    with _kept_in(root):
        minari = minari_library()
        chosen = get_scenario(scenario)
        name = name or f"gpusched/{_word(chosen.name)}-{_word(scheduler)}-v0"
        if not _NAME.fullmatch(name):
            raise GpuschedError(f"dataset {name!r}: write NAMESPACE/NAME-v0, of letters, digits, _ and -")
        path = Path(minari.storage.get_dataset_path(name))
        if path.exists():
            raise GpuschedError(f"dataset {name} exists; delete it (minari delete {name}) or give another name")
        options = dataclasses.asdict(windows or Windows())
        env = _environment({"scenario": scenario, **options})
        base: Any = env.unwrapped
        buffers: list[Any] = []
        metadata = []
        for first in range(0, len(seeds), TOGETHER):
            for one in play_episodes(scheduler, base, list(seeds[first : first + TOGETHER])):
                buffers.append(_buffer(one, len(buffers)))
                metadata.append({"digest": one.digest, "mean_jct_s": one.mean_jct_s, "workload_seed": one.seed})
            progress(len(buffers), len(seeds))
        try:
            with warnings.catch_warnings():  # Minari misses an author, a link to the code, an environment to evaluate
                warnings.simplefilter("ignore", UserWarning)
                about = f"{scheduler} on {chosen.name}, {len(seeds)} seeds from {min(seeds)} to {max(seeds)}"
                needs = [f"gpusched-env=={gpusched_env.__version__}"]
                dataset: MinariDataset = minari.create_dataset_from_buffers(
                    name, buffers, env=env, algorithm_name=scheduler, requirements=needs, description=about
                )
            dataset.storage.update_episode_metadata(metadata)
            verify(dataset)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return dataset


def mean_jct_s(dataset: MinariDataset) -> float:
    """Return the mean of the mean JCTs of all episodes [s]."""
    metadata = dataset.storage.get_episode_metadata(dataset.episode_indices)
    return float(np.mean([one["mean_jct_s"] for one in metadata]))


def verify(dataset: MinariDataset) -> None:
    """Play the actions of every episode again, in the environment of this package.

    Raises
    ------
    GpuschedError : an observation, a reward or the event log of the replay differs
    """
    with readable(dataset.spec.dataset_id):
        # Not dataset.recover_environment(): it imports the module that the dataset names as its environment.
        env = _environment(window_settings(dataset))
        indices = dataset.episode_indices
        for episode, metadata in zip(dataset, dataset.storage.get_episode_metadata(indices), strict=True):
            seed = int(metadata["workload_seed"])
            observation, info = env.reset(seed=seed)
            for t, action in enumerate(episode.actions):
                _same(observation, episode.observations, t, seed)
                observation, reward, _, _, info = env.step(int(action))
                if float(reward) != float(episode.rewards[t]):
                    raise GpuschedError(f"dataset: seed {seed}, step {t}: the replay's reward is {reward}")
            _same(observation, episode.observations, len(episode.actions), seed)
            if info["digest"] != str(metadata["digest"]):
                raise GpuschedError(f"dataset: seed {seed}: the replay's event log differs")


def _environment(settings: Mapping[str, Any]) -> gym.Env[Any, Any]:
    return gym.make(ENVIRONMENT, mask_in_observation=True, **settings)


def _same(observation: Mapping[str, np.ndarray], stored: Any, t: int, seed: int) -> None:
    for name, array in observation.items():
        if not np.array_equal(array, stored[name][t]):
            raise GpuschedError(f"dataset: seed {seed}, step {t}: {name} differs in the replay")


def _buffer(played: Played, number: int) -> Any:
    from minari.data_collector import EpisodeBuffer

    steps = len(played.actions)
    ends = np.zeros((2, steps), bool)
    ends[:, -1] = played.terminated, played.truncated
    # Infos have one entry more than steps, as observations have: that of the reset.
    right = np.concatenate([np.zeros_like(played.right[:1]), played.right])
    return EpisodeBuffer(
        id=number, seed=played.seed, observations=played.observations, actions=played.actions,
        rewards=played.rewards.tolist(), terminations=ends[0].tolist(), truncations=ends[1].tolist(),
        infos={"right_actions": right},
    )  # fmt: skip


def _word(text: str) -> str:
    """Turn text into a part of the name of a dataset."""
    return re.sub(r"[^\w-]+", "-", text).strip("-")


@contextlib.contextmanager
def _kept_in(folder: Path | None) -> Iterator[None]:
    """Let Minari keep its datasets in a folder; None = in its own. Errors of the disk become one line."""
    before = os.environ.get(ROOT)
    if folder is not None:
        os.environ[ROOT] = str(folder.resolve())
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: of HDF5
        raise GpuschedError(f"the dataset cannot be written ({visible(error)}); name another folder") from error
    finally:
        if folder is not None:
            os.environ.pop(ROOT)
        if before is not None:
            os.environ[ROOT] = before
