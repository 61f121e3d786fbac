"""Programs of the card of ElasticFlow: windows of the authors' job list, and the settings of their simulator."""

from __future__ import annotations

import dataclasses
from typing import Final

from gpusched_env.reproduce.elasticflow.simulator import EDF, EDF_ADMISSION, LOG, NEAR, OWN, SETTINGS
from gpusched_env.scenarios import FAMILIES, Scenario
from gpusched_env.traces.downloads.public_files import find

__all__ = ["EDF", "EDF_ADMISSION", "LOG", "NEAR", "OWN", "SETTINGS", "fetched", "window"]
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
