"""``gpusched agents``: the trained agents that the package contains."""

from __future__ import annotations

import json
from typing import Annotated

import typer

agents_app = typer.Typer(help="List the trained agents of the package; describe or measure one.", no_args_is_help=True)

MOVED = "this search is no longer installed; it is in studies/ of a clone, and studies/README.md gives its name there"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="An agent of gpusched agents list.")]


@agents_app.command("list")
def list_agents() -> None:
    """List the agents; the scheduler learned:NAME plays one."""
    from gpusched_env.agents.cards import read_card, shipped_agents
    from gpusched_env.cli.console import plain_table, show

    table = plain_table("agent", "environment", "trained on", "kind", "summary", "kB", texts=5)
    for column in table.columns[:4]:
        column.no_wrap = True
    for card in map(read_card, shipped_agents()):
        size = card.checked_file().stat().st_size / 1_000
        mark = "*" if card.clairvoyant else ""
        source = card.scenario if not card.data else "logs"
        table.add_row(f"{card.name}{mark}", card.environment, source, card.kind, card.summary, f"{size:.0f}")
    table.caption = "* clairvoyant: it reads true run times"
    table.caption_justify = "left"
    show(table)


@agents_app.command("describe")
def describe_agent(name: NameArgument) -> None:
    """Print the card of an agent: purpose, limits, training, results, digest. The checkpoint is verified."""
    from gpusched_env.agents.cards import read_card

    card = read_card(name)
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


@agents_app.command("measure")
def measure_agent(
    name: NameArgument,
    seeds: Annotated[int, typer.Option(min=2, help="Number of report seeds of its scenario.")] = 20,
    workers: Annotated[
        int, typer.Option(help="Processes, at most one per core; -1 = one per core. Results do not depend on it.")
    ] = 1,
) -> None:
    """Play an agent and the rivals of its card on report seeds; print the ratios, paired by seed."""
    from gpusched_env.agents.cards import read_card
    from gpusched_env.agents.measuring import measured_ratios

    card = read_card(name)
    ratios = measured_ratios(f"learned:{name}", list(card.ratios), card.scenario, card.metric, seeds, workers)
    print(_heading(card.metric, seeds))
    for rival, ratio in ratios.items():
        print(_ratio(rival, *ratio))


def _heading(metric: str, seeds: int) -> str:
    return f"{metric} of the agent / that of others (geometric mean over {seeds} report seeds, 95 % interval):"


def _ratio(rival: str, mean: float, low: float, high: float) -> str:
    return f"  {rival:<36} {mean:.4f}  [{low:.4f}, {high:.4f}]"
