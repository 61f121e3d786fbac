"""Output files: checked before a long run, and written whole or not at all."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import whole

if TYPE_CHECKING:
    from gpusched_env.evaluation import RunResult
    from gpusched_env.event_log import EventLog

RESULT_SUFFIXES: Final = (".json", ".csv")
PLOT_SUFFIXES: Final = (".png", ".svg", ".pdf")
REPORT_SUFFIXES: Final = (".html",)
LOG_SUFFIXES: Final = (".npz", ".txt")


def check_output(option: str, path: Path | None, suffixes: Sequence[str]) -> None:
    """Refuse a path that cannot be written, and make its folder.

    Raises
    ------
    GpuschedError : the suffix is none of ``suffixes``, the path is a folder, or it cannot be written
    """
    if path is None:
        return
    if not any(path.name.lower().endswith(suffix) and len(path.name) > len(suffix) for suffix in suffixes):
        raise GpuschedError(f"{option} {path}: the file's name must end in {' or '.join(suffixes)}")
    if path.is_dir():
        raise GpuschedError(f"{option} {path}: this is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise GpuschedError(f"{option} {path}: cannot be written ({error.strerror or error})") from error


def check_plot(path: Path | None, option: str = "--plot") -> None:
    """Refuse a plot that cannot be written or drawn; ``option`` is the option that names it.

    Raises
    ------
    GpuschedError : as :func:`check_output`, or matplotlib is not installed
    """
    check_output(option, path, PLOT_SUFFIXES)
    _need_matplotlib(path, option)


def check_report(path: Path | None) -> None:
    """Refuse a page that cannot be written or made.

    Raises
    ------
    GpuschedError : as :func:`check_output`, or the libraries of the extra ``report`` are not installed
    """
    check_output("--report", path, REPORT_SUFFIXES)
    if path is not None:
        from gpusched_env.reports.pages import need_libraries

        need_libraries("--report")


def check_figures(path: Path | None) -> None:
    """Refuse a plot, or a folder of plots (a path without suffix), that cannot be written or drawn.

    Raises
    ------
    GpuschedError : as :func:`check_plot`
    """
    if path is None or path.suffix:
        return check_plot(path)
    if path.exists() and not path.is_dir():
        raise GpuschedError(f"--plot {path}: this is a file; name a folder, or a file that ends in .png, .svg or .pdf")
    return check_plot(path / "any.png")


def _need_matplotlib(path: Path | None, option: str) -> None:
    if path is not None and importlib.util.find_spec("matplotlib") is None:
        raise GpuschedError(f"{option} needs matplotlib: pip install 'gpusched-env[plot]'")


def save_results(results: Sequence[RunResult], path: Path) -> None:
    """Write results as JSON or CSV, by the suffix."""
    from gpusched_env.evaluation import write_csv, write_json

    (write_json if path.suffix.lower() == ".json" else write_csv)(results, path)


def save_log(log: EventLog, path: Path) -> None:
    """Write an event log as arrays (``EventLog(**numpy.load(path))`` reads them), or as text, one line per event."""
    import numpy as np

    with whole(path) as partial:
        if path.suffix.lower() == ".npz":
            np.savez_compressed(partial, events=log.events, gpus=log.gpus)
        else:
            partial.write_text("\n".join(log.lines()) + "\n", encoding="utf-8")
