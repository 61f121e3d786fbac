"""Find the weights of a type index by random search on training seeds, and put it into the package if wanted.

    python -m studies.index_search.type_index --output runs/heterogeneous

Each trial moves the best weights so far by normal steps, and plays all seeds. A trial that is far worse on the first
two seeds is given up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env import __version__
from gpusched_env.agents.cards import Card, put
from gpusched_env.agents.measuring import measured_ratios
from gpusched_env.agents.type_index import TypeIndex
from gpusched_env.evaluation import evaluate
from gpusched_env.portable import draws, elementary
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import sha256_of
from studies.index_search.saving import save_types

NAME: Final = "heterogeneous"
SCENARIO: Final = "hadar-60gpu-v1"
METRIC: Final = "mean_jct_s"
RIVALS: Final = ("hadar:utility=inverse_remaining", "hadar", "sjf")
# First weights: short jobs first; prices are about the dual prices of the makespan's linear program.
FIRST: Final = {"gang": 0.0, "advantage": 3.0, "speed": 0.0, "V100": 0.44, "P100": 0.36, "K80": 0.2}
STEPS: Final = {"gang": 0.15, "advantage": 0.5, "speed": 0.3, "V100": 0.02, "P100": 0.02, "K80": 0.02}
TYPES: Final = ("V100", "P100", "K80")
HOPELESS: Final = 0.05  # a trial whose mean ln(mean JCT) on the first two seeds is so much above the best is given up


@dataclass
class Settings:
    """Find the weights of a type index by random search."""

    output: Path = Path("runs") / NAME
    """Folder of the weights."""
    trials: int = 40
    """Number of trials."""
    seeds: int = 16
    """Number of training seeds of a trial."""
    first_seed: int = 2_000
    """First of these seeds."""
    ship: bool = False
    """Measure the result on 20 report seeds and write it into the package."""


def search(settings: Settings) -> Path:
    """Search, save the best weights, and return their file."""
    settings.output.mkdir(parents=True, exist_ok=True)
    file, trial = settings.output / "model.npz", settings.output / "trial.npz"
    generator = np.random.default_rng(0)
    best, least, least_of_two = dict(FIRST), np.inf, np.inf  # mean ln(mean JCT) over all seeds, over the first two
    for number in range(settings.trials):
        moved = {name: value + STEPS[name] * float(draws.normal(generator, 1)[0]) for name, value in best.items()}
        values = {name: round(max(value, 0.01) if name in TYPES else value, 4) for name, value in moved.items()}
        if number == 0:
            values = dict(FIRST)
        save(trial, values)
        found: list[float] = []
        for seed in range(settings.first_seed, settings.first_seed + settings.seeds):
            [result] = evaluate(SCENARIO, [TypeIndex(path=str(trial))], [seed], progress=False)
            found.append(elementary.log(result.metrics[METRIC]))
            if len(found) == 2 and np.mean(found) > HOPELESS + least_of_two:
                break
        if len(found) == settings.seeds and np.mean(found) < least:
            best, least, least_of_two = values, float(np.mean(found)), float(np.mean(found[:2]))
            trial.replace(file)
            print(f"trial {number}: mean JCT {elementary.exp(least):,.0f} s with {values}", flush=True)
    trial.unlink(missing_ok=True)
    return file


def save(path: Path, values: dict[str, float]) -> None:
    """Save weights of the search."""
    prices = {name: values[name] for name in TYPES}
    weights = {name: value for name, value in values.items() if name not in TYPES}
    save_types(path, weights, prices, {"version": __version__, "scenario": SCENARIO})


def card_of(file: Path, settings: Settings, hours: float) -> Card:
    """Measure the weights and return their card."""
    scenario = get_scenario(SCENARIO)
    ratios = measured_ratios(f"{TypeIndex.__module__}:TypeIndex:path={file}", RIVALS, SCENARIO, METRIC, 20)
    jobs = len(scenario.instance(scenario.seeds.report[0]).workload)
    return Card(
        name=NAME,
        kind="type-index",
        summary="small mean JCT on several GPU types: which job takes a free GPU of which type",
        environment="gpusched/Heterogeneous-v0",
        scenario=SCENARIO,
        clairvoyant=True,
        sha256=sha256_of(file),
        made_by=["python -m studies.index_search.type_index"],
        simulated_jobs=settings.trials * settings.seeds * jobs,
        hours=round(hours, 2),
        machine="a part of one core",
        seeds={use: getattr(scenario.seeds, use) for use in ("train", "validation", "report")},
        metric=METRIC,
        compared_seeds=20,
        ratios={rival: (round(mean, 5), round(low, 5), round(high, 5)) for rival, (mean, low, high) in ratios.items()},
        intended_use="Clusters of V100, P100 and K80 GPUs, jobs with known run times: hadar-60gpu-v1.",
        limits="It knows run times, never preempts, runs no copies and no gang on mixed types. Its makespans are "
        "large, since long jobs go last. Other GPU types have no price.",
        versions={"version": __version__},
        training={"trials": settings.trials, "seeds": settings.seeds, "first_seed": settings.first_seed},
    )


def main(settings: Settings) -> None:
    """Search, and put the weights into the package if wanted."""
    begin = time.perf_counter()
    file = search(settings)
    if settings.ship:
        put(card_of(file, settings, (time.perf_counter() - begin) / 3600), file)


if __name__ == "__main__":
    run_script(main)
