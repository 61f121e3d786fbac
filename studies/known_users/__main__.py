"""Play the agent, tuned rivals and bounds on the windows of the study, and print how they compare.

``python -m studies.known_users USERS``; ``--quick`` plays three test windows of each log.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
import typer

from gpusched_env.baselines import make_scheduler
from gpusched_env.portable.arrays import mean
from gpusched_env.portable.elementary import log
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Scheduler
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console, plain_table
from gpusched_env.support.files import write_whole
from studies.known_users.bounds import BOUNDS, TRUTH
from studies.known_users.rivals import ESTIMATORS, NO_HISTORY, READERS, specs
from studies.known_users.windows import LOGS, REPORTED, WARM_UP, Window, list_windows
from studies.unseen_logs.scores import Score, ratio, score

AGENT: Final = "learned:general"
# What jobs tell -> predictors of the agent that need it; the first is its default. Jobs that tell more tell all before,
# so others play once.
PREDICTORS: Final = {
    NO_HISTORY: ("nested", "none"),
    "users": ("nested", "quantile", "recency", "recent-two"),
    "limits": ("nested", "limit", "tobit"),
}
WARM_UPS: Final = (0, WARM_UP, 10_000)
QUICK: Final = 3  # test windows of each log


class Played(msgspec.Struct, frozen=True):
    """The score of a run, and its CPU time [s], the simulator included."""

    score: Score
    cpu_s: float


Results = dict[str, dict[str, Played]]  # contender -> name of a window -> run


class Contender(NamedTuple):
    """Who plays.

    Parameters
    ----------
    told : what the jobs tell it, a key of PREDICTORS
    name : in tables
    scheduler : makes it
    columns : what changes the columns of the jobs; None = nothing
    """

    told: str
    name: str
    scheduler: Callable[[], Scheduler]
    columns: Callable[[Workload], Workload] | None = None

    @property
    def key(self) -> str:
        """Key in Results."""
        return f"{self.told}: {self.name}"


def agent(told: str, predictor: str) -> Contender:
    """Return the agent with a predictor."""
    spec = AGENT if predictor == PREDICTORS[told][0] else f"{AGENT},predictor={predictor}"
    return Contender(told, f"agent {predictor}", partial(make_scheduler, spec))


def rivals(told: str) -> list[Contender]:
    """Return the tuned rivals that may play where jobs tell this, which tells all of the versions before."""
    versions = tuple(ESTIMATORS)[: tuple(ESTIMATORS).index(told) + 1]
    return [
        Contender(version, name, partial(make_scheduler, spec))
        for version in versions
        for name, spec in specs(version).items()
    ]


def contenders() -> list[Contender]:
    """Return all who play."""
    found = [agent(told, predictor) for told, several in PREDICTORS.items() for predictor in several]
    found += [Contender("limits", name, *bound) for name, bound in BOUNDS.items()]
    return [*found, *rivals("limits")]


def play(
    users: Path, windows: Sequence[Window], who: Sequence[Contender], file: Path, warm_up: int = WARM_UP
) -> Results:
    """Play contenders on windows; ``file`` keeps the scores, and what it has is not played again."""
    known = msgspec.json.decode(file.read_bytes(), type=Results) if file.is_file() else {}
    numbers = {window: [one for one in windows if one.log == window.log].index(window) for window in windows}
    for window in sorted(windows, key=lambda one: numbers[one]):  # one of each log in turn
        for told in PREDICTORS:
            missing = [one for one in who if one.told == told and window.name not in known.setdefault(one.key, {})]
            if not missing:
                continue
            workload = window.workload(users, told, warm_up)
            instance = window.instance(workload)
            for one in missing:
                own = instance if one.columns is None else window.instance(one.columns(workload))
                begun = time.process_time()
                found = score(one.scheduler(), own, REPORTED)
                known[one.key][window.name] = Played(found, round(time.process_time() - begun, 4))
        write_whole(file, msgspec.json.encode(known).decode())
    return known


class Tables:
    """Ratios of the runs of contenders, by log."""

    def __init__(self, results: Results, windows: Sequence[Window]) -> None:
        self.scores = {key: {name: run.score for name, run in runs.items()} for key, runs in results.items()}
        self.cpu_s = {key: {name: run.cpu_s for name, run in runs.items()} for key, runs in results.items()}
        self.logs = {log: [window.name for window in windows if window.log == log] for log in LOGS}

    def ratio(self, one: str, other: str, log_name: str, field: str = "mean_jct_s") -> tuple[float, float, float]:
        """Return the geometric mean over the windows of a log of the ratio of two contenders, and its interval."""
        return ratio([self.scores[one]], self.scores[other], self.logs[log_name], field)

    def distance(self, one: str, other: str, log_name: str) -> float:
        """Return the mean over the windows of a log of the logarithm of the ratio of mean JCTs."""
        names = self.logs[log_name]
        mine, theirs = self.scores[one], self.scores[other]
        return mean([log(mine[name].mean_jct_s / theirs[name].mean_jct_s) for name in names])

    def best(self, told: str, log_name: str) -> str:
        """Return the rival with the least mean JCT on a log where jobs tell this; the logs choose it afterwards."""
        keys = [one.key for one in rivals(told)]
        return min(keys, key=lambda key: self.distance(key, keys[0], log_name))

    def closed(self, one: str, log_name: str) -> float:
        """Return the share of the distance between the agent without history and the true order that is closed."""
        none, truth = agent(NO_HISTORY, "none").key, f"limits: {TRUTH}"
        return self.distance(none, one, log_name) / self.distance(none, truth, log_name)

    def print_contest(self) -> None:
        """Print the agent beside the best tuned rival, with any predictor."""
        table = plain_table("log", "jobs tell", "best tuned rival", "mean JCT", "p99 JCT", "closed", texts=3)
        for told in PREDICTORS:
            mine = agent(told, PREDICTORS[told][0]).key
            for name in LOGS:
                best = self.best(told, name)
                ratios = (self.ratio(mine, best, name, one) for one in ("mean_jct_s", "p99_jct_s"))
                table.add_row(name, told, short(best), *map(cell, ratios), f"{self.closed(mine, name):.2f}")
        table.caption = "JCT of the agent / that of the rival; share closed between no history and the true order"
        console().print(table)

    def print_agents(self) -> None:
        """Print the agent with each predictor, and its bounds, beside the best rival."""
        table = plain_table("jobs tell", "agent", *LOGS, *(f"{name}, CPU s" for name in LOGS), texts=2)
        for told in PREDICTORS:
            own = [agent(told, predictor).key for predictor in PREDICTORS[told]]
            for key in (*own, *(f"{told}: {name}" for name in BOUNDS if told == "limits")):
                ratios = (cell(self.ratio(key, self.best(told, name), name)) for name in LOGS)
                seconds = (f"{mean([self.cpu_s[key][one] for one in names]):.2f}" for names in self.logs.values())
                table.add_row(told, short(key), *ratios, *seconds)
        table.caption = "mean JCT / that of the best tuned rival; CPU seconds of a window, the simulator included"
        console().print(table)

    def print_rivals(self) -> None:
        """Print the agent beside every rival."""
        table = plain_table("jobs tell", "mean JCT of the agent /", *LOGS, texts=2)
        agents = {told: agent(told, predictors[0]).key for told, predictors in PREDICTORS.items()}
        for rival in rivals("limits"):
            table.add_row(
                rival.told, rival.name[:40], *(cell(self.ratio(agents[rival.told], rival.key, name)) for name in LOGS)
            )
        console().print(table)

    def print_harm(self) -> None:
        """Print what each predictor does to each scheduler."""
        table = plain_table("scheduler", "jobs tell", "predictor", *LOGS, texts=3)
        none = agent(NO_HISTORY, "none").key
        pairs = [
            (told, reader, estimator, f"{told}: {reader} {estimator}", f"{NO_HISTORY}: {reader} none")
            for reader in ("tiresias", *READERS)
            for told, estimators in ESTIMATORS.items()
            for estimator in estimators
        ]
        pairs += [
            (told, "agent", predictor, agent(told, predictor).key, none)
            for told, predictors in PREDICTORS.items()
            for predictor in predictors
        ]
        for told, reader, estimator, key, base in pairs:
            if key != base:
                table.add_row(reader, told, estimator, *(cell(self.ratio(key, base, name)) for name in LOGS))
        table.caption = "mean JCT with the predictor / without history"
        console().print(table)


def print_warm_ups(users: Path, windows: Sequence[Window], tables: Tables, file: Path) -> None:
    """Play the agent and the best rivals after other numbers of jobs, and print their ratios."""
    table = plain_table("log", "jobs tell", *(f"after {jobs:,} jobs" for jobs in WARM_UPS), texts=2)
    known = {
        told: {one.key: one for one in (agent(told, PREDICTORS[told][0]), *rivals(told))}
        for told in ("limits", "users")
    }
    rows: dict[tuple[str, str], list[str]] = {}
    for jobs in WARM_UPS:
        for told, name in itertools.product(known, LOGS):
            mine, best = agent(told, PREDICTORS[told][0]).key, tables.best(told, name)
            own = [window for window in windows if window.log == name]
            where = file if jobs == WARM_UP else file.with_stem(f"{file.stem}-{jobs}")
            results = play(users, own, [known[told][mine], known[told][best]], where, jobs)
            ratios = Tables(results, own).ratio(mine, best, name)
            rows.setdefault((name, told), []).append(cell(ratios))
    for (name, told), cells in rows.items():
        table.add_row(name, told, *cells)
    table.caption = "mean JCT of the agent / that of the rival which is best after 1,536 jobs"
    console().print(table)


def short(key: str) -> str:
    """Return the name of a contender in a table."""
    return key.partition(": ")[2][:40]


def cell(found: tuple[float, float, float]) -> str:
    """Return a ratio and its interval."""
    middle, low, high = found
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare the agent with tuned rivals on logs that tell users and limits."""

    users: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    use: Literal["test", "training"] = "test"
    """Windows to play."""
    quick: bool = False
    """Only three windows of each log, and no other warm-up."""
    most: int = 16
    """Windows of each log, the first of them."""
    results: Path | None = None
    """File that keeps the scores; by default known_users-USE.json."""


def main(settings: Settings) -> None:
    """Play and print."""
    of_log = {log: [window for window in list_windows(settings.use) if window.log == log] for log in LOGS}
    most = QUICK if settings.quick else settings.most
    windows = [window for several in of_log.values() for window in several[:most]]
    file = settings.results or Path(f"known_users-{settings.use}.json")
    tables = Tables(play(settings.users, windows, contenders(), file), windows)
    tables.print_contest()
    tables.print_agents()
    tables.print_rivals()
    tables.print_harm()
    if not settings.quick:
        print_warm_ups(settings.users, windows, tables, file)


if __name__ == "__main__":
    run_script(main)
