"""The table of docs/performance.md: every value beside its target, with the machine and the versions.

    python benchmarks/table.py                   everything, about half an hour
    python benchmarks/table.py --quick           fewer repeats, without runs that take minutes
    python benchmarks/table.py --output docs/performance/table.json --page docs/performance.md
    python benchmarks/table.py --read docs/performance/table.json    all rows of a file; the page leaves out details

Each run is a separate process, so a run that fails affects only its own rows. Times are CPU seconds, so that other
processes count little; medians over repeats, with minimum and maximum. If a run is compared with CartPole-v1,
CartPole-v1 is measured immediately before each repeat, and the median of the ratios is reported. Compilation is not
counted.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from machine import KEEPS_MEMORY, machine, versions
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rows import ROWS, RUNS, Row, Run

from gpusched_env.support.commands import run_script

MARKS: Final = "<!-- table: begin -->\n", "<!-- table: end -->\n"
HEADINGS: Final = "what", "median", "least to largest", "target", "verdict"
LEFT_OUT: Final = "left out by --quick"


@dataclass
class Settings:
    """Measure everything."""

    quick: bool = False
    """Fewer repeats, without the runs that take minutes."""
    only: tuple[str, ...] = ()
    """Runs to measure; by default all."""
    output: Path | None = None
    """JSON file for samples, machine and versions."""
    page: Path | None = None
    """Markdown page whose table is replaced."""
    read: Path | None = None
    """Show the table of this JSON file instead of measuring."""
    one: str | None = None
    """Measure this run in this process and print JSON (used by the command itself)."""


def arguments_of(run: Run, quick: bool) -> dict[str, Any] | None:
    """Return the arguments of a run; None = the run is left out."""
    if not quick:
        return dict(run.arguments)
    return None if run.quick is None else {**run.arguments, **run.quick}


def measure(name: str, quick: bool) -> dict[str, list[float]]:
    """Measure a run in this process."""
    import measurements

    return getattr(measurements, RUNS[name].function)(**(arguments_of(RUNS[name], quick) or {}))


def measure_apart(name: str, quick: bool) -> dict[str, Any]:
    """Measure a run in a fresh process; return its samples, or why there are none."""
    if arguments_of(RUNS[name], quick) is None:
        return {"missing": LEFT_OUT}
    command = [sys.executable, __file__, "--one", name, *(["--quick"] if quick else [])]
    begin = time.perf_counter()
    kept = KEEPS_MEMORY if RUNS[name].function == "replay" else {}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | kept)
    lines = result.stdout.splitlines()
    if result.returncode or not lines:
        last = (result.stderr.strip() or f"exit status {result.returncode}").splitlines()[-1]
        return {"missing": f"failed: {last}"}
    return {"samples": json.loads(lines[-1]), "wall_s": time.perf_counter() - begin}


def measure_all(settings: Settings, console: Console) -> dict[str, Any]:
    """Measure every run; return the content of the JSON file."""
    names = settings.only or tuple(RUNS)
    for name in names:
        if name not in RUNS:
            raise SystemExit(f"no run {name!r}; there are {', '.join(RUNS)}")
    began, host, runs = datetime.now(UTC), machine(), {}
    columns = SpinnerColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=escape(name))
            runs[name] = {**asdict(RUNS[name]), **measure_apart(name, settings.quick)}
            told = runs[name].get("missing") or f"{runs[name]['wall_s']:.0f} s"
            console.print(f"{datetime.now(UTC):%H:%M:%S} {name}: {told}", markup=False)
            progress.advance(task)
    options = [*(["--quick"] if settings.quick else []), *(["--only", *settings.only] if settings.only else [])]
    return {
        "command": shlex.join(["python", "benchmarks/table.py", *options]),
        "began": began.isoformat(timespec="seconds"),
        "minutes": (datetime.now(UTC) - began).total_seconds() / 60,
        "machine": host | {"load_at_the_end": machine()["load"]},
        "versions": versions(),
        "runs": runs,
    }


def number(value: float) -> str:
    """Format a number with three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def verdict(row: Row, value: float) -> str:
    """Return whether a row has reached its target, or by how much it has missed it."""
    if row.target is None:
        return ""
    if value >= row.target if row.at_least else value <= row.target:
        return "reached"
    return f"missed by {abs(value - row.target) / row.target:.0%}"


