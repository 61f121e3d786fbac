"""Logs with pseudonyms: no name is left, equal names stay equal, and the jobs are the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
from trace_samples import SAMPLES
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.traces import read_cluster, read_kueue_quotas, read_trace
from gpusched_env.twin import Pool, Twin, write_twin
from tools.pseudonyms.writing import pseudonymise

KEY: Final = b"a secret of more than sixteen bytes"
ROWS = (  # of sacct; @ = the day
    "JobID|JobIDRaw|JobName|User|Account|Partition|QOS|Submit|Start|End|State|AllocTRES|NodeList|WorkDir|Cluster",
    "90017_3|90021|zebra|xenia|astro|g|low|@09:00:00|@09:05:00|@11:05:00|COMPLETED|gres/gpu=4|nodeq[01-02]|/home/x|fairq",
    "90017_3.batch|90021.batch|zebra_s||||||@09:05:00|@11:05:00|COMPLETED|cpu=1|nodeq01||",
    "90018|90018|zebra|bobby|ast|g|low|@09:10:00|@12:00:00|@12:30:00|CANCELLED by 77001|gres/gpu=8|nodeq2|/home|fairq",
    "90019|90019|zebra|bobby|ast|g|low|@10:00:00|Unknown|Unknown|PENDING||None assigned|/home/bobby|fairq",
    "90020+0|90020|zebra|xenia|chemy|g|low|@10:00:00|@10:05:00|@10:06:00|COMPLETED|gres/gpu=2|nodeq03|/home/a|fairq",
    "90020+1|90022|zebra|xenia|chemy|g|low|@10:00:00|@10:05:00|@10:06:00|COMPLETED|gres/gpu=2|nodeq04|/home/a|fairq",
)
SACCT = "".join(row.replace("@", "2025-03-03T") + "\n" for row in ROWS)
SECRETS = [
    *("xenia", "bobby", "astro", "chemy", "nodeq", "zebra", "fairq", "/home"),
    *("90017", "90018", "90019", "90020", "90021", "90022", "77001"),
]
OWN = """\
JobID,User,submit_time,num_gpus,run_time,State,host
zebra17,xenia,5,2,60,COMPLETED,nodeq1
zebra18,bobby,6,4,60,CANCELLED by 77001,nodeq2
zebra19,xenia,7,4,60,COMPLETED,nodeq2
"""


def workloads(folder: Path, name: str, text: str, key: bytes = KEY) -> tuple[Workload, Workload, str]:
    """Return the workload of a log, that of the log with pseudonyms, and the text of the latter."""
    path, out = folder / "log", folder / "out"
    path.write_text(text)
    pseudonymise(name, path, out, Pseudonyms(key))
    return read_trace(f"{name}:{path}")[0], read_trace(f"{name}:{out}")[0], out.read_text()


def check(before: Workload, after: Workload, personal: set[str]) -> None:
    """The jobs are equal, personal attributes are renamed one to one, and the others are equal."""
    assert before.jobs.tobytes() == after.jobs.tobytes()
    assert before.attributes.keys() == after.attributes.keys()
    for name, values in before.attributes.items():
        new = after.attributes[name].tolist()
        assert len(set(zip(values.tolist(), new, strict=True))) == len(set(values.tolist())) == len(set(new))
        if name not in personal:
            assert values.tolist() == new


def test_a_table_of_sacct_has_no_names_left(tmp_path: Path) -> None:
    before, after, text = workloads(tmp_path, "slurm", SACCT)
    check(before, after, {"user", "account", "name", "original_id", "cluster"})
    assert not [secret for secret in SECRETS if secret in text]
    assert "CANCELLED|" in text
    assert re.search(r"\d{16}_3\|", text)
    assert re.search(r"\|node-[0-9a-f]{12},node-[0-9a-f]{12}\|", text)


def test_pseudonyms_are_stable_under_one_key_only(tmp_path: Path) -> None:
    texts = [workloads(tmp_path, "slurm", SACCT, key)[2] for key in (KEY, KEY, KEY + b"x")]
    assert texts[0] == texts[1]
    names = [set(re.findall(r"user-\w+|\b\d{16}", text)) for text in texts]
    assert not names[0] & names[2]
    first = Pseudonyms(KEY)
    # printf 'user\0xenia' | openssl dgst -sha256 -hmac "a secret of more than sixteen bytes"
    assert first.name("user", "xenia") == "user-6d5320170cf7"
    assert first.name("account", "xenia") != first.name("user", "xenia").replace("user", "account")
    assert first.name("user", "") == ""


def test_an_own_csv_has_no_names_left(tmp_path: Path) -> None:
    before, after, text = workloads(tmp_path, "csv", OWN)
    check(before, after, {"user", "original_id", "status"})
    assert not [secret for secret in SECRETS if secret in text]
    assert text.startswith("submit_time,num_gpus,run_time,JobID,User,State\n")
    assert after.attributes["status"].tolist() == ["COMPLETED", "CANCELLED", "COMPLETED"]


@pytest.mark.parametrize("name", ["kueue", "kubernetes", "volcano"])
def test_objects_have_no_names_left(tmp_path: Path, name: str) -> None:
    """Names of every kind become secrets, and labels and messages that no reader needs are added."""
    for sample in SAMPLES[name]:
        text = sample.decode()
        text = re.sub(r'"(vis|nlp|q)"', r'"team-\1"', text)
        text = re.sub(r'"(w|j|pg|g0)(\d+(?:-\d)?)"', r'"zebra-\1\2"', text)
        text = text.replace('"metadata": {"', '"metadata": {"labels": {"owner": "xenia", "type": "xenia"}, "')
        text = text.replace('"kind": "', '"note": "xenia", "kind": "', 1)
        before, after, written = workloads(tmp_path, name, text)
        check(before, after, {"original_id", "namespace", "queue", "cluster_queue"})
        assert "zebra" in text
        assert not re.findall(r"xenia|zebra|team", written)


def test_a_reason_that_is_a_text_is_left_out(tmp_path: Path) -> None:
    times = {"creationTimestamp": "2025-03-03T09:00:00Z", "name": "w1"}
    conditions = [
        {"type": "Finished", "status": "True", "reason": reason, "lastTransitionTime": "2025-03-03T10:00:00Z"}
        for reason in ("JobFinished", "stopped by xenia")
    ]
    text = json.dumps({"kind": "Workload", "metadata": times, "status": {"conditions": conditions}})
    (tmp_path / "in.json").write_text(text)
    pseudonymise("kueue", tmp_path / "in.json", tmp_path / "out.json", Pseudonyms(KEY))
    written = (tmp_path / "out.json").read_text()
    assert "JobFinished" in written
    assert "xenia" not in written


WORKLOAD = {
    "kind": "Workload",
    "metadata": {"name": "w1", "labels": {"team": "x"}, "creationTimestamp": "2025-03-03T09:00:00Z"},
    "spec": {"priority": 1, "active": True, "podSets": [{"count": 1, "template": {}}]},
    "status": {
        "admission": {
            "clusterQueue": "q",
            "podSetAssignments": [{"flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"nvidia.com/gpu": "8"}}],
        },
        "conditions": [
            {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2025-03-03T09:01:00Z"},
        ],
    },
}


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of each value inside a value, and of the value itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, one in inner for place in _places(one, (*path, key))]


@pytest.mark.parametrize("path", _places(WORKLOAD), ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("secret", ["xenia's job", ["xenia's job"], {"xenia's job": "xenia's job"}])
def test_a_text_where_no_text_belongs_does_not_leave(
    tmp_path: Path, path: tuple[str | int, ...], secret: object
) -> None:
    """Whatever replaces a value, what is written has none of it: it is left out, renamed, or refused by its place."""
    made = json.loads(json.dumps(WORKLOAD))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = secret
    (tmp_path / "in.json").write_text(json.dumps(made))
    out = tmp_path / "out.json"
    told = ""
    try:
        pseudonymise("kueue", tmp_path / "in.json", out, Pseudonyms(KEY))
    except TraceError as error:
        told = str(error)
    assert out.exists() != ("record 1, field" in told)
    assert told or "xenia" not in out.read_text()


def test_a_table_of_sacct_without_a_column_is_told(tmp_path: Path) -> None:
    """Neither a format that is recognised nor a command takes it for another file."""
    rows = [line.split("|") for line in SACCT.splitlines()]
    at = rows[0].index("Start")
    log = tmp_path / "sacct.txt"
    log.write_text("".join("|".join(row[:at] + row[at + 1 :]) + "\n" for row in rows))
    for read in (
        lambda: pseudonymise("slurm", log, tmp_path / "out", Pseudonyms(KEY)),
        lambda: read_trace(f"slurm:{log}"),
        lambda: read_trace(f"auto:{log}"),
    ):
        with pytest.raises(TraceError, match="line 1: column Start is missing"):
            read()


def test_nodes_and_quotas_have_no_names_left(tmp_path: Path) -> None:
    node = {
        "kind": "Node",
        "metadata": {
            "name": "zebra1",
            "labels": {"nvidia.com/gpu.product": "H100", "kubernetes.io/hostname": "zebra1"},
        },
    }
    node["status"] = {"allocatable": {"nvidia.com/gpu": "8"}, "addresses": [{"address": "zebra1"}]}  # type: ignore[assignment]
    resource = {"name": "nvidia.com/gpu", "nominalQuota": 8}
    groups = [{"flavors": [{"name": "h100", "resources": [resource]}]}]
    queue = {
        "kind": "ClusterQueue",
        "metadata": {"name": "zebra2"},
        "spec": {
            "cohort": "zebra3",
            "resourceGroups": groups,
            "queueingStrategy": "StrictFIFO",
            "preemption": {
                "reclaimWithinCohort": "LowerPriority",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5},
            },
            "stopPolicy": "Hold",
        },
    }
    for one in (node, queue):
        (tmp_path / "log").write_text(json.dumps(one))
        pseudonymise("kueue", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
        assert "zebra" not in (tmp_path / "out").read_text()
        if one is node:
            cluster, _ = read_cluster(f"kubernetes:{tmp_path / 'out'}")
            assert cluster.describe() == "8 GPUs: 1 nodes x 8 H100 in 1 racks"
        else:
            (tenants, _, stopped), _ = read_kueue_quotas(tmp_path / "out")
            assert [tenant.quota for tenant in tenants.tree] == [8, 8]
            assert tenants.tree[1].parent == tenants.tree[0].name
            assert tenants.tree[1].rules == "queueing=strict,reclaim=lower,borrow_within=lower,threshold=5"
            assert stopped == {tenants.tree[1].name: "Hold"}


def test_the_command_writes_no_names_anywhere(tmp_path: Path) -> None:
    """Pseudonyms first, then an export and a report: none of the written files holds a name."""
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "key").write_bytes(KEY + b"\n")
    out = tmp_path / "made" / "public.txt"
    files = [f"slurm:{tmp_path / 'sacct.txt'}", "--key", str(tmp_path / "key"), "--output", str(out)]
    command = ["traces", "pseudonymise", *files]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "left out: columns workdir" in shown.output
    assert CliRunner().invoke(app, [*command[:2], str(tmp_path / "sacct.txt"), *command[3:]]).exit_code == 0  # auto
    pools = (Pool("all", Cluster.parse("2x8").groups),)
    write_twin(Twin(f"slurm:{out}", "slurm", pools, tenant_columns=("account", "user")), tmp_path / "made" / "t.json")
    made = [
        [
            "run",
            "--scheduler",
            "fifo",
            "--workload",
            f"slurm:{out}",
            "--cluster",
            "2x8",
            "--report",
            str(tmp_path / "made" / "r.html"),
        ],
        [
            "traces",
            "export",
            "--format",
            "sacct",
            "--workload",
            f"slurm:{out}",
            "--cluster",
            "2x8",
            "--output",
            str(tmp_path / "made" / "e.txt"),
        ],
        ["traces", "read", f"slurm:{out}", "--output", str(tmp_path / "made" / "rows.csv")],
        f"twin compare {tmp_path / 'made' / 't.json'} --anyway --report {tmp_path / 'made' / 't.html'}".split(),
    ]
    for one in made:
        result = CliRunner().invoke(app, one)
        assert result.exit_code == 0, result.output
    files = [file for file in (tmp_path / "made").rglob("*") if file.is_file()]
    assert len(files) >= 6
    for file in files:
        text = file.read_text()
        assert not [secret for secret in SECRETS if re.search(rf"(?<!\w){secret}", text)], file


@pytest.mark.parametrize(("out", "kind"), [("sacct.txt", "slurm"), ("key", "slurm"), ("sacct.txt", "squeue")])
def test_the_command_overwrites_neither_the_log_nor_the_key(tmp_path: Path, out: str, kind: str) -> None:
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "key").write_bytes(KEY)
    source, key = f"{kind}:{tmp_path / 'sacct.txt'}", str(tmp_path / "key")
    shown = CliRunner().invoke(app, ["traces", "pseudonymise", source, "--key", key, "--output", str(tmp_path / out)])
    assert shown.exit_code != 0
    assert "name another file" in " ".join(shown.output.split())
    assert (tmp_path / "sacct.txt").read_text() == SACCT
    assert (tmp_path / "key").read_bytes() == KEY


def test_keys_and_formats_are_checked(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="the key cannot be read"):
        Pseudonyms.from_file(tmp_path / "none")
    (tmp_path / "key").write_text("short\n")
    with pytest.raises(TraceError, match="the key has 5 bytes, fewer than 16"):
        Pseudonyms.from_file(tmp_path / "key")
    with pytest.raises(TraceError, match="philly has no pseudonyms; formats: csv, kubernetes, kueue, slurm, volcano"):
        pseudonymise("philly", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
    (tmp_path / "log").write_text(SACCT.replace("nodeq[01-02]", "nodeq[01-"))
    with pytest.raises(TraceError, match=r"line 2, field 'NodeList'"):
        pseudonymise("slurm", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("ids", "first"), [(("zebra1", "zebra2"), "zebra1"), (("", ""), "0")])
def test_dependencies_of_a_csv_name_the_same_jobs_and_no_ids(tmp_path: Path, ids: tuple[str, str], first: str) -> None:
    column = [f"{one}," for one in ("job_id", *ids)] if ids[0] else ["", "", ""]
    text = (
        f"{column[0]}submit_time,gpus,duration,dependency\n{column[1]}0,1,9,\n"
        f'{column[2]}5,1,9,"afterok:{first}(unfulfilled),after:{first}+2"\n'
    )
    before, after, written = workloads(tmp_path, "csv", text)
    assert "zebra" not in written
    assert before.attributes["dependency"].tolist() == ["", "afterok:0,after:0+2"]
    check(before, after, {"original_id"})


def test_texts_in_odd_places_of_sacct_are_no_names(tmp_path: Path) -> None:
    """A step with a name, licences, and a state with the name of who cancelled the job."""
    (tmp_path / "log").write_text(
        "JobID|User|Account|Start|End|Submit|State|AllocTRES|ReqTRES|Flags|ReqMem|Reason\n"
        "90017_xenia@x.org|xenia|root|@|@|@|cancelled by xenia|gres/gpu=4,license/xenia=1|gres/xenia=2,cpu=1|Xenia|4X|"
        "Xenia\n"
        "90018.batch|xenia|root|@|@|@|COMPLETED|cpu=1||| |JobHeldUser\n".replace("@", "2025-03-03T09:00:00")
    )
    pseudonymise("slurm", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
    text = (tmp_path / "out").read_text()
    assert "xenia" not in text.lower()
    row = text.splitlines()[1].split("|")
    assert row[2] == "root"  # the name of Slurm's own account
    assert row[6:] == ["cancelled", "gres/gpu=4", "cpu=1", ""]
    assert ".batch|" in text
    assert text.endswith("|JobHeldUser\n")


@pytest.mark.parametrize("column", ["Start", "End", "Submit", "Elapsed", "Restarts"])
def test_a_name_where_sacct_has_a_number_is_refused(tmp_path: Path, column: str) -> None:
    cells = {
        **dict(JobID="7", State="COMPLETED", AllocTRES="gres/gpu=1", Elapsed="UNLIMITED", Restarts="0"),
        **dict.fromkeys(("Start", "End", "Submit"), "2025-03-03T09:00:00"),
        column: "xenia",
    }
    (tmp_path / "log").write_text(f"{'|'.join(cells)}\n{'|'.join(cells.values())}\n")
    with pytest.raises(TraceError, match=f"line 2, field '{column.lower()}'.*could be a name"):
        pseudonymise("slurm", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("column", "value", "kept"),
    [
        ("model", "/home/xenia/train.py", "model-"),
        ("model", "xenia@x.org", "model-"),
        ("model", "resnet50 (v2)", "resnet50 (v2)"),
        ("status", "FAILED: xenia", ""),
        ("status", "killed by xenia", "killed"),
        ("status", "xenia@x.org", ""),
        ("batch_size", "32", "32"),
        ("batch_size", "xenia", None),
        ("gpus", "xenia", None),
        ("end", "xenia", None),
    ],
)
def test_texts_of_a_csv_are_no_names(tmp_path: Path, column: str, value: str, kept: str | None) -> None:
    cells = {"submit": "5", "gpus": "2", "start": "6", "end": "None", column: value}
    (tmp_path / "log").write_text(f"{','.join(cells)}\n{','.join(cells.values())}\n")
    if kept is None:
        with pytest.raises(TraceError, match=f"line 2, field '{column}'.*could be a name"):
            pseudonymise("csv", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
        return
    pseudonymise("csv", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
    header, row = (line.split(",") for line in (tmp_path / "out").read_text().splitlines())
    found = row[header.index(column)]
    assert found.startswith(kept) if kept == "model-" else found == kept
    assert "xenia" not in found


def test_resources_of_containers_have_no_texts(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"kind": "Pod", "spec": {"containers": [{"resources": {"owner": "xenia"}}]}}\n')
    pseudonymise("kubernetes", tmp_path / "log", tmp_path / "out", Pseudonyms(KEY))
    assert "xenia" not in (tmp_path / "out").read_text()
