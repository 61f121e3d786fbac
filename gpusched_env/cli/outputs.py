"""Output files: checked before a long run, and written whole or not at all."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import typer

from gpusched_env.errors import GpuschedError

if TYPE_CHECKING:
    from gpusched_env.evaluation import RunResult
    from gpusched_env.event_log import EventLog

RESULT_SUFFIXES: Final = (".json", ".csv")
PLOT_SUFFIXES: Final = (".png", ".svg", ".pdf")
LOG_SUFFIXES: Final = (".npz", ".txt")


def written(*suffixes: str, **more: Any) -> Any:
    """Declare an option that names a file with one of the suffixes, which is checked before the command runs."""

    def checked(context: typer.Context, option: typer.CallbackParam, path: Path | None) -> Path | None:
        if path is not None and not context.resilient_parsing:  # not of a completion
            check_output(option.opts[0], Path(path), suffixes)
        return path

    return typer.Option(callback=checked, metavar=more.pop("metavar", "FILE"), **more)


def check_output(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a path that cannot be written, or a figure or page whose libraries are missing; make its folder."""
    if not any(path.name.lower().endswith(suffix) and len(path.name) > len(suffix) for suffix in suffixes or ("",)):
        raise GpuschedError(f"{option} {path}: the file's name must end in {' or '.join(suffixes)}")
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


def save_results(results: Sequence[RunResult], path: Path) -> None:
    """Write results as JSON or CSV, by the suffix."""
    from gpusched_env.evaluation import write_csv, write_json

    (write_json if path.suffix.lower() == ".json" else write_csv)(results, path)


def save_log(log: EventLog, path: Path) -> None:
    """Write an event log as arrays (``EventLog(**numpy.load(path))`` reads them), or as text, one line per event."""
    from gpusched_env.support.files import whole

    with whole(path) as partial:
        if path.suffix.lower() == ".npz":
            np.savez_compressed(partial, events=log.events, gpus=log.gpus)
        else:
            partial.write_text("\n".join(log.lines()) + "\n", encoding="utf-8")
