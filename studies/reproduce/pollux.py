"""Programs of the card of Pollux: its files, and its scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.errors import GpuschedError
from gpusched_env.scenarios import FAMILIES, Scenario
from gpusched_env.traces.downloads.public_files import data_folder

MOST_JOBS: Final = 1_000
INTERFERENCE: Final = 0.5
CROWDED: Final = "pollux, no avoidance"  # gangs of several machines lose half of their rate beside each other


def workload_file(workload: int, load: float | str = 1.0) -> Path:
    """Return the path of a published workload in the folder of fetched files.

    Parameters
    ----------
    load : relative load; or "realistic" = the jobs request the GPUs of the log, not tuned numbers

    Raises
    ------
    GpuschedError : the file is not there; the message says how to get it
    """
    kind = "" if load == 1.0 else f"-{load}"
    name = f"pollux/workloads{kind}/workload-{workload}.csv"
    path = data_folder() / name
    if not path.is_file():
        raise GpuschedError(
            f"pollux: {path} is wanted, one of the twelve workloads of its authors (Apache-2.0, 70 kB in all); fetch "
            "them with: gpusched traces fetch 'pollux/workloads/*' 'pollux/workloads-[012r]*/*'; or name, in the "
            f"environment variable GPUSCHED_DATA, a folder that holds {name}"
        )
    return path


def scenario(policy: str, workload: int, load: float | str = 1.0) -> Scenario:
    """Return the scenario in which a policy plays a workload: Pollux chooses batches, the others keep the user's."""
    return FAMILIES["pollux-64-v0"].plain(
        jobs=MOST_JOBS,
        batch="adaptive" if policy.startswith("pollux") else "fixed",
        workload=str(workload_file(workload, load)),
        speeds="measured",
        interference=INTERFERENCE if policy == CROWDED else 0.0,
    )
