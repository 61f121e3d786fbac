"""Slurm's configuration, squeue and Kubernetes resources with pseudonyms: no name left, and an equal cluster."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import TraceError
from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.traces import SlurmCluster, read_cluster, read_slurm_cluster, read_trace
from gpusched_env.twin.outages import read_outages
from gpusched_env.twin.sacctmgr import read_associations, read_qos
from gpusched_env.twin.squeue import read_squeue
from gpusched_env.twin.usage import read_sshare
from tests.traces.test_slurm_files import CONF, GRES, SHOWN, SINFO, TOPOLOGY
from tools.pseudonyms.tables import pseudonymise_squeue, pseudonymise_table, writer_of
from tools.pseudonyms.writing import pseudonymise

KEY: Final = b"a secret of more than sixteen bytes"
EXAMPLES: Final = int(os.environ.get("GPUSCHED_FUZZ", "15"))  # damages of each file; GPUSCHED_FUZZ=2000 tries 10,000
FILES: Final = {
    "slurm.conf": """\
# written by xenia
ClusterName=fairq SlurmctldHost=zebra1(10.1.2.3)
AccountingStorageHost=zebra2
AccountingStorageTRES=gres/gpu,license/zebrasoft,gres/gpu:h100
SchedulerParameters=bf_interval=60,bf_continue,\\
bf_window=4320
PriorityWeightAge=1000
PriorityWeightTRES=CPU=10,GRES/gpu=2000,license/zebrasoft=5
PriorityMaxAge=14-0
PriorityFlags=fair_tree
NodeName=DEFAULT RealMemory=512000 Weight=10
NodeName=nodeq[01-04] NodeAddr=zebra[1-4] CPUs=64 Gres=gpu:h100:8(S:0-1),zebralink:1 Feature=zebrafeature,ib
NodeName=nodeq[05-06],nodeqx CPUs=64 Gres=gpu:4 State=UNKNOWN
NodeName=nodeqc1 CPUs=128
NodeSet=zebraset Feature=zebrafeature
DownNodes=nodeq05 State=DRAIN Reason="xenia broke it"
PartitionName=DEFAULT MaxTime=3-00:00:00 State=UP
PartitionName=g Nodes=zebraset,nodeq[05-06],nodeqx Default=YES AllowAccounts=astro,chemy AllowGroups=zebragroup \\
  PriorityTier=2 PreemptMode=REQUEUE GraceTime=60 TRESBillingWeights="CPU=1,Mem=0.25G, GRES/gpu=8"
PartitionName=low Nodes=ALL MaxTime=UNLIMITED AllowQos=low Alternate=g
""",
    "gres.conf": """\
AutoDetect=nvml
NodeName=nodeq[05-06],nodeqx Name=gpu Type=a100 File=/dev/zebra[0-3] Cores=0-15
Name=zebralink Count=8
""",
    "topology.conf": """\
SwitchName=zebraleaf1 Nodes=nodeq[01-02]
SwitchName=zebraleaf2 Nodes=nodeq[03-04]
SwitchName=zebraleaf3 Nodes=nodeq[05-06],nodeqx
SwitchName=zebraspine Switches=zebraleaf[1-3]
""",
    "nodes.txt": """\
NodeName=nodeq01 Arch=x86_64 CPUAlloc=32 CPUTot=64 AvailableFeatures=zebrafeature,ib Gres=gpu:h100:8(S:0-1)
   NodeAddr=zebra1 NodeHostName=zebra1 OS=Linux zebra 5.14 State=MIXED+DRAIN Owner=xenia Weight=10
   CfgTRES=cpu=64,mem=500G,gres/gpu=8,license/zebrasoft=1 Reason=bad fan [xenia@2025-03-01T10:00:00]
""",
    "sinfo.txt": """\
