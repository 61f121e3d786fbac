"""Slurm's own files as a cluster: configuration, records of scontrol, tables of sinfo."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.cli.parsing import chosen_cluster
from gpusched_env.errors import TraceError
from gpusched_env.traces import ReadReport, SlurmCluster, SlurmNode, read_cluster, read_slurm_cluster
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.slurm_files.description import CONDITIONS
from gpusched_env.traces.slurm_files.gres import gpus_of
from gpusched_env.traces.slurm_files.hostlists import MOST_NAMES, names_in
from gpusched_env.traces.slurm_files.reading import OFF, SLICES

PLACE = Place("slurm.conf", 1)

CONF = """\
# A cluster of three kinds of nodes
ClusterName=fair  SlurmctldHost=ctl  # the controller
SCHEDULERTYPE=sched/backfill
SchedulerParameters=bf_interval=60,bf_continue,\\
bf_window=4320
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=0
PriorityWeightTRES=CPU=10,GRES/gpu=2000
PriorityMaxAge=14-0
PriorityFlags=fair_tree,SMALL_RELATIVE_TO_TIME
PreemptType=preempt/partition_prio
PreemptMode=requeue
AccountingStorageTRES=gres/gpu,gres/gpu:h100
NodeName=DEFAULT RealMemory=512000 Weight=10
NodeName=g[01-04] CPUs=64 Gres=gpu:h100:8 Feature=nvl,ib
nodename=h[1-3] cpus=64 gres=gpu:4 State=UNKNOWN
NodeName=DEFAULT Weight=1
NodeName=c[001-010] CPUs=128
NodeSet=fast Feature=nvl
PartitionName=DEFAULT MaxTime=3-00:00:00 State=UP
PartitionName=gpu Nodes=fast,h[1-3] Default=YES DefaultTime=04:00:00 \\
  PriorityTier=2 PreemptMode=REQUEUE GraceTime=60 TRESBillingWeights="CPU=1,Mem=0.25G, GRES/gpu=8"
PartitionName=all Nodes=ALL MaxTime=UNLIMITED
"""
GRES = "AutoDetect=nvml\nNodeName=h[1-3] Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-15\nName=shard Count=8\n"
TOPOLOGY = """\
SwitchName=leaf1 Nodes=g[01-02]
SwitchName=leaf2 Nodes=g[03-04]
SwitchName=leaf3 Nodes=h1
SwitchName=leaf4 Nodes=h[2-3]
SwitchName=spine Switches=leaf[1-4]
"""
SHOWN = """\
NodeName=g01 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=32 CPUEfctv=64 CPUTot=64 CPULoad=0.10
   AvailableFeatures=nvl,ib
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=g01 NodeHostName=g01 Version=24.05.3
   OS=Linux 5.14.0-427.el9.x86_64 #1 SMP PREEMPT_DYNAMIC Fri Apr 12
   State=MIXED+PLANNED ThreadsPerCore=2 TmpDisk=0 Weight=10 Owner=N/A
   CfgTRES=cpu=64,mem=500G,billing=64,gres/gpu=8
   AllocTRES=cpu=32,gres/gpu=4

NodeName=g02 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUTot=64 Gres=gpu:h100:8(S:0-1) State=IDLE+DRAIN CfgTRES=cpu=64,gres/gpu=8
   Reason=bad fan in slot 3 [root@2025-03-01T10:00:00]

