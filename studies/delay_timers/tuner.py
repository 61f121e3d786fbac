"""Train a tuner of Dally's delay timers and save its best checkpoint on validation seeds.

    python -m studies.delay_timers.tuner --learner evolution      a linear policy, by evolution
    python -m studies.delay_timers.tuner --learner ppo            a small network, by stable-baselines3
    python -m studies.delay_timers.tuner --quick --output runs/quick
    python -m studies.delay_timers.tuner --help                   every setting

It writes tuner.npz and learning.csv to the output folder. Dally can then play with this tuner:

    gpusched run --scenario dally-drift-v1 --scheduler dally:tuner=learned,timers=runs/delay-tuner/tuner.npz
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import numpy as np

import gpusched_env
from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.errors import GpuschedError
from gpusched_env.portable.elementary import log
from gpusched_env.reproduce.dally_tuner.problems import TRAINED, TRAINING_SEEDS, VALIDATION_SEEDS, problem, static_waits
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import write_whole
from studies.delay_timers.evolution import Evolution
from studies.delay_timers.playing import Played, drawn, play_network, play_static

TUNER_FILE: Final = "tuner.npz"
Told = Callable[[str], None]


@dataclass
class TunerConfig:
    """Train a tuner of delay timers."""

    learner: Literal["evolution", "ppo", "clone"] = "evolution"
    """Learning method; "clone" fits a linear policy to the best static timers of each problem."""
    problems: tuple[str, ...] = TRAINED
    """Training problems: labels of gpusched_env.reproduce.dally_tuner.problems, or names of scenarios."""
    start: Path | None = None
    """Initial tuner; by default a constant action."""
    action: tuple[float, float] = (0.0, 0.0)
    """Initial action of every class; (0, 0) is 1.7 h and 1.7 h more, or with --residual the hand tuner itself."""
    residual: bool = False
    """Let actions multiply the hand tuner's timers."""
    generations: int = 40
    """Generations of evolution."""
    pairs: int = 6
    """Mirrored pairs per generation."""
    sigma: float = 0.2
    """Standard deviation of the samples of a generation."""
    step: float = 0.3
    """Length of the step per generation, in units of sigma."""
    steps: int = 200_000
    """Tuning intervals that PPO plays."""
    statics: Path | None = None
    """Results of studies.delay_timers.static_timers, for "clone"; by default the file in the package."""
    validate_every: int = 10
    """Generations, or updates of PPO, between two validations."""
    training_seeds: int = len(TRAINING_SEEDS)
    """Number of training seeds to use."""
    validation_seeds: int = len(VALIDATION_SEEDS)
    """Number of validation seeds to use."""
    seed: int = 0
    """Seed of the learner."""
    output: Path = Path("runs/delay-tuner")
    """Folder of the results."""
    quick: bool = False
    """A short test run: one problem with few jobs, few steps."""

    def __post_init__(self) -> None:
        """Apply ``quick`` and check the numbers."""
        if self.quick:
            self.problems = ("dally-poisson-v1:load=0.9,jobs=60",)
            self.generations, self.pairs, self.steps, self.validate_every = 2, 2, 600, 1
            self.training_seeds = self.validation_seeds = 2
        for name in ("generations", "pairs", "steps", "validate_every", "training_seeds", "validation_seeds"):
            if getattr(self, name) < 1:
                raise GpuschedError(f"tuner: {name} is {getattr(self, name)}: it must be at least 1")
        if self.training_seeds > len(TRAINING_SEEDS) or self.validation_seeds > len(VALIDATION_SEEDS):
            raise GpuschedError(
                f"tuner: there are {len(TRAINING_SEEDS)} training and {len(VALIDATION_SEEDS)} validation seeds"
            )


class Ledger:
    """Scores relative to no waiting, and the number of jobs simulated for them."""

    def __init__(self) -> None:
        self.simulated_jobs = 0
        self._no_wait: dict[tuple[str, int], float] = {}

    def score(self, network: TimerNetwork, problems: Sequence[str], seed: int) -> float:
        """Return the mean over problems of ln(mean JCT / mean JCT without waiting)."""
        return float(np.mean([self.log_ratio(network, name, seed) for name in problems]))

    def log_ratio(self, network: TimerNetwork, name: str, seed: int) -> float:
        """Return ln(mean JCT / mean JCT without waiting) of one run."""
        instance = drawn(name, seed)
        if (name, seed) not in self._no_wait:
            waits_s = static_waits(instance, (-1.0, -1.0))
            self._no_wait[name, seed] = self._counted(play_static(instance, seed, waits_s)).mean_jct_s
        played = self._counted(play_network(instance, seed, network))
        return log(played.mean_jct_s / self._no_wait[name, seed])

    def _counted(self, played: Played) -> Played:
        self.simulated_jobs += played.jobs
        return played


