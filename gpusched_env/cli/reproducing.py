"""``gpusched reproduce``: repeat a paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpusched_env.cli.backends import BackendOption


def reproduce(
    card: Annotated[
        str,
        typer.Argument(
            metavar="CARD",
            help="dally, dally-cells, dally-tuner, elasticflow, gavel, hadar, pollux, sjf-bco, sjf-bsbf or themis.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Run only a part, in less than a minute.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results.json, results.csv, the figures and the finished runs.",
            metavar="DIR",
            show_default="reproduction/CARD",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Processes, at most one per core; -1 = one per core. Results do not depend on it.")
    ] = 1,
    backend: BackendOption = "processes",
) -> None:
    """Repeat a paper's experiments; print a summary, the paper's numbers beside ours, and which trends hold.

    Finished runs are kept in the output folder: run the same command again to continue after an interruption.

    Example: gpusched reproduce sjf-bco --quick --workers -1
    """
    import importlib.util

    from gpusched_env import __version__
    from gpusched_env.evaluation.processes import backend as played_by
    from gpusched_env.reproduce import load_card, play_card
    from gpusched_env.reproduce.report import WIDTH, findings_table, fitted, summary
    from gpusched_env.support.consoles import console

    chosen = load_card(card)
    folder = (output or Path("reproduction") / card).expanduser()
    try:
        with played_by(backend):
            results, found = play_card(chosen, folder, quick, workers)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"finished runs are kept in {folder}; run the same command to continue") from stop
    findings = chosen.findings(results)
    out = console(width=WIDTH)
    drawn = results.seeds
    seeds = f"seed {drawn[0]}" if len(drawn) == 1 else f"seeds {drawn[0]} to {drawn[-1]}"
    seeds += " (quick: only a part)" if quick else ""
    out.print(chosen.title, style="bold", markup=False)
    out.print(*summary(findings, out.width), sep="\n", markup=False)
    out.print(f"\n{seeds}, gpusched-env {__version__}\n", markup=False)
    for table in chosen.tables(results):
        for part in fitted(table, out.width):
            out.print(part)
            out.print()
    out.print(findings_table(findings))
    out.print()
    header = {"card": card, "version": __version__, "quick": quick}
    results.write_json(folder / "results.json", header, findings)
    results.write_csv(folder / "results.csv")
    written = ["results.json", "results.csv"]
    if importlib.util.find_spec("matplotlib") is None:
        out.print("no figures: pip install 'gpusched-env\\[plot]'", style="yellow")
    else:
        written += [path.name for path in chosen.draw(results, folder)]
    told = f"{len(results.runs):,} runs, {found:,} of them from an earlier call; in {folder}: {', '.join(written)}"
    out.print(told, markup=False, soft_wrap=False)
