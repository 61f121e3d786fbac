"""Put a trained agent into the package: measure it on report seeds, then write its checkpoint and its card.

    python -m studies.shipping.networks --recipe philly-64 --hours 0.06

For maintainers: it writes to the folder of the package, and needs the files that ``train.py --recipe`` has written.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from gpusched_env.agents.cards import Card, put
from gpusched_env.agents.cloning import ROUNDS
from gpusched_env.agents.learned import CONFIG_FILE, MODEL
from gpusched_env.agents.measuring import measured_ratios
from gpusched_env.agents.recipes import RECIPES
from gpusched_env.agents.run_folder import UPDATES_FILE
from gpusched_env.cli.training import DEFAULT
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import sha256_of


@dataclass
class Settings:
    """Put a trained agent into the package."""

    hours: float
    """Time of the training [h]."""
    recipe: str = DEFAULT
    """Recipe by which it was trained; also the name of the agent."""
    run: Path | None = None
    """Folder of the training; by default runs/<recipe>."""
    machine: str = "one core"
    """Where it was trained."""
    seeds: int = 20
    """Number of report seeds of the comparison."""
    workers: int = 1
    """Number of processes of the comparison."""


def ship(settings: Settings) -> Card:
    """Write checkpoint and card, and return the card."""
    name, recipe = settings.recipe, RECIPES[settings.recipe]
    folder = settings.run or Path("runs") / name
    record = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    training, model = record["training"], folder / f"{MODEL}.npz"
    scenario = get_scenario(training["scenario"])
    metric = recipe.training.metric
    jobs = len(scenario.instance(scenario.seeds.report[0]).workload)
    ratios = measured_ratios(
        f"learned:path={model}", recipe.rivals, scenario.name, metric, settings.seeds, settings.workers
    )
    card = Card(
        name=name,
        kind="token-network",
        summary=recipe.summary,
        environment=recipe.environment,
        scenario=scenario.name,
        clairvoyant=training["clairvoyant"],
        sha256=sha256_of(model),
        made_by=[f"python train.py --recipe {name}"],
        simulated_jobs=simulated_episodes(folder, training) * jobs,
        hours=settings.hours,
        machine=settings.machine,
        seeds={use: getattr(scenario.seeds, use) for use in ("train", "validation", "report")},
        metric=metric,
        compared_seeds=settings.seeds,
        ratios={rival: (round(mean, 5), round(low, 5), round(high, 5)) for rival, (mean, low, high) in ratios.items()},
        intended_use=recipe.intended_use,
        limits=recipe.limits,
        versions={key: record[key] for key in ("version", "packages", "commit") if key in record},
        training=training,
    )
    put(card, model)
    return card


def simulated_episodes(folder: Path, training: dict[str, int]) -> int:
    """Return the number of episodes of imitation and of all updates."""
    updates = 0
    if (folder / UPDATES_FILE).is_file():
        with (folder / UPDATES_FILE).open(encoding="utf-8") as stream:
            updates = sum(1 for _ in csv.DictReader(stream))
    taught = ROUNDS * training["teacher_episodes"] if training["teacher"] else 0
    return taught + updates * training["workloads"] * training["copies"]


def main(settings: Settings) -> None:
    """Ship the agent, and print its card."""
    print(ship(settings))


if __name__ == "__main__":
    run_script(main)
