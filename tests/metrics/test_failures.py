"""What failures cost, from a log that was written by hand."""

import numpy as np
import pytest

from gpusched_env.evaluation.bars import bars
from gpusched_env.event_log import ARRIVAL, COMPLETE, EVENT_DTYPE, FAIL, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import FAILURE_COLUMNS, failures_by_gang, metric_names, summarise
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.problem.workload import Workload
from gpusched_env.reports.run_data import run_data


def one_failure(cost_s: float = 0.0) -> tuple[Instance, EventLog]:
    """100 s of progress on eight GPUs, a checkpoint every 10 s; node 1 is down from 35 s to 50 s.

    It fails at 35 s with 30 s (with a cost of 2.5 s: 20 s) saved, frees its GPUs at 40 s, and goes on from 60 s.
    """
    rules = Semantics(checkpoint_interval_s=10.0, checkpoint_cost_s=cost_s, detection_s=5.0, recovery_s=10.0)
    outages = Outages(np.array([(1, 35.0, 50.0, 0)], OUTAGE_DTYPE), ("power",))
    jobs = Workload.from_columns([0.0], [8], [100.0])
    instance = Instance(Cluster.parse("2x4"), jobs, Network("none"), rules, outages=outages)
    saved = 10.0 * (35.0 // (10.0 + cost_s))
    per_s = instance.iterations[0] / 100.0
    end_s = 60.0 + (100.0 - saved) * (10.0 + cost_s) / 10.0
    rows = [
        (0.0, 0.0, -1, ARRIVAL, 0), (0.0, 0.0, 0, START, 8), (35.0, (100 - saved) * per_s, -1, FAIL, 0),
        (40.0, 0.0, -1, RELEASE, 0), (50.0, 60.0, 8, RESUME, 8), (end_s, 0.0, -1, COMPLETE, 0),
    ]  # fmt: skip
    events = np.zeros(len(rows), EVENT_DTYPE)
    for event, (time_s, value, at, kind, gpus) in zip(events, rows, strict=True):
        event["time_s"], event["value"], event["gpu_at"], event["kind"], event["gpu_count"] = (
            time_s,
            value,
            at,
            kind,
            gpus,
        )
    events["sub_steps"], events["tier"] = 1, 1
    return instance, EventLog(events, np.tile(np.arange(8, dtype=np.int32), 2))


def test_the_columns():
    instance, log = one_failure()
    found = summarise(instance, log)
    assert found["ettr"] == pytest.approx(100 / 130)
    assert found["goodput"] == pytest.approx(100 / 130)
    assert found["lost_gpu_hours"] == pytest.approx(5 * 8 / 3_600)
    assert (found["interruptions"], found["mean_recovery_s"]) == (1, 25)
    assert list(found) == metric_names(instance)


def test_the_columns_at_an_end():
    """At 45 s, 30 s of progress are left, and the job has not gone on."""
    instance, log = one_failure()
    found = summarise(instance, log, end_s=45.0)
    assert found["ettr"] == pytest.approx(30 / 45)
    assert np.isnan(found["mean_recovery_s"])
    assert np.isnan(summarise(instance, log, end_s=55.0)["mean_recovery_s"])


def test_nothing_is_told_without_failures():
    instance = Instance(Cluster.parse("2x4"), Workload.from_columns([0.0], [8], [100.0]))
    assert not {column.name for column in FAILURE_COLUMNS} & set(metric_names(instance))


def test_by_gang_size():
    instance, log = one_failure()
    (row,) = failures_by_gang(instance, log)
    assert (row["gpus"], row["interruptions"]) == (8, 1)
    assert row["lost_gpu_hours"] == pytest.approx(5 * 8 / 3_600)
    assert row["between_s"] == pytest.approx(120)


def test_the_chart_and_the_viewer_show_them():
    instance, log = one_failure()
    drawn = bars(instance, log)
    assert drawn.failed.tolist() == [[35.0, 0.5]]
    assert len(drawn.preempted) == drawn.preemptions == 0
    data = run_data(instance, log, "one")
    assert data["failed"]["row"] == [0.5]
    down = data["down"]
    assert (down["row"], down["rows"], down["node"], down["cause"]) == ([4], [4], [1], ["power"])
    assert [round(at * data["tick_s"]) for at in (down["start"][0], down["end"][0])] == [35, 50]
