"""Shares of deadlines met beside those of the authors' simulator: their job lists, and changes without costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.reproduce.card import Finding, Run
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results
from gpusched_env.scenarios.deadlines import elasticflow
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.traces.downloads.public_files import find

if TYPE_CHECKING:
    from rich.table import Table

OWN: Final = "elasticflow"
EDF: Final = "edf:sizes=largest"  # the rules of their simulator
EDF_ADMISSION: Final = "edf-admission:sizes=largest"
OUR_RULES: Final = ("edf", "edf-admission")  # their simulator has no counterparts
MET: Final = "deadlines_met"
NEAR: Final = 0.02  # largest distance of a share from theirs
LOG: Final = "philly/elasticflow_103959.csv"


class Setting(NamedTuple):
    """The first jobs of a list on a cluster, and the shares of deadlines met in the authors' simulator.

    Parameters
    ----------
    theirs : scheduler -> share
    """

    log: str
    jobs: int
    group: NodeGroup
    theirs: dict[str, float]

    def scenario(self, log: str) -> Scenario:
        """Return the scenario without change costs; ``log`` = path of the list."""
        return elasticflow(jobs=self.jobs, overhead_s=0.0, workload=log).replace(groups=(self.group,))


# Figure 8a gives ElasticFlow and EDF on 64 T4 (plot_fig8a.py); the other shares are of runs of the authors' simulator.
SETTINGS: Final = {
    "figure 8a, 64 T4": Setting(
        "elasticflow/elasticVpollux_e.csv", 195, NodeGroup(16, 4, "T4"), {OWN: 0.728, EDF: 0.118, EDF_ADMISSION: 0.410}
    ),
    "150 jobs, 32 A100": Setting(LOG, 150, NodeGroup(4, 8, "A100"), {OWN: 0.933, EDF: 0.060, EDF_ADMISSION: 0.507}),
}


def simulator_runs(quick: bool) -> Iterator[Run]:
    """Yield the runs on the lists that were fetched; ``quick`` = without the one that takes longest."""
    for name, setting in list(SETTINGS.items())[quick:]:
        log = find(setting.log).file
        if log.is_file():
            for scheduler in (OWN, EDF, EDF_ADMISSION, *OUR_RULES):
                yield Run(setting.scenario(str(log)), scheduler, 0, {"setting": name, "scheduler": scheduler})


def simulator_table(results: Results) -> Table:
    """Return the shares, ours and theirs, and ElasticFlow's divided by those of EDF."""
    names = [name for name in SETTINGS if name in results.known("setting")]
    columns = [f"{name}: {whose}" for name in names for whose in ("ours", "theirs")]
    table = new_table("deadlines met without change costs, beside the authors' simulator", "scheduler", *columns)
    for scheduler in (OWN, EDF, EDF_ADMISSION, *OUR_RULES):
        cells = []
        for name in names:
            theirs = SETTINGS[name].theirs.get(scheduler)
            ours = results.median(MET, setting=name, scheduler=scheduler)
            cells += [f"{ours:.3f}", "" if theirs is None else f"{theirs:.3f}"]
        table.add_row(scheduler, *cells)
    for edf in (EDF, *OUR_RULES[:1]):
        cells = []
        for name in names:
            shares = SETTINGS[name].theirs
            own, other = (results.median(MET, setting=name, scheduler=scheduler) for scheduler in (OWN, edf))
            cells.append(f"{own / other:.2f}" if other > 0 else "")
            cells.append(f"{shares[OWN] / shares[edf]:.2f}" if edf in shares else "")
        table.add_row(f"{OWN} / {edf}", *cells)
    return table


def simulator_findings(results: Results) -> Iterator[Finding]:
    """Check that each share is that of the authors' simulator."""
    for name in results.known("setting"):
        for scheduler, theirs in SETTINGS[name].theirs.items() if name in SETTINGS else ():
            ours = results.median(MET, setting=name, scheduler=scheduler)
            claim = f"as many deadlines are met as in the authors' simulator, within {NEAR}: {scheduler}"
            yield Finding(claim, name, abs(ours - theirs) <= NEAR, f"{ours:.3f}, theirs {theirs:.3f}")
