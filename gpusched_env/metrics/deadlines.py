"""What a run does to deadlines: how many are met, by how much others are missed, and what the met ones are worth."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.event_log import REFUSE, EventLog
from gpusched_env.portable.arrays import mean, total
from gpusched_env.problem.instance import Instance

SLACK_S: Final = 1e-3  # [s] a job that finishes this much after its deadline has met it: times have rounding errors


def deadline_metrics(instance: Instance, log: EventLog, finish_s: np.ndarray, rows: slice) -> dict[str, float]:
    """Return the values of :data:`~gpusched_env.metrics.columns.DEADLINE_COLUMNS`; {} if no job has a deadline.

    Jobs with an infinite deadline do not count. Without the attribute ``value``, every job is worth 1.
    """
    deadline_s = instance.workload.deadline_s
    if deadline_s is None:
        return {}
    refused = np.zeros(len(finish_s), bool)
    refused[log.events["job"][log.events["kind"] == REFUSE]] = True
    value = instance.workload.told("value") if "value" in instance.workload.attributes else np.ones(len(finish_s))
    counts = np.isfinite(deadline_s[rows])
    deadline_s, finish_s, refused, value = (column[rows][counts] for column in (deadline_s, finish_s, refused, value))
    met = finish_s <= deadline_s + SLACK_S
    late_s = np.maximum(finish_s - deadline_s, 0.0)[~np.isnan(finish_s)]
    late_s[late_s <= SLACK_S] = 0.0
    worth = total(value)
    return {
        "deadlines_met": mean(met.astype(float)),
        "admitted_share": mean((~refused).astype(float)),
        "admitted_met": mean(met[~refused].astype(float)),
        "mean_tardiness_s": mean(late_s),
        "max_tardiness_s": float(late_s.max()) if len(late_s) else math.nan,
        "value_share": total(value[met]) / worth if worth > 0 else math.nan,
    }