NodeName=c001 CPUAlloc=0 CPUTot=128 Gres=(null) State=DOWN*+NOT_RESPONDING CfgTRES=cpu=128
"""
SINFO = """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST GRES
gpu*         up 3-00:00:00      2    mix g[01-02] gpu:h100:8(S:0-1)
gpu*         up 3-00:00:00      1 drain* g03 gpu:h100:8(S:0-1)
long         up   infinite      2    mix g[01-02] gpu:h100:8(S:0-1)
"""
FILES = {"slurm.conf": CONF, "gres.conf": GRES, "topology.conf": TOPOLOGY, "nodes.txt": SHOWN, "sinfo.txt": SINFO}


def read(folder: Path, **texts: str) -> tuple[SlurmCluster, ReadReport]:
    """Read files whose names are the keywords with ``_`` for a dot."""
    paths = []
    for name, text in texts.items():
        paths.append(folder / name.replace("_", "."))
        paths[-1].write_text(text)
    return read_slurm_cluster(*paths)


def groups(slurm: SlurmCluster) -> list[tuple[int, int, str, int | None]]:
    return [(group.count, group.gpus, group.gpu_type, group.nodes_per_rack) for group in slurm.cluster.groups]


def test_a_configuration_is_a_cluster_with_partitions(tmp_path: Path) -> None:
    slurm, report = read(tmp_path, slurm_conf=CONF)
    assert groups(slurm) == [(4, 8, "h100", None), (3, 4, "V100", None)]
    assert [node.name for node in slurm.nodes] == ["g01", "g02", "g03", "g04", "h1", "h2", "h3"]
    assert len(slurm.others) == 10
    assert (slurm.others[0].name, slurm.others[0].weight, slurm.nodes[0].weight) == ("c001", 1, 10)
    gpu, everything = slurm.partitions
    assert gpu.default
    assert (gpu.name, gpu.max_time_s, gpu.default_time_s, gpu.limit_s) == ("gpu", 259_200, 14_400, 14_400)
    assert (gpu.priority_tier, gpu.preempt_mode, gpu.grace_s) == (2, "REQUEUE", 60)
    assert gpu.settings["tresbillingweights"] == "CPU=1,Mem=0.25G, GRES/gpu=8"
    assert (slurm.rows_of(gpu), slurm.gpus_of(gpu)) == (tuple(range(7)), 44)
    assert (everything.limit_s, len(everything.nodes), everything.priority_tier) == (math.inf, 17, 1)
    assert (report.rows, report.kept, report.dropped) == (17, 7, {"no GPUs": 10})
    assert "partition gpu (default): 7 nodes, 44 GPUs, limit 72 h, tier 2" in report.describe()


def test_scheduling_parameters(tmp_path: Path) -> None:
    scheduling = read(tmp_path, slurm_conf=CONF)[0].scheduling
    assert scheduling.backfill
    assert scheduling.parameters == {"bf_interval": "60", "bf_continue": "", "bf_window": "4320"}
    assert scheduling.weights == {"age": 1_000, "fairshare": 10_000}
    assert scheduling.tres_weights == {"cpu": 10, "gres/gpu": 2_000}
    assert (scheduling.max_age_s, scheduling.half_life_s) == (14 * 86_400, 7 * 86_400)
    assert scheduling.priority_flags == ("FAIR_TREE", "SMALL_RELATIVE_TO_TIME")
    assert (scheduling.preempt_type, scheduling.preempt_mode) == ("preempt/partition_prio", "REQUEUE")
    assert scheduling.accounted == ("gres/gpu", "gres/gpu:h100")
    builtin, report = read(tmp_path, slurm_conf="SchedulerType=sched/builtin\nNodeName=n Gres=gpu:1\n")
    assert not builtin.scheduling.backfill
    assert "AccountingStorageTRES does not list gres/gpu" in report.describe()


def test_files_beside_a_configuration_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text(GRES)
    (tmp_path / "topology.conf").write_text(TOPOLOGY)
    slurm, report = read(tmp_path, slurm_conf=CONF)
    assert groups(slurm) == [(4, 8, "h100", 2), (1, 4, "a100", None), (2, 4, "a100", None)]
    assert slurm.cluster.racks["nodes"].tolist() == [2, 2, 1, 2]
    assert [slurm.nodes[i].switch for i in (0, 2, 4, 5)] == ["leaf1", "leaf2", "leaf3", "leaf4"]
    assert "files: slurm.conf, gres.conf, topology.conf" in report.describe()
    assert not report.notes


def test_nodes_follow_their_switches(tmp_path: Path) -> None:
    """Row i of nodes is node i of the cluster, also if a switch holds nodes that do not follow one another."""
    topology = "SwitchName=a Nodes=n[1,3]\nSwitchName=b Nodes=n[2,4],m1\nSwitchName=c Switches=a,b\n"
    slurm, report = read(
        tmp_path, slurm_conf="NodeName=n[1-5],m1 Gres=gpu:x:2\nNodeName=m2 Gres=gpu:x:1", t_conf=topology
    )
    assert [node.name for node in slurm.nodes] == ["n1", "n3", "n2", "n4", "m1", "n5", "m2"]
    assert slurm.cluster.nodes["rack"].tolist() == [0, 0, 1, 1, 1, 2, 3]
    assert slurm.cluster.nodes["gpus"].tolist() == [node.gpus for node in slurm.nodes]
    assert sum(report.notes.values()) == 2  # n5 and m2 are on no switch
    mixed = read(
        tmp_path,
        slurm_conf="NodeName=n[1-2] Gres=gpu:x:2\nNodeName=n3 Gres=gpu:x:1",
        t_conf="SwitchName=a Nodes=n[1-3]",
    )
    assert any(remark.startswith("switches with nodes of several kinds") for remark in mixed[1].notes)


def test_blocks_are_racks(tmp_path: Path) -> None:
    blocks = "BlockName=b1 Nodes=g[1-18]\nBlockName=b2 Nodes=g[19-36]\nBlockSizes=18\n"
    slurm, _ = read(tmp_path, slurm_conf="NodeName=g[1-36] Gres=gpu:gb200:4\n", topology_conf=blocks)
    assert groups(slurm) == [(36, 4, "gb200", 18)]


def test_records_of_scontrol(tmp_path: Path) -> None:
    slurm, report = read(tmp_path, nodes_txt=SHOWN)
    assert groups(slurm) == [(2, 8, "h100", None)]
    assert [node.state for node in slurm.nodes] == ["MIXED+PLANNED", "IDLE+DRAIN"]
    assert slurm.conditions == {"up": 1, "drained": 1}
    assert slurm.nodes[0].features == ("nvl", "ib")
    assert (report.dropped, slurm.others[0].condition) == ({"no GPUs": 1}, "down")
    assert "note 1: nodes drained, when the files were written; they stay in the cluster" in report.describe()
    one_line = "\n".join(" ".join(record.split()) for record in SHOWN.split("\n\n"))  # scontrol -o
    assert read(tmp_path, one_txt=one_line)[0].nodes == slurm.nodes


def test_the_states_of_scontrol_complete_a_configuration(tmp_path: Path) -> None:
    shown = SHOWN + "PartitionName=gpu\n AllowGroups=ALL Default=NO\n MaxTime=1-00:00:00 TotalNodes=7\n"
    slurm, _ = read(tmp_path, nodes_txt=shown, slurm_conf=CONF)
    assert [node.condition for node in slurm.nodes[:3]] == ["up", "drained", "unknown"]
    assert (slurm.partitions[0].max_time_s, slurm.partitions[0].default) == (86_400, False)
    assert slurm.gpus_of(slurm.partitions[0]) == 44


def test_tables_of_sinfo(tmp_path: Path) -> None:
    slurm, report = read(tmp_path, sinfo_txt=SINFO)
    assert groups(slurm) == [(3, 8, "h100", None)]
    assert report.rows == 3  # a node that is repeated for each partition counts once
    assert [(p.name, p.default, p.max_time_s, len(p.nodes)) for p in slurm.partitions] == [
        ("gpu", True, 259_200, 3),
        ("long", False, math.inf, 2),
    ]
    assert [node.condition for node in slurm.nodes] == ["up", "up", "down"]
    dated = "Mon Mar  3 09:00:00 2025\n" + SINFO
    assert read(tmp_path, l_txt=dated)[0].nodes == slurm.nodes
    bars = re.sub(r" +", "|", SINFO)
    assert read(tmp_path, b_txt=bars)[0].partitions == slurm.partitions
    with pytest.raises(TraceError, match=r"(?s)no GPUs.*sinfo -o"):
        read(tmp_path, plain_txt=re.sub(r" \S+$", "", SINFO, flags=re.M))
    empty = "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\nold up infinite 0 n/a \n"
    assert [p.name for p in read(tmp_path, s_txt=empty, slurm_conf=CONF)[0].partitions] == ["gpu", "all", "old"]


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        ("", "unknown"), ("IDLE", "up"), ("mix", "up"), ("MIXED+PLANNED", "up"), ("idle~", "up"), ("idle#", "up"),
        ("ALLOCATED+DRAIN", "drained"), ("drng", "drained"), ("drain*", "down"), ("DOWN*", "down"),
        ("IDLE+NOT_RESPONDING", "down"), ("maint", "maintenance"), ("idle$", "maintenance"),
        ("IDLE+RESERVED", "reserved"),
        ("MIXED+MAINT+RESERVED", "maintenance"), ("FUTURE", "future"), ("UNKNOWN", "unknown"),
    ],
)  # fmt: skip
def test_conditions(state: str, condition: str) -> None:
    assert condition in CONDITIONS
    assert SlurmNode("n", 1, state=state).condition == condition


def test_gres_conf_alone_and_beside(tmp_path: Path) -> None:
    alone, _ = read(tmp_path, gres_conf="NodeName=g[01-04] Name=gpu Type=h100 File=/dev/nvidia[0-7] Cores=0-15\n")
    assert groups(alone) == [(4, 8, "h100", None)]
    everywhere = "Name=gpu Type=a File=/dev/nvidia[0-1]\nName=gpu Type=b File=/dev/nvidia2,/dev/nvidia3\n"
    split, report = read(tmp_path, slurm_conf="NodeName=n[1-2] Gres=gpu:4\nNodeName=c\n", gres_conf=everywhere)
    assert groups(split) == [(2, 2, "a", None), (2, 2, "b", None)]
    assert (
        report.rows,
        report.kept,
        report.notes["nodes with GPUs of several types, taken as one node for each type"],
    ) == (3, 2, 2)
    unequal = read(tmp_path, slurm_conf="NodeName=n Gres=gpu:4\n", gres_conf="Name=gpu Type=a File=/dev/nvidia0\n")
    assert groups(unequal[0]) == [(1, 4, "a", None)]
    assert "whose number of GPUs is another in gres.conf" in unequal[1].describe()


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("gpu", {"": 1}), ("gpu:8", {"": 8}), ("gpu:h100", {"h100": 1}), ("gpu:h100:8(S:0-1)", {"h100": 8}),
        ("gpu:a:2,gpu:b:2(S:0,1),mps:400", {"a": 2, "b": 2}), ("(null)", {}), ("gpu:a:no_consume:4", {"a": 4}),
        ("cpu=64,mem=500G,gres/gpu=8", {"": 8}), ("gpu:0", {}), ("shard:8,gpu:a:1K", {"a": 1_024}), ("gpumem:80G", {}),
    ],
)  # fmt: skip
def test_gres(text: str, counts: dict[str, int]) -> None:
    assert gpus_of(PLACE, "Gres", text) == counts


def test_slices_and_future_nodes_are_counted(tmp_path: Path) -> None:
    text = "NodeName=a Gres=gpu:1g.10gb:7\nNodeName=b Gres=gpu:8 State=FUTURE\nNodeName=c Gres=gpu:8\n"
    slurm, report = read(tmp_path, slurm_conf=text + "DownNodes=c State=FAIL\nPartitionName=p Nodes=a,x\n")
    assert report.dropped == {"only slices of GPUs (MIG)": 1, "FUTURE: it does not exist yet": 1}
    assert slurm.conditions == {"down": 1}
    assert report.notes["names in partitions that no file describes as nodes; left out"] == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("g[01-03,07],h1", "g01 g02 g03 g07 h1"), ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"), ("n", "n"), ("", ""),
        ("g[08-11]", "g08 g09 g10 g11"), ("g[8-11]", "g8 g9 g10 g11"), ("n[1-2]-ib, m", "n1-ib n2-ib m"),
        ("g[099-101]", "g099 g100 g101"),
    ],
)  # fmt: skip
def test_lists_of_names(text: str, names: str) -> None:
    assert names_in(PLACE, "Nodes", text) == tuple(names.split())


@pytest.mark.parametrize(
    "text", ["g[1-", "g1]", "g[]", "g[a-b]", "g[3-1]", ",g1", "g1,,g2", "g[1-2", "[[1]]", "g[1-2000000]"]
)
def test_malformed_lists_are_refused(text: str) -> None:
    with pytest.raises(TraceError, match=r"slurm.conf, line 1, field 'Nodes'.*correct it"):
        names_in(PLACE, "Nodes", text)


def test_long_lists_are_refused_before_they_are_made() -> None:
    with pytest.raises(TraceError, match=f"{MOST_NAMES:,} names"):
        names_in(PLACE, "Nodes", "a[1-9999]b[1-9999]c[1-9999]")


@settings(max_examples=100)
@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=30, unique=True), st.integers(1, 5), st.integers(0, 1_000))
def test_lists_of_names_are_those_that_were_folded(numbers: list[int], width: int, seed: int) -> None:
    """A list that is folded as Slurm folds it, into ranges of numbers of equal width, gives back the names."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    random.Random(seed).shuffle(ranges)
    folded = ",".join(f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in ranges)
    expected = [f"n{number:0{width}}x" for a, b in ranges for number in range(a, b + 1)]
    assert list(names_in(PLACE, "Nodes", f"n[{folded}]x")) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CONF + "Include /etc/slurm-x/n.conf\n", r"line 25, field 'Include': '/etc/slurm-x/n.conf': no such file"),
        (CONF + "include nodes.conf\n", r"line 25, field 'Include': 'nodes.conf': .*/nodes.conf: no such file"),
        ("include slurm.conf\n", r"line 1, field 'Include': 'slurm.conf': more than 10 files inside"),
        (
            CONF + "NodeName=g01 Gres=gpu:1\n",
            "line 25, field 'NodeName': 'g01': this node occurs twice, first in line 16",
        ),
        (CONF + "PartitionName=gpu Nodes=g01\n", "line 25, field 'PartitionName': 'gpu'.*occurs twice"),
        (CONF + "NodeName=x Gres=gpu:x:y\n", "line 25, field 'Gres': 'gpu:x:y'"),
        (CONF + "NodeName=x Gres=gpu:9999999\n", "line 25, field 'Gres'.*1,000,000"),
        (CONF + "PartitionName=p MaxTime=soon\n", "line 25, field 'MaxTime': 'soon'"),
        (CONF + "PartitionName=p PriorityTier=-1\n", "line 25, field 'PriorityTier': '-1'"),
        (CONF + "PartitionName=p Nodes=g[1-\n", "line 25, field 'Nodes': 'g\\[1-'"),
        (CONF + "PriorityWeightQOS=much\n", "line 25, field 'PriorityWeightqos': 'much'"),
        (CONF + "NodeName=x Gres = gpu:1 stray\n", "line 25, field 'line': 'stray': expected KEY=VALUE"),
        (CONF + "NodeName=x Gres=gpu:1 gres=gpu:2\n", "line 25, field 'gres': 'gpu:2': this key occurs twice"),
        ("NodeName=c[1-9]\n", "no GPUs"),
        ("a table\n1 2 3\n", "not a file of Slurm"),
        ("# nothing\n", "not a file of Slurm"),
        ("NodeName=a[1-600] Gres=gpu:2000\n", "1,200,000 GPUs, more than 1,000,000"),
    ],
)
def test_malformed_configurations_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=f"(?s)slurm.conf.*{message}"):
        read(tmp_path, slurm_conf=text)


