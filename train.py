"""Train a scheduler, compare it with every baseline on unseen seeds, and save the results.

    python train.py                                  the default recipe, about five minutes
    python train.py --steps 300000                   a first look, about a minute
    python train.py --search 30                      look for better settings first
    python train.py --training-seeds 3               three networks, and intervals over them
    python train.py --scenario tiny-v1 --steps 20000
    python train.py --baselines fifo,srtf            compare with these schedulers only
    python train.py --resume                         continue after an interruption
    python train.py --help                           every setting

It writes to runs/<recipe>: model.npz, initial.npz (the network before training), cloned.npz (after it has imitated its
teacher), config.json, learning.csv (validation), updates.csv and tensorboard (each update), results.json, results.csv,
table.txt and comparison.png. After Ctrl-C, the best checkpoint so far is kept. The saved agent is a scheduler like any
other:

    gpusched compare --scenario philly-64-v1 --schedulers srtf,learned:path=runs/philly-64/model.npz
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gpusched_env.agents.evaluation import chosen_seeds, evaluate_agents
from gpusched_env.agents.learned import CONFIG_FILE, MODEL
from gpusched_env.agents.recipes import DEFAULT, RECIPES
from gpusched_env.agents.run_folder import STATE_FILE
from gpusched_env.agents.search import search
from gpusched_env.agents.training import TrainingConfig, trained_or_resumed
from gpusched_env.cli.parsing import chosen_schedulers
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.evaluation.processes import in_processes
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.consoles import console as standard_console
from gpusched_env.support.consoles import output_checked, prepare_output, tell_interrupt
from gpusched_env.support.files import file_name


@dataclass
class Chosen:
    """The recipe, which decides the defaults of all other settings."""

    recipe: str = DEFAULT


@dataclass
class Settings:
    """Train an agent and compare it with baselines."""

    training: tyro.conf.OmitArgPrefixes[TrainingConfig]
    """Settings of the training."""
    recipe: str = DEFAULT
    """Recipe that gives the defaults of the training and the rivals of the comparison."""
    training_seeds: int = 1
    """Number of networks, trained with the seeds seed, seed + 1, ...; each has a folder seed-<seed>."""
    search: int = 0
    """Number of trials of a search for settings by Optuna, before the training; 0 = no search."""
    resume: bool = False
    """Continue the interrupted training in the folder of the results."""
    overwrite: bool = False
    """Train anew in a folder that holds a training, and replace its files."""
    output: Path | None = None
    """Folder of the results; by default runs/<recipe>, or runs/<scenario> with a scenario of your own."""
    report_seeds: int = 10
    """Number of report seeds for the comparison; training and validation do not use them."""
    baselines: str = ""
    """Schedulers of the comparison, such as fifo,srtf; by default all that suit the scenario and do not plan again at
    every arrival, and the rivals of the recipe."""
    workers: int = 2
    """Number of processes of the comparison, and of the training of several networks; results do not depend on it."""


def parsed() -> Settings:
    """Parse the command line: first the recipe, then the settings of which it gives the defaults."""
    chosen, _ = tyro.cli(Chosen, return_unknown_args=True, add_help=False, console_outputs=False)
    if chosen.recipe not in RECIPES:
        raise GpuschedError(f"--recipe: {unknown_name('recipe', chosen.recipe, RECIPES)}")
    return tyro.cli(Settings, default=Settings(RECIPES[chosen.recipe].training, chosen.recipe))


def run(settings: Settings) -> None:
    """Train, evaluate, save and print."""
    begin = time.perf_counter()
    console = standard_console(width=150)
    config, recipe = settings.training, RECIPES[settings.recipe]
    scenario = get_scenario(config.scenario)
    chosen_seeds(scenario, settings.report_seeds)  # refused before the training, not after it
    if settings.training_seeds < 1:
        raise GpuschedError(f"--training-seeds is {settings.training_seeds}: it must be at least 1")
    is_own = config.scenario != recipe.training.scenario
    baselines = chosen_schedulers([settings.baselines]) if settings.baselines else None
    output = settings.output or Path("runs") / (file_name(scenario.name) if is_own else settings.recipe)
    if not (settings.resume or settings.overwrite):
        refuse_to_overwrite(output)
    console.print(": ".join(filter(None, [f"Training on [bold]{scenario.name}[/bold]", scenario.description])))
    if settings.search:
        trials = 0 if settings.resume else settings.search
        config = search(config, output / "search", trials, lambda line: console.print(line, highlight=False))
        settings = replace(settings, training=config)
    models: Sequence[Path]
    if settings.training_seeds == 1:
        models = [trained(config, output, settings.resume, console)]
    else:
        models = trained_apart(settings, output, console)
    try:
        rivals = () if is_own else recipe.rivals
        evaluate_agents(
            models, scenario, output, settings.report_seeds, settings.workers, console, baselines, rivals, config.metric
        )
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{models[0]} is trained; the comparison was not finished") from stop
    console.print(f"Done in {time.perf_counter() - begin:.0f} s; everything is in {output}")


def refuse_to_overwrite(output: Path) -> None:
    """Raise an error that names the files of an earlier training, if the folder holds one."""
    names = (CONFIG_FILE, STATE_FILE, f"{MODEL}.npz", f"{MODEL}.zip")
    folders = (output, *output.glob("seed-*"))
    found = [str(folder / name) for folder in folders for name in names if (folder / name).exists()]
    if found:
        raise GpuschedError(
            f"{output} holds a training, whose files would be overwritten: {', '.join(found)}. Give --overwrite, "
            "another --output, or --resume to continue it"
        )


def trained(config: TrainingConfig, output: Path, resume: bool, console: Console) -> Path:
    """Train one network, show a bar, and tell how long it took."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[said]}"), console=console) as bar:
        task = bar.add_task("training", total=config.steps, said="")
        model = trained_or_resumed(
            config,
            output,
            resume,
            lambda done, total, said: bar.update(task, completed=done, total=total, said=said),
        )
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    console.print(f"Learning took {seconds:.0f} s, {cpu:.0f} s of them on a processor: imitation, updates, validation")
    return model


def trained_apart(settings: Settings, output: Path, console: Console) -> Sequence[Path]:
    """Train several networks in processes of their own."""
    seeds = range(settings.training.seed, settings.training.seed + settings.training_seeds)
    calls = [(replace(settings.training, seed=seed), output / f"seed-{seed}", settings.resume) for seed in seeds]
    models = []
    for seed, model in zip(seeds, in_processes(trained_or_resumed, calls, settings.workers), strict=True):
        console.print(f"network {seed}: {model}")
        models.append(model)
    return models


if __name__ == "__main__":
    prepare_output()
    try:
        with output_checked():
            run(parsed())
    except GpuschedError as error:
        sys.exit(f"error: {error}")
    except MemoryError as error:
        sys.exit(f"error: not enough memory ({error}): choose smaller windows, rollouts or environments")
    except KeyboardInterrupt as stop:  # its text tells what was kept
        sys.exit(tell_interrupt("train.py", stop))
