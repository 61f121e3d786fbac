"""A name planted in any field of any format does not leave; names that stay by design can be hidden, and are listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from test_pseudonyms_of_clusters import FILES, KEY, SQUEUE, TABLES
from test_traces_pseudonyms import OWN, SACCT, WORKLOAD
from test_traces_slurm_files import SHOWN
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import TraceError
from gpusched_env.traces.pseudonyms.names import KEPT_ROLES, Pseudonyms
from gpusched_env.traces.pseudonyms.slurm_files import KEPT, LISTS
from gpusched_env.traces.pseudonyms.writing import pseudonymise
from gpusched_env.traces.slurm_files.facts import DEFAULT
from gpusched_env.twin.table_pseudonyms import writer_of

CANARY: Final = "Quentin"
PLANTS: Final = ("{canary}", "{value} {canary}", "{value} Count=3 {canary} [{canary}@x]", "{value} State={canary}")


def leaves(folder: Path, kind: str, text: str) -> bool:
    """Whether the canary is in what is written with all names hidden; a refused file writes nothing."""
    path, out = folder / "in", folder / "out"
    path.write_text(text)
    out.unlink(missing_ok=True)
    names = Pseudonyms(KEY, KEPT_ROLES)
    try:
        if kind in ("squeue", "sshare", "sacctmgr"):
            writer_of(kind)(path, out, names)
        else:
            pseudonymise(kind, path, out, names)
    except TraceError:
        return out.exists()
    return CANARY.lower() in out.read_text().lower()


def planted(text: str, separator: str) -> Iterator[str]:
    """Yield a table with the canary in one of its cells, for each column and each way to plant it."""
    header, *rows = text.splitlines()
    width = len(header.split(separator))
    for row, line in enumerate(rows):
        cells = line.split(separator)
        for at in range(min(len(cells), width)):
            for plant in PLANTS:
                new = [*cells[:at], plant.format(canary=CANARY, value=cells[at]), *cells[at + 1 :]]
                yield "\n".join([header, *rows[:row], separator.join(new), *rows[row + 1 :]]) + "\n"


@pytest.mark.parametrize(
    ("kind", "text", "separator"),
    [
        ("slurm", SACCT, "|"),
        ("slurm", FILES["sinfo.txt"], "|"),
        ("squeue", SQUEUE, "|"),
        *((kind, text, "|") for kind, text in TABLES.values()),
        ("csv", OWN, ","),
    ],
)
def test_no_cell_of_a_table_lets_a_name_out(tmp_path: Path, kind: str, text: str, separator: str) -> None:
    for made in planted(text, separator):
        assert not leaves(tmp_path, kind, made), made


@pytest.mark.parametrize("key", sorted({*KEPT, *LISTS, "file", "reason", "comment", "extra", "os", "owner"}))
@pytest.mark.parametrize("shown", [False, True])
def test_no_key_of_slurm_lets_a_name_out(tmp_path: Path, key: str, shown: bool) -> None:
    """In slurm.conf, gres.conf and what scontrol shows."""
    for plant in PLANTS:
        value = plant.format(canary=CANARY, value="1")
        if shown:
            first = "" if key in ("nodename", "partitionname") else "NodeName=g01 "
            texts = [f"{first}{key}={value}\n", f"NodeName=g01 CPUTot=4\n   {key}={value}\n"]
        else:
            quoted = f'{key}="{value}"'
            texts = [f"{first}{quoted}\n" for first in ("", "Name=gpu " * (key != "name"), "PartitionName=p ")]
        for text in texts:
            assert not leaves(tmp_path, "slurm", text), text


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


def _strings(value: object) -> Iterator[tuple[list[object], object]]:
    """Yield the path of each text and each number in a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if pairs is None:
        yield [], value
    for key, one in pairs or ():
        for path, text in _strings(one):
            yield [key, *path], text


def test_no_field_of_kubernetes_lets_a_name_out(tmp_path: Path) -> None:
    container = {"terminated": {"reason": "Completed", "finishedAt": "2025-03-03T10:00:00Z"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "creationTimestamp": "2025-03-03T09:00:00Z"},
        "spec": {"nodeName": "a", "containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Succeeded", "containerStatuses": [{"state": container}]},
    }
    queue = {
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"queueingStrategy": "StrictFIFO", "preemption": {"withinClusterQueue": "Never"}},
    }
    for record in (WORKLOAD, pod, queue):
        for path, value in _strings(record):
            for plant in PLANTS:
                made = json.loads(json.dumps(record))
                inner = made
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = plant.format(canary=CANARY, value=value)
                assert not leaves(tmp_path, "kueue", json.dumps(made)), (path, plant)


def command(folder: Path, text: str, *options: str, key: bytes = KEY, kind: str = "slurm") -> tuple[int, str, str]:
    """Return the exit status, what the command prints, and what it writes."""
    (folder / "in").write_text(text)
    (folder / "key").write_bytes(key)
    out = folder / "out"
    shown = CliRunner().invoke(
        app, ["pseudonymise", f"{kind}:{folder / 'in'}", "--key", str(folder / "key"), "--out", str(out), *options]
    )
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


def test_forms_of_unicode_are_one_name() -> None:
    names = Pseudonyms(KEY)
    assert names.name("user", "Ren\u00e9") == names.name("user", "Rene\u0301")


def test_weak_and_open_keys_are_told(tmp_path: Path) -> None:
    (tmp_path / "key").touch(mode=0o600)
    assert "warning" not in command(tmp_path, SACCT)[1]
    assert "the key repeats 2 bytes" in command(tmp_path, SACCT, key=b"ab" * 16)[1]
    (tmp_path / "key").chmod(0o644)
    assert "others can read the key; run: chmod 600" in command(tmp_path, SACCT)[1]
