"""Downloads from a local site: only complete and correct files are accepted, and errors name the remedy."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result
from web_site import Site, running

import gpusched_env
from gpusched_env.cli import app
from gpusched_env.errors import FetchError, TraceError
from gpusched_env.traces import fetch, read_workload
from gpusched_env.traces.downloads.public_files import PublicFile, find

BLOCK = 1 << 16  # [byte] what is read and kept at once
HEADER = b"timestamp,duration,num_gpus,gpu_time,cluster\n"
ROW = b"2017-10-09 07:00:00,60,1,60,a\n"
BODY = (HEADER + ROW * 20_000)[: 5 * BLOCK - len(ROW)].rsplit(b"\n", 1)[0] + b"\n"
BODY += b"2017-10-09 07:00:00,60,1,60," + b"b" * (5 * BLOCK - len(BODY) - 29) + b"\n"
assert len(BODY) == 5 * BLOCK
PUBLIC = PublicFile(
    name="made/log.csv",
    alias="made",
    format="philly",
    repository="owner/data",
    commit="c0ffee",
    path="a folder/log.csv",
    licence="MIT",
    paper="Somebody et al., 2020",
    bytes=len(BODY),
    sha256=hashlib.sha256(BODY).hexdigest(),
    rows=BODY.count(b"\n") - 1,
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No network except this machine, no proxy, no pauses, an empty data folder, one known file."""
    known = socket.getaddrinfo

    def only_here(host: Any, *rest: Any, **more: Any) -> Any:
        if host != "127.0.0.1":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", only_here)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("gpusched_env.traces.downloads.resuming.PAUSES_S", (0.0, 0.0))
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("GPUSCHED_MIRRORS", raising=False)
    publish(monkeypatch, PUBLIC)
    return tmp_path / "data"


def publish(monkeypatch: pytest.MonkeyPatch, *files: PublicFile) -> None:
    monkeypatch.setattr(
        "gpusched_env.traces.downloads.public_files.public_files", lambda: {file.name: file for file in files}
    )


@pytest.fixture
def site() -> Iterator[Site]:
    with running(BODY) as made:
        yield made


