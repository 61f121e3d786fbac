"""The commands: a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import Progress

from gpusched_env.cli.choosing import Draws, ScenarioOption
from gpusched_env.envs.windows import Windows
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.consoles import console
from tools.datasets.writing import mean_jct_s, write_dataset

DATASET_SEEDS: Final = 100  # if none are given


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the agent sees and may choose: fields of Windows."""

    queue_window: Annotated[int, typer.Option(min=1)] = 16
    """Number of waiting jobs that the agent sees."""
    running_window: Annotated[int, typer.Option(min=0)] = 4
    """Number of running jobs that it sees."""
    rules: str = "consolidate"
    """Placement rules that it can choose, with commas."""
    queue_order: str = "shortest"
    """Order of the waiting jobs."""
    running_order: str = "longest"
    """Order of the running jobs."""
    clairvoyant: bool = True
    """Show remaining run times."""
    lease_s: Annotated[float | None, typer.Option(metavar="SECONDS", show_default="no leases")] = None
    """Length of leases."""
    delays_s: Annotated[str, typer.Option(show_default="none")] = ""
    """Delays of bounded waits in seconds, with commas."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of Windows."""
        return vars(self) | {"rules": tuple(self.rules.split(",")), "delays_s": _numbers(self.delays_s)}


def dataset(
    scheduler: Annotated[
        str, typer.Option(help="Name (gpusched schedulers list), with parameters if wanted.", metavar="SPEC")
    ],
    draws: Draws,
    seen: Seen,
    scenario: ScenarioOption = "philly-64-v1",
    name: Annotated[str, typer.Option(help="Name of the dataset.", show_default="gpusched/SCENARIO-SCHEDULER-v0")] = "",
    output: Annotated[
        Path | None, typer.Option(help="Folder of Minari datasets.", metavar="FOLDER", show_default="Minari's own")
    ] = None,
) -> None:
    """Play a scheduler through the environment, and write a Minari dataset for offline learning.

    By default, 100 training seeds are played. At each step the scheduler is asked what it would do. The dataset holds
    observations, masks, actions and rewards; every episode is played again from the file and compared. A scheduler with
    leases needs leases of that length.

    Examples: python -m tools datasets --scheduler srtf:placement=consolidate --seeds 50;
    python -m tools datasets --scheduler dally --rules consolidate,pack --lease-s 3600 --seeds 50
    """
    windows = Windows(**seen.fields())
    chosen = draws.of(get_scenario(scenario), "train", DATASET_SEEDS)
    out = console()
    with Progress(console=out) as bar:
        task = bar.add_task("playing", total=len(chosen))
        written = write_dataset(
            scheduler, scenario, chosen, windows, name, output, lambda done, _: bar.update(task, completed=done)
        )
    out.print(
        f"{written.spec.dataset_id}: {written.total_episodes} episodes, {written.total_steps:,} steps, replayed; "
        f"mean JCT {mean_jct_s(written) / 3600:.2f} h"
    )
    out.print(f"written to {written.spec.data_path}")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: write seconds with commas, such as 600,3600", param_hint="--delays-s"
        ) from None
