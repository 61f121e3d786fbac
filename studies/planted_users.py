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

from gpusched_env.agents.measuring import played
from gpusched_env.agents.training import TrainingConfig, trained_or_resumed
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.files import save_scenario
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console
from studies.index_search.measure import ratio_over_agents

USERS, JOBS, THETA = 20, 400, 5.0
# Chosen by validation seeds. Both networks imitate the index policy without history, so that only the outlook
# distinguishes them; then they learn from rewards. The least run time bounds how often an erring network preempts.
TRAINING: Final[dict[str, Any]] = {
    "teacher": "learned:general,predictor=none", "teacher_episodes": 8, "clairvoyant": False,
    "queue_window": 24, "queue_order": "least-attained", "running_window": 16, "running_order": "most-attained",
    "least_run_s": 600.0, "workloads": 2, "copies": 6, "epochs": 5, "horizon": 0.2, "learning_rate": 3e-3,
    "validations": 6,
}  # fmt: skip
PREDICTORS: Final = {"no history": "", "outlook": "nested"}  # in the table -> predictor of the windows
RIVALS: Final = {
    "learned, no history": "learned:general,predictor=none",
    "learned": "learned:general",
    "las": "las:placement=consolidate",
    "srtf, true run times": "srtf:placement=consolidate",
}
COLUMNS: Final = ("PPO, no history", "learned, no history", "learned", "srtf, true run times")


def planted() -> Scenario:
    """Return the cluster of philly-64 with jobs as in PAI, whose users submit the same jobs again."""
    scenario = get_scenario("philly-64-v1")
    parameters = {"users": USERS, "theta": THETA, "max_duration_s": 43_200.0}
    workload = dataclasses.replace(scenario.workload, source="synthetic:pai", jobs=JOBS, parameters=parameters)
    return scenario.replace(name="pai-64-users", workload=workload)


def mean_jcts_s(spec: str, scenario: Scenario, seeds: range) -> np.ndarray:
    """float64 [seeds]: mean JCT of a scheduler on each seed [s]."""
    return np.array([one.metrics["mean_jct_s"] for one in played(spec, scenario, seeds, 1)])


@dataclass
class Settings:
    """PPO with and without predictions, beside the index policy."""

    output: Path = Path("runs/planted-users")
    """Folder of the trained networks."""
    steps: int = 250_000
    """Steps of each training."""
    agents: int = 3
    """Training seeds."""
    seeds: int = 40
    """Report seeds."""
    resume: bool = False
    """Keep finished trainings of an interrupted command, and continue the one that it began."""


def main(settings: Settings) -> None:
    """Train, play, print."""
    scenario, seeds = planted(), range(200_000, 200_000 + settings.seeds)
    settings.output.mkdir(parents=True, exist_ok=True)
    file = settings.output / "scenario.json"
    save_scenario(scenario, file)
    found = {}  # name -> mean JCTs, float64 [agents, seeds]
    for title, predictor in PREDICTORS.items():
        models = []
        for seed in range(settings.agents):
            config = TrainingConfig(
                scenario=str(file), steps=settings.steps, seed=seed, predictor=predictor, **TRAINING
            )
            folder = settings.output / f"{predictor or 'none'}-{seed}"
            models.append(trained_or_resumed(config, folder, settings.resume))
        for name, more in (("imitation", ",cloned=true"), ("PPO", "")):
            jcts_s = [mean_jcts_s(f"learned:path={model}{more}", scenario, seeds) for model in models]
            found[f"{name}, {title}"] = np.array(jcts_s)
    found |= {name: mean_jcts_s(spec, scenario, seeds)[None] for name, spec in RIVALS.items()}
    table = Table("mean JCT of / of", *COLUMNS, show_edge=False, pad_edge=False)
    for row, mine in found.items():
        cells = (ratio_over_agents(mine / found[name]) for name in COLUMNS)
        table.add_row(row, *(f"{middle:.3f} [{low:.3f}, {high:.3f}]" for middle, low, high in cells))
    console().print(table)


if __name__ == "__main__":
    run_script(main)
