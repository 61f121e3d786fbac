"""Programs of the card of ElasticFlow: windows of the authors' job list, and the settings of their simulator."""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.scenarios import FAMILIES, Scenario
from gpusched_env.traces.downloads.public_files import find

OWN: Final = "elasticflow"
EDF: Final = "edf:sizes=largest"  # the rules of their simulator
EDF_ADMISSION: Final = "edf-admission:sizes=largest"
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
        scenario = FAMILIES["elasticflow-v0"].plain(jobs=self.jobs, overhead_s=0.0, workload=log)
        return scenario.replace(groups=(self.group,))


# Figure 8a gives ElasticFlow and EDF on 64 T4 (plot_fig8a.py); the other shares are of runs of the authors' simulator.
SETTINGS: Final = {
    "figure 8a, 64 T4": Setting(
        "elasticflow/elasticVpollux_e.csv", 195, NodeGroup(16, 4, "T4"), {OWN: 0.728, EDF: 0.118, EDF_ADMISSION: 0.410}
    ),
    "150 jobs, 32 A100": Setting(LOG, 150, NodeGroup(4, 8, "A100"), {OWN: 0.933, EDF: 0.060, EDF_ADMISSION: 0.507}),
}


SPAN_S: Final = 7_910_536.0  # [s] from the first to the last submission of LOG


def fetched(name: str) -> str:
    """Return the path of a public file; empty if it was not fetched."""
    file = find(name).file
    return str(file) if file.is_file() else ""


def window(machines: int, number: int, windows: int) -> Scenario:
    """Return the scenario of one of several consecutive windows of the authors' job list."""
    whole = FAMILIES["elasticflow-v0"].plain(machines=machines, workload=fetched(LOG))
    start_s, stop_s = (at * SPAN_S / windows for at in (number, number + 1))
    return whole.replace(workload=dataclasses.replace(whole.workload, jobs=None, start_s=start_s, stop_s=stop_s))
