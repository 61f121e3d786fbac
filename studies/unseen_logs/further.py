"""Windows that were not used before: the agent beside tuned rivals, and what parts of its rule are worth.

``python -m studies.unseen_logs.further LOGS --largest 32`` makes windows between those of the study, with other models,
plays the shipped agent ``learned``, variants of it and the tuned rivals, and prints ratios of mean JCTs.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.baselines import make_scheduler
from gpusched_env.prediction import LEVELS
from gpusched_env.simulator import Scheduler
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console, plain_table
from studies.unseen_logs.__main__ import best_rival
from studies.unseen_logs.rivals import tuned_rivals
from studies.unseen_logs.scores import Score, by_log, ratio, score
from studies.unseen_logs.windows import make_windows

AGENT: Final = "learned"
RIVALS: Final = ("dally", "tiresias", "tiresias-g", "tiresias-dally", "las-2d")
QUARTERS: Final = (1, 2, 3)  # of the way from a window of the study to the next
PARTS: Final = ("philly-after", "venus-after", "pai", "muri-2", "muri-3")  # Kalos has no further jobs
# Variant -> the fields of the rule that it changes.
WITHOUT: Final[dict[str, dict[str, Any]]] = {
    "no prior": {"prior": np.ones(LEVELS)},
    "no patience": {"patience": 0.0},
    "no moves": {"move_factor": 1e9},
}


def players() -> dict[str, Scheduler]:
    """Return the agent, its variants, and the tuned rivals by their specs."""
    agent = make_scheduler(AGENT)
    assert isinstance(agent, IndexPolicy)
    variants = {
        name: IndexPolicy.playing(dataclasses.replace(agent.rule, **changes)) for name, changes in WITHOUT.items()
    }
    rivals = tuned_rivals()
    return {AGENT: agent, **variants, **{rivals[name]: make_scheduler(rivals[name]) for name in RIVALS}}


@dataclass
class Settings:
    """Play the agent on further windows, beside rivals and without parts of its rule."""

    logs: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    largest: int = 256
    """Nodes of the largest cluster."""


def main(options: Settings) -> None:
    """Play and print."""
    scores: dict[str, dict[str, Score]] = {}
    windows = []
    for window in chain.from_iterable(make_windows(options.logs, PARTS, options.largest, k) for k in QUARTERS):
        begun, instance = time.process_time(), window.instance(options.logs)
        for name, scheduler in players().items():
            scores.setdefault(name, {})[window.name] = score(scheduler, instance)
        windows.append(window)
        print(f"{window.name}: {time.process_time() - begun:.1f} CPU s", flush=True)
    logs = by_log(windows)
    table = plain_table("mean JCT", *logs, texts=1)
    rivals = [name for name in scores if name.partition(":")[0] in RIVALS]

    def cells(mine: str, others: dict[str, str]) -> list[str]:
        found = (ratio([scores[mine]], scores[others[log]], names, "mean_jct_s") for log, names in logs.items())
        return [f"{mean:.3f} [{low:.3f}, {high:.3f}]" for mean, low, high in found]

    best = {log: best_rival(scores, rivals, names) for log, names in logs.items()}
    table.add_row("best tuned rival", *(name.partition(":")[0] for name in best.values()))
    table.add_row(f"{AGENT} / it", *cells(AGENT, best))
    for name in WITHOUT:
        table.add_row(f"{name} / {AGENT}", *cells(name, dict.fromkeys(logs, AGENT)))
    table.add_row("windows", *(str(len(names)) for names in logs.values()))
    console().print(table)


if __name__ == "__main__":
    run_script(main)
