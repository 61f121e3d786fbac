"""Snapshots of clusters: our JSON, text of squeue, and the GPUs of running jobs."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.errors import GpuschedError, TraceError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.twin import Pool
from gpusched_env.twin.placing import gpus_of_running
from gpusched_env.twin.snapshot import PresentJob, Snapshot, iso, read_snapshot, write_snapshot
from gpusched_env.twin.snapshot_sources import named_by, snapshot_of
from gpusched_env.twin.squeue import FORMAT, read_squeue
from gpusched_env.twin.usage import read_sshare

NOON = 1_741_003_200.0  # 2025-03-03T12:00:00
EXAMPLE = {
    "time": "2025-03-03T12:00:00",
    "node_names": ["g01", "g02"],
    "running": [
        {"id": "107", "gpus": 8, "start": "2025-03-03T09:00:00", "limit_s": 14400, "user": "bo",
         "nodes": {"g01": 4, "g02": 4}},
    ],
    "queued": [
        {"id": "108", "gpus": 2, "arrival": "2025-03-03T11:00:00", "limit_s": None, "user": "cy", "priority": 3,
         "min_nodes": 1, "max_nodes": 2},
        {"id": "109", "gpus": 1, "arrival": 1741003100},
    ],
    "held": ["110"],
    "closed": ["g02"],
}  # fmt: skip


def written(tmp_path, text):
    path = tmp_path / "now.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


def test_a_snapshot_is_read_and_written(tmp_path):
    found = read_snapshot(written(tmp_path, EXAMPLE))
    assert found.time_s == NOON
    wanted = PresentJob("107", 8, math.nan, NOON - 10_800, 14_400.0, "bo", nodes={"g01": 4, "g02": 4})
    assert repr(found.running) == repr((wanted,))
    assert [job.id for job in found.queued] == ["108", "109"]
    assert found.queued[0].arrival_s == NOON - 3600
    assert math.isnan(found.queued[0].limit_s)
    assert found.queued[0].priority == 3.0
    assert (found.queued[0].min_nodes, found.queued[0].max_nodes, found.queued[1].max_nodes) == (1, 2, 0)
    assert found.closed == ("g02",)
    assert (
        found.describe()
        == "2025-03-03T12:00:00: 1 jobs run on 8 GPUs, 2 wait for 3, 1 are held, 1 nodes take no new jobs"
    )
    write_snapshot(found, tmp_path / "again.json")
    assert repr(read_snapshot(tmp_path / "again.json")) == repr(found)
    assert iso(found.time_s) == "2025-03-03T12:00:00"
    write_snapshot(empty := Snapshot(NOON), tmp_path / "empty.json")  # no job runs or waits
    assert repr(read_snapshot(tmp_path / "empty.json")) == repr(empty)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"time": None}, "'time_s' is missing"),
        ({"time": "noon"}, "time is 'noon': write YYYY"),
        ({"time": "2025-03-03T12:00:00+01:00"}, "leave out the zone"),
        ({"version": 2}, "version is 2"),
        ({"untold": {"5": ["g01"]}}, "reasons and untold: give a text"),
        ({"queues": []}, "unknown field 'queues'"),
        ({"queued": [{"id": "1", "gpus": 1, "submit": 5}]}, r"queued\[0\]: unknown field 'submit'.* arrival, begin"),
        ({"running": {}}, "must be a list"),
        ({"queued": [{"id": "1"}]}, r"queued\[0\]: the field 'gpus' is missing"),
        ({"queued": [{"id": "1", "gpus": 0}]}, "at least 1"),
        ({"queued": [{"id": "1", "gpus": 1.5}]}, "whole number"),
        ({"queued": [{"id": "107", "gpus": 1}]}, "'107' occurs twice"),
        ({"queued": [{"id": "1", "gpus": 1, "start": 5}]}, "listed as queued: leave out start"),
        ({"queued": [{"id": "1", "gpus": 1, "arrival": "2025-03-03T12:00:01"}]}, "arrival is after the snapshot"),
        ({"queued": [{"id": "1", "gpus": 1, "limit_s": -1}]}, "limit is -1"),
        ({"queued": [{"id": "1", "gpus": 1, "limit_s": 0}]}, "limit_s is 0"),
        ({"queued": [{"id": "1", "gpus": 3, "min_nodes": 1, "max_nodes": 2}]}, "max_nodes divides its 3 GPUs"),
        ({"queued": [{"id": "1", "gpus": 3, "max_nodes": 3}]}, "1 <= min_nodes <= max_nodes"),
        ({"running": [{"id": "1", "gpus": 1}]}, "listed as running: give its start"),
        ({"running": [{"id": "1", "gpus": 3, "start": 5, "nodes": {"g01": 2}}]}, "have 2 GPUs, but its gang 3"),
        ({"running": [{"id": "1", "gpus": 2, "start": 5, "nodes": {"h": 2}}]}, "'h' is not in node_names"),
    ],
)
def test_wrong_snapshots_are_refused(tmp_path, change, text):
    with pytest.raises(GpuschedError, match=text) as found:
        read_snapshot(written(tmp_path, EXAMPLE | change))
    assert "now.json" in str(found.value)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
            st.sampled_from(["time", "running", "queued", "id", "gpus", "start", "nodes", "held"]), inner, max_size=4),
        max_leaves=12,
    )
)  # fmt: skip
def test_damaged_snapshots_are_refused_or_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "now.json"
    path.write_text(json.dumps(data))
    complaint = ""
    try:
        read_snapshot(path)
    except GpuschedError as error:
        complaint = str(error)
    assert not complaint or "now.json" in complaint


HEADER = (
    "JOBID|USER|ACCOUNT|PARTITION|QOS|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|NODELIST|REASON|TRES_PER_NODE"
)
BARS = f"""{HEADER}
107|bo|nlp|gpu|normal|RUNNING|3:00:00|4:00:00|2025-03-03T08:00:00|2025-03-03T09:00:00|2|g[02-03]|None|gres/gpu:h100:4
108|cy|nlp|gpu|low|PENDING|0:00|1-00:00:00|2025-03-03T11:00:00|2025-03-04T09:00:00|1||Priority|gres:gpu:2
109_[1-3,7%2]|cy|vis|gpu|low|PENDING|0:00|UNLIMITED|2025-03-03T11:30:00|N/A|1||Resources|gres/gpu
110|di|vis|gpu|low|PENDING|0:00|1:00:00|2025-03-03T11:30:00|N/A|1||Dependency|gres/gpu:1
111|di|vis|cpu|low|RUNNING|1:00|1:00:00|2025-03-03T11:30:00|2025-03-03T11:59:00|1|c1|None|N/A
112|di|vis|cpu|low|COMPLETED|1:00|1:00:00|2025-03-03T11:30:00|2025-03-03T11:59:00|1|c1|None|gres/gpu:1
"""
PLAIN = """             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
               106       gpu  my job      ana PD       0:00      2 (Priority)
               107       gpu        t      bo  R 1-02:03:04      2 g[02-03]
               109_[2]   gpu        a      cy PD       0:00      1 (QOSMaxGRESPerUser)
               110       gpu        a      cy PD       0:00      1 (JobHeldUser)
