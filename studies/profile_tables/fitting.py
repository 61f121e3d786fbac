"""Make profile tables from published files.

To add a table, write one function and add it to FITTERS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError, WorkloadError, unknown_name
from gpusched_env.traces.profile_tables.efficiency import EfficiencyTable
from gpusched_env.traces.profile_tables.fitted import FittedTable
from gpusched_env.traces.profile_tables.gavel import gavel_table
from gpusched_env.traces.profile_tables.measured import MeasuredTable
from gpusched_env.traces.profile_tables.steps import StepTable
from studies.profile_tables.dally import dally_table
from studies.profile_tables.elasticflow import elasticflow_table
from studies.profile_tables.pollux import pollux_steps, pollux_table, sia_table

Table = MeasuredTable | FittedTable | EfficiencyTable | StepTable

FITTERS: Final[dict[str, Callable[[Path], Table]]] = {
    "dally": dally_table,
    "elasticflow": elasticflow_table,
    "gavel": gavel_table,
    "pollux": pollux_table,
    "pollux-steps": pollux_steps,
    "sia": sia_table,
    "sia-robust": partial(sia_table, robust=True),
}


def fit_table(name: str, source: Path) -> Table:
    """Make the table ``name``, a key of FITTERS, from a published file or folder."""
    if name not in FITTERS:
        raise TraceError(unknown_name("profile table", name, FITTERS))
    try:
        return FITTERS[name](source)
    except WorkloadError as error:  # the files were read, but no profile can be made from their numbers
        raise TraceError(f"{source}: {error}") from error
