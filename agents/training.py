"""Training of an agent on a scenario's training seeds; validation seeds choose the best checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import gpusched_env
from gpusched_env.agents import ppo
from gpusched_env.agents.learned import CONFIG_FILE, MODEL, windows_of
from gpusched_env.agents.network import WIDTH
from gpusched_env.agents.run_folder import STATE_FILE, RunFolder
from gpusched_env.agents.teachers import check_teacher
from gpusched_env.agents.validation import LEARNING_FILE, METRIC_OF, Judge, Progress, Validation
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.scenarios import Curriculum, get_scenario
from gpusched_env.support.plugins import from_clone

CHECKED_EPISODES: Final = 4  # in which a teacher shows whether it can be imitated


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Windows):
    """Settings of a training run: the windows of the agent, and how it is trained."""

    scenario: str = "philly-64-v1"
    """Name of a scenario, or path of a JSON or TOML file."""
    teacher: str = ""
    """Scheduler that the network imitates before it learns from rewards, such as srtf:placement=consolidate; empty =
    none. A network with a teacher wants a smaller learning rate and horizon."""
    teacher_episodes: int = 24
    """Number of episodes in each of the three rounds of imitation."""
    dataset: str = ""
    """Minari dataset from which the network learns first (python -m tools datasets); scenario and windows are those of
    the dataset. Empty = none."""
    steps: int = 600_000
    """Total number of environment steps; 0 = imitation only."""
    seed: int = 0
    """Seed of the network, the exploration and the order of training seeds."""
    queue_window: int = 16
    running_window: int = 4
    rules: Sequence[str] = ("consolidate",)
    queue_order: str = "shortest"
    running_order: str = "longest"
    reward: str = "jct"
    """Reward component (see docs/observation_and_action.md)."""
    width: int = WIDTH
    """Length of the network's embeddings."""
    workloads: int = 8
    """Number of workloads per update."""
    copies: int = 4
    """Number of episodes of each workload per update, which are compared with each other."""
    horizon: float = 2.0
    """Time after which the effect of an action counts 1/e, in mean ideal run times of the jobs; inf = no discount."""
    batch: int = 1024
    """Steps per minibatch."""
    epochs: int = 3
    """Passes over the steps of an update."""
    learning_rate: float = 3e-3
    """Initial learning rate; it decreases linearly to 0."""
    clip: float = 0.2
    """Relative change of a probability from which PPO's objective is flat."""
    target_kl: float = 0.03
    """KL divergence from the policy that played at which an update ends."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    device: str = "cpu"
    """Where the network learns: cpu, cuda, or another device of torch."""
    curriculum: str = ""
    """Parts of a scenario that varies, on which the network trains first, such as 0.3:racks=3,load=0.6..0.9: until
    30 % of the steps, the problems have three racks and such a load. Semicolons separate stages; empty = none."""
    greedy: bool = False
    """Whether the agent takes the most likely action when it is validated and played, instead of a drawn one."""
    validations: int = 8
    """Number of checkpoints compared on the validation seeds; the best one is kept."""
    validation_seeds: int = 16
    """Number of validation seeds played per checkpoint."""

    def __post_init__(self) -> None:
        """Check every field."""
        if self.dataset:
            reading = from_clone("tools.datasets.reading", "--dataset")
            for name, value in reading.settings_of(self.dataset).items():
                object.__setattr__(self, name, value)
        super().__post_init__()
        counts = ("teacher_episodes", "width", "workloads", "batch", "epochs", "validations", "validation_seeds")
        least = dict.fromkeys(counts, 1) | {"seed": 0, "copies": 2, "steps": 0 if self.imitates else 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise GpuschedError(f"training: {name} is {getattr(self, name)}: it must be at least {smallest}")
        if self.teacher:
            make_scheduler(self.teacher)  # an unknown one is an error now, not after the first validation
        try:
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise GpuschedError(f"training: device {self.device!r} cannot be used here; give cpu ({error})") from error
        Curriculum.parse(self.curriculum)
        if not self.horizon > 0:
            raise GpuschedError(f"training: horizon is {self.horizon}: give a number > 0, or inf for no discount")

    @property
    def windows(self) -> Windows:
        """What the agent sees and may do."""
        return windows_of(vars(self))

    @property
    def imitates(self) -> bool:
        """Whether the network imitates decisions before it learns from rewards."""
        return bool(self.teacher or self.dataset)

    @property
    def metric(self) -> str:
        """The metric by which checkpoints are chosen."""
        return METRIC_OF.get(self.reward, "mean_jct_s")


def train(
    config: TrainingConfig,
    output: Path,
    progress: Progress | None = None,
    resume: bool = False,
    judge: Judge | None = None,
) -> Path:
    """Train an agent, save it in ``output``, and return the path of its model.

    The model is ``model.npz``. The other files are ``initial.npz`` (the network before training), ``cloned.npz`` (after
    imitation of the teacher, if there is one), ``config.json`` and ``learning.csv``, which begins with the initial
    network; that one is never kept as the model. All are written atomically when the first checkpoint has been
    validated, and replaced when a later checkpoint is better.

    ``updates.csv`` and, for TensorBoard, the folder ``tensorboard`` hold return, KL divergence, entropy and more of
    each update. After each validation ``state.pt`` is saved, from which ``resume`` continues. On the CPU, the resumed
    run gives the files of an uninterrupted one, bit for bit. A finished run has no state.

    ``progress`` and ``judge`` are those of :class:`~gpusched_env.agents.validation.Validation`.

    Raises
    ------
    GpuschedError : the scenario has too few seeds, the folder cannot be written, or there is nothing to resume
    KeyboardInterrupt : Ctrl-C; its text tells what was kept
    """
    scenario = get_scenario(config.scenario)
    for _, ranges in Curriculum.parse(config.curriculum).stages:
        # an impossible one is an error now, not in the middle of the training
        scenario.train_seed(np.random.default_rng(config.seed), scenario.part(ranges))
    for kind, wanted in (("train", config.workloads), ("validation", config.validation_seeds)):
        first, end = getattr(scenario.seeds, kind)
        if end - first < wanted:
            raise GpuschedError(
                f"training: {wanted} {kind} seeds are needed, but scenario {scenario.name} has {end - first}"
            )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpuschedError(f"{output}: cannot be made ({error.strerror or error}); name another folder") from error
    record = {
        "training": dataclasses.asdict(config),
        "scenario": scenario.as_dict(),
        "scenario_fingerprint": scenario.fingerprint(),
        **versions(),
    }
    torch.set_num_threads(1)  # the network is so small that a second thread makes it slower
    torch.manual_seed(config.seed)
    validation = Validation(config, scenario, output, record, progress, judge)
    environment = ClusterEnv(scenario, reward=config.reward, **dataclasses.asdict(config.windows))
    if config.teacher and not resume:
        check_teacher(config.teacher, environment, range(*scenario.seeds.train)[:CHECKED_EPISODES])
    with contextlib.closing(RunFolder(output, record, resume)) as folder, _told_what_was_kept(validation, folder):
        ppo.learn(config, environment, validation, folder)
        folder.finish()
    return validation.model_file


def trained_or_resumed(config: TrainingConfig, output: Path, resume: bool, progress: Progress | None = None) -> Path:
    """Train an agent; with ``resume``, only what an interrupted command has left to do.

    A finished run with the same settings is not trained again. A run without a saved state begins anew.
    """
    if not resume or (output / STATE_FILE).is_file():
        return train(config, output, progress, resume)
    try:
        saved = json.loads((output / CONFIG_FILE).read_text(encoding="utf-8"))["training"]
        *_, last = (output / LEARNING_FILE).read_text(encoding="utf-8").splitlines()
        is_finished = int(last.partition(",")[0]) >= config.steps
    except (OSError, ValueError, KeyError):
        saved, is_finished = None, False
    if is_finished and saved == json.loads(json.dumps(dataclasses.asdict(config))):
        return output / f"{MODEL}.npz"
    return train(config, output, progress)


@contextlib.contextmanager
def _told_what_was_kept(validation: Validation, folder: RunFolder) -> Iterator[None]:
    """Add to an interrupt what was kept, and whether the run can be resumed."""
    try:
        yield
    except KeyboardInterrupt as stop:
        hint = "; --resume continues the training" if folder.can_resume else ""
        raise KeyboardInterrupt(validation.kept() + hint) from stop


def versions() -> dict[str, Any]:
    """Return the versions of the packages that training uses and, in a clone, the commit of the code."""
    found: dict[str, Any] = {"version": gpusched_env.__version__}
    found["packages"] = {name: metadata.version(name) for name in ("gymnasium", "numba", "numpy", "torch")}
    try:
        found["commit"] = _git("rev-parse", "HEAD")
        found["uncommitted_changes"] = bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        pass  # no clone, or no git
    return found


def _git(*arguments: str) -> str:
    """Return what git prints about the clone that contains this file."""
    folder = Path(gpusched_env.__file__).parents[1]
    if not (folder / ".git").exists():
        raise OSError(f"{folder} is not a clone")
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()