def test_a_node_on_two_leaf_switches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"topology.conf, line 6, field 'Nodes': 'g01': this node is on leaf1 too"):
        read(tmp_path, slurm_conf=CONF, topology_conf=TOPOLOGY + "SwitchName=leaf9 Nodes=g01\n")


def test_the_command_line_takes_a_configuration_as_a_cluster(tmp_path: Path) -> None:
    read(tmp_path, slurm_conf=CONF, s_txt=SINFO)
    path = str(tmp_path / "slurm.conf")
    assert chosen_cluster(path)[0].gpus == chosen_cluster(f"slurm:{path}")[0].gpus == 44
    assert read_cluster(f"slurm:{path},{tmp_path / 's.txt'}")[0].gpus == 44
    shown = CliRunner().invoke(app, ["traces", "cluster", f"slurm:{path}"])
    assert "44 GPUs in 7 nodes in 2 racks" in shown.output
    played = CliRunner().invoke(
        app, ["run", "--cluster", path, "--profiles", "unit", "--scheduler", "fifo", "--jobs", "5"]
    )
    assert played.exit_code == 0, played.output


def test_json_of_scontrol_is_read_as_its_records_are(tmp_path: Path) -> None:
    nodes = [
        {"name": "g1", "gres": "gpu:h100:8(S:0-1)", "state": ["MIXED", "PLANNED"], "features": ["nvl", "ib"],
         "tres": "cpu=64,gres/gpu=8", "weight": 1},
        {"name": "g2", "gres": "gpu:h100:8", "state": "idle", "state_flags": ["DRAIN"], "features": "", "weight": 2},
        {"name": "c1", "gres": "", "state": ["IDLE"], "features": [], "weight": {"set": True, "number": 3}},
    ]  # fmt: skip
    none = {"set": False, "infinite": False, "number": 0}
    partitions = [
        {"name": "gpu", "nodes": {"configured": "g[1-2]", "total": 2}, "defaults": {"time": none}, "grace_time": 0,
         "maximums": {"time": {"set": True, "infinite": False, "number": 1440}}, "partition": {"state": ["UP"]},
         "priority": {"tier": 2, "job_factor": 1}},
        {"name": "long", "nodes": {"configured": "g2"}, "maximums": {"time": none | {"infinite": True}}},
    ]  # fmt: skip
    slurm, report = read(
        tmp_path,
        nodes_json=json.dumps({"nodes": nodes, "last_update": none, "meta": {}, "errors": []}),
        partitions_json=json.dumps({"meta": {}, "partitions": partitions, "errors": []}),
    )
    assert groups(slurm) == [(2, 8, "h100", None)]
    assert [(node.name, node.condition, node.features, node.weight) for node in slurm.nodes] == [
        ("g1", "up", ("nvl", "ib"), 1),
        ("g2", "drained", (), 2),
    ]
    assert report.dropped == {"no GPUs": 1}
    assert [(p.name, p.nodes, p.max_time_s, p.default_time_s, p.priority_tier) for p in slurm.partitions] == [
        ("gpu", ("g1", "g2"), 86_400.0, None, 2),
        ("long", ("g2",), math.inf, None, 1),
    ]
    with pytest.raises(TraceError, match="record 1, field 'name'"):
        read(tmp_path, nodes_json='{"nodes": [{"gres": "gpu:8"}]}')
    with pytest.raises(TraceError, match="expected a list nodes or partitions"):
        read(tmp_path, nodes_json='{"jobs": [{"job_id": 7}]}')


