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

from gpusched_env.agents.index_policy.evidence import TOLERANCE_S
from gpusched_env.agents.index_policy.rule import IndexRule, Tables
from gpusched_env.agents.index_policy.scheduler import IndexPolicy, allocate_index
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines import make_scheduler
from gpusched_env.portable.arrays import log2
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Scheduler, Simulation
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console
from studies.unseen_logs.scores import Score, by_log, ratio, score
from studies.unseen_logs.windows import FREE, Window, list_windows

AGENT: Final = "learned"
# [s] Ends of the levels of elapsed times: four levels for each doubling, from 16 s to about a year.
FINE_S: Final = tuple(4.0 * (1 << i // 4) * (4 + i % 4) for i in range(85))


@dataclass(frozen=True)
class RemainingTime(IndexRule):
    """The score of a job is log2 of the GPU time that remains; a job's prediction is the level of its run time."""

    def tables(self, instance: Instance) -> Tables:
        """Return the tables of the weights, with scores for fine levels."""
        begin = np.array([0.0, *FINE_S])
        end = np.array([*FINE_S, 2.0 * FINE_S[-1]])
        remaining_s = np.maximum(((begin + end) / 2.0)[:, None] - begin, ((end - begin) / 4.0)[:, None])
        gang = log2(instance.classes[:, 1].astype(float))
        scores = np.zeros((len(gang), 2 * len(begin) + 1, len(begin)))
        scores[:, 1 : len(begin) + 1] = np.round(gang[:, None, None] + log2(remaining_s), 6)
        aging = np.zeros(len(begin))
        return super().tables(instance)._replace(scores=scores, aging=aging, thresholds_s=np.array(FINE_S))


@dataclass
class KnownOrder(IndexPolicy):
    """An index policy that knows run times: least remaining GPU time first; the rest is as in the rule.

    Patience, moves, and the time before a gang may be preempted are those of the rule. Nothing else protects a running
    job. Run times are known in steps of at most a quarter, since they are levels.
    """

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Return the arrays of a run, with the true run time of each job as its prediction."""
        instance = simulation.instance
        shared = {one.name: getattr(self.rule, one.name) for one in dataclasses.fields(IndexRule)}
        plan = allocate_index(instance, RemainingTime(**shared | {"hold": 0.0, "reach": 0}))
        plan.told[:, 0] = 1 + np.searchsorted(np.array(FINE_S) - TOLERANCE_S, instance.ideal_s, side="right")
        plan.tellers[:, 0] = 1
        return plan


def known_order() -> Scheduler:
    """Return the agent with true run times for its order."""
    agent = make_scheduler(AGENT)
    assert isinstance(agent, IndexPolicy)
    return KnownOrder.playing(agent.rule)


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
