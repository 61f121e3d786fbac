"""Entries and sites are equal byte for byte for any number of workers."""

from pathlib import Path

import pytest
from entry_case import ABOUT, TINY

from gpusched_env.leaderboard import make_entry, read_entry, write_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from tools.leaderboard.site import build_site


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("spec", ["srtf", "dally", "random"])
def test_entries_are_equal_on_one_and_on_two_workers(spec: str, tmp_path: Path) -> None:
    for workers in (1, 2):
        entry = make_entry(TINY, spec, ABOUT, workers=workers, progress=False)
        write_entry(entry, tmp_path / f"{workers}.entry.xz")
    assert (tmp_path / "1.entry.xz").read_bytes() == (tmp_path / "2.entry.xz").read_bytes()


def test_sites_are_equal_on_one_and_on_two_workers(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    write_entry(make_entry("general-v1", "fifo", ABOUT, progress=False), tmp_path / "fifo.entry.xz")
    chosen = [one for one in shipped_entries("ring-all-reduce-v0") if one.player.spec in ("fifo", "sjf-bco")]
    assert len(chosen) == 2
    sites = {}
    for workers in (1, 2):
        build_site([tmp_path / "fifo.entry.xz"], tmp_path / str(workers), chosen, workers=workers)
        sites[workers] = contents(tmp_path / str(workers))
    assert len(sites[1]) > 30
    assert sites[1] == sites[2]
    copies = map(read_entry, (tmp_path / "1" / "entries").glob("ring-all-reduce-v0-*"))
    assert sorted(copies, key=lambda one: one.player.spec) == chosen  # anyone can verify them, by playing
    for entry in chosen:
        page = (tmp_path / "1" / f"entry-{entry.sha256[:12]}.html").read_text(encoding="utf-8")
        assert f"The scheduler <code>{entry.player.spec}</code> was played" in page
