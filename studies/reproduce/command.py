"""``gpusched reproduce``: play a card or testbeds, print tables and findings, write results and figures."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env import __version__
from gpusched_env.cli.choosing import Processes
from gpusched_env.cli.outputs import check_output
from gpusched_env.evaluation.processes import backend, check_workers
from gpusched_env.support.consoles import console, show
from gpusched_env.support.figures import can_draw
from studies.reproduce import load_card, play_card
from studies.reproduce.findings import UNJUDGED, of_full
from studies.reproduce.report import WIDTH, findings_table, fitted, summary
from studies.reproduce.testbeds.playing import measured_of, play_rows
from studies.reproduce.testbeds.report import draw, report_tables, write_files, write_page

if TYPE_CHECKING:
    from rich.console import Console

    from studies.reproduce import Card, Finding, Results

TESTBEDS: Final = "testbeds"


def play(card: str, folder: Path, quick: bool, processes: Processes) -> None:
    """Play a card by its name, or testbeds: those of the package, or a TOML file of others."""
    if card != TESTBEDS and not card.endswith(".toml"):
        return play_and_show(load_card(card), folder, quick, processes)
    check_output("--output", folder / "results.json", (".json",))
    check_workers(processes.workers)
    with backend(processes.backend):
        return _testbeds(None if card == TESTBEDS else Path(card).expanduser(), folder, quick)


def play_and_show(chosen: Card, folder: Path, quick: bool, processes: Processes) -> None:
    """Play a card; print its tables and findings, and write results and figures."""
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
    for table in card.tables(results):
        for part in fitted(table, out.width):
            show(part, out=out)
            out.print()
    show(findings_table(findings), out=out)
    out.print()


def _figures(card: Card, results: Results, folder: Path, out: Console) -> list[str]:
    """Draw the figures and return their names."""
    return [path.name for path in card.draw(results, folder)] if can_draw(out) else []


def _testbeds(file: Path | None, folder: Path, quick: bool) -> None:
    """Play measured testbeds; print the tables, and write files, figures and a page."""
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
