"""Train the tuner of delay timers that suits the cells of gpusched_env.agents.timer_cells.

    python -m gpusched_env.agents.cells_tuner                 the tuner that ships as timers=cells
    python -m gpusched_env.agents.cells_tuner --quick --output runs/quick

The tuner is a network of four hidden units that reads a few columns. CMA-ES searches its weights on the training cells:
first with timers that are constant in a run, which is fast, then with timers that follow the observations. The weights
are chosen on the validation cells. The search writes tuner.npz and learning.csv to the output folder.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import gpusched_env
from gpusched_env.agents.static_timers import COARSE_GRID_S, pair_action, pairs
from gpusched_env.agents.timer_cells import TRAINING_CELLS, VALIDATION_CELLS, TimerCell
from gpusched_env.agents.timer_cma import CovarianceEvolution
from gpusched_env.agents.timer_network import TimerNetwork, input_names
from gpusched_env.agents.timer_problems import (
    TRAINING_SEEDS,
    VALIDATION_SEEDS,
    Played,
    play_network,
    play_static,
    static_waits,
)
from gpusched_env.envs.delay_timers.actions import TimerActions
from gpusched_env.envs.delay_timers.costs import PlacementCosts
from gpusched_env.envs.delay_timers.observer import Observation, TimerObserver
from gpusched_env.errors import GpuschedError
from gpusched_env.files import write_whole
from gpusched_env.instance import Instance
from gpusched_env.portable.elementary import log
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.simulator import Simulation

TUNER_FILE: Final = "tuner.npz"
INTERVAL_S: Final = 7_200.0  # [s]
_NONE: Final = (0.0, 0.5)
# Input or output of each hidden unit -> (weight at the start, standard deviation of the first samples). All other
# weights are 0. The start follows the best static pairs of the training cells: no wait where the network costs nothing,
# hours where it costs something, and no end where it costs nearly all.
HIDDEN: Final[Sequence[Mapping[str, tuple[float, float]]]] = (
    {  # crossing racks costs something: longer network timers
        "slowdown_network": (8.0, 2.0), "bias": (-0.64, 0.3), "idle_rack": _NONE, "cluster queued_gpus": _NONE,
        "waited_mean": _NONE, "beyond_machine": (0.0, 0.3),
    },
    {"slowdown_network": (8.0, 2.0), "bias": (-6.8, 0.8)},  # crossing racks costs nearly all
    {  # leaving a machine costs something: longer rack timers
        "slowdown_rack": (12.0, 3.0), "bias": (-0.7, 0.3), "idle_machine": _NONE, "cluster queued_gpus": _NONE,
        "waited_mean": _NONE,
    },
    {  # nearly linear in the rest
        "idle_rack": _NONE, "idle_machine": _NONE, "cluster queued_gpus": _NONE, "waited_mean": _NONE,
        "smallest": _NONE, "efficiency_of_best": (0.0, 0.3),
    },
)  # fmt: skip
# Rack timer and network timer: weights of the hidden units, then the bias.
OUTPUTS: Final = (
    ((0.0, 0.1), (0.8, 0.15)), ((0.0, 0.1), (0.35, 0.1)), ((0.95, 0.15), (0.0, 0.1)), ((0.5, 0.2), (0.5, 0.2)),
    ((-0.35, 0.1), (-0.05, 0.1)),
)  # fmt: skip
# These inputs follow the run; the others are constant in it.
FOLLOWING: Final = ("cluster queued_gpus", "waited_mean", "efficiency_of_best")
SECOND_SCALE: Final = 0.5  # factor of all standard deviations when the search begins to play with all inputs
# A cell in which the tuner is worse than the best static pair by more than this counts more.
ALLOWED: Final = 0.02
TAIL_SHARE: Final = 0.4  # weight of the 99th percentile; the mean has the rest
Told = Callable[[str], None]


@dataclass
class CellsConfig:
    """Train a tuner of delay timers on cells."""

    constant: int = 20
    """Generations of CMA-ES with constant timers."""
    generations: int = 12
    """Generations of CMA-ES with timers that follow the observations."""
    samples: int = 12
    """Samples per generation; all play the same seed of every training cell."""
    training_seeds: int = 4
    """Number of training seeds."""
    validation_seeds: int = 2
    """Number of validation seeds."""
    validate_every: int = 4
    """Generations between two validations."""
    seed: int = 0
    """Seed of the search."""
    output: Path = Path("runs/cells-tuner")
    """Folder of the results."""
    quick: bool = False
    """A short test run: two cells with few jobs, one generation."""

    def __post_init__(self) -> None:
        """Apply ``quick`` and check the numbers."""
        if self.quick:
            self.constant = self.generations = self.training_seeds = self.validation_seeds = 1
            self.samples = 4
        for name in ("constant", "generations", "samples", "training_seeds", "validation_seeds", "validate_every"):
            if getattr(self, name) < 1:
                raise GpuschedError(f"tuner: {name} is {getattr(self, name)}: it must be at least 1")
        if self.training_seeds > len(TRAINING_SEEDS) or self.validation_seeds > len(VALIDATION_SEEDS):
            raise GpuschedError(
                f"tuner: there are {len(TRAINING_SEEDS)} training and {len(VALIDATION_SEEDS)} validation seeds"
            )


@lru_cache(maxsize=256)
def drawn(cell: TimerCell, seed: int) -> Instance:
    """Draw an instance of a cell; it is cached, since training plays the same ones repeatedly."""
    return cell.problem().instance(seed)


class Reference:
    """The best static pair of each cell on some seeds: for the mean of JCT, and for its 99th percentile."""

    def __init__(
        self, cells: Sequence[TimerCell], seeds: Sequence[int], grid_s: Sequence[float] = COARSE_GRID_S
    ) -> None:
        self.cells, self.seeds, self.simulated_jobs = tuple(cells), tuple(seeds), 0
        self._grid_s = grid_s
        self._best: dict[TimerCell, np.ndarray] = {}

    def best(self, cell: TimerCell) -> np.ndarray:
        """float64 [seeds, 2]: ln of mean and 99th percentile of JCT with the best pair for each of the two."""
        if cell not in self._best:
            found = np.array([[self._static(cell, seed, pair) for seed in self.seeds] for pair in pairs(self._grid_s)])
            chosen = found.mean(axis=1).argmin(axis=0)
            self._best[cell] = np.stack([found[pair, :, metric] for metric, pair in enumerate(chosen)], axis=1)
        return self._best[cell]

    def excess(self, network: TimerNetwork, cell: TimerCell, seed: int, constant: bool = False) -> np.ndarray:
        """float64 [2]: ln(mean JCT / that of the best pair), and the same of the 99th percentile.

        Parameters
        ----------
        constant : True = the timers are those of :func:`constant_observation` in the whole run, which is fast
        """
        instance = drawn(cell, seed)
        if constant:
            waits_s = static_waits(instance, network.act(constant_observation(cell, seed)))
            played = play_static(instance, seed, waits_s, preset=cell.preset)
        else:
            played = play_network(instance, seed, network, preset=cell.preset)
        return self._logs(played) - self.best(cell)[self.seeds.index(seed)]

    def _static(self, cell: TimerCell, seed: int, pair: tuple[float, float]) -> np.ndarray:
        instance = drawn(cell, seed)
        return self._logs(play_static(instance, seed, static_waits(instance, pair_action(pair)), preset=cell.preset))

    def _logs(self, played: Played) -> np.ndarray:
        self.simulated_jobs += played.jobs
        return np.array([log(played.mean_jct_s), log(played.p99_jct_s)])


def loss(excess: np.ndarray) -> float:
    """Return the score of a tuner, smaller is better.

    Parameters
    ----------
    excess : float64 [cells, 2], ln of ratios to the best static pairs: mean JCT, 99th percentile
    """
    shares = np.array([1.0 - TAIL_SHARE, TAIL_SHARE])
    return float(((excess + np.maximum(excess - ALLOWED, 0.0)) * shares).sum(axis=1).mean())


def start_and_scale() -> tuple[np.ndarray, np.ndarray]:
    """Return the weights at the start, and the standard deviations of the first samples: float64 [weights], twice."""
    every = [pair for unit in HIDDEN for pair in unit.values()] + [pair for row in OUTPUTS for pair in row]
    start, scale = np.array(every).T
    return start, scale


def following() -> np.ndarray:
    """Bool [weights]: True for weights of inputs that follow the run."""
    names = [name for unit in HIDDEN for name in unit]
    return np.array([name in FOLLOWING for name in names] + [False] * (2 * len(OUTPUTS)))


def _with(vector: np.ndarray, free: np.ndarray, part: np.ndarray) -> np.ndarray:
    changed = vector.copy()
    changed[free] = part
    return changed


def network_of(vector: np.ndarray) -> TimerNetwork:
    """Return the tuner with some weights, in the order of :func:`start_and_scale`."""
    names = input_names(costs=True)
    weights, biases, at = np.zeros((len(names), len(HIDDEN))), np.zeros(len(HIDDEN)), 0
    for number, unit in enumerate(HIDDEN):
        for name, value in zip(unit, vector[at : at + len(unit)], strict=True):
            if name == "bias":
                biases[number] = value
            else:
                weights[names.index(name), number] = value
        at += len(unit)
    outputs = vector[at:].reshape(len(OUTPUTS), 2)
    return TimerNetwork([(weights, biases), (outputs[:-1], outputs[-1])], costs=True, interval_s=INTERVAL_S)


@lru_cache(maxsize=256)
def constant_observation(cell: TimerCell, seed: int) -> Observation:
    """Return the observation of the empty cluster, with the costs of all jobs of the draw."""
    instance = drawn(cell, seed)
    actions = TimerActions(instance.cluster)
    observation = TimerObserver(Simulation(instance), actions, INTERVAL_S).observe(np.zeros((actions.gpus + 1, 2)), 0.0)
    return observation | {"costs": PlacementCosts(instance, actions).observe(len(instance.workload))}


def _say(text: str) -> None:
    print(text, flush=True)


def train(config: CellsConfig, told: Told = _say) -> Path:
    """Train a tuner, and return the path of the weights that are best on the validation cells.

    Raises
    ------
    GpuschedError : a file cannot be written
    """
    search = Search(config, told)
    search.validate()
    search.stage(config.constant, constant=True)
    search.stage(config.generations, constant=False)
    return search.path


class Search:
    """The search: CMA-ES on training cells, and the weights that are best on validation cells."""

    def __init__(self, config: CellsConfig, told: Told) -> None:
        self._begin = time.process_time()
        self.config, self.told, self.path = config, told, config.output / TUNER_FILE
        # At load 0.5 all timers are alike.
        cells, chosen = tuple(cell for cell in TRAINING_CELLS if " 0.5 " not in cell.label), VALIDATION_CELLS
        if config.quick:
            short = TimerCell("short", "dally-cells-v0:load=1,jobs=60")
            cells, chosen = (short,), (dataclasses.replace(short, label="other"),)
        self.training = Reference(cells, TRAINING_SEEDS[: config.training_seeds])
        self.validation = Reference(chosen, VALIDATION_SEEDS[: config.validation_seeds])
        self.vector, self._scale = start_and_scale()
        self.generations, self.best = 0, np.inf
        self.lines = ["generation,cpu_s,simulated_jobs,validation,mean_excess,p99_excess,kept"]
        config.output.mkdir(parents=True, exist_ok=True)

    def stage(self, generations: int, constant: bool) -> None:
        """Search for some generations; all samples of a generation play the same seed of every training cell.

        Parameters
        ----------
        constant : True = with constant timers, and without the weights of inputs that follow the run
        """
        free = ~following() if constant else np.ones(len(self.vector), bool)
        scale = self._scale[free] * (1.0 if constant else SECOND_SCALE)
        evolution = CovarianceEvolution(self.vector[free], scale, self.config.samples, self.config.seed)
        for number in range(1, generations + 1):
            self.generations += 1
            seed = self.training.seeds[self.generations % len(self.training.seeds)]

            def score(part: np.ndarray, seed: int = seed) -> float:
                network = network_of(_with(self.vector, free, part))
                played = [self.training.excess(network, cell, seed, constant) for cell in self.training.cells]
                return loss(np.array(played))

            scores = evolution.step(score)
            self.told(f"{self.generations}: training {scores.mean():+.4f}, best {scores.min():+.4f}")
            if number == generations or number % self.config.validate_every == 0:
                self.vector = _with(self.vector, free, evolution.mean)
                self.validate()

    def validate(self) -> None:
        """Play the mean of the search on the validation cells, and save it if it is the best so far."""
        network, own = network_of(self.vector), self.validation
        played = [[own.excess(network, cell, seed) for seed in own.seeds] for cell in own.cells]
        excess = np.array(played).mean(axis=1)
        score, (mean, tail) = loss(excess), excess.mean(axis=0)
        jobs, spent_s = self.training.simulated_jobs + own.simulated_jobs, time.process_time() - self._begin
        kept = score < self.best
        numbers = f"{score:.5f},{mean:.5f},{tail:.5f},{kept:d}"
        self.lines.append(f"{self.generations},{spent_s:.0f},{jobs},{numbers}")
        self.told(f"{self.generations}: validation {numbers}")
        if kept:
            self.best = score
            spent = {"simulated_jobs": jobs, "cpu_hours": round(spent_s / 3600, 3), "chosen_at": self.generations}
            about = spent | card(self.config, self.training, own) | {"validation_score": score}
            dataclasses.replace(network, about=about).save(self.path)
        write_whole(self.config.output / "learning.csv", "\n".join(self.lines) + "\n")


def card(config: CellsConfig, training: Reference, validation: Reference) -> dict[str, Any]:
    """Return the card of the tuner, which its file contains."""
    return {
        "version": gpusched_env.__version__,
        "results_version": RESULTS_VERSION,
        "learner": "CMA-ES (python -m gpusched_env.agents.cells_tuner)",
        "settings": {name: value for name, value in dataclasses.asdict(config).items() if name != "output"},
        "training_cells": {cell.scenario: cell.problem().fingerprint() for cell in training.cells},
        "validation_cells": {cell.scenario: cell.problem().fingerprint() for cell in validation.cells},
        "training_seeds": list(training.seeds),
        "validation_seeds": list(validation.seeds),
        "intended_use": "delay timers of Dally where networks, loads and gangs differ, or are not known beforehand",
        "limits": "trained on 256 GPUs with run times of hours; links are taken to keep their first rates",
    }


if __name__ == "__main__":
    import tyro

    try:
        path = train(tyro.cli(CellsConfig, description=__doc__))
    except GpuschedError as error:
        sys.exit(f"error: {error}")
    print(f"Done; the tuner is {path}")
