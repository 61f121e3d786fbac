"""Output files: checked before a long run, and written whole or not at all."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import typer

from gpusched_env.errors import GpuschedError
from gpusched_env.support.consoles import Shown, collecting, in_latex, in_markdown
from gpusched_env.support.files import whole, write_whole
from gpusched_env.support.provenance import origin, versions_in_words
from gpusched_env.support.tables import Table

if TYPE_CHECKING:
    from gpusched_env.evaluation import RunResult
    from gpusched_env.event_log import EventLog

STANDARD_OUTPUT: Final = "-"  # as the name of a file
RESULT_SUFFIXES: Final = (".json", ".csv", ".tex", ".md", STANDARD_OUTPUT)
PLOT_SUFFIXES: Final = (".png", ".svg", ".pdf")


def written(*suffixes: str, **more: Any) -> Any:
    """Declare an option that names a file with one of the suffixes, which is checked before the command runs."""

    def checked(context: typer.Context, option: typer.CallbackParam, given: Any) -> Any:
        for path in given if isinstance(given, list) else (given,):
            printed = STANDARD_OUTPUT in suffixes and str(path) == STANDARD_OUTPUT
            if path is not None and not printed and not context.resilient_parsing:  # not of a completion
                check_output(option.opts[0], Path(path), suffixes)
        return given

    return typer.Option(callback=checked, metavar=more.pop("metavar", "FILE"), **more)


def check_output(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a path that cannot be written, or a figure or page whose libraries are missing; make its folder."""
    ends = [suffix for suffix in suffixes or ("",) if suffix != STANDARD_OUTPUT]
    if not any(path.name.lower().endswith(end) and len(path.name) > len(end) for end in ends):
        raise GpuschedError(f"{option} {path}: the file's name must end in {' or '.join(ends)}")
    if path.is_dir():
        raise GpuschedError(f"{option} {path}: this is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise GpuschedError(f"{option} {path}: cannot be written ({error.strerror or error})") from error
    if suffixes == PLOT_SUFFIXES and importlib.util.find_spec("matplotlib") is None:
        raise GpuschedError(f"{option} needs matplotlib: pip install 'gpusched-env[plot]'")
    if ".html" in suffixes:
        from gpusched_env.reports.pages import need_libraries

        need_libraries(option)


def check_figures(path: Path | None) -> None:
    """Refuse a plot, or a folder of plots (a path without suffix), that cannot be written or drawn."""
    if path is not None and not path.suffix and path.exists() and not path.is_dir():
        raise GpuschedError(f"--plot {path}: this is a file; name a folder, or a file that ends in .png, .svg or .pdf")
    if path is not None:
        check_output("--plot", path if path.suffix else path / "any.png", PLOT_SUFFIXES)


@contextlib.contextmanager
def output_of_results(paths: Sequence[Path] | None) -> Iterator[IO[str]]:
    """Yield the stream of the name ``-``; if it is among the paths, all else goes to standard error."""
    out = sys.stdout
    if STANDARD_OUTPUT not in map(str, paths or ()):
        yield out
        return
    if collecting():
        raise GpuschedError("--output -: this prints the results, and so does --json, --latex or --markdown; give one")
    with contextlib.redirect_stdout(sys.stderr):
        yield out


def save_results(results: Sequence[RunResult], paths: Sequence[Path], out: IO[str], table: Table) -> None:
    """Write all metrics as JSON or CSV, and the table of a comparison as LaTeX or Markdown, by the suffix.

    ``out`` : where ``-`` writes CSV
    """
    from gpusched_env.evaluation import write_csv, write_json
    from gpusched_env.evaluation.results import csv_of, csv_rows

    about = origin()
    line = {"command": about.get("command", ""), "versions": versions_in_words()}
    for path in dict.fromkeys(paths):
        suffix = path.suffix.lower()
        if str(path) == STANDARD_OUTPUT:
            print(csv_of(csv_rows(results, **line)), end="", file=out)
        elif suffix == ".json":
            write_json(results, path, about=about, table=table.to_rows(), notes=table.noted())
        elif suffix == ".csv":
            write_csv(results, path, **line)
        else:
            shown = [Shown(table, (), [result.as_dict() for result in results])]
            write_whole(path, (in_latex if suffix == ".tex" else in_markdown)(shown))


def save_log(log: EventLog, path: Path) -> None:
    """Write an event log as arrays (``EventLog(**numpy.load(path))`` reads them), or as text, one line per event."""
    with whole(path) as partial:
        if path.suffix.lower() == ".npz":
            np.savez_compressed(partial, events=log.events, gpus=log.gpus)
        else:
            partial.write_text("\n".join(log.lines()) + "\n", encoding="utf-8")
