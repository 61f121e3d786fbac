"""Play agents and tuned rivals on the windows of the study, and print how the agents compare.

``python -m studies.unseen_logs LOGS --agents FILE FILE ...``: one file for each training seed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
import numpy as np
import typer

from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.simulator import Scheduler
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console, plain_table
from gpusched_env.support.figures import COLOURS, save, tidy
from gpusched_env.support.files import write_whole
from studies.unseen_logs.rivals import tuned_rivals
from studies.unseen_logs.scores import Score, by_log, ratio, score
from studies.unseen_logs.windows import UNCHANGED, Change, Window, list_windows

KNOWING: Final = (
    "srsf:placement=consolidate",
    "srtf:placement=consolidate",
)  # they read run times: not rivals, but bounds
FIELDS: Final = {
    "mean JCT": "mean_jct_s", "p99 JCT": "p99_jct_s", "worst tenth": "worst_tenth_s", "makespan": "makespan_s",
}  # fmt: skip
Results = dict[str, dict[str, Score]]  # file of an agent, or spec of a rival -> name of a window -> score


class Contenders(NamedTuple):
    """Who plays.

    Parameters
    ----------
    agents : files of the agents, one for each training seed
    linear : files of further index policies; they are no part of the choice of the best rival
    rivals : specs of the tuned rivals
    """

    agents: Sequence[str]
    linear: Sequence[str]
    rivals: Sequence[str]

    @property
    def others(self) -> list[str]:
        """All but the agents, as in tables."""
        return [*self.linear, *self.rivals, *KNOWING]

    def schedulers(self) -> Iterator[tuple[str, Scheduler]]:
        """Yield all, each with its name."""
        for path in (*self.agents, *self.linear):
            yield path, IndexPolicy(path=path)
        for spec in (*self.rivals, *KNOWING):
            yield spec, make_scheduler(spec)


def play(logs: Path, windows: Sequence[Window], who: Contenders, file: Path, change: Change = UNCHANGED) -> Results:
    """Play all schedulers on all windows; ``file`` keeps the scores, and what it has is not played again."""
    known = msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, Score]]) if file.is_file() else {}
    for window in windows:
        instance = None
        begun = time.process_time()
        for name, scheduler in who.schedulers():
            scores = known.setdefault(name, {})
            if window.name not in scores:
                instance = instance or window.instance(logs, change)
                scores[window.name] = score(scheduler, instance)
        if instance is not None:
            print(f"{window.name}: {time.process_time() - begun:.1f} CPU s", flush=True)
            write_whole(file, msgspec.json.encode(known).decode())
    return known


def report(results: Mapping[str, Mapping[str, Score]], who: Contenders, windows: Sequence[Window]) -> None:
    """Print the agents beside each rival, log by log, and beside the best rival of each log."""
    logs, agents, tuned = by_log(windows), who.agents, who.rivals
    for label, field in FIELDS.items():
        table = plain_table(f"{label}: agents /", *logs, texts=1)
        for rival in who.others:
            mine = [results[a] for a in agents]
            table.add_row(rival, *(_cell(*ratio(mine, results[rival], names, field)) for names in logs.values()))
        console().print(table)
    table = plain_table("log", "best tuned rival", "mean JCT", "p99 JCT", "best rival of each window", texts=2)
    for log, names in logs.items():
        best = best_rival(results, tuned, names)
        mine = [results[a] for a in agents]
        oracle = {
            window: min((results[name][window] for name in tuned), key=lambda one: one.mean_jct_s) for window in names
        }
        table.add_row(
            log,
            best,
            *(_cell(*ratio(mine, results[best], names, one)) for one in ("mean_jct_s", "p99_jct_s")),
            _cell(*ratio(mine, oracle, names, "mean_jct_s")),
        )
    console().print(table)
    table = plain_table("agent", *logs, texts=1)
    for agent in agents:
        cells = []
        for names in logs.values():
            own = results[agent]
            mean, _, _ = ratio([own], results[best_rival(results, tuned, names)], names, "mean_jct_s")
            preemptions = sum(own[name].preemptions for name in names) / len(names)
            cells.append(f"{mean:.3f}, {preemptions:.2f}, {sum(own[name].unfinished for name in names)}")
        table.add_row(agent, *cells)
    table.caption = "mean JCT / best tuned rival, preemptions per job, unfinished jobs"
    console().print(table)


def best_rival(results: Mapping[str, Mapping[str, Score]], tuned: Sequence[str], windows: Sequence[str]) -> str:
    """Return the tuned rival with the smallest geometric mean of mean JCTs over windows."""
    return min(tuned, key=lambda name: ratio([results[name]], results[tuned[0]], windows, "mean_jct_s")[0])


def draw(results: Mapping[str, Mapping[str, Score]], who: Contenders, windows: Sequence[Window], path: Path) -> None:
    """Draw the mean JCT of the agents, and of a scheduler that knows run times, relative to the best rival of a log."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 2.8), layout="constrained")
    logs = by_log(windows)
    rows = (
        ("learned, five training seeds", who.agents, "o", -0.12),
        ("knows run times: srsf", KNOWING[:1], "D", 0.12),
    )
    for (label, names, marker, shift), colour in zip(rows, COLOURS, strict=False):
        found = [
            ratio(
                [results[name] for name in names],
                results[best_rival(results, who.rivals, inside)],
                inside,
                "mean_jct_s",
            )
            for inside in logs.values()
        ]
        means, lows, highs = np.array(found).T
        axes.errorbar(
            means,
            np.arange(len(logs)) + shift,
            xerr=(means - lows, highs - means),
            fmt=marker,
            color=colour,
            label=label,
        )
    axes.axvline(1.0, color="black", linewidth=1.0)
    axes.set_yticks(range(len(logs)), list(logs))
    axes.invert_yaxis()
    axes.set_xlabel("mean JCT / mean JCT of the best tuned scheduler of the log (95 % interval)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=2, frameon=False)
    tidy(axes)
    save(figure, path)
    plt.close(figure)


def _cell(mean: float, low: float, high: float) -> str:
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare index policies with tuned rivals on unseen logs."""

    logs: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    agents: Sequence[str]
    """Files, one for each training seed."""
    linear: Sequence[str] = ()
    """Files of further index policies, which are no agents of the study."""
    rivals: Sequence[str] = ()
    """Tuned rivals; by default all."""
    use: Literal["test", "training"] = "test"
    """Windows to play."""
    results: Path | None = None
    """File that keeps the scores; by default unseen_logs....json."""
    largest: int = 256
    """Nodes of the largest cluster."""
    load_factor: float = 1.0
    """Factor on all loads."""
    cost_factor: float = 1.0
    """Factor on the cost of a preemption."""
    node_factor: int = 1
    """Factor on the size of clusters, at the same load."""
    burst_factor: float = 1.0
    """Factor on the rate of arrivals in bursts."""
    figure: Path | None = None
    """File of a figure, such as ratios.png."""


def main(settings: Settings) -> None:
    """Play and print."""
    windows = [window for window in list_windows(settings.use) if window.nodes <= settings.largest]
    tuned = tuned_rivals()
    for name in settings.rivals:
        if name not in tuned:
            raise GpuschedError(unknown_name("rival", name, list(tuned)))
    who = Contenders(settings.agents, settings.linear, [tuned[name] for name in settings.rivals or tuned])
    change = Change(settings.load_factor, settings.cost_factor, settings.node_factor, settings.burst_factor)
    results = play(settings.logs, windows, who, settings.results or Path(f"unseen_logs{change.suffix}.json"), change)
    report(results, who, windows)
    if settings.figure:
        draw(results, who, windows, settings.figure)


if __name__ == "__main__":
    run_script(main)
