"""What bounds the agent: the same windows with true run times for the order, and with a placement that costs nothing.

``python -m studies.unseen_logs.oracles LOGS`` plays the agent ``learned`` and three oracles on the test
windows, and prints the ratios of the agent's mean JCT to theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
import typer
from rich.table import Table

from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines import make_scheduler
from gpusched_env.prediction import STARTS_S
from gpusched_env.prediction.levels import levels_of
from gpusched_env.simulator import Scheduler, Simulation
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console
from studies.unseen_logs.scores import Score, by_log, ratio, score
from studies.unseen_logs.windows import FREE, Window, list_windows

AGENT: Final = "learned"


@dataclass
class KnownOrder(IndexPolicy):
    """An index policy that knows run times: least remaining GPU time first; the rest is as in the rule.

    Patience and moves are those of the rule. A running job is protected only by what a preemption costs. Run times are
    known in steps of at most a quarter, since they are levels.
    """

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Return the arrays of a run; the class of each job is the level of its true run time."""
        own = super().begin(simulation, alone)
        own.memory["held"] = 1.0
        own.class_of[:] = levels_of(simulation.instance.ideal_s)
        ends_s = np.append(STARTS_S[1:], 1.25 * STARTS_S[-1])
        left_s = np.maximum(((STARTS_S + ends_s) / 2.0)[:, None] - STARTS_S, ((ends_s - STARTS_S) / 4.0)[:, None])
        own.replace("index_s", left_s)
        own.replace("left_s", left_s)
        return own

    def assist(self, simulation: Simulation, own: IndexState) -> None:
        """Learn nothing."""


def with_shipped_weights(policy: type[IndexPolicy]) -> Scheduler:
    """Return an index policy of another kind with the weights of the shipped agent."""
    agent = make_scheduler(AGENT)
    assert isinstance(agent, IndexPolicy)
    return policy.playing(agent.rule)


def known_order() -> Scheduler:
    """Return the agent with true run times for its order."""
    return with_shipped_weights(KnownOrder)


# Name in the table -> who plays, and whether no placement costs anything.
ORACLES: Final[dict[str, tuple[Callable[[], Scheduler], bool]]] = {
    "true run times for the order, the agent's placement": (known_order, False),
    "the agent's order, placements cost nothing": (lambda: make_scheduler(AGENT), True),
    "both": (known_order, True),
}


def play(logs: Path, windows: Sequence[Window]) -> tuple[dict[str, Score], dict[str, dict[str, Score]]]:
    """Return the scores by window of the agent, and of each oracle."""
    agent: dict[str, Score] = {}
    oracles: dict[str, dict[str, Score]] = {name: {} for name in ORACLES}
    for window in windows:
        instances = [one.instance(logs) for one in (window, dataclasses.replace(window, network=FREE))]
        agent[window.name] = score(make_scheduler(AGENT), instances[0])
        for name, (scheduler, free) in ORACLES.items():
            oracles[name][window.name] = score(scheduler(), instances[free])
    return agent, oracles


@dataclass
class Settings:
    """Ratios of the agent's mean JCT to that of oracles."""

    logs: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    use: Literal["test", "training"] = "test"
    """Windows to play."""
    largest: int = 256
    """Nodes of the largest cluster."""


def main(options: Settings) -> None:
    """Play and print."""
    windows = [window for window in list_windows(options.use) if window.nodes <= options.largest]
    agent, oracles = play(options.logs, windows)
    logs = by_log(windows)
    table = Table("mean JCT of the agent / of", *logs, show_edge=False, pad_edge=False)
    for name, scores in oracles.items():
        cells = (ratio([agent], scores, inside, "mean_jct_s") for inside in logs.values())
        table.add_row(name, *(f"{mean:.3f} [{low:.3f}, {high:.3f}]" for mean, low, high in cells))
    console().print(table)


if __name__ == "__main__":
    run_script(main)