def test_included_files_stand_in_place_of_their_lines(tmp_path: Path) -> None:
    """A relative path counts from the folder of slurm.conf, also in a file of another folder, as in Slurm."""
    whole, _ = read(tmp_path, slurm_conf=CONF)
    lines = CONF.splitlines(keepends=True)
    site = tmp_path / "site"
    (site / "parts").mkdir(parents=True)
    (site / "parts" / "nodes.conf").write_text("".join(lines[14:18]) + "include parts/cpu.conf\n")
    (site / "parts" / "cpu.conf").write_text("".join(lines[18:20]))
    (site / "gres.conf").write_text(f"Include {site}/parts/gres.conf\n")
    (site / "parts" / "gres.conf").write_text(GRES)
    (tmp_path / "gres.conf").write_text(GRES)
    text = "".join(lines[:14]) + 'Include "parts/nodes.conf"\n' + "".join(lines[20:])
    (site / "slurm.conf").write_text(text)
    found, _ = read_slurm_cluster(site / "slurm.conf")
    beside, _ = read_slurm_cluster(tmp_path / "slurm.conf")
    assert (found.nodes, found.others, found.partitions, found.settings) == (
        *(beside.nodes, beside.others, beside.partitions, beside.settings),
    )
    assert whole.scheduling == found.scheduling
    only = site / "cloud.conf"
    only.write_text("include slurm.conf\n")
    assert read_slurm_cluster(only)[0].nodes[0].gpus == 8
    (site / "parts" / "nodes.conf").write_text("NodeName=g1 Gres=gpu:x:y\n")
    with pytest.raises(TraceError, match=r"parts/nodes.conf, line 1, field 'Gres': 'gpu:x:y'"):
        read_slurm_cluster(site / "slurm.conf")