"""


def test_a_table_of_squeue_is_read(tmp_path):
    found = read_squeue(written(tmp_path, BARS))
    assert iso(found.time_s) == "2025-03-03T12:00:00"
    assert len(found.running) == 1
    job = found.running[0]
    assert (job.id, job.gpus, job.user, job.account, job.qos, job.limit_s) == ("107", 8, "bo", "nlp", "normal", 14_400)
    assert job.nodes == {"g02": 4, "g03": 4}
    assert job.arrival_s == NOON - 14_400
    assert job.start_s == NOON - 10_800
    assert [(job.id, job.gpus) for job in found.queued] == [
        ("108", 2), ("109_1", 1), ("109_2", 1),
    ]  # fmt: skip
    assert found.queued[0].limit_s == 86_400
    assert math.isnan(found.queued[1].limit_s)
    assert found.held == ("110", "109_3", "109_7")
    assert "1 jobs without GPUs" in found.notes[0]
    assert "1 jobs in other states" in found.notes[1]


def test_plain_squeue_is_read_with_whole_nodes(tmp_path):
    path = written(tmp_path, PLAIN)
    found = read_squeue(path, NOON, gpus_per_node=4)
    assert [(job.id, job.gpus, job.user) for job in found.queued] == [("106", 8, "ana")]
    assert found.running[0].start_s == NOON - (26 * 3600 + 3 * 60 + 4)
    assert found.held == ("109_[2]", "110")  # a limit of its user, and a hold
    assert len(read_squeue(path, NOON).queued) == 0  # nothing tells their GPUs
    with pytest.raises(GpuschedError, match="give --at"):
        read_squeue(path, gpus_per_node=4)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "empty"),
        ("a b c\n", "line 1: expected the header of squeue"),
        (BARS + "1|2\n", "line 8: 2 fields where the header has 14"),
        (BARS.replace("3:00:00|4", "x|4"), "line 2, field 'TIME'"),
        (BARS.replace("[1-3,7%2]", "[1-999999]"), "line 4, field 'JOBID'"),
        (BARS.replace("g[02-03]", "g[03-02]"), "line 2, field 'NODELIST'"),
        (PLAIN + "broken\n", "line 6: not a row"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, text, wanted):
    with pytest.raises(GpuschedError) as found:
        read_squeue(written(tmp_path, text), NOON)
    assert wanted in str(found.value)


SHARES = "Account|User|RawShares|RawUsage|FairShare\nroot|||1500|\n  vision|ana|1|1000|0.25\n  vision|bo|1|500|0.5\n"


@pytest.mark.parametrize(("table", "read"), [(BARS, read_squeue), (SHARES, read_sshare)])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_fuzzed_tables_are_refused_or_read(tmp_path_factory, table, read, data):
    at, cut = data.draw(st.integers(0, len(table) - 1)), data.draw(st.booleans())
    letter = data.draw(st.characters(codec="utf-8"))
    path = tmp_path_factory.mktemp("fuzz") / "table.txt"
    path.write_bytes((table[:at] if cut else table[:at] + letter + table[at + 1 :]).encode())
    complaint = ""
    try:
        read(path)
    except GpuschedError as error:
        complaint = str(error)
    assert not complaint or "table.txt" in complaint


def test_running_jobs_get_the_gpus_of_their_nodes_first():
    pool = Pool("p", Cluster.parse("3x4").groups)
    jobs = [
        PresentJob("a", 4, 0.0, 0.0),
        PresentJob("b", 3, 0.0, 0.0, nodes={"y": 3}),
        PresentJob("c", 1, 0.0, 0.0),
        PresentJob("d", 2, 0.0, 0.0, nodes={"z": 2}),
    ]
    named = Snapshot(5.0, tuple(jobs), node_names=("x", "y", "z"))
    # b and d are on nodes 1 and 2; a fits only on node 0; c goes where least is left: node 1.
    assert gpus_of_running(pool, named, jobs) == [(0, 1, 2, 3), (4, 5, 6), (7,), (8, 9)]
    # Names of some nodes: the fullest becomes node 0.
    some = Snapshot(5.0, tuple(jobs), node_names=("y", "z"))
    assert gpus_of_running(pool, some, jobs) == [(8, 9, 10, 11), (0, 1, 2), (3,), (4, 5)]
    with pytest.raises(GpuschedError, match=r"hold 10 GPUs, but these machines have 8"):
        gpus_of_running(Pool("p", Cluster.parse("2x4").groups), some, jobs)


@settings(max_examples=100, deadline=None)
@given(gangs=st.lists(st.integers(1, 9), max_size=8))
def test_gangs_that_fit_by_number_get_different_gpus(gangs):
    cluster = Cluster.parse("4x6")
    jobs = [PresentJob(str(i), gpus, 0.0, 0.0) for i, gpus in enumerate(gangs)]
    if sum(gangs) > cluster.gpus:
        return
    found = gpus_of_running(Pool("p", cluster.groups), Snapshot(1.0, tuple(jobs)), jobs)
    assert [len(gpus) for gpus in found] == gangs
    taken = np.concatenate([np.array(gpus, int) for gpus in found]) if found else np.empty(0)
    assert len(set(taken.tolist())) == sum(gangs)


HELD_TABLE = """JOBID|USER|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|REASON|TRES_PER_NODE|DEPENDENCY
1|u|RUNNING|1:00:00|4:00:00|2025-03-10T10:00:00|2025-03-10T11:00:00|1|None|gres/gpu:4|(null)
2|u|PENDING|0:00|4:00:00|2025-03-10T11:30:00|N/A|1|Dependency|gres/gpu:4|afterany:1(unfulfilled)
3|u|PENDING|0:00|4:00:00|2025-03-10T11:30:00|N/A|1|Dependency|gres/gpu:4|afterok:9_*(unfulfilled)
4|u|PENDING|0:00|4:00:00|2025-03-10T11:30:00|N/A|1|Dependency|gres/gpu:4|after:3+5(unfulfilled)
5|u|PENDING|0:00|4:00:00|2025-03-10T11:30:00|2025-03-10T15:00:00|1|BeginTime|gres/gpu:4|
6|u|PENDING|0:00|4:00:00|2025-03-10T11:30:00|N/A|1|JobHeldUser|gres/gpu:4|
7|u|PENDING|0:00|4:00:00|2025-03-10T11:30:00|N/A|1|Dependency|gres/gpu:4|singleton(unfulfilled)
"""


def test_squeue_tells_for_what_held_jobs_wait(tmp_path):
    """Job 3 waits for a job that is not in the table, and job 4 for job 3: nobody knows when they may start."""
    (tmp_path / "queue.txt").write_text(HELD_TABLE)
    found = read_squeue(tmp_path / "queue.txt")
    assert [(job.id, job.dependency) for job in found.queued] == [("2", "afterany:1"), ("5", "")]
    assert found.queued[1].begin_s - found.time_s == 3 * 3600.0
    assert sorted(found.held) == ["3", "4", "6", "7"]
    write_snapshot(found, tmp_path / "now.json")
    assert repr(read_snapshot(tmp_path / "now.json")) == repr(found)  # repr: NaN


def test_the_format_of_a_snapshot_is_recognised(tmp_path):
    (tmp_path / "queue.txt").write_text(HELD_TABLE)
    found, told = (snapshot_of(f"{kind}:{tmp_path / 'queue.txt'}") for kind in ("auto", "squeue"))
    assert repr(found) == repr(told)
    (tmp_path / "nodes.json").write_text('{"kind": "Node"}')
    with pytest.raises(TraceError, match=r"no format fits.*formats: kubernetes, kueue, squeue, volcano$"):
        snapshot_of(f"auto:{tmp_path / 'nodes.json'}")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"dependency": "after:"}, "dependency 'after:' is not understood"),
        ({"dependency": "after:1", "start_s": 5.0}, "it runs: leave out dependency and begin"),
        ({"begin_s": 7.0, "start_s": 5.0}, "it runs: leave out dependency and begin"),
        ({"begin_s": -1.0}, "begin is -1.0: give a number >= 0"),
    ],
)
def test_wrong_holds_are_refused(told, text):
    with pytest.raises(GpuschedError, match=text):
        PresentJob("a", 1, **told)


WIDE = """\
JOBID  |USER |STATE   |TIME   |SUBMIT_TIME        |START_TIME         |NODES|NODELIST|REASON   |TRES_ALLOC          |
1      |ana  |RUNNING |1:00:00|2025-03-03T10:00:00|2025-03-03T11:00:00|1    |n1      |None     |cpu=8,gres/gpu=6    |
2      |bo   |RUNNING |1:00:00|2025-03-03T10:00:00|2025-03-03T11:00:00|1    |n1      |None     |cpu=8,node=1        |
3      |bo   |PENDING |0:00   |2025-03-03T11:00:00|N/A                |1    |        |Resources|gres/gpu:a100=4     |
"""


def test_the_documented_export_tells_the_gpus_of_every_job(tmp_path):
    found = read_squeue(written(tmp_path, WIDE))
    assert [(job.id, job.gpus, job.nodes) for job in found.running] == [("1", 6, {"n1": 6})]
    assert [(job.id, job.gpus) for job in found.queued] == [("3", 4)]
    assert "1 jobs without GPUs" in found.notes[0]  # job 2: a CPU job, as its TRES say


def test_a_running_job_of_unknown_gpus_is_refused_on_a_node_with_gpus(tmp_path):
    # --gpus=4 prints N/A under %b: n1 would look free
    rows = (
        "JOBID|USER|STATE|TIME|START_TIME|NODES|NODELIST|REASON|TRES_PER_NODE\n"
        "1|ana|RUNNING|1:00:00|2025-03-03T11:00:00|1|n1|None|gres/gpu:4\n"
        "2|bo|RUNNING|1:00:00|2025-03-03T11:00:00|1|{node}|None|N/A\n"
    )
    with pytest.raises(TraceError, match=r"line 3, .*'job 2': it runs on n1, which has GPUs.*tres-alloc"):
        read_squeue(written(tmp_path, rows.format(node="n1")))
    path = written(tmp_path, rows.format(node="n2"))  # no other job tells that n2 has GPUs
    found = read_squeue(path)
    assert [job.id for job in found.running] == ["1"]
    assert "WARNING: the GPUs of 1 running jobs are not told (2): their nodes may look free" in found.describe()
    for nodes, text in (("n[1-2]", "job 2 runs on n2, which has GPUs"), ("n1", "")):
        (tmp_path / "slurm.conf").write_text(f"NodeName={nodes} Gres=gpu:4\nNodeName=c2\nPartitionName=p Nodes=ALL\n")
        if text:
            with pytest.raises(GpuschedError, match=text):
                named_by(str(tmp_path / "slurm.conf"), found)
        else:  # n2 has no GPUs, as slurm.conf says
            assert "WARNING" not in named_by(str(tmp_path / "slurm.conf"), found).describe()
    write_snapshot(found, tmp_path / "now.json")
    assert repr(read_snapshot(tmp_path / "now.json")) == repr(found)


def test_the_documented_export_has_ids_that_dependencies_name(tmp_path):
    """The column JobArrayID has the header JOBID and tells tasks and parts; JobID is a number of each."""
    assert FORMAT.startswith("JobArrayID:40|")
    rows = (
        "7_1|RUNNING|1:00:00|2025-03-03T11:00:00|1|n1|None|gres/gpu=6|\n"
        "9|PENDING|0:00|N/A|1||Dependency|gres/gpu=1|afterok:7_1(unfulfilled)\n"
    )
    header = "JOBID|STATE|TIME|START_TIME|NODES|NODELIST|REASON|TRES_ALLOC|DEPENDENCY\n"
    assert [job.dependency for job in read_squeue(written(tmp_path, header + rows)).queued] == ["afterok:7_1"]


def test_the_parts_of_a_heterogeneous_job_are_one_job(tmp_path):
    rows = (
        "JOBID|STATE|TIME|START_TIME|NODES|NODELIST|REASON|TRES_ALLOC\n"
        "77+0|RUNNING|1:00:00|2025-03-03T11:00:00|1|n1|None|gres/gpu=6\n"
        "77+1|RUNNING|1:00:00|2025-03-03T11:00:00|2|n[2-3]|None|gres/gpu=4\n"
        "77+2|RUNNING|1:00:00|2025-03-03T11:00:00|1|c1|None|cpu=4\n"
        "80+0|PENDING|0:00|N/A|1||Resources|gres/gpu=8\n"
        "80+1|PENDING|0:00|N/A|1||Resources|gres/gpu=2\n"
        "90+0|PENDING|0:00|N/A|1||Resources|gres/gpu=8\n"
        "90+1|PENDING|0:00|N/A|1||JobHeldUser|gres/gpu=2\n"
    )
    rows = (
        "\n".join(f"{row}|{'DEPENDENCY' if not n else ''}" for n, row in enumerate(rows.splitlines()))
        + "\n91|PENDING|0:00|N/A|1||Dependency|gres/gpu=1|afterok:77(unfulfilled)\n"
    )
    found = read_squeue(written(tmp_path, rows))
    assert [(job.id, job.gpus, job.nodes) for job in found.running] == [("77", 10, {"n1": 6, "n2": 2, "n3": 2})]
    assert [(job.id, job.gpus, job.dependency) for job in found.queued] == [("80", 10, ""), ("91", 1, "afterok:77")]
    assert found.reasons == {"80": "Resources", "90+1": "JobHeldUser", "91": "Dependency"}
    assert found.held == ("90+1",)


def test_squeue_tells_node_counts(tmp_path):
    path = tmp_path / "squeue.txt"
    path.write_text(
        "JOBID|ST|TIME|START_TIME|NODES|MAX_NODES|NODELIST|REASON|TRES_ALLOC\n"
        "1|R|1:00:00|2025-03-03T11:00:00|2|0|g[1-2]|None|gres/gpu=8\n"
        "2|PD|0:00|N/A|1|0||Priority|gres/gpu=6\n"
        "3|PD|0:00|N/A|1-4|0||Priority|gres/gpu=4\n"
        "4|PD|0:00|N/A|1|2||Priority|gres/gpu=4\n"
        "5|PD|0:00|N/A|3|0||Priority|gres/gpu=4\n"
        "6+0|PD|0:00|N/A|1|0||Priority|gres/gpu=4\n"
        "6+1|PD|0:00|N/A|2|0||Priority|gres/gpu=8\n"
        "7+0|PD|0:00|N/A|2|0||Priority|gres/gpu=2\n"
        "7+1|PD|0:00|N/A|1|0||Priority|gres/gpu=3\n"
    )
    found = read_squeue(path)
    counts = {job.id: (job.min_nodes, job.max_nodes) for job in (*found.running, *found.queued)}
    assert counts == {"1": (2, 2), "2": (1, 1), "3": (1, 4), "4": (1, 2), "5": (0, 0), "6": (3, 3), "7": (0, 0)}
    assert any("1 jobs whose GPUs do not divide" in note for note in found.notes)
    write_snapshot(found, tmp_path / "now.json")
    assert repr(read_snapshot(tmp_path / "now.json").queued) == repr(found.queued)
    path.write_text(
        "JOBID|ST|TIME|START_TIME|NODES|MAX_NODES|NODELIST|REASON|TRES_ALLOC|TRES_PER_NODE\n"
        "1|PD|0:00|N/A|1|0||Priority|gres/gpu=16|N/A\n"  # --gpus=16
        "2|PD|0:00|N/A|1|1||Priority|gres/gpu=6|N/A\n"  # -N1 --gpus=6
        "3|PD|0:00|N/A|2|0||Priority|gres/gpu=8|gres/gpu:4\n"
    )
    counts = {job.id: (job.min_nodes, job.max_nodes) for job in read_squeue(path, 0.0).queued}
    assert counts == {"1": (1, 16), "2": (1, 1), "3": (2, 2)}
    with pytest.raises(GpuschedError, match="min_nodes is 2 and max_nodes 3"):
        PresentJob("1", 4, min_nodes=2, max_nodes=3)


def test_json_of_squeue_is_read_as_its_table_is(tmp_path):
    def number(value):
        return {"set": value is not None, "infinite": False, "number": value or 0}

    def job(job_id, state, tres, **more):
        return {
            "job_id": job_id, "user_name": "ana", "account": "vis", "partition": "gpu", "qos": "normal",
            "job_state": [state], "time_limit": number(120), "submit_time": number(1_741_000_000),
            "start_time": number(1_741_001_200 if state == "RUNNING" else 0), "node_count": number(1),
            "max_nodes": number(0), "nodes": "g1" if state == "RUNNING" else "", "state_reason": "Priority",
            "tres_alloc_str": tres if state == "RUNNING" else "", "tres_req_str": tres, "dependency": "",
            "array_job_id": number(0), "array_task_id": number(None), "array_task_string": "",
            "het_job_id": number(0), "het_job_offset": number(0), "tres_per_node": "",
        } | more  # fmt: skip

    jobs = [
        job(1, "RUNNING", "cpu=8,node=1,gres/gpu=4"),
        job(3, "RUNNING", "node=1,gres/gpu=2", array_job_id=number(2), array_task_id=number(0), job_state="RUNNING"),
        job(2, "PENDING", "node=1,gres/gpu=2", array_job_id=number(2), array_task_string="1-2%2"),
        job(4, "PENDING", "node=1,gres/gpu=1", state_reason="Dependency", dependency="afterok:1(unfulfilled)"),
        job(5, "PENDING", "node=1,gres/gpu=8", max_nodes=number(2), time_limit=number(None) | {"infinite": True}),
        job(6, "PENDING", "node=1,gres/gpu=1", state_reason="JobHeldUser"),
        job(7, "PENDING", "node=1,gres/gpu=16"),  # --gpus=16 without -N
        job(8, "PENDING", "node=1,gres/gpu=8", tres_per_node="gres/gpu:8"),
    ]
    path = tmp_path / "squeue.json"
    path.write_text(json.dumps({"jobs": jobs, "last_update": number(1_741_003_200), "meta": {}, "errors": []}))
    (tmp_path / "squeue.txt").write_text(
        "JOBID|USER|ACCOUNT|PARTITION|QOS|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|MAX_NODES|NODELIST|REASON|"
        "TRES_ALLOC|TRES_PER_NODE|DEPENDENCY\n"
        + "".join(
            f"{name}|ana|vis|gpu|normal|{state}|{time}|{limit}|1741000000|{start}|1|{most}|{nodes}|{reason}|gres/gpu={n}|"
            f"{'gres/gpu:8' if name == '8' else 'N/A'}|{depends}\n"
            for name, state, time, limit, start, most, nodes, reason, n, depends in (
                ("1", "RUNNING", "33:20", "2:00:00", "1741001200", 0, "g1", "None", 4, ""),
                ("2_0", "RUNNING", "33:20", "2:00:00", "1741001200", 0, "g1", "None", 2, ""),
                ("2_[1-2%2]", "PENDING", "0:00", "2:00:00", "N/A", 0, "", "Priority", 2, ""),
                ("4", "PENDING", "0:00", "2:00:00", "N/A", 0, "", "Dependency", 1, "afterok:1(unfulfilled)"),
                ("5", "PENDING", "0:00", "UNLIMITED", "N/A", 2, "", "Priority", 8, ""),
                ("6", "PENDING", "0:00", "2:00:00", "N/A", 0, "", "JobHeldUser", 1, ""),
                ("7", "PENDING", "0:00", "2:00:00", "N/A", 0, "", "Priority", 16, ""),
                ("8", "PENDING", "0:00", "2:00:00", "N/A", 0, "", "Priority", 8, ""),
            )
        )
    )
    found, wanted = snapshot_of(f"auto:{path}"), snapshot_of(f"auto:{tmp_path / 'squeue.txt'}")
    assert repr(found) == repr(wanted)
    assert [(job.id, job.max_nodes) for job in found.queued] == [
        ("2_1", 2), ("4", 1), ("5", 2), ("7", 16), ("8", 1),
    ]  # fmt: skip
    assert found.held == ("6", "2_2")  # one of two runs


def test_tasks_beyond_the_limit_of_their_array_are_held(tmp_path):
    path = tmp_path / "squeue.txt"
    head = "JOBID|ST|TIME|START_TIME|NODES|NODELIST|REASON|TRES_ALLOC\n"
    waits = "PD|0:00|N/A|1||Priority|gres/gpu=1\n"
    runs = "R|1:00:00|2025-03-03T11:00:00|1|g1|None|gres/gpu=1\n"
    path.write_text(
        f"{head}7_[4-9%3]|{waits}7_1|{runs}7_2|{waits}8_[1-3%2]|{waits}8_0|{runs}9_0|{runs}8_9|{runs}9_[1-2]|{waits}"
        f"5|{waits}6_[1,2%0]|{waits}"
    )
    found = read_squeue(path)
    assert [job.id for job in found.queued] == ["7_4", "7_5", "9_1", "9_2", "5", "6_1", "6_2"]
    assert found.held == ("7_6", "7_7", "7_8", "7_9", "7_2", "8_1", "8_2", "8_3")
    assert {found.reasons[name] for name in found.held} == {"JobArrayTaskLimit"}
    assert "8 tasks are held until others of their array" in found.describe()


@pytest.mark.parametrize("tasks", ["1,3,5,...", "1,3,5,...%4", "1,3,5,7,9,1", "0x15"])
def test_a_list_of_tasks_that_is_cut_is_refused(tmp_path, tasks):
    text = f"JOBID|ST|TIME|NODES|TRES_ALLOC\n17_[{tasks}{']' * ('...' in tasks)}|PD|0:00|1|gres/gpu=1\n"
    with pytest.raises(TraceError, match=r"line 2, field 'JOBID'.* is cut; .*--array.*SLURM_BITSTR_LEN=0"):
        read_squeue(written(tmp_path, text), NOON)


def test_a_queued_job_that_depends_on_an_array_waits_for_its_tasks(tmp_path):
    path = tmp_path / "squeue.txt"
    path.write_text(
        "JOBID|ST|TIME|START_TIME|NODES|NODELIST|REASON|TRES_ALLOC|DEPENDENCY\n"
        "7_0|R|1:00:00|2025-03-03T11:00:00|1|g1|None|gres/gpu=1|\n"
        "7_[1-2]|PD|0:00|N/A|1||Priority|gres/gpu=1|\n"
        "8|PD|0:00|N/A|1||Dependency|gres/gpu=1|afterok:7_*(unfulfilled)\n"
        "9|PD|0:00|N/A|1||Dependency|gres/gpu=1|afterany:7+5(unfulfilled),afterok:8(unfulfilled)\n"
        "5_[3,4]|PD|0:00|N/A|1||JobHeldUser|gres/gpu=1|\n"
        "10|PD|0:00|N/A|1||Dependency|gres/gpu=1|afterok:5_*(unfulfilled)\n"
        "11|PD|0:00|N/A|1||Dependency|gres/gpu=1|afterok:6(unfulfilled)\n"
    )
    found = read_squeue(path)
    assert {job.id: job.dependency for job in found.queued} == {
        "7_1": "", "7_2": "", "8": "afterok:7_0:7_1:7_2", "9": "afterany:7_0+5:7_1+5:7_2+5,afterok:8",
    }  # fmt: skip
    assert found.held == ("5_[3,4]", "10", "11")  # of what they wait for, the table does not tell the end