def cells(row: Row, run: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the cells of a row."""
    target = "" if row.target is None else f"{'≥' if row.at_least else '≤'} {number(row.target)} {row.unit}"
    if run is None or "missing" in run:
        return row.what, "", "", target, "not measured" if run is None else run["missing"]
    samples = run["samples"][row.figure]
    value = statistics.median(samples)
    spread = f"{number(min(samples))} to {number(max(samples))}" if len(samples) > 1 else "once"
    return row.what, f"{number(value)} {row.unit}", spread, target, verdict(row, value)


def parts(data: dict[str, Any], details: bool = True) -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of each part of the table, perhaps without details of runs that reach all of their targets."""
    found: dict[str, list[tuple[str, ...]]] = {}
    told = [(row, cells(row, data["runs"].get(row.run))) for row in ROWS]
    unusual = {row.run for row, texts in told if row.detail and texts[-1] not in ("", "reached")}
    for row, texts in told:
        if details or not row.detail or row.run in unusual:
            found.setdefault(row.part, []).append(texts)
    return found


def described(data: dict[str, Any]) -> list[str]:
    """Return lines on when, on which machine and with which versions the table was measured."""
    host = data["machine"]
    of_host = f"{host['cpu']}, {host['cores']} cores, {host['memory_GB']:.0f} GB of memory, {host['system']}"
    load = f"load of the machine {host['load']:.2f} before and {host['load_at_the_end']:.2f} after"
    return [
        f"`{data['command']}`, {data['began'][:10]}, {data['minutes']:.0f} minutes; {load}.",
        f"{of_host}.",
        ", ".join(f"{name} {version}" for name, version in data["versions"].items()) + ".",
    ]


def markdown(data: dict[str, Any]) -> str:
    """Return the table as Markdown, without details and spreads; a target that is reached stands alone."""
    lines = [*described(data), "", f"| {' | '.join((HEADINGS[0], HEADINGS[1], HEADINGS[3]))} |", "|---|--:|---|"]
    for part, rows in parts(data, details=False).items():
        lines.append(f"| **{part}** | | |")
        for what, median, _, target, told in rows:
            lines.append(f"| {what} | {median} | {', '.join(filter(None, (target, told.replace('reached', ''))))} |")
    return "\n".join(lines) + "\n"


def replace_table(page: Path, text: str) -> None:
    """Replace the table between the marks of a page."""
    begin, end = MARKS
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page}: no lines {begin.strip()} and {end.strip()}")
    page.write_text(before + begin + text + end + after, encoding="utf-8")


def show(data: dict[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table(title="\n".join(described(data)), title_justify="left", title_style="")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in HEADINGS[1:4] else "left")
    for part, rows in parts(data).items():
        table.add_section()
        table.add_row(f"[bold]{escape(part)}[/bold]")
        for row in rows:
            table.add_row(*map(escape, row))
    console.print(table)


def main(settings: Settings) -> None:
    """Measure, print and save."""
    if settings.one is not None:
        print(json.dumps(measure(settings.one, settings.quick)))
        return
    console = Console(width=150)
    if settings.read is not None:
        data = json.loads(settings.read.read_text(encoding="utf-8"))
    else:
        data = measure_all(settings, console)
    show(data, console)
    if settings.output is not None:
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        settings.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if settings.page is not None:
        replace_table(settings.page, markdown(data))
    if failed := [name for name, run in data["runs"].items() if run.get("missing", LEFT_OUT) != LEFT_OUT]:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    run_script(main)