PARTITION|AVAIL|TIMELIMIT|NODES|STATE|NODELIST|GRES|REASON
g*|up|3-00:00:00|2|mix|nodeq[01-02]|gpu:h100:8(S:0-1)|none
g*|up|3-00:00:00|1|drain*|nodeq03|gpu:h100:8|xenia broke it
low|up|infinite|0|n/a||(null)|
""",
}
SECRETS: Final = re.compile(r"xenia|zebra|nodeq|fairq|astro|chemy|10\.1\.2\.3")
SACCT: Final = """\
JobID|User|Account|Partition|Submit|Start|End|State|AllocTRES|NodeList
7|xenia|astro|g|2025-03-03T09:00:00|2025-03-03T09:05:00|2025-03-03T11:05:00|COMPLETED|gres/gpu=16|nodeq[01-02]
8|bobby|chemy|g|2025-03-03T09:00:00|2025-03-03T09:05:00|2025-03-03T11:05:00|COMPLETED|gres/gpu=4|nodeqx
"""
SQUEUE: Final = """\
JOBID|USER|ACCOUNT|PARTITION|STATE|TIME|START_TIME|NODES|NODELIST|REASON|TRES_PER_NODE|NAME
9|xenia|astro|g|RUNNING|1:00:00|2025-03-03T11:00:00|2|nodeq[01,03]|None|gres/gpu:h100:4,gres/zebralink:1|zebrajob
10_[1-2%1]|bobby|chemy|g|PENDING|0:00|N/A|1||ReqNodeNotAvail, UnavailableNodes:nodeq[01-02]|gres/gpu:4|zebra
11|xenia|astro|g|PENDING|0:00|N/A|1||Priority|gres/gpu:2|zebra
"""


def written(folder: Path, key: bytes = KEY) -> dict[str, Path]:
    """Write the files, and the same with pseudonyms into a folder of their own."""
    (folder / "public").mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
        pseudonymise("slurm", folder / name, folder / "public" / name, Pseudonyms(key))
    return {name: folder / "public" / name for name in FILES}


def shape(slurm: SlurmCluster) -> list[object]:
    """What a cluster is without names: names become the order in which they first occur."""
    number: dict[str, int] = {}

    def at(name: str) -> int:
        return number.setdefault(name, len(number))

    nodes = [
        (at(one.name), one.gpus, one.gpu_type, at(f"switch {one.switch}"), one.condition, len(one.features), one.weight)
        for one in (*slurm.nodes, *slurm.others)
    ]
    partitions = [
        (one.name, [at(name) for name in one.nodes], one.limit_s, one.priority_tier, one.default, one.grace_s)
        for one in slurm.partitions
    ]
    return [slurm.cluster.groups, nodes, partitions, slurm.scheduling]


@pytest.mark.parametrize(
    "files",
    [
        ["slurm.conf"],  # with the two files beside it
        ["slurm.conf", "gres.conf", "topology.conf", "nodes.txt", "sinfo.txt"],
        ["nodes.txt"],
        ["sinfo.txt"],
    ],
)
def test_files_of_slurm_give_an_equal_cluster_without_names(tmp_path: Path, files: list[str]) -> None:
    public = written(tmp_path)
    before, report = read_slurm_cluster(*(tmp_path / name for name in files))
    after, again = read_slurm_cluster(*(public[name] for name in files))
    old, new = shape(before), shape(after)
    if "slurm.conf" in files:  # licences are no names that a reader needs
        assert dict(before.scheduling.tres_weights) == {**after.scheduling.tres_weights, "license/zebrasoft": 5}
        assert [*after.scheduling.accounted] == [one for one in before.scheduling.accounted if "license" not in one]
        old, new = old[:-1], new[:-1]
        assert after.scheduling.weights == before.scheduling.weights
        assert after.scheduling.parameters == before.scheduling.parameters
        assert after.scheduling.max_age_s == before.scheduling.max_age_s
    assert old == new
    assert {node.name for node in after.nodes}.isdisjoint(node.name for node in before.nodes)
    assert (report.kept, report.dropped, report.notes) == (again.kept, again.dropped, again.notes)
    for path in public.values():
        assert not SECRETS.findall(path.read_text()), path


def test_all_samples_of_the_reader_stay_equal(tmp_path: Path) -> None:
    texts = {"slurm.conf": CONF, "gres.conf": GRES, "topology.conf": TOPOLOGY, "shown.txt": SHOWN, "sinfo.txt": SINFO}
    (tmp_path / "public").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        pseudonymise("slurm", tmp_path / name, tmp_path / "public" / name, Pseudonyms(KEY))
    for names in (["slurm.conf"], list(texts), ["shown.txt"], ["sinfo.txt"]):
        old, new = (
            read_slurm_cluster(*(folder / one for one in names))[0] for folder in (tmp_path, tmp_path / "public")
        )
        assert shape(old) == shape(new)


def test_log_queue_and_configuration_have_the_same_names(tmp_path: Path) -> None:
    """By the command: users, accounts and nodes of the three files agree, and no file holds an original."""
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "squeue.txt").write_text(SQUEUE)
    (tmp_path / "slurm.conf").write_text(FILES["slurm.conf"])
    out = tmp_path / "public"
    out.mkdir()
    for source, name in (
        (f"slurm:{tmp_path / 'sacct.txt'}", "sacct.txt"),
        (f"squeue:{tmp_path / 'squeue.txt'}", "squeue.txt"),
        (str(tmp_path / "slurm.conf"), "slurm.conf"),
    ):
        command = ["traces", "pseudonymise", source, "--key", str(tmp_path / "key"), "--output", str(out / name)]
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, shown.output
        assert not SECRETS.findall((out / name).read_text())
    names = {node.name for node in read_slurm_cluster(out / "slurm.conf")[0].nodes}
    queue, before = read_squeue(out / "squeue.txt"), read_squeue(tmp_path / "squeue.txt")
    log = (out / "sacct.txt").read_text()
    assert set(re.findall(r"node-\w+", log)) | set(queue.node_names) <= names
    assert set(queue.node_names) & set(re.findall(r"node-\w+", log))
    users = read_trace(f"slurm:{out / 'sacct.txt'}")[0].attributes["user"].tolist()
    assert [job.user for job in (*queue.running, *queue.queued)] == [users[0], users[0]]
    assert [(job.gpus, job.partition, job.waits) for job in (*queue.running, *queue.queued)] == [
        (job.gpus, job.partition, job.waits) for job in (*before.running, *before.queued)
    ]
    assert (len(queue.held), queue.time_s) == (len(before.held), before.time_s) == (1, queue.time_s)
    accounts = set(re.findall(r"account-\w+", log))
    assert accounts == set(re.findall(r"account-\w+", (out / "slurm.conf").read_text()))
    # the queue of the other spelling of squeue, too
    plain = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n 7 g zebra job xenia R 1:00 2 nodeq[01-02]\n"
    (tmp_path / "plain.txt").write_text(plain + " 8 g zebra xenia PD 0:00 2 (ReqNodeNotAvail, nodeq03)\n")
    command = ["traces", "pseudonymise", f"squeue:{tmp_path / 'plain.txt'}", "--key", str(tmp_path / "key")]
    assert CliRunner().invoke(app, [*command, "--output", str(out / "plain.txt")]).exit_code == 0
    assert not SECRETS.findall((out / "plain.txt").read_text())
    assert len(read_squeue(out / "plain.txt", queue.time_s, 4).running) == 1


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("Priority", "Priority"),
        ("", ""),
        ("xenia asked for it", "JobHeldAdmin"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs", "Resources"),
        ("zebra NotAvail", "JobHeldAdmin"),
        ("JobHeldAdmin by xenia", "JobHeldAdmin"),
    ],
)
def test_reasons_of_squeue_hold_no_words_of_people(tmp_path: Path, reason: str, kept: str) -> None:
    """A job is held under its pseudonym if it is held."""
    row = f"9|bobby|PENDING|0:00|1|{reason}|gres/gpu:1\n"
    (tmp_path / "squeue.txt").write_text(f"JOBID|USER|STATE|TIME|NODES|REASON|TRES_PER_NODE\n{row}")
    pseudonymise_squeue(tmp_path / "squeue.txt", tmp_path / "out.txt", Pseudonyms(KEY))
    assert (tmp_path / "out.txt").read_text().splitlines()[1].split("|")[5] == kept
    before, after = (read_squeue(tmp_path / name, 0.0) for name in ("squeue.txt", "out.txt"))
    assert len(before.held) == len(after.held)
    assert len(before.queued) == len(after.queued)


def test_names_of_resources_of_kubernetes(tmp_path: Path) -> None:
    """Those of Kubernetes and of makers of accelerators stay; others get pseudonyms in all places where they occur."""
    mine = "zebra.com/gpu"
    assigned = {"flavors": {mine: "h100", "cpu": "any"}, "resourceUsage": {mine: "8", "cpu": "9"}}
    times = [
        {"type": kind, "status": "True", "lastTransitionTime": f"2025-03-03T{hour}:00:00Z"}
        for kind, hour in (("Admitted", 10), ("Finished", 11))
    ]
    objects = {
        "kueue": {
            "kind": "Workload",
            "metadata": {"name": "zebra1", "creationTimestamp": "2025-03-03T09:00:00Z"},
            "status": {"admission": {"podSetAssignments": [assigned]}, "conditions": times},
        },
        "nodes": {
            "kind": "Node",
            "metadata": {"name": "zebra2", "labels": {"nvidia.com/gpu.product": "H100", "zebra.com/room": "5"}},
            "status": {"allocatable": {mine: "8", "zebra.com/link": "1", "nvidia.com/mig-1g.10gb": 1, "memory": "9Gi"}},
        },
        "quota": {
            "kind": "ClusterQueue",
            "metadata": {"name": "zebra3"},
            "spec": {
                "resourceGroups": [{"flavors": [{"name": "h100", "resources": [{"name": mine, "nominalQuota": 8}]}]}]
            },
        },
        "group": {
            "kind": "PodGroup",
            "metadata": {"name": "zebra4"},
            "spec": {"minResources": {f"requests.{mine}": "8", "count/pods": "2"}},
        },
    }
    public = {}
    for name, made in objects.items():
        (tmp_path / name).write_text(json.dumps(made))
        pseudonymise("kueue", tmp_path / name, tmp_path / "out", Pseudonyms(KEY))
        public[name] = (tmp_path / "out").read_text()
        assert "zebra" not in public[name]
    found = {name: set(re.findall(r"resource-\w+/gpu", text)) for name, text in public.items()}
    assert len(set.union(*found.values())) == 1
    assert all(found.values())
    assert '"nvidia.com/gpu.product": "H100"' in public["nodes"]
    assert all(one in public["nodes"] for one in ('"nvidia.com/mig-1g.10gb"', '"memory"'))
    (tmp_path / "out").write_text(public["nodes"])
    assert read_cluster(f"kubernetes:{tmp_path / 'out'}")[0].describe() == "8 GPUs: 1 nodes x 8 H100 in 1 racks"
    (tmp_path / "out").write_text(public["kueue"])
    jobs, _ = read_trace(f"kueue:{tmp_path / 'out'}", gpu_resource=found["kueue"].pop())
    assert (jobs.jobs["gpus"].tolist(), jobs.attributes["gpu_type"].tolist()) == ([8], ["h100"])


TABLES: Final = {  # file -> source, text
    "sshare.txt": (
        "sshare",
        (
            "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|GrpTRESMins|TRESRunMins\n"
            "root|||0.000000|1500||1.000000||cpu=7|cpu=9\n astro||1|0.5|1500|1.0|1.0||license/zebrasoft=5|\n"
            "  astro|xenia|parent|0.5|1000|0.66|0.66|0.25||\n  astro|bobby|1|0.5|500|0.33|0.33|0.5||\n"
        ),
    ),
    "assoc.txt": (
        "sacctmgr",
        (
            "Cluster|Account|User|ParentName|Partition|Share|GrpTRES|GrpJobs|MaxJobs|Comment\nfairq|root||||||||\n"
            "fairq|astro||root||3|cpu=9,gres/gpu=8,license/zebrasoft=5|7|4|zebra\n"
            "fairq|astro|xenia||g|5|gres/gpu=2|6||\nfairq|chemy||astro||1||||\n"
        ),
    ),
    "events.txt": (
        "sacctmgr",
        (
            "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
            "fairq|nodeq01|2025-03-03T08:00:00|2025-03-03T10:00:00|DOWN*|xenia broke it|root\n"
            "fairq|nodeqx|2025-03-03T08:00:00|Unknown|MIXED+DRAIN|zebra|xenia\n"
        ),
    ),
    "qos.txt": (
        "sacctmgr",
        (
            "Name|Priority|GraceTime|Preempt|PreemptMode|Flags|GrpTRES|MaxWall|MaxTRESPU|MaxJobsPU|Description\n"
            "low|5|00:02:00||requeue|||||4|xenia's\n"
            "high|70|00:00:00|low|cluster||cpu=9,gres/gpu=8,license/zebrasoft=5,mem=zebra|1-00:00:00|gres/gpu=4||zebra\n"
        ),
    ),
}


def table_pseudonyms(folder: Path) -> dict[str, Path]:
    """Write the tables, and the same with pseudonyms, by the command."""
    (folder / "key").write_bytes(KEY)
    found = {}
    for name, (kind, text) in TABLES.items():
        (folder / name).write_text(text)
        found[name] = folder / f"public_{name}"
        files = [f"{kind}:{folder / name}", "--key", str(folder / "key"), "--output", str(found[name])]
        command = ["traces", "pseudonymise", *files]
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, shown.output
    return found


def test_the_kinds_of_tables_are_recognised(tmp_path: Path) -> None:
    """A table of squeue has the columns by which one of sacct is recognised, and more."""
    (tmp_path / "key").write_bytes(KEY)
    queue = "JOBID|NAME|PRIORITY|USER|STATE|TIME|NODES|TRES_PER_NODE\n7|xenia's|9|xenia|RUNNING|5:00|1|gres/gpu:2\n"
    for name, (kind, text) in {**TABLES, "queue.txt": ("squeue", queue)}.items():
        (tmp_path / name).write_text(text)
        files = [str(tmp_path / name), "--key", str(tmp_path / "key"), "--output", str(tmp_path / "out")]
        command = ["traces", "pseudonymise", *files]
        shown = CliRunner().invoke(app, command)
        assert f"out: {kind}, with pseudonyms" in shown.output
        assert "xenia" not in (tmp_path / "out").read_text()


@pytest.mark.parametrize("header", ["Account|User|Share|Name|Preempt", "Account|User|Share|Name|Preempt|Priority"])
def test_only_a_table_of_qos_keeps_a_column_of_names(tmp_path: Path, header: str) -> None:
    (tmp_path / "table.txt").write_text(f"{header}\nastro|xenia|1|xenia|xenia{'|2' * header.endswith('ty')}\n")
    pseudonymise_table("sacctmgr", tmp_path / "table.txt", tmp_path / "out", Pseudonyms(KEY))
    assert "xenia" not in (tmp_path / "out").read_text()


def test_tables_of_sshare_and_sacctmgr_say_the_same_without_names(tmp_path: Path) -> None:
    public, names = table_pseudonyms(tmp_path), Pseudonyms(KEY)
    for path in public.values():
        assert not SECRETS.findall(path.read_text()), path
        assert "bobby" not in path.read_text()
    account, user = (lambda name: names.name("account", name)), (lambda name: names.name("user", name))
    assert read_sshare(public["sshare.txt"]) == {
        (account("astro"), user("xenia")): 1000.0,
        (account("astro"), user("bobby")): 500.0,
    }
    tree = {
        one.name: (one.parent, one.weight, one.most, one.jobs) for one in read_associations(public["assoc.txt"]).tree
    }
    assert tree == {
        account("astro"): ("", 3.0, 8, 7),
        account("chemy"): (account("astro"), 1.0, None, None),
        f"{account('astro')}/{user('xenia')}": (account("astro"), 5.0, 2, 4),
    }
    assert read_qos(public["qos.txt"]) == read_qos(tmp_path / "qos.txt")
    before, after = (read_outages(path) for path in (tmp_path / "events.txt", public["events.txt"]))
    assert after == tuple(one._replace(node=names.name("node", one.node)) for one in before)
    assert len(after) == 2


@pytest.mark.parametrize(
    "column", ["TIME", "TIME_LIMIT", "SUBMIT_TIME", "START_TIME", "NODES", "MAX_NODES", "PRIORITY"]
)
def test_a_name_where_squeue_has_a_number_is_refused(tmp_path: Path, column: str) -> None:
    cells = {"JOBID": "9", "STATE": "PENDING", "TIME": "0:00", "NODES": "1", column: "xenia"}
    (tmp_path / "squeue.txt").write_text(f"{'|'.join(cells)}\n{'|'.join(cells.values())}\n")
    with pytest.raises(TraceError, match=f"line 2, field '{column}'.*could be a name"):
        pseudonymise_squeue(tmp_path / "squeue.txt", tmp_path / "out.txt", Pseudonyms(KEY))


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("sshare.txt", "|1000|", "|xenia|", "line 4, field 'rawusage'"),
        ("assoc.txt", "|3|", "|xenia|", "line 3, field 'share'"),
        ("assoc.txt", "Share", "Shares", "no column share; write the file with sacctmgr"),
        ("qos.txt", "00:02:00", "xenia", "line 2, field 'gracetime'"),
        ("events.txt", "DOWN*", "xenia's fault", "line 2, field 'state'"),
        ("events.txt", "2025-03-03T10:00:00", "xenia", "line 2, field 'timeend'"),
    ],
)
def test_a_text_where_a_number_belongs_is_refused(tmp_path: Path, name: str, old: str, new: str, told: str) -> None:
    kind, text = TABLES[name]
    (tmp_path / name).write_text(text.replace(old, new, 1))
    with pytest.raises(TraceError, match=told):
        pseudonymise_table(kind, tmp_path / name, tmp_path / "out", Pseudonyms(KEY))
    assert not (tmp_path / "out").exists()


def test_dependencies_of_squeue_name_the_same_jobs(tmp_path: Path) -> None:
    rows = SQUEUE.splitlines()
    rows = [f"{rows[0]}|DEPENDENCY", f"{rows[1]}|", f"{rows[3]}|".replace("Priority", "Dependency")]
    for text, told in (("afterok:9+5(unfulfilled)", True), ("xenia's", False)):
        (tmp_path / "squeue.txt").write_text("\n".join([*rows[:2], rows[2] + text]) + "\n")
        pseudonymise_squeue(tmp_path / "squeue.txt", tmp_path / "out", Pseudonyms(KEY))
        assert not SECRETS.findall((tmp_path / "out").read_text())
        found = read_squeue(tmp_path / "out")
        assert [job.dependency for job in found.queued] == [f"afterok:{found.running[0].id}+5"] * told
        assert len(found.held) == (not told)


def test_node_counts_of_squeue_stay_equal(tmp_path: Path) -> None:
    (tmp_path / "squeue.txt").write_text(
        "JOBID|STATE|TIME|NODES|MAX_NODES|REASON|TRES_ALLOC|TRES_PER_NODE\n"
        "1|PENDING|0:00|1|0|Priority|gres/gpu=16|N/A\n"
        "2|PENDING|0:00|1|2|Priority|gres/gpu=16|\n"
        "3|PENDING|0:00|1|0|Priority|gres/gpu=16|\n"
        "4|PENDING|0:00|1|0|Priority|gres/gpu=16|gres/zebra:2\n"
        "5|PENDING|0:00|2|0|Priority|gres/gpu=8|gres/gpu:4\n"
    )
    pseudonymise_squeue(tmp_path / "squeue.txt", tmp_path / "out.txt", Pseudonyms(KEY))
    assert not SECRETS.findall((tmp_path / "out.txt").read_text())
    before, after = (
        [(job.gpus, job.min_nodes, job.max_nodes) for job in read_squeue(tmp_path / name, 0.0).queued]
        for name in ("squeue.txt", "out.txt")
    )
    assert before == after == [(16, 1, 16), (16, 1, 2), (16, 1, 1), (16, 1, 1), (8, 2, 2)]


@pytest.mark.parametrize("name", [*FILES, "squeue", *TABLES])
def test_damaged_files_are_refused_or_hold_no_names_of_lists(tmp_path: Path, name: str) -> None:
    """The command writes a file, or an error that names the file; a refused file is not written."""
    (tmp_path / "key").write_bytes(KEY)
    for seed in range(EXAMPLES):
        rng = random.Random(seed)
        kind, text = {"squeue": ("squeue", SQUEUE), **TABLES}.get(name) or ("slurm", FILES[name])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(max(len(text), 1))
            text = (
                text[:at]
                + rng.choice(["", "[", "]", "=", "|", "\n", "\\", "x", "9" * 30, '"'])
                + text[at + rng.randint(0, 4) :]
            )
        path, out = tmp_path / "damaged", tmp_path / f"out{seed}"
        path.write_text(text)
        command = ["traces", "pseudonymise", f"{kind}:{path}", "--key", str(tmp_path / "key"), "--output", str(out)]
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code in (0, 2), (seed, shown.output, shown.exception)
        assert out.exists() == (shown.exit_code == 0), seed
        assert shown.exit_code == 0 or "damaged" in shown.output.replace("\n", ""), seed


@pytest.mark.parametrize(
    "text", ['{"jobs": [{"job_id": 7}]}', '{"nodes": [{"name": "zebra"}]}', "- topology: t\n  flat: true\n"]
)
def test_json_and_yaml_of_slurm_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "zebra").write_text(text)
    with pytest.raises(TraceError, match="gets no pseudonyms; give the table of text"):
        pseudonymise("slurm", tmp_path / "zebra", tmp_path / "out", Pseudonyms(KEY))
    for kind in ("squeue", "sshare") if text[0] == "{" else ():
        with pytest.raises(TraceError, match="JSON of Slurm gets no pseudonyms; give the table of text"):
            writer_of(kind)(tmp_path / "zebra", tmp_path / "out", Pseudonyms(KEY))


def test_an_include_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("Include /etc/slurm/zebra.conf\nNodeName=a Gres=gpu:1\n")
    with pytest.raises(TraceError, match="line 1, field 'Include'"):
        pseudonymise("slurm", tmp_path / "slurm.conf", tmp_path / "out", Pseudonyms(KEY))
    assert not (tmp_path / "out").exists()