TREE = """\
# made by hand
- topology: flat
  flat: true
- topology: default
  cluster_default: true
  tree:
    switches:
      - switch: leaf1
        nodes: g[01-02]
      - switch: leaf2
        nodes: "g[03-04]"
      - {switch: 3, nodes: h1}
      - switch: leaf4
        nodes: h[2-3]
      - switch: spine
        children: leaf[1-2],3,leaf4
"""
BLOCKS = """\
---
- topology: b
  cluster_default: true
  block:
    block_sizes: [18, 36]
    blocks:
      - block: b1
        nodes: g[1-18]
      - block: b2
        nodes: g[19-36]
"""


def test_files_that_include_many_others_are_refused(tmp_path: Path) -> None:
    """Each file includes the next one ten times: 11,110 in all, and ten times more for each further level."""
    for level in range(4):
        (tmp_path / f"f{level}.conf").write_text(f"Include f{level + 1}.conf\n" * 10)
    (tmp_path / "f4.conf").write_text("\n")
    (tmp_path / "slurm.conf").write_text("NodeName=a Gres=gpu:4\nInclude f0.conf\n")
    with pytest.raises(TraceError, match=r"line [0-9]+, field 'Include': .*more than 1,000 files are included; remove"):
        read_slurm_cluster(tmp_path / "slurm.conf")
    (tmp_path / "f0.conf").write_text("Include f4.conf\n" * 999)
    assert len(read_slurm_cluster(tmp_path / "slurm.conf")[0].nodes) == 1


