"""Functions and constants that all figures share: colours, ticks of logarithmic time axes, and writing of files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import whole
from gpusched_env.support.units import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

SUFFIXES: Final = (".png", ".svg", ".pdf")
# The palette of Okabe and Ito, "Color Universal Design" (2008), without yellow, which is too pale on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Of jobs, in order of arrival, so that consecutive jobs differ.
JOB_COLOURS: Final = np.array(
    [[230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66], [0, 114, 178], [213, 94, 0], [204, 121, 167]], float
)
DASHES: Final = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
# Ticks of a logarithmic time axis, in seconds, minutes, hours and days: powers of ten of seconds are hard to read.
TICKS: Final = {
    1e-3: "1 ms", 1e-2: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h",
    36_000: "10 h", 259_200: "3 d", 2_592_000: "30 d", 25_920_000: "300 d",
}  # fmt: skip
FINE_TICKS: Final = TICKS | {
    count * unit.seconds: f"{count} {unit.sign}" for unit in UNITS for count in (1, 2, 5, 10, 20, 30)
}  # used if fewer than three of TICKS are in range


def can_draw(out: Console) -> bool:
    """Return whether matplotlib is installed; if not, say on a console how to install it."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        out.print("no figures: pip install 'gpusched-env\\[plot]'", style="yellow")
    return found


def job_colours(jobs: np.ndarray) -> np.ndarray:
    """Return red, green and blue of jobs, uint8 [..., 3].

    The second and the third cycle through JOB_COLOURS are lighter; the fourth equals the first.
    """
    base, lighter = JOB_COLOURS[jobs % len(JOB_COLOURS)], jobs // len(JOB_COLOURS) % 3 * 0.28
    colours: np.ndarray = (base + (255.0 - base) * lighter[..., None]).round().astype(np.uint8)
    return colours


def check_suffix(path: str | Path) -> None:
    """Raise an error if the suffix of a file name is not in SUFFIXES."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise GpuschedError(f"{path}: a figure is saved as {', '.join(SUFFIXES)}")


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure atomically, and create its folder if necessary; the suffix of ``path`` selects the format."""
    from matplotlib import rc_context

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # Equal data must give equal files: write no date, and fix the salt from which ids of SVG elements are derived.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(path).suffix.lower())
    with whole(Path(path)) as partial, rc_context({"svg.hashsalt": "gpusched"}):
        figure.savefig(partial, dpi=150, metadata=undated)


def log_time_axis(axes: Axes, shortest_s: float, longest_s: float) -> None:
    """Make the horizontal axis logarithmic between two times [s], with ticks such as "10 min" and "1 h"."""
    axes.set_xscale("log")
    axes.set_xlim(shortest_s, longest_s)
    for ticks in (TICKS, FINE_TICKS):
        shown = [tick for tick in ticks if shortest_s <= tick <= longest_s]
        if len(shown) > 2:
            break
    axes.set_xticks(shown, [ticks[tick] for tick in shown])
    axes.minorticks_off()


def tidy(axes: Axes) -> None:
    """Draw a light grid behind the data, and remove the upper and the right line of the frame."""
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
