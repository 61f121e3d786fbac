"""``gpusched train``: train a scheduler, compare it with every baseline on unseen seeds, and save the results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from gpusched_env.cli.choosing import WORKERS, WorkersOption
from gpusched_env.cli.options import Command, flattened
from gpusched_env.errors import GpuschedError, unknown_name

if TYPE_CHECKING:
    from rich.console import Console

    from gpusched_env.agents.training import TrainingConfig

DEFAULT: Final = "philly-64"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is trained, compared and written."""

    recipe: str = DEFAULT
    """Recipe that gives the defaults of the training and the rivals of the comparison."""
    seeds: str = "1"
    """Networks: their number, trained with the seeds --seed, --seed + 1, ..., or a range FIRST:END. Each of several has a
    folder seed-SEED."""
    search: int = 0
    """Number of trials of a search for settings by Optuna, before the training; 0 = no search."""
    resume: bool = False
    """Continue the interrupted training in the folder of the results."""
    overwrite: bool = False
    """Train anew in a folder that holds a training, and replace its files."""
    output: Path | None = None
    """Folder of the results; by default runs/RECIPE, or runs/SCENARIO with a scenario of your own."""
    report_seeds: int = 10
    """Number of report seeds for the comparison; training and validation do not use them."""
    schedulers: str = ""
    """Schedulers of the comparison, such as fifo,srtf; by default all that suit the scenario and do not plan again at
    every arrival, and the rivals of the recipe."""
    workers: WorkersOption = WORKERS


class Train(Command):
    """The command; its options come with torch, so they are read when they are asked for."""

    recipe = ""  # of which the options have the defaults

    def get_params(self, ctx: Any) -> Any:
        """Return the options with the defaults of the recipe."""
        if not self.recipe:
            self._read(DEFAULT)
        return super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the recipe, then the settings of which it gives the defaults."""
        words = [word for arg in args for word in arg.split("=", 1)]
        self._read(dict(zip(words, words[1:], strict=False)).get("--recipe", DEFAULT))
        return super().parse_args(ctx, args)

    def _read(self, recipe: str) -> None:
        try:
            from gpusched_env.agents.recipes import RECIPES
            from gpusched_env.agents.training import TrainingConfig
        except ImportError as error:
            raise GpuschedError(f"{error}: training needs pip install 'gpusched-env[train]'") from error

        if recipe not in RECIPES:
            raise GpuschedError(f"--recipe: {unknown_name('recipe', recipe, RECIPES)}")

        def command(settings: Any, training: Any = RECIPES[recipe].training) -> None:
            train_and_compare(settings, training)

        command.__annotations__ = {"settings": Settings, "training": TrainingConfig}
        real = typer.Typer(add_completion=False)
        real.command()(flattened(command))
        made = typer.main.get_command(real)
        self.params, self.callback, self.recipe = made.params, made.callback, recipe


def train() -> None:
    """Train a scheduler, compare it with every baseline on unseen seeds, and save the results.

    The folder runs/RECIPE gets model.npz, initial.npz (the network before training), cloned.npz (after it has imitated
    its teacher), config.json, learning.csv (validation), updates.csv and tensorboard (each update), results.json,
    results.csv, table.txt and comparison.png. After Ctrl-C, the best checkpoint so far is kept. The saved agent is a
    scheduler like any other: gpusched compare --schedulers srtf,learned:path=runs/philly-64/model.npz

    Example: gpusched train --scenario tiny-v1 --steps 20000
    """


def train_and_compare(settings: Settings, config: TrainingConfig) -> None:
    """Train, evaluate, save and print."""
    from gpusched_env.agents.evaluation import chosen_seeds, evaluate_agents
    from gpusched_env.agents.recipes import RECIPES
    from gpusched_env.agents.search import search
    from gpusched_env.cli.parsing import chosen_schedulers, parsed_seeds
    from gpusched_env.consoles import console as standard_console
    from gpusched_env.files import file_name
    from gpusched_env.scenarios import get_scenario

    begin = time.perf_counter()
    console = standard_console(width=150)
    recipe = RECIPES[settings.recipe]
    scenario = get_scenario(config.scenario)
    chosen_seeds(scenario, settings.report_seeds)  # refused before the training, not after it
    seeds = parsed_seeds(settings.seeds, config.seed)
    is_own = config.scenario != recipe.training.scenario
    baselines = chosen_schedulers([settings.schedulers]) if settings.schedulers else None
    output = settings.output or Path("runs") / (file_name(scenario.name) if is_own else settings.recipe)
    if not (settings.resume or settings.overwrite):
        _refuse_to_overwrite(output)
    console.print(": ".join(filter(None, [f"Training on [bold]{scenario.name}[/bold]", scenario.description])))
    if settings.search:
        trials = 0 if settings.resume else settings.search
        config = search(config, output / "search", trials, lambda line: console.print(line, highlight=False))
    models: Sequence[Path]
    if len(seeds) == 1:
        models = [_trained(replace(config, seed=seeds.start), output, settings.resume, console)]
    else:
        models = list(_trained_apart(config, seeds, output, settings, console))
    try:
        rivals = () if is_own else recipe.rivals
        evaluate_agents(
            models, scenario, output, settings.report_seeds, settings.workers, console, baselines, rivals, config.metric
        )
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{models[0]} is trained; the comparison was not finished") from stop
    console.print(f"Done in {time.perf_counter() - begin:.0f} s; everything is in {output}")


def _refuse_to_overwrite(output: Path) -> None:
    """Raise an error that names the files of an earlier training, if the folder holds one."""
    from gpusched_env.agents.learned import CONFIG_FILE, MODEL
    from gpusched_env.agents.run_folder import STATE_FILE

    names = (CONFIG_FILE, STATE_FILE, f"{MODEL}.npz", f"{MODEL}.zip")
    folders = (output, *output.glob("seed-*"))
    found = [str(folder / name) for folder in folders for name in names if (folder / name).exists()]
    if found:
        raise GpuschedError(
            f"{output} holds a training, whose files would be overwritten: {', '.join(found)}. Give --overwrite, "
            "another --output, or --resume to continue it"
        )


def _trained(config: TrainingConfig, output: Path, resume: bool, console: Console) -> Path:
    """Train one network, show a bar, and tell how long it took."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from gpusched_env.agents.training import trained_or_resumed

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


def _trained_apart(
    config: TrainingConfig, seeds: Sequence[int], output: Path, settings: Settings, console: Console
) -> Iterable[Path]:
    """Train several networks in processes of their own."""
    from gpusched_env.agents.training import trained_or_resumed
    from gpusched_env.evaluation.processes import in_processes

    calls = [(replace(config, seed=seed), output / f"seed-{seed}", settings.resume) for seed in seeds]
    for seed, model in zip(seeds, in_processes(trained_or_resumed, calls, settings.workers), strict=True):
        console.print(f"network {seed}: {model}")
        yield model
