"""The observation arrays ``queue_outlook`` and ``running_outlook``: what ended jobs tell about the time left."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.events import productive_s
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import GPU_TIME, SHARE, TIME, Column, indices
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.prediction.levels import level_at, tables

_PREDICTED: Final = Group(
    "### With predictions",
    """
    With `predictor="limit"` or another [predictor](prediction.md). The times that are left are those of the ended jobs
    of the same class that ran for as long as the job has run. They never know more than what has ended.
    """,
    "outlook",
)
OUTLOOK_COLUMNS: Final = (
    Column("predicted", "1 if the job has a prediction that is in use; 0 = the class of all jobs", SHARE),
    Column(
        "requested", "seconds left of the run time that its user requests; 0 if there is none or it has passed", TIME
    ),
    Column("tenth", "seconds within which a tenth of such jobs end", TIME),
    Column("half", "seconds within which half of them end", TIME),
    Column("most", "seconds within which nine tenths of them end", TIME),
    Column("index", "Gittins index: gang size x least expected seconds per completion", GPU_TIME),
)
OUTLOOK: Final = indices(OUTLOOK_COLUMNS)
_SHARES: Final = (0.1, 0.5, 0.9)
OUTLOOK_S: Final = len(_SHARES) + 1  # columns of a table of :func:`outlook_table`


def outlook_table(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS, OUTLOOK_S]: quantiles of the time left, and the Gittins index [s], by class and level."""
    found = [tables(shares, share) for share in _SHARES]
    return np.stack([*(one.quantile_s for one in found), found[0].index_s], axis=-1)


@observation_array("running_outlook", OUTLOOK_COLUMNS, "running", _PREDICTED, "one row per running slot")
@observation_array("queue_outlook", OUTLOOK_COLUMNS, "queue", _PREDICTED, "one row per queue slot")
@kernel(lazy=True)
def write_outlook(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write all rows."""
    for k in range(len(out.slots)):
        row = out.slots[k]
        if row < 0:
            clear_row(out.values, k)
            continue
        job = sim.jobs[row]
        had_s = job["service_s"] + productive_s(sim, job["replica"])
        level = level_at(had_s)
        kind = env.outlook_of[row]
        limit_s = env.limits_s[row]
        out.values[k, OUTLOOK.predicted] = 1.0 if kind > 0 else 0.0
        out.values[k, OUTLOOK.requested] = scaled_time(limit_s - had_s) if limit_s > had_s else 0.0
        out.values[k, OUTLOOK.tenth] = scaled_time(env.outlook_s[kind, level, 0])
        out.values[k, OUTLOOK.half] = scaled_time(env.outlook_s[kind, level, 1])
        out.values[k, OUTLOOK.most] = scaled_time(env.outlook_s[kind, level, 2])
        out.values[k, OUTLOOK.index] = scaled_time(env.outlook_s[kind, level, 3] * job["gpus"] / sim.world["gpus"])
