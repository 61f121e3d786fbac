"""A name planted in any field of any format does not leave; names that stay by design can be hidden, and are listed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest
from trace_samples import SAMPLES
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError, TraceError
from gpusched_env.pseudonyms.names import KEPT_ROLES, Pseudonyms
from gpusched_env.traces import read_slurm_cluster, read_trace
from gpusched_env.traces.kubernetes.objects import PRODUCTS
from gpusched_env.traces.kubernetes.pods import GROUPS, QUEUES
from gpusched_env.traces.slurm_files.kinds import DEFAULT
from tests.pseudonyms.test_logs import OWN, SACCT, WORKLOAD
from tests.pseudonyms.test_of_clusters import FILES, KEY, SQUEUE, TABLES
from tests.traces.test_slurm_files import SHOWN
from tools.pseudonyms.slurm_files import KEPT, LISTS
from tools.pseudonyms.tables import TABLES as TABLE_KINDS
from tools.pseudonyms.tables import writer_of
from tools.pseudonyms.writing import pseudonymise

CANARY: Final = "Quentin"
# Ways to write a name into a value; {value} = what is there
PLANTS: Final = (
    "{canary}", "{value} {canary}", "{value}{canary}", "{value},{canary}", "{value}:{canary}", "{value}({canary})",
    "{value} Count=3 {canary} [{canary}@x]", "{value} State={canary}", "{canary}Limit",
)  # fmt: skip
JSON: Final = ("kueue", "kubernetes", "volcano", "json")
POD: Final = {
    "kind": "Pod",
    "metadata": {
        "name": "p", "namespace": "n", "creationTimestamp": "2025-03-03T09:00:00Z", "labels": {PRODUCTS[0]: "H100"},
        "ownerReferences": [{"kind": "PyTorchJob", "name": "j"}],
        "annotations": {**dict.fromkeys(GROUPS, "g"), **dict.fromkeys(QUEUES, "q")},
    },
    "spec": {
        "nodeName": "a", "nodeSelector": {PRODUCTS[0]: "H100"}, "priority": 3, "schedulingGroup": {"podGroupName": "g"},
        "workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "r"},
        "containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/mig-1g.5gb": 1}}}],
    },
    "status": {
        "phase": "Succeeded", "startTime": "2025-03-03T09:00:00Z",
        "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}],
        "containerStatuses": [
            {"state": {"terminated": {"reason": "Completed", "finishedAt": "2025-03-03T10:00:00Z"}}}
        ],
    },
}  # fmt: skip
GROUP: Final = {
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "n", "creationTimestamp": "2025-03-03T09:00:00Z"},
    "spec": {
        "minMember": 2, "minTaskMember": {"worker": 2}, "queue": "q", "priorityClassName": "c",
        "minResources": {"requests.nvidia.com/gpu": "8", "count/pods": 2},
    },
    "status": {
        "phase": "Inqueue", "conditions": [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughTasks"}],
    },
}  # fmt: skip
VOLCANO_QUEUE: Final = {
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"weight": 1, "reclaimable": True, "capability": {"nvidia.com/gpu": "8"}, "parent": "r"},
    "status": {"state": "Open", "running": 3, "reservation": {"nodes": ["a"]}},
}
NODE: Final = {
    "kind": "Node",
    "metadata": {"name": "a", "labels": {PRODUCTS[0]: "NVIDIA-A100-MIG-1g.5gb", "kubernetes.io/hostname": "a"}},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "providerID": "x"},
    "status": {
        "allocatable": {"nvidia.com/gpu": "8", "example.com/gpu": "1", "hugepages-2Mi": "0", "memory": "9Gi"},
        "addresses": [{"type": "Hostname", "address": "a"}], "images": [{"names": ["x"]}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}],
    },
}  # fmt: skip
FLAVORS: Final = [{"flavors": [{"name": "h", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}]}]
CLUSTER_QUEUE: Final = {
    "kind": "ClusterQueue",
    "metadata": {"name": "q"},
    "spec": {
        "cohort": "c", "queueingStrategy": "StrictFIFO", "namespaceSelector": {"matchLabels": {"team": "t"}},
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Any"}, "resourceGroups": FLAVORS,
        "fairSharing": {"weight": "2"},
    },
    "status": {"flavorsUsage": [{"name": "h", "resources": [{"name": "nvidia.com/gpu", "total": "3"}]}]},
}  # fmt: skip
COHORT: Final = {"kind": "Cohort", "metadata": {"name": "c"}, "spec": {"parentName": "r", "resourceGroups": FLAVORS}}
LOCAL_QUEUE: Final = {
    "kind": "LocalQueue",
    "metadata": {"name": "l", "namespace": "n"},
    "spec": {"clusterQueue": "q", "stopPolicy": "None"},
    "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Ready"}]},
}
FLAVOR: Final = {
    "kind": "ResourceFlavor",
    "metadata": {"name": "h", "uid": "u"},
    "spec": {"nodeLabels": {PRODUCTS[0]: "H100"}, "topologyName": "t", "tolerations": [{"key": "k"}]},
}
PRIORITY: Final = {"kind": "WorkloadPriorityClass", "metadata": {"name": "w"}, "value": 10, "description": "d"}
SNAPSHOT: Final = {  # ours: no format of the command
    "time": "2025-03-03T09:00:00", "held": ["7"], "notes": ["n"],
    "running": [{"id": "1", "gpus": 4, "user": "u", "account": "a", "partition": "p", "nodes": {"a": 4}}],
}  # fmt: skip
SHOWN_ALL: Final = SHOWN + (
    "PartitionName=gpu\n   AllowGroups=ALL AllowAccounts=astro AllowQos=low\n   AllocNodes=ALL Default=NO QoS=N/A\n"
    "   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO\n   MaxNodes=UNLIMITED MaxTime=1-0\n"
    "   NodeSets=s\n   Nodes=g0[1-2]\n   PriorityJobFactor=1 PriorityTier=1 OverSubscribe=NO PreemptMode=OFF\n"
    "   State=UP TotalCPUs=64 TotalNodes=2 SelectTypeParameters=NONE\n   TRES=cpu=64,gres/gpu=16\n"
    "   TRESBillingWeights=CPU=1.0,GRES/gpu=8\n"
    "JobId=7 JobName=j\n   UserId=u(1001) GroupId=g(100) Account=a QOS=low\n   JobState=RUNNING Reason=None\n"
    "ReservationName=r StartTime=2025-03-03T09:00:00 Users=u Accounts=a NodeCnt=1 State=ACTIVE\n"
)
# Format and an example, of each kind of file; a new one is planted by an entry here
EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "sacct": ("slurm", re.sub(r"\|(\w*)$", r"|Priority|\1", SACCT, flags=re.M).replace("|Priority|C", "|Reason|C")),
    "csv": ("csv", OWN),
    "squeue": ("squeue", SQUEUE),
    **{name: ("slurm", text) for name, text in FILES.items()},
    "scontrol": ("slurm", SHOWN_ALL),
    **TABLES,
    **{
        name: (kind, json.dumps(record))
        for name, kind, record in (
            ("workload", "kueue", WORKLOAD), ("pod", "kubernetes", POD), ("pod group", "volcano", GROUP),
            ("queue", "volcano", VOLCANO_QUEUE), ("node", "kueue", NODE), ("cluster queue", "kueue", CLUSTER_QUEUE),
            ("cohort", "kueue", COHORT), ("local queue", "kueue", LOCAL_QUEUE), ("flavor", "kueue", FLAVOR),
            ("priority class", "kueue", PRIORITY), ("own snapshot", "kueue", SNAPSHOT),
        )
    },
}  # fmt: skip


def written(folder: Path, kind: str, text: str) -> str | None:
    """Return what is written with all names hidden; None = the file is refused, and nothing is written."""
    path, out = folder / "in", folder / "out"
    path.write_text(text)
    out.unlink(missing_ok=True)
    names = Pseudonyms(KEY, KEPT_ROLES)
    try:
        if kind in TABLE_KINDS:
            writer_of(kind)(path, out, names)
        else:
            pseudonymise(kind, path, out, names)
    except GpuschedError:
        assert not out.exists()
        return None
    return out.read_text()


def leaves(folder: Path, kind: str, text: str) -> bool:
    """Whether the canary is in what is written."""
    return CANARY.lower() in (written(folder, kind, text) or "").lower()


def planted(kind: str, text: str) -> Iterator[str]:
    """Yield the text with the canary in each of its keys, values and titles, and beside them, in each way."""
    if kind in JSON:
        return (json.dumps(made) for made in _in_json(json.loads(text)))
    first = text.lstrip("#").splitlines()[0]
    separator = "|" if "|" in first else "," if kind == "csv" else ""
    return _in_table(text, separator) if separator else _in_pairs(text)


def _ways(value: object) -> list[str]:
    return [plant.format(canary=CANARY, value=value) for plant in PLANTS]


def _in_json(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, one in value.items():
            for made in _in_json(one):
                yield {**value, key: made}
            for name in (CANARY, key + CANARY, f"nvidia.com/{CANARY}", f"hugepages-{CANARY}", f"limits.{CANARY}/gpu"):
                yield {name if old == key else old: new for old, new in value.items()}
        yield {**value, CANARY: CANARY}
        yield {
            **value,
            "name": CANARY,
            "state": CANARY,
            "kind": CANARY,
            "reason": CANARY,
            "labels": {PRODUCTS[0]: CANARY},
        }
    elif isinstance(value, list):
        for at, one in enumerate(value):
            for made in _in_json(one):
                yield [*value[:at], made, *value[at + 1 :]]
        yield [*value, CANARY]
    yield from (*_ways(value if isinstance(value, str | int | float) else ""), [CANARY], {CANARY: CANARY})


def _in_table(text: str, separator: str) -> Iterator[str]:
    rows = [line.split(separator) for line in text.splitlines()]
    for row, cells in enumerate(rows):
        for at, cell in enumerate(cells):
            for value in _ways(cell):
                made = [*cells[:at], value, *cells[at + 1 :]]
                yield "\n".join(separator.join(one) for one in [*rows[:row], made, *rows[row + 1 :]]) + "\n"
    for column in (CANARY, f"Name={CANARY}", "Reason", "Comment", "Name"):
        wide = [[*cells, column if row == 0 else CANARY] for row, cells in enumerate(rows)]
        yield "\n".join(separator.join(cells) for cells in wide) + "\n"
    for line in (f"# {CANARY}", f"; {CANARY}: {CANARY}", CANARY):
        yield f"{line}\n{text}"
        yield f"{text}{line}\n"


def _in_pairs(text: str) -> Iterator[str]:
    keys = cycle((CANARY, "Reason", "Comment", "Extra", "Owner", "OS"))
    for pair in re.finditer(r'(\w+)=("[^"]*"|\S*)', text):
        value = pair[2].strip('"')
        for new in _ways(value):
            quoted = f'"{new}"' if " " in new and "\n   " not in text else new  # only files of Slurm have quotes
            yield text[: pair.start(2)] + quoted + text[pair.end(2) :]
        yield f"{text[: pair.start()]}{next(keys)}={value}{CANARY}{text[pair.end() :]}"
        yield f"{text[: pair.end()]} {next(keys)}={CANARY}{text[pair.end() :]}"
    for line in (f"# {CANARY}", f"{CANARY}={CANARY}", f"JobId=7 UserId={CANARY}(1001)\n   Account={CANARY}", CANARY):
        yield f"{line}\n{text}"
        yield f"{text}{line}\n"


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_field_of_any_format_lets_a_name_out(tmp_path: Path, name: str) -> None:
    kind, text = EXAMPLES[name]
    assert written(tmp_path, kind, text)
    made = list(dict.fromkeys(planted(kind, text)))
    assert len(made) > 50
    leaks = [one for one in made if leaves(tmp_path, kind, one)]
    assert not leaks, f"{len(leaks)} of {len(made)}, such as {leaks[0]}"


@pytest.mark.parametrize("name", sorted({*KEPT, *LISTS, "file", "reason", "comment", "extra", "os", "owner"}))
@pytest.mark.parametrize("shown", [False, True])
def test_no_key_of_slurm_lets_a_name_out(tmp_path: Path, name: str, shown: bool) -> None:
    """In slurm.conf, gres.conf and what scontrol shows."""
    for value in _ways("1"):
        if shown:
            first = "" if name in ("nodename", "partitionname") else "NodeName=g01 "
            texts = [f"{first}{name}={value}\n", f"NodeName=g01 CPUTot=4\n   {name}={value}\n"]
        else:
            quoted = f'{name}="{value}"'
            texts = [f"{first}{quoted}\n" for first in ("", "Name=gpu " * (name != "name"), "PartitionName=p ")]
        for text in texts:
            assert not leaves(tmp_path, "slurm", text), text


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"csv", "kubernetes", "kueue", "slurm", "volcano"}))
def test_formats_without_pseudonyms_are_refused(tmp_path: Path, name: str) -> None:
    """So that no comment or column of theirs leaves."""
    for sample in SAMPLES[name]:
        (tmp_path / "in").write_bytes(sample)
        with pytest.raises(TraceError, match=f"{name} has no pseudonyms"):
            pseudonymise(name, tmp_path / "in", tmp_path / "out", Pseudonyms(KEY))
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text",
    [
        f"XID 79 Count=3 {CANARY} [{CANARY}@2025-03-01T10:00:00]",
        *(f"bad {key}={CANARY}" for key in ("Type", "QoS", "PartitionName", "Name", "AllowQos", "Gres", "State")),
    ],
)
def test_a_reason_of_scontrol_is_a_text_to_its_end(tmp_path: Path, text: str) -> None:
    for key in ("Reason", "Comment", "Extra"):
        path, out = tmp_path / "in", tmp_path / "out"
        path.write_text(SHOWN.replace("Reason=bad fan in slot 3", f"{key}={text}"))
        pseudonymise("slurm", path, out, Pseudonyms(KEY))
        assert CANARY not in out.read_text()


# Words of Slurm's page on job reason codes, doc/html/job_reason_codes.shtml, and of src/common/job_state_reason.c
_WORDS: Final = """
AccountingPolicy AccountNotAllowed AssociationJobLimit AssociationResourceLimit AssociationTimeLimit BadConstraints
BeginTime BurstBufferOperation BurstBufferResources BurstBufferStageIn Cleaning Constraints DeadLine Dependency
DependencyNeverSatisfied FedJobLock FrontEndDown InactiveLimit InvalidAccount InvalidQOS JobArrayTaskLimit JobHeldAdmin
JobHeldUser JobHoldMaxRequeue JobLaunchFailure Licenses MaxMemPerLimit NodeDown None NonZeroExitCode OutOfMemory
PartitionConfig PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit PowerNotAvail PowerReserved
Priority Prolog QOSJobLimit QOSMinCpuNotSatisfied QOSNotAllowed QOSResourceLimit QOSTimeLimit QOSUsageThreshold
RaisedSignal ReqNodeNotAvail Reservation ReservationDeleted ReservationInvalid Resources SchedDefer SystemFailure
TimeLimit AssocGrpCpuLimit AssocGrpJobsLimit AssocGrpMemLimit AssocGrpMemMinutes AssocGrpNodeLimit AssocGrpWallLimit
AssocGrpSubmitJobsLimit AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit AssocMaxCpuPerNode AssocMaxJobsLimit
AssocMaxMemPerNode AssocMaxNodePerJobLimit AssocMaxSubmitJobLimit AssocMaxWallDurationPerJobLimit QOSGrpCpuLimit
QOSGrpJobsLimit QOSGrpMemLimit QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpSubmitJobsLimit
QOSGrpWallLimit QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxCpuPerUserLimit
QOSMaxJobsPerUserLimit QOSMaxMemoryPerUser QOSMaxNodePerJobLimit QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit
QOSMaxWallDurationPerJobLimit QOSMinMemory QOSMinNode MaxCpuPerAccount MaxJobsPerAccount MaxMemoryPerAccount
MaxNodePerAccount MaxSubmitJobsPerAccount
"""
REASONS: Final = _WORDS.split() + [
    word.format(amount)
    for amount in ("BB", "Billing", "Energy", "GRES", "License", "Unknown")
    for word in (
        "AssocGrp{}", "AssocGrp{}Minutes", "AssocGrp{}RunMinutes", "AssocMax{}PerJob", "AssocMax{}PerNode",
        "AssocMax{}MinutesPerJob", "QOSGrp{}", "QOSGrp{}Minutes", "QOSGrp{}RunMinutes", "QOSMax{}PerJob",
        "QOSMax{}PerNode", "QOSMax{}PerUser", "QOSMax{}MinutesPerJob", "QOSMin{}", "Max{}PerAccount",
    )
]  # fmt: skip
TEXTS: Final = (
    "{}Limit", "Assoc{}", "QOS{}", "QOSGrp{}Limit", "Max{}PerUser", "JobHeld{}", "{}RequeuedHeld", "{}Maintenance",
    "Dependency{}", "Reservation{}", "Account{}", "Partition{}", "Req{}NotAvail", "Priority {}", "{}",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["slurm", "squeue"])
def test_reasons_are_those_that_slurm_has(tmp_path: Path, kind: str) -> None:
    """A text that looks like a reason is none: xeniaLimit, AssocXenia."""
    cells = {"JobID": "7", "Submit": "0", "Start": "0", "End": "0", "AllocTRES": "gres/gpu=1"}
    cells |= {"TIME": "0:00"} if kind == "squeue" else {}
    texts = [text.format(CANARY) for text in TEXTS]
    rows = ["|".join([*cells.values(), "PENDING", reason]) for reason in (*REASONS, *texts)]
    out = (written(tmp_path, kind, "\n".join(["|".join([*cells, "State", "Reason"]), *rows]) + "\n") or "").splitlines()
    at = out[0].lower().split("|").index("reason")
    told = [line.split("|")[at] for line in out[1:]]
    assert told[: len(REASONS)] == REASONS
    assert CANARY not in "".join(told)


def test_seldom_words_of_slurm_are_kept(tmp_path: Path) -> None:
    """States of jobs that flags give, parameters of the scheduler, and states of nodes with signs behind them."""
    for state in ("RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT", "RD", "SI", "SO", "CONFIGURI+"):
        made = written(tmp_path, "squeue", f"JOBID|STATE|TIME\n7|{state}|0:00\n")
        assert f"|{state}|" in str(made)
    told = "bf_allow_magnetic_slot,bf_yield_rpc_cnt=5,kill_invalid_depend,bf_hetjob_prio=min"
    assert told in str(written(tmp_path, "slurm", f"SchedulerParameters={told},bf_{CANARY},xbf_interval=3\n"))
    for state in ("allocated+", "idle~", "mixed-", "CANC_R", "powering_up", "down$"):
        made = written(tmp_path, "slurm", f"PARTITION|STATE|NODELIST\ng|{state}|a\n")
        assert f"|{state}|" in str(made)


@pytest.mark.parametrize("name", ["a100_1g.10gb", "1g.5gb", "3g.40gb+me", "nvidia_a100-1g.5gb"])
def test_a_slice_with_a_pseudonym_is_still_a_slice(tmp_path: Path, name: str) -> None:
    """Readers know slices of GPUs by their profile, in logs and in files that describe nodes."""
    (tmp_path / "conf").write_text(f"NodeName=a Gres=gpu:{name}:7\nNodeName=b Gres=gpu:h100:4\n")
    row = f"|0|0|9|COMPLETED|gres/gpu:{name}=1,gres/gpu=1\n"
    (tmp_path / "log").write_text(f"JobID|Submit|Start|End|State|AllocTRES\n7{row}8{row.replace(name, 'h100')}")
    for file in ("conf", "log"):
        pseudonymise("slurm", tmp_path / file, tmp_path / f"public_{file}", Pseudonyms(KEY, ["type"]))
        assert "a100" not in (tmp_path / f"public_{file}").read_text()
    for before in ("", "public_"):
        slurm, report = read_slurm_cluster(tmp_path / f"{before}conf")
        assert (slurm.cluster.gpus, report.dropped) == (4, {"only slices of GPUs (MIG)": 1})
        assert len(read_trace(f"slurm:{tmp_path / f'{before}log'}")[0]) == 1
    names = Pseudonyms(KEY, ["type"])
    assert names.keep("type", "a100_1g.10gb") == f"{names.keep('type', 'a100')}_1g.10gb"


def test_a_column_that_the_user_mapped_is_written_under_its_role(tmp_path: Path) -> None:
    text = f"{CANARY}'s id,submit,gpus,time of {CANARY} (ms),User\n1,0,1,5000,x\n"
    mapping = {"id": f"{CANARY}'s id", "duration_ms": f"time of {CANARY} (ms)"}
    (tmp_path / "in").write_text(text)
    pseudonymise("csv", tmp_path / "in", tmp_path / "out", Pseudonyms(KEY), mapping)
    assert (tmp_path / "out").read_text().splitlines()[0] == "id,duration_ms,submit,gpus,User"
    assert read_trace(f"csv:{tmp_path / 'out'}")[0].jobs["duration_s"].tolist() == [5.0]


def test_forms_of_one_name_are_one_name(tmp_path: Path) -> None:
    """NFC and NFD, blanks around it, and the number of a user behind it, which sacctmgr list event writes."""
    names = Pseudonyms(KEY, ["partition"])
    assert names.name("user", "xenia(1001)") == names.name("user", " xenia ") == names.name("user", "xenia")
    assert names.name("user", "Ren\u00e9") == names.name("user", "Rene\u0301")
    assert names.name("node", "xenia(1001)") != names.name("node", "xenia")
    assert names.keep("partition", "Rene\u0301 ") == names.keep("partition", "Ren\u00e9") != ""


def test_objects_of_kueue_and_volcano_keep_their_references(tmp_path: Path) -> None:
    """Also those that kubectl writes in full: lists of names, and the state of a queue."""
    queue = {**LOCAL_QUEUE, "status": {"flavors": [{"name": "h", "resources": ["nvidia.com/gpu"]}]}}
    lines = "\n".join(json.dumps(one) for one in (FLAVOR, CLUSTER_QUEUE, queue, VOLCANO_QUEUE, GROUP))
    flavor, cluster_queue, local, volcano, group = map(json.loads, str(written(tmp_path, "kueue", lines)).splitlines())
    name = flavor["metadata"]["name"]
    assert [one["name"] for one in cluster_queue["spec"]["resourceGroups"][0]["flavors"]] == [name]
    assert local["status"]["flavors"][0]["name"] == name
    assert local["spec"]["clusterQueue"] == cluster_queue["metadata"]["name"]
    assert group["spec"]["queue"] == volcano["metadata"]["name"]


def command(folder: Path, text: str, *options: str, key: bytes = KEY, kind: str = "slurm") -> tuple[int, str, str]:
    """Return the exit status, what the command prints, and what it writes."""
    (folder / "in").write_text(text)
    (folder / "key").write_bytes(key)
    out = folder / "out"
    files = [f"{kind}:{folder / 'in'}", "--key", str(folder / "key"), "--output", str(out)]
    shown = CliRunner().invoke(app, ["traces", "pseudonymise", *files, *options])
    return shown.exit_code, " ".join(shown.output.split()), out.read_text() if out.exists() else ""


def test_partitions_and_qos_are_hidden_alike_in_all_files(tmp_path: Path) -> None:
    names = Pseudonyms(KEY)
    partition, qos = names.name("partition", "g"), names.name("qos", "low")
    texts = {"slurm": SACCT, "squeue": SQUEUE, "conf": FILES["slurm.conf"], "sinfo": FILES["sinfo.txt"]}
    for name, text in {**texts, "sacctmgr": TABLES["qos.txt"][1]}.items():
        kind = name if name in ("squeue", "sacctmgr") else "slurm"
        status, shown, written = command(tmp_path, text, "--hide", "partition,qos", kind=kind)
        assert status == 0, shown
        assert (partition in written) == (name != "sacctmgr")
        assert (qos in written) == (name in ("slurm", "conf", "sacctmgr"))
        assert DEFAULT not in text or f"partitionname={DEFAULT}" in written
    status, shown, _ = command(tmp_path, SACCT, "--hide", "people")
    assert status != 0
    assert "expected some of partition,qos" in shown


def test_the_last_line_lists_what_was_kept(tmp_path: Path) -> None:
    _, shown, _ = command(tmp_path, SACCT)
    assert "; kept: partition g, qos low" in shown
    rows = SACCT.splitlines()
    many = [rows[0], *(rows[3].replace("|g|", f"|g{i}|") for i in range(25))]
    assert ", and 6 more" in command(tmp_path, "\n".join(many) + "\n")[1]  # 25 partitions and a QOS, 20 shown
    _, shown, written = command(tmp_path, SACCT.replace("COMPLETED", "Quentin", 1))
    assert "left out: 1 of state" in shown
    assert "Quentin" not in written


@pytest.mark.parametrize("person", ["xenia", "astro"])
def test_a_kept_word_that_is_a_person_or_an_account_is_refused(tmp_path: Path, person: str) -> None:
    text = SACCT.replace("|g|", f"|{person}|")
    status, shown, written = command(tmp_path, text)
    assert status != 0
    assert not written
    assert f"the partition '{person}' is also the name of" in shown
    assert "add --hide partition" in shown
    status, shown, written = command(tmp_path, text, "--hide", "partition")
    assert status == 0
    assert person not in written


def test_weak_and_open_keys_are_told(tmp_path: Path) -> None:
    (tmp_path / "key").touch(mode=0o600)
    assert "warning" not in command(tmp_path, SACCT)[1]
    assert "the key repeats 2 bytes" in command(tmp_path, SACCT, key=b"ab" * 16)[1]
    (tmp_path / "key").chmod(0o644)
    assert "others can read the key; run: chmod 600" in command(tmp_path, SACCT)[1]
