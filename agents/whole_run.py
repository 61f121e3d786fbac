"""A whole run: train an agent, compare it with baselines on report seeds, and save the results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gpusched_env.agents.evaluation import chosen_seeds, evaluate_agents
from gpusched_env.agents.learned import CONFIG_FILE, MODEL
from gpusched_env.agents.recipes import RECIPES
from gpusched_env.agents.run_folder import STATE_FILE
from gpusched_env.agents.training import TrainingConfig, trained_or_resumed
from gpusched_env.cli.parsing import chosen_schedulers, parsed_seeds
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.processes import in_processes
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.consoles import console as standard_console
from gpusched_env.support.files import file_name

if TYPE_CHECKING:
    from gpusched_env.cli.training import Settings


def train_and_compare(settings: Settings, config: TrainingConfig) -> None:
    """Train, evaluate, save and print."""
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
    names = (CONFIG_FILE, STATE_FILE, f"{MODEL}.npz")
    folders = (output, *output.glob("seed-*"))
    found = [str(folder / name) for folder in folders for name in names if (folder / name).exists()]
    if found:
        raise GpuschedError(
            f"{output} holds a training, whose files would be overwritten: {', '.join(found)}. Give --overwrite, "
            "another --output, or --resume to continue it"
        )


def _trained(config: TrainingConfig, output: Path, resume: bool, console: Console) -> Path:
    """Train one network, show a bar, and tell how long it took."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[said]}"), console=console) as bar:
        task = bar.add_task("training", total=config.steps, said="")
        model = trained_or_resumed(
            config, output, resume, lambda done, total, said: bar.update(task, completed=done, total=total, said=said)
        )
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    console.print(f"Learning took {seconds:.0f} s, {cpu:.0f} s of them on a processor: imitation, updates, validation")
    return model


def _trained_apart(
    config: TrainingConfig, seeds: Sequence[int], output: Path, settings: Settings, console: Console
) -> Iterable[Path]:
    """Train several networks in processes of their own."""
    calls = [(replace(config, seed=seed), output / f"seed-{seed}", settings.resume) for seed in seeds]
    for seed, model in zip(seeds, in_processes(trained_or_resumed, calls, settings.workers), strict=True):
        console.print(f"network {seed}: {model}")
        yield model
