"""``gpusched train``: train a scheduler, compare it with every baseline on unseen seeds, and save the results."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gpusched_env.cli.choosing import WORKERS, WorkersOption
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.commands import Command

DEFAULT: Final = "steady-64"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is trained, compared and written."""

    recipe: str = DEFAULT
    """Recipe that gives the defaults of the training and the rivals of the comparison."""
    seeds: str = "1"
    """Networks: their number, trained with the seeds --seed, --seed + 1, ..., or a range FIRST:END. Each of several has
    a folder seed-SEED."""
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

    def get_params(self, ctx: Any) -> Any:
        """Return the options with the defaults of the recipe."""
        if not self.params:
            self._read(DEFAULT)
        return super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the recipe, then the settings of which it gives the defaults."""
        words = [word for arg in args for word in arg.split("=", 1)]
        self._read(dict(pairwise(words)).get("--recipe", DEFAULT))
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
            from gpusched_env.agents.whole_run import train_and_compare

            train_and_compare(settings, training)

        command.__annotations__ = {"settings": Settings, "training": TrainingConfig}
        self.take(command)


def train() -> None:
    """Train a scheduler, compare it with every baseline on unseen seeds, and save the results.

    The folder runs/RECIPE gets model.npz, initial.npz (the network before training), cloned.npz (after it has imitated
    its teacher), config.json, learning.csv (validation), updates.csv and tensorboard (each update), results.json,
    results.csv, table.txt and comparison.png. After Ctrl-C, the best checkpoint so far is kept. The saved agent is a
    scheduler like any other: gpusched compare --schedulers dally,learned:path=runs/steady-64/model.npz

    Example: gpusched train --scenario tiny-v1 --steps 20000
    """
