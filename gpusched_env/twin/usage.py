"""What tenants have used until a snapshot: from their jobs, or from a table of ``sshare``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.baselines.slurm.fair_share import decay
from gpusched_env.baselines.slurm.past_usage import PastUsage
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.errors import TraceError
from gpusched_env.metrics import StepFunction
from gpusched_env.portable import arrays
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.sacctmgr import table_rows

COMMAND: Final = "sshare --all --long --parsable2"
COLUMNS: Final = ("account", "user", "rawusage")


def decayed(held: StepFunction, edges_s: np.ndarray, fade: float) -> np.ndarray:
    """float64 [edges]: usage at each end of a period [GPU s]: that of the period before x ``fade``, and its own."""
    from scipy.signal import lfilter

    found: np.ndarray = lfilter(
        [1.0], [1.0, -fade], np.diff(held.integral(edges_s), prepend=held.integral(edges_s[:1]))
    )
    return found


def past_usage(rules: Slurm, leaf: np.ndarray, recorded: Recorded, now_s: float) -> PastUsage:
    """Return what tenants have used, as the scheduler would have counted it.

    Running jobs end at ``now_s`` at the earliest; times may be negative.
    """
    period_s = rules.calc_period_s
    fade = decay(period_s, rules.decay_half_life_s)
    last = math.floor(now_s / period_s)
    usage, recent = {}, {}
    for name in np.unique(leaf).tolist():
        own = Recorded(*(column[leaf == name] for column in recorded))
        edges_s = np.arange(math.floor(min(own.start_s.min(), now_s) / period_s), last + 1) * period_s
        held = own.held()
        usage[name] = float(decayed(held, edges_s, fade)[-1])
        recent[name] = float(held.integral(now_s) - held.integral(last * period_s))
    return PastUsage(now_s, usage, recent)


def by_shares(past: PastUsage, told: Mapping[str, float]) -> PastUsage:
    """Return the usage with the proportions that Slurm tells (RawUsage), and with the sum of the given one [GPU s]."""
    total = arrays.total(np.array([*past.usage.values(), *past.recent.values()], float))
    raw = arrays.total(np.array(list(told.values()), float))
    times = total / raw if total > 0 and raw > 0 else 1.0
    return dataclasses.replace(past, usage={name: value * times for name, value in told.items()}, recent={})


def read_sshare(path: str | Path) -> dict[tuple[str, str], float]:
    """Read what ``sshare --all --long --parsable2`` prints: (account, user) -> RawUsage.

    Rows without a user are accounts; they are left out, because their usage is the sum of their users. A user who
    occurs several times in an account, with different partitions, has the sum.
    """
    found: dict[tuple[str, str], float] = {}
    for place, row in table_rows(path, COLUMNS, COMMAND):
        if row["user"]:
            one = row["account"], row["user"]
            found[one] = found.get(one, 0.0) + place.amount("RawUsage", row["rawusage"], "usage")
    if not found:
        raise TraceError(f"{path}: no row has a user; write the file with {COMMAND}")
    return found
