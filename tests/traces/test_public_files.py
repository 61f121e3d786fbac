"""The table of public data: every row agrees with its file, if the file is present."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from published import TRACES, here, manifest

from gpusched_env.support.consoles import WIDTH_OF_A_PIPE
from gpusched_env.traces import READERS, read_trace
from gpusched_env.traces.downloads.public_files import RAW, PublicFile, data_folder, find, matching, public_files

PUBLISHED_ELSEWHERE = [  # not in the manifest; the checksums of alibaba and philly are those of the owners
    "alibaba/pai_instance_table.csv",
    "alibaba/pai_job_table.csv",
    "alibaba/pai_machine_spec.csv",
    "alibaba/pai_task_table.csv",
    "elasticflow/elasticVpollux_e.csv",
    "philly/cluster_job_log",
]


def stored(file: PublicFile) -> Path:
    return next(path for path in (TRACES / file.name, TRACES / f"{file.name}.gz") if path.exists())


def test_every_row_is_well_formed() -> None:
    files = list(public_files().values())
    assert len(files) == 198
    assert [file.name for file in files] == sorted(file.name for file in files)
    names = [name for file in files for name in (file.name, file.alias) if name]
    assert len(names) == len(set(names))
    for file in files:
        assert re.fullmatch(r"[a-z]+/[\w./-]+", file.name)
        assert ".." not in file.name
        assert re.fullmatch("[0-9a-f]{40}", file.commit)
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.unpacked_sha256 == "" or (file.packed and re.fullmatch("[0-9a-f]{64}", file.unpacked_sha256))
        assert file.bytes > 0
        assert file.format in ("", *READERS)
        assert file.url(file.address).startswith("https://")
        assert " " not in file.url(file.address)
    assert len({file.download for file in files}) == len(files)
    assert matching("*") == files
    assert find("openb") is public_files()["alibaba/openb_pod_list_default.csv"]


def test_every_reader_has_a_file_to_fetch_but_for_those_without_a_checksum_or_a_licence() -> None:
    readable = {file.format for file in public_files().values() if file.format}
    assert READERS.keys() - readable == {
        *("acme", "helios", "pai"),  # no checksum
        *("dally", "hyperdrive"),  # no licence
        *("file", "philly-csv", "philly-json"),
        *("csv", "kubernetes", "kueue", "slurm", "volcano"),  # of a user's own
        "pollux-sharing",  # another reading of the files of "pollux"
    }


@here
def test_unchanged_files_agree_with_the_manifest() -> None:
    rows = {row["file"].removesuffix(".gz"): row for row in manifest()}
    unchanged = {name for name, row in rows.items() if row["unchanged_content"] == "yes"}
    assert len(unchanged) == 192
    assert len(rows) - len(unchanged) == 17  # truncated or converted: the owners' file has another checksum
    assert public_files().keys() - unchanged == set(PUBLISHED_ELSEWHERE)
    assert unchanged <= public_files().keys()
    for name in unchanged:
        file, row = public_files()[name], rows[name]
        assert file.sha256 == row["sha256_uncompressed"]
        assert (file.bytes, file.rows) == (int(row["uncompressed_bytes"]), int(row["rows"]))
        assert (file.repository, file.commit, file.path) == tuple(
            row[f"source_{key}"] for key in ("repository", "commit", "path")
        )
        assert file.licence == row["licence"]
        assert file.address == RAW


@here
def test_small_files_have_their_checksum_and_are_read_in_their_format() -> None:
    for file in public_files().values():
        if file.name in PUBLISHED_ELSEWHERE or file.bytes > 600_000:
            continue
        path = stored(file)
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert hashlib.sha256(content).hexdigest() == file.sha256
        if file.format and file.bytes < 100_000:
            blank = file.name == "bsbf/cluster_trace_20.csv"  # the manifest counts its blank last line
            assert read_trace(f"{file.format}:{path}")[1].rows + blank == file.rows


@here
def test_the_published_checksum_of_an_unpacked_table() -> None:
    # the manifest's table has a header line in front, which Alibaba publishes as another file
    _, _, table = gzip.decompress((TRACES / "alibaba/pai2020_machine_spec.csv.gz").read_bytes()).partition(b"\n")
    assert hashlib.sha256(table).hexdigest() == find("alibaba/pai_machine_spec.csv").unpacked_sha256


def test_licences_that_restrict_are_marked() -> None:
    restricted = {file.licence for file in public_files().values() if file.restricted}
    assert all(text.startswith(("no licence file", "S-Lab")) for text in restricted)
    assert len(restricted) >= 4
    assert not find("philly").restricted
    assert find("swf").restricted


def test_addresses() -> None:
    file = find("shockwave")
    assert file.url("https://host/{repository}/{commit}/{path}") == (
        f"https://host/uw-mad-dash/shockwave/{file.commit}/scheduler/traces/reproduce/"
        "120_0.2_5_100_40_25_0%2C0.5%2C0.5_0.6%2C0.3%2C0.09%2C0.01_multigpu_dynamic.trace"
    )
    assert file.url("http://host/{name}") == "http://host/shockwave/120_jobs_dynamic.trace"
    assert file.url("http://host/{sha256}") == f"http://host/{file.sha256}"
    assert find("philly").url(find("philly").address) == (
        f"https://media.githubusercontent.com/media/msr-fiddle/philly-traces/{find('philly').commit}/trace-data.tar.gz"
    )
    assert find("alibaba/pai_task_table.csv").url("https://host/{file}") == "https://host/pai_task_table.tar.gz"


def test_the_data_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert find("philly").file == tmp_path / "philly" / "cluster_job_log"
    assert find("philly").download == tmp_path / "philly" / "trace-data.tar.gz"
    monkeypatch.setenv("GPUSCHED_DATA", "")
    assert data_folder().is_absolute()


@pytest.mark.parametrize("width", [80, WIDTH_OF_A_PIPE])
def test_the_list_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    from typer.testing import CliRunner

    from gpusched_env.cli import app

    monkeypatch.setattr("gpusched_env.support.consoles.WIDTH_OF_A_PIPE", width)
    for arguments in ([], ["*"]):
        lines = CliRunner().invoke(app, ["traces", "list", *arguments]).stdout.splitlines()
        assert max(map(len, lines)) <= width
        assert "…" not in "".join(lines)