class Validation:
    """Keep the best network on the validation seeds, and record the progress of learning."""

    def __init__(self, config: TunerConfig, start: TimerNetwork, ledger: Ledger, told: Told) -> None:
        self.config, self.start, self.ledger, self.told = config, start, ledger, told
        self.best, self.chosen_at = np.inf, 0
        self.network: TimerNetwork | None = None
        columns = ",".join(f'"{name}"' for name in config.problems)  # names of scenarios contain commas
        self.lines = [f"unit,simulated_jobs,training,validation,{columns},kept"]

    def look(self, unit: int, network: TimerNetwork, training: float) -> None:
        """Play the validation seeds, and keep the network if it is the best so far."""
        seeds = VALIDATION_SEEDS[: self.config.validation_seeds]
        by_problem = [
            float(np.mean([self.ledger.log_ratio(network, name, seed) for seed in seeds]))
            for name in self.config.problems
        ]
        score = float(np.mean(by_problem))
        kept = score < self.best
        if kept:
            self.best, self.network, self.chosen_at = score, network, unit
        written = ",".join(f"{value:.5f}" for value in by_problem)
        self.lines.append(f"{unit},{self.ledger.simulated_jobs},{training:.5f},{score:.5f},{written},{int(kept)}")
        self.told(f"{unit}: training {training:+.4f}, validation {score:+.4f} [{written}]{' kept' * kept}")
        self.save()

    def save(self) -> None:
        """Write the best network so far, and the record of learning."""
        assert self.network is not None
        config = self.config
        about = {
            "version": gpusched_env.__version__,
            "results_version": RESULTS_VERSION,
            "learner": config.learner,
            "settings": {
                key: value for key, value in dataclasses.asdict(config).items() if not isinstance(value, Path)
            },
            "start": self.start.digest(),
            "start_about": dict(self.start.about),
            "scenarios": {name: problem(name).fingerprint() for name in config.problems},
            "training_seeds": list(TRAINING_SEEDS[: config.training_seeds]),
            "validation_seeds": list(VALIDATION_SEEDS[: config.validation_seeds]),
            "simulated_jobs": self.ledger.simulated_jobs + self.start.about.get("simulated_jobs", 0),
            "validation_score": self.best,
            "chosen_at": self.chosen_at,
        }
        dataclasses.replace(self.network, about=about).save(config.output / TUNER_FILE)
        write_whole(config.output / "learning.csv", "\n".join(self.lines) + "\n")


def _say(text: str) -> None:
    print(text, flush=True)


def train(config: TunerConfig, told: Told = _say) -> Path:
    """Train a tuner and return the path of the best checkpoint.

    Raises
    ------
    GpuschedError : a package is missing, or a file cannot be written
    """
    config.output.mkdir(parents=True, exist_ok=True)
    ledger = Ledger()
    if config.start is not None:
        start = TimerNetwork.load(config.start)
    else:
        start = TimerNetwork.constant(config.action, residual=config.residual)
    validation = Validation(config, start, ledger, told)
    validation.look(0, start, float("nan"))
    if config.learner == "evolution":
        _evolve(config, start, ledger, validation)
    elif config.learner == "clone":
        _clone(config, start, ledger, validation)
    else:
        from studies.delay_timers.ppo import learn

        learn(config, start, validation)
    return config.output / TUNER_FILE


def _evolve(config: TunerConfig, start: TimerNetwork, ledger: Ledger, validation: Validation) -> None:
    """Evolve the weights; all samples of a generation play the same training seed of every problem."""

    def score(vector: np.ndarray, generation: int) -> float:
        seed = TRAINING_SEEDS[generation % config.training_seeds]
        return ledger.score(start.with_vector(vector), config.problems, seed)

    def told(generation: int, vector: np.ndarray, training: float) -> None:
        if (generation + 1) % config.validate_every == 0 or generation + 1 == config.generations:
            validation.look(generation + 1, start.with_vector(vector), training)

    evolution = Evolution(config.sigma, config.pairs, config.step, config.seed)
    evolution.improve(start.vector, score, config.generations, told)


def _clone(config: TunerConfig, start: TimerNetwork, ledger: Ledger, validation: Validation) -> None:
    """Clone the best static pairs, and the best static timers per class; validation chooses between the two."""
    from studies.delay_timers.cloning import clone

    path = config.statics or Path(str(files("gpusched_env.reproduce.dally_tuner"))) / "statics.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["problems"]
    except (OSError, ValueError, KeyError) as error:
        raise GpuschedError(f"{path}: not what studies.delay_timers.static_timers writes ({error!r})") from error
    shape = (len(start.classes) + 1, 2)
    for number, key in enumerate(("pair", "by_class"), 1):
        # for problems without static timers: communication costs nothing there, so waiting cannot pay
        no_wait = np.full(shape, -1.0)
        teachers = {
            name: np.array(found[name][key]["action"]) if name in found else no_wait for name in config.problems
        }
        network, jobs = clone(teachers, TRAINING_SEEDS[: config.training_seeds], start)
        ledger.simulated_jobs += jobs
        validation.look(number, network, float("nan"))


def main(config: TunerConfig) -> None:
    """Train a tuner, and print where it is."""
    begin = time.perf_counter()
    path = train(config)
    print(f"Done in {time.perf_counter() - begin:.0f} s; the tuner is {path}")


if __name__ == "__main__":
    run_script(main)
