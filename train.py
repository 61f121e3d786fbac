"""Train a scheduler, compare it with every baseline on unseen seeds, and save the results.

    python train.py                                  the default scenario, about a minute on two cores
    python train.py --scenario tiny-v1 --steps 20000
    python train.py --baselines fifo,srtf            compare with these schedulers only
    python train.py --help                           every setting

It writes to runs/<scenario>: model.npz, initial.npz (the network before training), config.json, learning.csv
(validation), results.json, results.csv, table.txt and comparison.png. After Ctrl-C, the best checkpoint so far is kept.
The saved agent is a scheduler like any other:

    gpusched compare --scenario philly-64-v1 --schedulers srtf,learned:path=runs/philly-64-v1/model.npz
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gpusched_env.agents.evaluation import chosen_seeds, evaluate_agent
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.cli.parsing import chosen_schedulers
from gpusched_env.consoles import console as standard_console
from gpusched_env.consoles import prepare_output, tell_interrupt
from gpusched_env.errors import GpuschedError
from gpusched_env.files import file_name
from gpusched_env.scenarios import get_scenario


@dataclass
class Settings:
    """Train an agent and compare it with baselines."""

    training: tyro.conf.OmitArgPrefixes[TrainingConfig] = field(default_factory=TrainingConfig)
    """Settings of the training."""
    output: Path | None = None
    """Folder of the results; by default runs/<scenario>."""
    report_seeds: int = 10
    """Number of report seeds for the comparison; training and validation do not use them."""
    baselines: str = ""
    """Schedulers of the comparison, such as fifo,srtf; by default all that suit the scenario and do not plan again at
    every arrival."""
    workers: int = 2
    """Number of processes of the comparison; results do not depend on it."""


def run(settings: Settings) -> None:
    """Train, evaluate, save and print."""
    begin = time.perf_counter()
    console = standard_console(width=150)
    baselines = chosen_schedulers([settings.baselines]) if settings.baselines else None
    scenario = get_scenario(settings.training.scenario)
    chosen_seeds(scenario, settings.report_seeds)  # refused before the training, not after it
    output = settings.output or Path("runs") / file_name(scenario.name)
    console.print(": ".join(filter(None, [f"Training on [bold]{scenario.name}[/bold]", scenario.description])))
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[said]}"), console=console) as bar:
        task = bar.add_task("training", total=settings.training.steps, said="")
        model = train(
            settings.training,
            output,
            lambda done, total, said: bar.update(task, completed=done, total=total, said=said),
        )
    try:
        evaluate_agent(model, scenario, output, settings.report_seeds, settings.workers, console, baselines)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{model} is trained; the comparison was not finished") from stop
    console.print(f"Done in {time.perf_counter() - begin:.0f} s; everything is in {output}")


if __name__ == "__main__":
    prepare_output()
    try:
        run(tyro.cli(Settings))
    except GpuschedError as error:
        sys.exit(f"error: {error}")
    except MemoryError as error:
        sys.exit(f"error: not enough memory ({error}): choose smaller windows, rollouts or environments")
    except KeyboardInterrupt as stop:  # its text tells what was kept
        sys.exit(tell_interrupt("train.py", stop))
