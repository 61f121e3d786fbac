"""``gpusched reproduce``: repeat a paper's experiments."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gpusched_env import __version__
from gpusched_env.cli.choosing import Processes
from gpusched_env.cli.outputs import check_output
from gpusched_env.support.consoles import console, show

if TYPE_CHECKING:
    from rich.console import Console

    from gpusched_env.reproduce import Card, Finding, Results

TESTBEDS: Final = "testbeds"


def reproduce(
    card: Annotated[
        str,
        typer.Argument(
            metavar="CARD",
            help="dally, elasticflow, gavel, hadar, pollux, sjf-bco, sjf-bsbf or themis; testbeds, or a "
            "TOML file of others: measured values beside predicted ones.",
        ),
    ],
    processes: Processes,
    quick: Annotated[bool, typer.Option("--quick", help="Run only a part, in about a minute.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results.json, results.csv, the figures and the finished runs.",
            metavar="DIR",
            show_default="reproduction/CARD",
        ),
    ] = None,
) -> None:
    """Repeat a paper's experiments; print a summary, the paper's numbers beside ours, and which trends hold.

    Finished runs are kept in the output folder: run the same command again to continue after an interruption.

    Example: gpusched reproduce sjf-bco --quick
    """
    from gpusched_env.evaluation.processes import backend, check_workers
    from gpusched_env.reproduce import load_card

    folder = (output or Path("reproduction") / Path(card).stem).expanduser()
    if card == TESTBEDS or card.endswith(".toml"):
        check_output("--output", folder / "results.json", (".json",))
        check_workers(processes.workers)
        with backend(processes.backend):
            _testbeds(None if card == TESTBEDS else Path(card).expanduser(), folder, quick)
        return
    play_and_show(load_card(card), folder, quick, processes)


def play_and_show(chosen: Card, folder: Path, quick: bool, processes: Processes) -> None:
    """Play a card; print its tables and findings, and write results and figures."""
    from gpusched_env.evaluation.processes import backend
    from gpusched_env.reproduce import play_card
    from gpusched_env.reproduce.findings import UNJUDGED, of_full
    from gpusched_env.reproduce.report import WIDTH, summary

    try:
        with backend(processes.backend):
            results, found = play_card(chosen, folder, quick, processes.workers)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"finished runs are kept in {folder}; run the same command to continue") from stop
    findings = chosen.findings(results)
    out = console(width=WIDTH)
    drawn = results.seeds
    seeds = f"seed {drawn[0]}" if len(drawn) == 1 else f"seeds {drawn[0]} to {drawn[-1]}"
    judged = findings
    if quick:
        seeds += " (quick: numbers are of a part, verdicts of the full runs)"
        judged = [*of_full(chosen.name), *(one for one in findings if one.full == UNJUDGED)]
    out.print(chosen.title, style="bold", markup=False)
    out.print(*summary(judged, out.width), sep="\n", markup=False)
    out.print(f"\n{seeds}, gpusched-env {__version__}\n", markup=False)
    _show_tables(chosen, results, findings, out)
    header = {"card": chosen.name, "version": __version__, "quick": quick}
    results.write_json(folder / "results.json", header, findings)
    results.write_csv(folder / "results.csv")
    written = ["results.json", "results.csv", *_figures(chosen, results, folder, out)]
    told = f"{len(results.runs):,} runs, {found:,} of them from an earlier call; in {folder}: {', '.join(written)}"
    out.print(told, markup=False, soft_wrap=False)


def _show_tables(card: Card, results: Results, findings: Sequence[Finding], out: Console) -> None:
    """Print the card's tables, and which trends hold."""
    from gpusched_env.reproduce.report import findings_table, fitted

    for table in card.tables(results):
        for part in fitted(table, out.width):
            show(part, out=out)
            out.print()
    show(findings_table(findings), out=out)
    out.print()


def _figures(card: Card, results: Results, folder: Path, out: Console) -> list[str]:
    """Draw the figures and return their names."""
    from gpusched_env.support.figures import can_draw

    return [path.name for path in card.draw(results, folder)] if can_draw(out) else []


def _testbeds(file: Path | None, folder: Path, quick: bool) -> None:
    """Play measured testbeds; print the tables, and write files, figures and a page."""
    from gpusched_env.reproduce.report import WIDTH
    from gpusched_env.reproduce.testbeds.playing import measured_of, play_rows
    from gpusched_env.reproduce.testbeds.report import draw, report_tables, write_files, write_page
    from gpusched_env.support.figures import can_draw

    out = console(width=WIDTH)
    listed, measured = measured_of(file)
    rows, constants = play_rows(listed, measured, quick)
    tables = report_tables(rows, listed, constants)
    for table in tables:
        show(table, out=out)
        out.print()
    written = write_files(rows, constants, folder, measured.sha256)
    figures = draw(rows, folder) if can_draw(out) else []
    if importlib.util.find_spec("jinja2") is not None:
        written.append(write_page(tables, folder, figures))
    out.print(f"in {folder}: {', '.join([*written, *figures])}", markup=False)