def test_a_topology_of_yaml_is_that_of_its_lines_in_topology_conf(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("SwitchName=other Nodes=g01,h3\n")  # Slurm ignores it beside topology.yaml
    (tmp_path / "topology.yaml").write_text(TREE)
    (tmp_path / "gres.conf").write_text(GRES)
    slurm, report = read(tmp_path, slurm_conf=CONF)
    assert slurm.cluster.racks["nodes"].tolist() == [2, 2, 1, 2]
    assert [slurm.nodes[i].switch for i in (0, 2, 4, 5)] == ["leaf1", "leaf2", "3", "leaf4"]
    assert "files: slurm.conf, gres.conf, topology.yaml" in report.describe()
    (tmp_path / "b").mkdir()
    slurm, _ = read(tmp_path / "b", slurm_conf="NodeName=g[1-36] Gres=gpu:gb200:4\n", t_yaml=BLOCKS)
    assert groups(slurm) == [(36, 4, "gb200", 18)]
    _, report = read(tmp_path / "b", slurm_conf="NodeName=g[1-18] Gres=gpu:gb200:4\n", t_yaml=BLOCKS)
    assert report.notes[OFF] == 18
    for text, words in (
        (BLOCKS.replace("g[19-36]", "g[18-36]"), "record 1, field 'Nodes': 'g18': this node is on b1 too"),
        ("- topology: x\n  tree: [a]\n", "record 1, field 'tree': .*expected switches with the keys switch and nodes"),
        (BLOCKS.replace("blocks:", "blocks: ["), "YAML is cut or damaged"),
        (BLOCKS.replace("g[19-36]", "[g19, g20]"), "record 1, field 'blocks': .*expected block: NAME and nodes: LIST"),
        (BLOCKS.replace("g[19-36]", "{a: g20}"), "record 1, field 'blocks': .*expected block: NAME and nodes: LIST"),
        (BLOCKS.replace("block: b2", "name: b2"), "record 1, field 'blocks': .*expected block: NAME"),
        ("- topology: x\n  block:\n    blocks: [g1]\n", "record 1, field 'blocks': 'g1': expected block: NAME"),
        (BLOCKS.replace("block: b2", "block: *b"), r"the YAML has the alias \*b, .* in line 9; write"),
    ):
        with pytest.raises(TraceError, match=words):
            read(tmp_path / "b", slurm_conf="NodeName=g[1-36] Gres=gpu:gb200:4\n", t_yaml=text)


def test_whole_gpus_beside_slices_are_kept(tmp_path: Path) -> None:
    text = "NodeName=a[1-2] Gres=gpu:a100:4,gpu:a100_3g.20gb:1,gpu:H100_1c.7g.80gb:1\nNodeName=b Gres=gpu:1g.10gb:7\n"
    slurm, report = read(tmp_path, slurm_conf=text)
    assert groups(slurm) == [(2, 4, "a100", None)]
    assert (report.dropped, report.notes[SLICES]) == ({"only slices of GPUs (MIG)": 1}, 4)
