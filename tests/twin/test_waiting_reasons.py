"""Slurm's reasons of pending jobs: which jobs a forecast may promise a start, and what is told of the others."""

import pytest
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.qos import Qos
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.twin import Pool, Twin
from gpusched_env.twin.own_limits import without_excess
from gpusched_env.twin.snapshot import PresentJob, Snapshot
from gpusched_env.twin.squeue import read_squeue
from gpusched_env.twin.waiting_reasons import HELD, LIMITED, NEVER, WAITS, kind_of

KINDS = {
    WAITS: "Priority Resources None Prolog Cleaning SchedDefer",
    HELD: (
        "JobHeldUser JobHeldAdmin JobHoldMaxRequeue Dependency BeginTime Reservation PartitionDown PartitionInactive "
        "Licenses ReqNodeNotAvail launch_failed_requeued_held PowerNotAvail BurstBufferStageIn A_word_of_a_plugin"
    ),
    LIMITED: (
        "QOSMaxGRESPerUser QOSGrpGRES AssocGrpGRES AssocGrpGRESMinutes MaxGRESPerAccount JobArrayTaskLimit "
        "QOSGrpCpuLimit QOSGrpCPURunMinutesLimit QOSMaxJobsPerUserLimit AssocMaxJobsLimit QOSGrpMemoryMinutes "
        "AssocGrpBillingRunMinutes AssociationResourceLimit QOSMaxSubmitJobPerUserLimit MaxJobsPerAccount"
    ),
    NEVER: (
        "PartitionTimeLimit PartitionNodeLimit InvalidQOS InvalidAccount DependencyNeverSatisfied BadConstraints "
        "QOSMaxGRESPerJob AssocMaxCpuMinutesPerJobLimit QOSMinGRES QOSMaxWallDurationPerJobLimit AssocMaxGRESPerNode "
        "QOSMinCpuNotSatisfied ReservationDeleted MaxMemPerLimit QOSNotAllowed"
    ),
}


@pytest.mark.parametrize(("kind", "words"), KINDS.items())
def test_every_reason_has_its_kind(kind, words):
    assert {word: kind_of(word) for word in words.split()} == dict.fromkeys(words.split(), kind)


def test_reasons_are_read_as_squeue_writes_them():
    assert kind_of("(ReqNodeNotAvail, UnavailableNodes:n[1-3])") == HELD
    assert kind_of("launch failed requeued held") == HELD
    down = "(Nodes required for job are DOWN, DRAINED{} or reserved for jobs in higher priority partitions)"
    for reason in (down.format(""), down.format(", REBOOTING"), down.format("").replace(" ", "_")):
        assert kind_of(reason) == WAITS  # WAIT_RESOURCES, as Slurm writes it while nodes are down
    assert kind_of("(QOSGrpGRES)") == LIMITED
    assert kind_of("") == WAITS


QUEUE = """\
JOBID|USER|PARTITION|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|NODELIST|REASON|TRES_PER_NODE
1|ana|gpu|RUNNING|1:00:00|4:00:00|2025-03-03T10:00:00|2025-03-03T11:00:00|1|n1|None|gres/gpu:8
2|bo|gpu|PENDING|0:00|1:00:00|2025-03-03T11:00:00|N/A|1||Resources|gres/gpu:8
3|bo|gpu|PENDING|0:00|1:00:00|2025-03-03T11:00:00|N/A|1||QOSGrpGRES|gres/gpu:2
4|bo|gpu|PENDING|0:00|90-00:00:00|2025-03-03T11:00:00|N/A|1||PartitionTimeLimit|gres/gpu:2
5|bo|gpu|PENDING|0:00|1:00:00|2025-03-03T11:00:00|N/A|1||launch failed requeued held|gres/gpu:2
"""
HISTORY = "JobID|User|Submit|Start|End|State|AllocTRES\n" + "".join(
    f"{90 + day}|bo|2025-03-0{day}T01:00:00|2025-03-0{day}T01:00:00|2025-03-0{day}T02:00:00|COMPLETED|gres/gpu=8\n"
    for day in (1, 2)
)


def test_jobs_that_are_held_or_limited_get_no_promise_and_each_forecast_has_its_reason(tmp_path):
    (tmp_path / "q.txt").write_text(QUEUE)
    (tmp_path / "h.txt").write_text(HISTORY)
    snapshot = read_squeue(tmp_path / "q.txt")
    assert [job.id for job in snapshot.queued] == ["2"]
    assert snapshot.held == ("3", "4", "5")
    result = CliRunner().invoke(
        app,
        [
            "twin", "forecast", "--snapshot", f"squeue:{tmp_path / 'q.txt'}",
            "--history", f"slurm:{tmp_path / 'h.txt'}",
            "--cluster", "1x8", "--scheduler", "slurm", "--futures", "5", "--no-arrivals", "--output",
            str(tmp_path / "out.csv"),
        ],
    )  # fmt: skip
    assert result.exit_code == 0, str(result.exception) + result.output
    told = " ".join(result.output.split())
    assert "no forecast for 1 jobs, which wait for a limit of their user, account or QOS (QOSGrpGRES): 3" in told
    assert "no forecast for 1 jobs, which cannot start as they are (PartitionTimeLimit): 4" in told
    assert "no forecast for 1 jobs, which are held (launch failed requeued held): 5" in told
    header, row = (tmp_path / "out.csv").read_text().splitlines()
    assert (header.split(",")[-2:], row.split(",")[-2:]) == (["reason", "grade"], ["Resources", ""])  # no twin


def test_a_job_above_its_own_limit_gets_no_forecast_and_raises_no_limit():
    qos = (Qos("short", most_per_job=8, max_time_s=3600.0), Qos("long"))
    tree = (Tenant("lab", most=16), Tenant("lab/ana", parent="lab"), Tenant("lab/bo", parent="lab", most=4))
    pools = (Pool("all", Cluster.parse("4x8").groups),)
    twin = Twin("slurm:x", "slurm", pools, Tenants(tree=tree, qos=qos), ("account", "user"))
    jobs = (
        PresentJob("1", 8, account="lab", user="ana", qos="short", limit_s=60.0),
        PresentJob("2", 9, account="lab", user="ana", qos="short", limit_s=60.0),
        PresentJob("3", 1, account="lab", user="ana", qos="short", limit_s=7200.0),
        PresentJob("4", 17, account="lab", user="ana", qos="long"),
        PresentJob("5", 5, account="lab", user="bo", qos="long"),
        PresentJob("6", 32, account="other", user="cy", qos="long"),
    )
    found = without_excess(Snapshot(0.0, queued=jobs), twin)
    assert [job.id for job in found.queued] == ["1", "6"]
    assert found.held == ("2", "3", "4", "5")
    assert found.reasons["2"] == found.reasons["3"] == "above a limit of QOS short"
    assert (found.reasons["4"], found.reasons["5"]) == ("above the GPUs of lab", "above the GPUs of lab/bo")
    assert {kind_of(reason) for reason in found.reasons.values()} == {NEVER}