def kept(folder: Path) -> list[str]:
    """Files that a fetch has left, without the lock."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_a_file_is_downloaded_once_and_then_found_without_a_connection(site: Site, alone: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    path = fetch("made/log.csv", [site.template], lambda *step: steps.append(step))
    assert path == alone / "made" / "log.csv"
    assert path.read_bytes() == BODY
    assert steps[-1] == ("downloading", len(BODY), len(BODY))
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert fetch("made", [site.template]) == path
    assert site.requests == [("/owner/data/c0ffee/a%20folder/log.csv", None)]
    assert kept(alone) == ["log.csv"]


def test_a_damaged_file_is_fetched_again(site: Site, alone: Path) -> None:
    path = fetch("made", [site.template])
    path.write_bytes(BODY[:-1] + b"?")
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert len(site.requests) == 2


def test_a_cut_download_goes_on_where_it_stopped(site: Site, alone: Path) -> None:
    site.limit = 2 * BLOCK
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert [wanted for _, wanted in site.requests] == [None, f"bytes={2 * BLOCK}-", f"bytes={4 * BLOCK}-"]
    assert kept(alone) == ["log.csv"]


def test_a_server_that_hangs_up_is_asked_again(site: Site) -> None:
    site.hang_up = 2
    fetch("made", [site.template]).unlink()
    site.hang_up = 3
    with pytest.raises(FetchError, match="the connection was cut, 3 times"):
        fetch("made", [site.template])


def test_received_bytes_are_kept_for_the_next_run(site: Site, alone: Path) -> None:
    site.limit = BLOCK
    with pytest.raises(FetchError, match=f"cut, 3 times; {3 * BLOCK:,} of {5 * BLOCK:,} bytes are kept: run it again"):
        fetch("made", [site.template])
    assert kept(alone) == [find("made").partial.name]
    site.limit = None
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert site.requests[-1][1] == f"bytes={3 * BLOCK}-"
    assert kept(alone) == ["log.csv"]


def test_a_server_without_ranges_starts_from_the_beginning(site: Site) -> None:
    site.ranges, site.limit = False, 2 * BLOCK
    with pytest.raises(FetchError, match=f"{2 * BLOCK:,} of"):
        fetch("made", [site.template])
    assert len(site.requests) == 3
    site.limit = None
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert len(site.requests) == 4


def test_the_download_of_a_killed_process_is_resumed(site: Site, alone: Path) -> None:
    site.held = True
    code = (
        "import gpusched_env.traces.downloads.public_files as p; from gpusched_env.traces import fetch\n"
        f"file = p.{PUBLIC!r}\np.public_files = lambda: {{file.name: file}}\nfetch(file.name, [{site.template!r}])"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(gpusched_env.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        while not (find("made").partial.exists() and find("made").partial.stat().st_size >= BLOCK):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    site.held = False
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert (site.requests[-1][1] or "").startswith("bytes=")


def test_a_kept_part_of_another_file_does_no_harm(site: Site, alone: Path) -> None:
    partial = find("made").partial
    partial.parent.mkdir(parents=True)
    for wrong in (b"x" * BLOCK, b"x" * len(BODY), b"x" * (len(BODY) + 1)):
        partial.write_bytes(wrong)
        assert fetch("made", [site.template]).read_bytes() == BODY
        assert kept(alone) == ["log.csv"]
        find("made").file.unlink()


def test_a_complete_partial_file_is_not_downloaded_again(site: Site, alone: Path) -> None:
    find("made").partial.parent.mkdir(parents=True)
    find("made").partial.write_bytes(BODY)
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert site.requests == []
    assert kept(alone) == ["log.csv"]


def test_several_fetches_at_once_download_once(site: Site) -> None:
    site.pause_s = 0.2
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch("made", [site.template]), range(4)))
    assert {path.read_bytes() for path in paths} == {BODY}
    assert len(site.requests) == 1


def test_a_redirect_is_followed(site: Site) -> None:
    site.moved = True
    assert fetch("made", [site.template]).read_bytes() == BODY
    assert site.requests[-1][0] == "/new"


def test_a_busy_server_is_asked_again_and_a_mirror_then(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.statuses = [503, 429]
    fetch("made", [site.template]).unlink()
    assert len(site.requests) == 3
    site.statuses = [500, 500, 500]
    monkeypatch.setenv("GPUSCHED_MIRRORS", f"{site.template}?first  {site.template}?second")
    assert fetch("made").read_bytes() == BODY
    assert [path.rpartition("?")[2] for path, _ in site.requests[3:]] == ["first"] * 3 + ["second"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BODY[:-1] + b"?", "gave another file, which was not kept: SHA-256 "),
        (BODY[:-1], "gave another file"),
        (BODY + b"?", "gave another file"),
        (b"", "gave another file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "gave a Git LFS pointer"),
        (b"<!DOCTYPE html><html>Please log in</html>", "gave a web page"),
    ],
)
def test_wrong_bytes_are_refused_and_not_kept(site: Site, alone: Path, body: bytes, message: str) -> None:
    site.body = body
    with pytest.raises(FetchError, match=message):
        fetch("made", [site.template])
    assert kept(alone) == []
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", [403, 404, 500])
def test_refusals_say_how_to_get_the_file_by_hand(site: Site, alone: Path, status: int) -> None:
    site.statuses = [status] * 3
    with pytest.raises(FetchError, match=f"HTTP {status}") as caught:
        fetch("made", [site.template])
    by_hand = "open https://raw.githubusercontent.com/owner/data/c0ffee/a%20folder/log.csv and save it as "
    assert by_hand + str(alone / "made" / "log.csv") in str(caught.value)
    for expected in (PUBLIC.sha256, "GPUSCHED_DATA", "--mirror"):
        assert expected in str(caught.value)
    assert len(site.requests) == (3 if status == 500 else 1)
    (alone / "made" / "log.csv").write_bytes(BODY)
    assert fetch("made").read_bytes() == BODY


def test_no_network(alone: Path) -> None:
    with pytest.raises(FetchError, match="the host is unknown") as caught:
        fetch("made")
    assert "By hand: open https://raw.githubusercontent.com/" in str(caught.value)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(FetchError, match="no connection"):
        fetch("made", [f"http://127.0.0.1:{port}/{{path}}"])
    assert kept(alone) == []


def test_a_server_that_never_answers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusched_env.traces.downloads.resuming.TIMEOUT_S", 0.1)
    site.silent = True
    with pytest.raises(FetchError, match=r"no answer within 0\.1 s"):
        fetch("made", [site.template])
    assert len(site.requests) <= 1  # a busy server may not have read the request yet


def test_a_server_that_stops_in_the_middle(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One try with a long time-out, so that the first block arrives within it on a busy machine, too."""
    monkeypatch.setattr("gpusched_env.traces.downloads.resuming.TIMEOUT_S", 5.0)
    monkeypatch.setattr("gpusched_env.traces.downloads.resuming.PAUSES_S", ())
    site.held = True
    with pytest.raises(
        FetchError, match=rf"the connection was cut, 1 times; {BLOCK:,} of {len(BODY):,} bytes are kept"
    ):
        fetch("made", [site.template])


def test_a_full_disk_is_noticed_before_the_download(site: Site, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(alone.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1234))
    with pytest.raises(FetchError, match=f"the disk is full: made/log.csv takes {len(BODY):,} bytes, 1,234 are free"):
        fetch("made", [site.template])
    assert kept(alone) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_deletes_the_partial_file(site: Site, alone: Path) -> None:
    partial = find("made").partial
    partial.parent.mkdir(parents=True)
    partial.symlink_to("/dev/full")
    with pytest.raises(FetchError, match="the disk is full"):
        fetch("made", [site.template])
    assert not partial.is_symlink()
    assert fetch("made", [site.template]).read_bytes() == BODY


