"""Deadlines as environments may show, reward and act on them: observation arrays, a reward, the refusal of a job."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.admission import refuse
from gpusched_env.core.events import seconds_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import REFUSED, Run
from gpusched_env.envs.actions import slot_action
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import SHARE, TIME, Column, indices
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.envs.rewards import reward_component
from gpusched_env.metrics.deadlines import SLACK_S
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator.decisions import Refuse

__all__ = ["DEADLINES"]

DEADLINES_COLUMNS: Final = (
    Column("has", "1 if the job has a deadline; otherwise the whole row is 0", SHARE),
    Column("left", "seconds to the deadline; 0 once it has passed", TIME),
    Column("late", "1 if the deadline has passed", SHARE),
    Column("slack", "seconds to the deadline beyond those that the job still needs; 0 unless clairvoyant", TIME),
    Column("reachable", "1 if the job needs no more seconds than are left; 0 unless clairvoyant", SHARE),
)
DEADLINES: Final = indices(DEADLINES_COLUMNS)
ASKED: Final = Group(
    "### Deadlines",
    """
    With `extras=("queue_deadlines", "running_deadlines")`. What a job needs is that of `queue` and `running`: the time
    on the ideal placement. A job that finishes 1 ms after its deadline has met it, as in the metrics.
    """,
    "",
)


@observation_array("running_deadlines", DEADLINES_COLUMNS, "running", ASKED, "one row per running slot")
@observation_array("queue_deadlines", DEADLINES_COLUMNS, "queue", ASKED, "one row per queue slot")
@kernel
def write_deadlines(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all slots."""
    shown = out.values
    for i in range(len(out.slots)):
        row = out.slots[i]
        clear_row(shown, i)
        if row < 0 or len(sim.deadlines) == 0 or sim.deadlines[row] == np.inf:
            continue
        left = sim.deadlines[row] - sim.world["clock_s"] + SLACK_S
        shown[i, DEADLINES.has] = 1.0
        shown[i, DEADLINES.left] = scaled_time(left)
        shown[i, DEADLINES.late] = 1.0 if left < 0.0 else 0.0
        if env.config["clairvoyant"] > 0:
            spare = left - seconds_left(sim, row)
            shown[i, DEADLINES.slack] = scaled_time(spare)
            shown[i, DEADLINES.reachable] = 1.0 if spare >= 0.0 else 0.0


def _with_deadlines(instance: Instance) -> float:
    deadlines = instance.workload.deadline_s
    return 1.0 if deadlines is None else float(np.isfinite(deadlines).sum())


@reward_component(
    "deadlines", "-(share of the deadlines that were missed); a refused job misses its own", _with_deadlines
)
@kernel(lazy=True)
def missed_deadlines(sim: Run) -> float:
    """Count the deadlines that have been missed."""
    missed = 0
    for row in range(len(sim.deadlines)):
        job = sim.jobs[row]
        end_s = min(job["finish_s"], sim.world["clock_s"])
        if end_s > sim.deadlines[row] + SLACK_S or (job["status"] == REFUSED and sim.deadlines[row] < np.inf):
            missed += 1
    return float(missed)


@slot_action("refuse", "queue", Refuse, refuse, "refuse the job in queue slot k, if it has never run")
@kernel(lazy=True)
def may_refuse(sim: Run, env: EnvArrays, row: int) -> bool:
    """Return whether a waiting job may be refused: it has never run."""
    return sim.jobs[row]["first_start_s"] == np.inf
