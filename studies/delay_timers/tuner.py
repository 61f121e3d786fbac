"""Train the tuner of Dally's delay timers; the file of the package comes out bit for bit.

    python -m studies.delay_timers.tuner
    python -m studies.delay_timers.tuner --quick --output runs/quick

The tuner is a network of four hidden units that reads a few columns. Every static pair of a grid is played on every
training cell. CMA-ES then searches the weights on this table: the score of a tuner is that of the pairs which it would
choose at the mean observation of each cell, interpolated between pairs of the grid. So the search itself plays nothing.
Of the results of several searches, the one that is best on the validation cells is kept, where it is played. The folder
of results has table.npz, tuner.npz and learning.csv. The search needs the package cmaes (extra ``tuning``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

import gpusched_env
from gpusched_env.agents.learned_timers import INPUTS, LearnedTimers, TimerNetwork, joined
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.baselines.dally.timers import Timers
from gpusched_env.delay_timers.actions import OFF, TimerActions, timer_action
from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import whole, write_whole
from studies.delay_timers.cells import (
    TRAINING_CELLS,
    TRAINING_SEEDS,
    VALIDATION_CELLS,
    VALIDATION_SEEDS,
    TimerCell,
    pair_action,
    pairs,
    static_waits,
)
from studies.index_search.cma import cma_es

TUNER_FILE: Final = "tuner.npz"
INTERVAL_S: Final = 7_200.0  # [s]
DECIMALS: Final = 4  # of the weights, so that the last bits of the search do not matter
_NONE: Final = (0.0, 0.5)
# Input or output of each hidden unit -> (weight at the start, standard deviation of the first samples). All other
# weights are 0. The start follows the best static pairs of the training cells: no wait where the network costs nothing,
# hours where it costs something, and no end where it costs nearly all.
HIDDEN: Final[Sequence[Mapping[str, tuple[float, float]]]] = (
    {  # crossing racks costs something, and jobs queue: longer network timers
        "slowdown_network": (6.0, 2.0), "communication": (3.0, 2.0), "cluster queued_gpus": (1.0, 1.0),
        "idle_rack": _NONE, "beyond_machine": (0.0, 0.3), "demand_beyond_rack": (0.0, 1.5), "bias": (-1.2, 0.3),
    },
    {"slowdown_network": (8.0, 2.0), "cluster queued_gpus": _NONE, "bias": (-6.8, 0.8)},  # crossing costs nearly all
    {  # leaving a machine costs something: longer rack timers
        "slowdown_rack": (12.0, 3.0), "idle_machine": _NONE, "cluster queued_gpus": _NONE, "bias": (-0.7, 0.3),
    },
    {  # nearly linear
        "idle_rack": _NONE, "idle_machine": _NONE, "cluster queued_gpus": (0.5, 0.5), "demand_beyond_rack": (0.0, 1.5),
        "smallest": _NONE, "cluster efficiency": (0.0, 0.3), "waited_mean": (0.0, 0.3),
    },
)  # fmt: skip
# Rack timer and network timer: weights of the hidden units, then the bias.
OUTPUTS: Final = (
    ((0.0, 0.1), (0.8, 0.15)), ((0.0, 0.1), (0.35, 0.1)), ((0.95, 0.15), (0.0, 0.1)), ((0.5, 0.2), (0.5, 0.2)),
    ((-0.35, 0.1), (-0.05, 0.1)),
)  # fmt: skip
# The penalty of weights far from the start: mean square distance, in standard deviations of the first samples.
PENALTY: Final = 5e-4
# A cell in which the tuner is worse than the best static pair by more than this counts more.
ALLOWED: Final = 0.02
TAIL_SHARE: Final = 0.4  # weight of the 99th percentile; the mean has the rest
TABLE_GRID_S: Final[Sequence[float]] = (0.0, 900.0, 3_600.0, 21_600.0, 86_400.0, math.inf)
OBSERVED_PAIR_S: Final = (3_600.0, 21_600.0)  # [s] timers while the mean observation of a cell is recorded
OBSERVED_EVERY_S: Final = 28_800.0


@dataclass
class Settings:
    """Train a tuner of delay timers."""

    training_seeds: int = 2
    """Number of training seeds on which the static pairs are played."""
    validation_seeds: int = 2
    """Number of validation seeds."""
    searches: int = 16
    """Number of searches."""
    generations: int = 300
    """Generations of a search."""
    samples: int = 16
    """Samples of a generation."""
    output: Path = Path("runs/delay-tuner")
    """Folder of the results; a table.npz that is there already is used again."""
    quick: bool = False
    """A short test run: one training and one validation cell with few jobs, a coarse grid."""

    def __post_init__(self) -> None:
        """Apply ``quick`` and check the numbers."""
        if self.quick:
            self.training_seeds = self.validation_seeds = self.searches = 1
            self.generations = 5
        for name in ("training_seeds", "validation_seeds", "searches", "generations"):
            if getattr(self, name) < 1:
                raise GpuschedError(f"tuner: {name} is {getattr(self, name)}: it must be at least 1")
        if self.training_seeds > len(TRAINING_SEEDS) or self.validation_seeds > len(VALIDATION_SEEDS):
            raise GpuschedError(
                f"tuner: there are {len(TRAINING_SEEDS)} training and {len(VALIDATION_SEEDS)} validation seeds"
            )


def play(
    preset: str, instance: Instance, timers: Timers | None = None, pair: tuple[float, float] | None = None
) -> np.ndarray:
    """Return ln of the mean and of the 99th percentile of JCT of a run: float64 [2].

    Parameters
    ----------
    preset : of Dally
    timers : object that sets the timers; None = the hand tuner
    pair : instead, static timers (rack timer, network timer beyond it) [s]
    """
    run = DelayRun(instance, Dally(preset=preset, tuner="off" if pair else "hand"), timers=timers)
    if pair:
        run.waits_s[:] = static_waits(instance, pair_action(pair))
    run.play()
    jobs = run.simulation.arrays.jobs
    jct_s = jobs["finish_s"] - jobs["arrival_s"]
    return np.array([log(arrays.mean(jct_s)), log(float(np.percentile(jct_s, 99)))])


@dataclass
class Table:
    """What the search knows of the training cells.

    Parameters
    ----------
    grid_s : float64 [P], times of the grid [s], of the rack timer and of the network timer beyond it
    excess : float64 [cells, P, P, 2], ln of (mean, 99th percentile of JCT) / that of the best pair of the cell
    observed : float64 [cells, D, inputs], mean observation of each cell
    shares : float64 [cells, 2, D], share of each class in the GPU time of gangs that fit a machine, and a rack
    simulated_jobs : number of jobs played
    """

    grid_s: np.ndarray
    excess: np.ndarray
    observed: np.ndarray
    shares: np.ndarray
    simulated_jobs: np.ndarray

    @classmethod
    def play(cls, cells: Sequence[TimerCell], seeds: Sequence[int], grid_s: Sequence[float]) -> Self:
        """Play the grid on all cells and seeds."""
        excess, observed, shares, jobs = [], [], [], 0
        for cell in cells:
            instances = [cell.problem().instance(seed) for seed in seeds]
            every = [[play(cell.preset, one, pair=pair) for pair in pairs(grid_s)] for one in instances]
            logs = np.mean(every, axis=0)
            excess.append((logs - logs.min(axis=0)).reshape(len(grid_s), len(grid_s), 2))
            observed.append(_mean_observation(instances[0], cell))
            shares.append(_shares(instances[0]))
            jobs += len(instances[0].workload) * (1 + len(seeds) * len(logs))
            print(f"{cell.label}: played {len(logs)} pairs", flush=True)
        return cls(np.array(grid_s), np.array(excess), np.array(observed), np.array(shares), np.array(jobs))

    def expected(self, network: TimerNetwork) -> np.ndarray:
        """float64 [cells, 2]: interpolated excess of the pairs that a network chooses at the mean observations."""
        size = len(self.grid_s)
        places = timer_action(self.grid_s)
        places[0], places[-1] = 2 * OFF - 1, 1 - 2 * OFF  # beyond these, a timer is 0 or infinite
        at = np.interp(network.actions(self.observed), places, np.arange(size))
        rack, network_at = (np.moveaxis(at, 2, 0) * np.moveaxis(self.shares, 1, 0)).sum(axis=2)
        found = np.zeros((len(at), 2))
        for step in (0, 1):
            for other in (0, 1):
                i, j = np.minimum(rack.astype(int), size - 2), np.minimum(network_at.astype(int), size - 2)
                weight = np.abs(1 - step - (rack - i)) * np.abs(1 - other - (network_at - j))
                found += weight[:, None] * self.excess[np.arange(len(at)), i + step, j + other]
        return found

    def save(self, path: Path) -> None:
        """Write the table as ``.npz``."""
        with whole(path) as partial:
            np.savez(partial, **dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a table that :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(**{field.name: file[field.name] for field in dataclasses.fields(cls)})


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


def network_of(vector: np.ndarray) -> TimerNetwork:
    """Return the tuner with some weights, in the order of :func:`start_and_scale`."""
    weights, biases, at = np.zeros((len(INPUTS), len(HIDDEN))), np.zeros(len(HIDDEN)), 0
    for number, unit in enumerate(HIDDEN):
        for name, value in zip(unit, vector[at : at + len(unit)], strict=True):
            if name == "bias":
                biases[number] = value
            else:
                weights[INPUTS.index(name), number] = value
        at += len(unit)
    outputs = vector[at:].reshape(len(OUTPUTS), 2)
    return TimerNetwork([(weights, biases), (outputs[:-1], outputs[-1])], interval_s=INTERVAL_S)


class _Recorder(LearnedTimers):
    """Set the timers by a network, and record its inputs."""

    def begin(self, run: DelayRun) -> None:
        """Begin without records."""
        self.seen: list[np.ndarray] = []
        super().begin(run)

    def tune(self, run: DelayRun) -> None:
        """Observe, record, and set the timers."""
        observation = self._observer.observe(run.waits_s, run.simulation.now_s)
        self.seen.append(joined(observation))
        self._actions.carry_out(self.network.act(observation), run)


def _mean_observation(instance: Instance, cell: TimerCell) -> np.ndarray:
    """float64 [D, inputs]: mean over the first three quarters of a run, without its first observation."""
    constant = [(np.zeros((len(INPUTS), 2)), np.array(pair_action(OBSERVED_PAIR_S)))]
    recorder = _Recorder(TimerNetwork(constant, interval_s=OBSERVED_EVERY_S))
    play(cell.preset, instance, recorder)
    mean: np.ndarray = np.mean(recorder.seen[1 : max(2, len(recorder.seen) * 3 // 4)], axis=0)
    return mean


def _shares(instance: Instance) -> np.ndarray:
    actions = TimerActions(instance.cluster)
    demand = instance.workload.jobs["gpus"]
    own = actions.class_of[demand]
    found = []
    for room in (actions.machine_gpus, actions.rack_gpus):
        counted = (own >= 0) & (demand <= room)
        time_s = np.bincount(own[counted], (demand * instance.ideal_s)[counted], actions.count)
        found.append(time_s / max(float(time_s.sum()), 1.0))
    return np.array(found)


def search(table: Table, settings: Settings, seed: int) -> TimerNetwork:
    """Return the tuner that CMA-ES finds on a table."""
    start, scale = start_and_scale()

    def score(steps: np.ndarray) -> float:
        """Return the loss at some standard deviations from the start."""
        return loss(table.expected(network_of(start + scale * steps))) + PENALTY * float((steps**2).mean())

    evolution = cma_es(np.zeros(len(start)), 1.0, settings.samples, seed, separable=True)
    for _ in range(settings.generations):
        evolution.tell([(steps, score(steps)) for steps in [evolution.ask() for _ in range(settings.samples)]])
    return network_of(np.round(start + scale * evolution.mean, DECIMALS))


def validate(network: TimerNetwork, cells: Sequence[TimerCell], seeds: Sequence[int]) -> tuple[np.ndarray, int]:
    """Return the mean over cells and seeds of ln(learned / hand tuner), and the number of jobs played.

    The ratios are those of the mean and of the 99th percentile of JCT: float64 [2].
    """
    instances = [(cell, cell.problem().instance(seed)) for cell in cells for seed in seeds]
    ratios = [play(cell.preset, one, LearnedTimers(network)) - play(cell.preset, one) for cell, one in instances]
    return np.mean(ratios, axis=0), 2 * sum(len(one.workload) for _, one in instances)


def train(settings: Settings) -> Path:
    """Train a tuner, and return the path of the weights that are best on the validation cells.

    Raises
    ------
    GpuschedError : a file cannot be written, or the package cmaes is not installed
    """
    cells, chosen, grid_s = TRAINING_CELLS, VALIDATION_CELLS, TABLE_GRID_S
    if settings.quick:
        short = TimerCell("short", "dally-cells-v0:load=1,jobs=60")
        cells, chosen, grid_s = (short,), (dataclasses.replace(short, label="other"),), (0.0, 3_600.0, math.inf)
    seeds, others = TRAINING_SEEDS[: settings.training_seeds], VALIDATION_SEEDS[: settings.validation_seeds]
    settings.output.mkdir(parents=True, exist_ok=True)
    path = settings.output / "table.npz"
    if not path.exists():
        Table.play(cells, seeds, grid_s).save(path)
    table = Table.load(path)
    jobs, lines = int(table.simulated_jobs), ["search,table,validation_mean,validation_p99,score"]
    found = []
    for number in range(settings.searches):
        network = search(table, settings, number)
        (mean, tail), played = validate(network, chosen, others)
        jobs += played
        found.append((round((1.0 - TAIL_SHARE) * float(mean) + TAIL_SHARE * float(tail), 6), number, network))
        lines.append(f"{number},{loss(table.expected(network)):.5f},{mean:.5f},{tail:.5f},{found[-1][0]}")
        print(lines[-1], flush=True)
    score, number, network = min(found, key=lambda one: one[:2])
    about = card(settings, cells, chosen) | {"validation_score": score, "chosen_at": number, "simulated_jobs": jobs}
    dataclasses.replace(network, about=about).save(settings.output / TUNER_FILE)
    write_whole(settings.output / "learning.csv", "\n".join(lines) + "\n")
    return settings.output / TUNER_FILE


def card(settings: Settings, cells: Sequence[TimerCell], chosen: Sequence[TimerCell]) -> dict[str, Any]:
    """Return the card of the tuner, which its file contains."""
    return {
        "version": gpusched_env.__version__,
        "results_version": RESULTS_VERSION,
        "learner": "CMA-ES on a table of static pairs (python -m studies.delay_timers.tuner)",
        "settings": {name: value for name, value in dataclasses.asdict(settings).items() if name != "output"},
        "training_cells": {cell.scenario: cell.problem().fingerprint() for cell in cells},
        "validation_cells": {cell.scenario: cell.problem().fingerprint() for cell in chosen},
        "training_seeds": list(TRAINING_SEEDS[: settings.training_seeds]),
        "validation_seeds": list(VALIDATION_SEEDS[: settings.validation_seeds]),
        "intended_use": "delay timers of Dally where networks, loads and gangs differ, or are not known beforehand",
        "limits": "trained on 256 GPUs with run times of hours; links are taken to keep their first rates",
    }


def main(settings: Settings) -> None:
    """Train a tuner, and print where it is."""
    print(f"Done; the tuner is {train(settings)}")


if __name__ == "__main__":
    run_script(main)