def test_a_folder_that_cannot_be_written(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path / "file"))
    with pytest.raises(FetchError, match=r"cannot be written or read .*set GPUSCHED_DATA to a folder"):
        fetch("made", [site.template])
    assert site.requests == []


def test_a_read_only_folder_still_gives_its_files(site: Site, alone: Path) -> None:
    path = fetch("made", [site.template])
    path.parent.chmod(0o500)
    if os.access(path.parent, os.W_OK):
        pytest.skip("permissions do not bind this user")
    try:
        assert fetch("made") == path
        path.chmod(0o600)
        path.write_bytes(b"?")
        with pytest.raises(FetchError, match="cannot be written"):
            fetch("made", [site.template])
    finally:
        path.parent.chmod(0o700)


def test_wrong_names_and_mirrors(site: Site) -> None:
    with pytest.raises(
        FetchError, match=r"helios: its owners publish no checksum; download it from https://github\.com/"
    ):
        fetch("helios")
    with pytest.raises(FetchError, match="unknown public file 'mad': did you mean 'made'"):
        fetch("mad")
    for template in ("ftp://host/{path}", "https://host/{pth}", "https://host/file", "{", "https://host/{0}"):
        with pytest.raises(FetchError, match="write an http or https address"):
            fetch("made", [template])


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        packed.addfile(tarfile.TarInfo("all"), io.BytesIO())
        for name, content in members.items():
            member = tarfile.TarInfo(f"all/{name}")
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("told", [True, False])
def test_an_archive_is_kept_and_the_file_taken_out(
    site: Site, alone: Path, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    site.body = archive(other=b"1", log=BODY, more=b"2")
    digest = hashlib.sha256(site.body).hexdigest()
    public = replace(PUBLIC, name="made/log", path="data/all.tar.gz", bytes=len(site.body), sha256=digest)
    publish(monkeypatch, replace(public, unpacked_sha256=PUBLIC.sha256 if told else ""))
    path = fetch("made", [site.template])
    assert path.read_bytes() == BODY
    assert kept(alone) == [".log.sha256", "all.tar.gz", "log"]
    path.write_bytes(b"damaged")
    assert fetch("made").read_bytes() == BODY  # from the archive, without a connection
    (alone / "made" / "all.tar.gz").unlink()
    assert fetch("made") == path
    assert len(site.requests) == 1


def test_an_archive_without_the_right_file(site: Site, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.body = archive(log=b"another")
    digest = hashlib.sha256(site.body).hexdigest()
    public = replace(PUBLIC, path="data/all.tar.gz", bytes=len(site.body), sha256=digest, unpacked_sha256=PUBLIC.sha256)
    for name, message in (("made/log", "log in it has SHA-256"), ("made/lag", "there is no file lag in it")):
        publish(monkeypatch, replace(public, name=name))
        with pytest.raises(FetchError, match=message):
            fetch(name, [site.template])
    assert kept(alone) == ["all.tar.gz"]


def test_a_fetched_file_is_read_by_its_name(site: Site) -> None:
    with pytest.raises(TraceError, match="not fetched yet; do that with: gpusched traces fetch made"):
        read_workload("philly:@made")
    fetch("made", [site.template])
    assert len(read_workload("philly:@made")) == len(read_workload("philly:@made/log.csv")) == PUBLIC.rows
    with pytest.raises(FetchError, match="did you mean 'made'"):
        read_workload("philly:@mde")


def gpusched(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["traces", *arguments])


def test_the_commands(site: Site, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(PUBLIC, name="made/table.csv", alias="", format="", rows=None, licence="no licence file (none)")
    publish(monkeypatch, PUBLIC, table)
    listed = gpusched("list").stdout
    assert "made/log.csv philly" in listed
    assert "short names, each of a source's main file: made" in listed
    assert "made/table.csv" not in listed
    assert "1 more files" in listed
    assert str(alone) in listed
    everything = gpusched("list", "made/*").stdout
    assert "none*" in everything
    assert "you fetch it from its owners, under their terms" in " ".join(everything.split())
    site.limit = BLOCK
    cut = gpusched("fetch", "made", "--mirror", site.template)
    assert cut.exit_code == 2
    assert cut.stderr.startswith("gpusched: made/log.csv could not be fetched. http://127.0.0.1:")
    assert cut.stderr.count("\n") == 1
    assert "60%" in gpusched("list", "made").stdout
    site.limit = None
    fetched = gpusched("fetch", "made/*", "made", "--mirror", site.template)
    assert fetched.exit_code == 0
    assert (
        f"{alone / 'made' / 'log.csv'}\n  MIT; Somebody et al., 2020\n  gpusched traces read philly:@made"
        in fetched.stdout
    )
    assert fetched.stdout.count("log.csv\n") == 1
    assert "yes" in gpusched("list", "made").stdout
    assert "jobs kept" in gpusched("read", "philly:@made").stdout
    assert "no public file matches 'mad/*'" in gpusched("fetch", "mad/*").stderr
