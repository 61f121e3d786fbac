"""Does a network that sees predictions beat the index policy? PPO on jobs with planted users.

``python -m studies.planted_users`` trains a network for each seed and each predictor, and prints its mean JCT
relative to that of the index policy and others, on seeds that none was trained on.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.table import Table

from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.baselines import make_scheduler
from gpusched_env.portable.arrays import mean
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.files import save_scenario
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console
from studies.index_search.measure import ratio_over_agents

USERS, JOBS, THETA = 20, 600, 5.0
# The network sees what the index policy sees, imitates it, then learns from rewards. Without least_run_s, one of two
# networks preempted at every decision after imitation: mean JCTs grew tenfold.
TRAINING: Final[dict[str, Any]] = {
    "clairvoyant": False, "queue_order": "least-attained", "running_order": "most-attained", "learning_rate": 1e-3,
    "horizon": 0.5, "least_run_s": 600.0,
}  # fmt: skip
PREDICTORS: Final = {"no history": "", "outlook": "nested"}  # in the table -> predictor of the windows
RIVALS: Final = {
    "learned, no history": "learned:general,predictor=none",
    "learned": "learned:general",
    "las": "las:placement=consolidate",
    "srtf, true run times": "srtf:placement=consolidate",
}


def planted() -> Scenario:
    """Return the cluster of philly-64 with jobs as in PAI, whose users submit the same jobs again."""
    scenario = get_scenario("philly-64-v1")
    parameters = {"users": USERS, "theta": THETA, "max_duration_s": 43_200.0}
    workload = dataclasses.replace(scenario.workload, source="synthetic:pai", jobs=JOBS, parameters=parameters)
    return scenario.replace(name="pai-64-users", workload=workload)


def mean_jcts_s(spec: str, scenario: Scenario, seeds: range) -> np.ndarray:
    """float64 [seeds]: mean JCT of a scheduler on each seed [s]."""
    found = []
    for seed in seeds:
        simulation = Simulation(scenario.instance(seed))
        simulation.run(make_scheduler(spec))
        jobs = simulation.arrays.jobs
        found.append(mean(jobs["finish_s"] - jobs["arrival_s"]))
    return np.array(found)


@dataclass
class Settings:
    """PPO with and without predictions, beside the index policy."""

    output: Path = Path("runs/planted-users")
    """Folder of the trained networks."""
    steps: int = 400_000
    """Steps of each training."""
    agents: int = 3
    """Training seeds."""
    seeds: int = 40
    """Report seeds."""


def main(settings: Settings) -> None:
    """Train, play, print."""
    scenario, seeds = planted(), range(200_000, 200_000 + settings.seeds)
    settings.output.mkdir(parents=True, exist_ok=True)
    file = settings.output / "scenario.json"
    save_scenario(scenario, file)
    rivals = {name: mean_jcts_s(spec, scenario, seeds) for name, spec in RIVALS.items()}
    table = Table("mean JCT of / of", *rivals, show_edge=False, pad_edge=False)

    def add(name: str, mine: np.ndarray) -> None:
        cells = (ratio_over_agents(mine / rival) for rival in rivals.values())
        table.add_row(name, *(f"{middle:.3f} [{low:.3f}, {high:.3f}]" for middle, low, high in cells))

    for title, predictor in PREDICTORS.items():
        found = []
        for seed in range(settings.agents):
            teacher = f"learned:general,predictor={predictor or 'none'}"
            config = TrainingConfig(
                scenario=str(file), steps=settings.steps, seed=seed, predictor=predictor, teacher=teacher, **TRAINING
            )
            model = train(config, settings.output / f"{predictor or 'none'}-{seed}")
            found.append(mean_jcts_s(f"learned:path={model}", scenario, seeds))
        add(f"PPO, {title}", np.array(found))
    for name, jcts_s in rivals.items():
        add(name, jcts_s[None])
    console().print(table)


if __name__ == "__main__":
    run_script(main)
