"""``gpusched agents``: the trained agents that the package contains."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gpusched_env.cli.choosing import WORKERS, Draws, ScenarioOption, WorkersOption
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import console, plain_table, show
from gpusched_env.support.tables import BOUND

agents_app = Commands("List the trained agents of the package; show or measure one; write data sets.")

MOVED = "this search is no longer installed; it is in studies/ of a clone, and studies/README.md gives its name there"
SEEDS: Final = 20  # of a measurement, if none are given
DATASET_SEEDS: Final = 100  # of a data set, if none are given
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="An agent of gpusched agents list, or learned.")]


@agents_app.add("list", tables=True)
def list_agents() -> None:
    """List the agents; the scheduler learned:NAME plays one."""
    from gpusched_env.agents.cards import read_card, shipped_agents

    table = plain_table("agent", "environment", "trained on", "kind", "summary", "kB", texts=5)
    for column in table.columns[:4]:
        column.no_wrap = True
    for card in map(read_card, shipped_agents()):
        size = card.checked_file().stat().st_size / 1_000
        mark = "*" if card.clairvoyant else ""
        source = card.scenario if not card.data else "logs"
        table.add_row(f"{card.name}{mark}", card.environment, source, card.kind, card.summary, f"{size:.0f}")
    table.caption = "* clairvoyant: it reads true run times"
    show(table)


@agents_app.add("show")
def show_agent(name: NameArgument) -> None:
    """Print the card of an agent: purpose, limits, training, results, digest. The checkpoint is verified."""
    from gpusched_env.agents.cards import read_card

    card = read_card(_agent(name))
    path = card.checked_file()
    print(f"{card.name}: {card.summary}\n")
    ranges = ", ".join(f"{use} {first}:{end}" for use, (first, end) in card.seeds.items())
    package = ", ".join(f"{key} {value}" for key, value in card.versions.items() if isinstance(value, str))
    for heading, text in (
        ("play", f"gpusched run --scenario {card.scenario} --scheduler learned:{card.name}"),
        ("environment", card.environment),
        ("trained on", card.data or f"{card.scenario}, seeds {ranges}"),
        ("run times", "it reads true run times" if card.clairvoyant else "it does not read run times"),
        ("use", card.intended_use),
        ("limits", card.limits),
        ("kind", f"{card.kind}, {path.stat().st_size:,} bytes, SHA-256 {card.sha256} (verified)"),
        ("training", f"{card.simulated_jobs:,} simulated jobs, {card.hours:.2g} h on {card.machine}"),
        ("made by", "; ".join(card.made_by)),
        *([("now", MOVED)] if any("gpusched_env.agents." in command for command in card.made_by) else []),
        ("version", package),
        ("settings", json.dumps(card.training)),
        ("measure", f"gpusched agents measure {card.name} --seeds {card.compared_seeds}"),
    ):
        print(f"{heading + ':':<13}{text}")
    print(_heading(card.metric, card.compared_seeds))
    for rival, (mean, low, high) in card.ratios.items():
        print(_ratio(rival, mean, low, high))


@agents_app.add("measure")
def measure_agent(
    name: NameArgument,
    draws: Draws,
    schedulers: Annotated[
        list[str] | None,
        typer.Option("--schedulers", "--scheduler", metavar="SPECS", help="Rivals.", show_default="those of the card"),
    ] = None,
    workers: WorkersOption = WORKERS,
) -> None:
    """Play an agent and the rivals of its card on report seeds (20 by default); print the ratios, paired by seed.

    Example: gpusched agents measure general --seeds 20
    """
    from gpusched_env.agents.cards import read_card
    from gpusched_env.agents.evaluation import RANDOM
    from gpusched_env.agents.measuring import measured_ratios
    from gpusched_env.cli.parsing import chosen_schedulers
    from gpusched_env.scenarios import get_scenario

    card = read_card(name := _agent(name))
    rivals = chosen_schedulers(schedulers) if schedulers else list(card.ratios)
    seeds = draws.of(get_scenario(card.scenario), default=SEEDS)
    rivals = list(dict.fromkeys([*rivals, RANDOM, BOUND]))
    ratios = measured_ratios(f"learned:{name}", rivals, card.scenario, card.metric, seeds, workers)
    print(_heading(card.metric, len(seeds)))
    for rival, ratio in ratios.items():
        print(_ratio(rival, *ratio))


def _agent(name: str) -> str:
    """Return the agent that a scheduler plays: ``learned`` and ``learned:NAME`` name agents, too."""
    from gpusched_env.baselines.registry import GENERAL_AGENT, LEARNED

    return GENERAL_AGENT if name == LEARNED else name.removeprefix(f"{LEARNED}:")


def _heading(metric: str, seeds: int) -> str:
    return f"{metric} of the agent / that of others (geometric mean over {seeds} report seeds, 95 % interval):"


def _ratio(rival: str, mean: float, low: float, high: float) -> str:
    return f"  {rival:<36} {mean:.4f}  [{low:.4f}, {high:.4f}]"


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


@agents_app.add("dataset")
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

    Examples: gpusched agents dataset --scheduler srtf:placement=consolidate --seeds 50;
    gpusched agents dataset --scheduler dally --rules consolidate,pack --lease-s 3600 --seeds 50
    """
    from rich.progress import Progress

    from gpusched_env.agents.datasets import mean_jct_s, write_dataset
    from gpusched_env.envs.windows import Windows
    from gpusched_env.scenarios import get_scenario

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
