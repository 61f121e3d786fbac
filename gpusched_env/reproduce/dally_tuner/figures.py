"""The figure: mean JCT with each contender / mean JCT with the hand tuner, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.reproduce.dally_tuner.contenders import CEILINGS, CONTENDERS, HAND, LEARNED, PROBLEMS
from gpusched_env.reproduce.dally_tuner.ratios import problems, ratio
from gpusched_env.reproduce.results import Results
from gpusched_env.support.figures import COLOURS, save, tidy

WIDEST: Final = 1.05  # largest ratio on the axis; that of noWait may be far larger


def draw_ratios(results: Results, folder: Path) -> list[Path]:
    """Draw one panel per problem, one row per contender; ratios above WIDEST are written at the edge."""
    from matplotlib.figure import Figure

    shown = problems(results, PROBLEMS)
    names = [name for name in (*CONTENDERS, *CEILINGS) if name != HAND]
    figure = Figure(figsize=(2.3 * len(shown) + 2.0, 3.6), layout="constrained")
    panels = np.atleast_1d(np.array(figure.subplots(1, len(shown), sharey=True)))
    for axes, label in zip(panels, shown, strict=True):
        tidy(axes)
        axes.axvline(1.0, color="black", linewidth=0.8)
        for row, name in enumerate(names):
            own = ratio(results, label, name, HAND)
            colour = COLOURS[1] if name == LEARNED else COLOURS[2] if name in CEILINGS else COLOURS[0]
            if own.mean > WIDEST:
                axes.text(1.0, row, f"{own.mean:.2f} >", transform=axes.get_yaxis_transform(), ha="right", va="center")
                continue
            axes.errorbar(
                own.mean, row, xerr=[[own.mean - own.low], [own.high - own.mean]], fmt="o", color=colour, markersize=4
            )
        axes.set_title(label, fontsize="medium")
        axes.set_xlabel("mean JCT / hand tuner")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    path = folder / "ratios.png"
    save(figure, path)
    return [path]
