"""A small site with a hostile entry, for tests of its files and of its pages in a browser."""

from __future__ import annotations

from pathlib import Path

from gpusched_env.leaderboard import About, make_entry, read_entry, write_entry
from tools.leaderboard.site import Built, build_site, entry_files

TRACK = "ring-all-reduce-v0"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7 * 7 }} ${7}"
ABOUT = About(
    title="", authors="", how="", hardware="", training_seeds=[(0, 100)], link="https://example.org/?a=1&b='2'",
    licence="CC-BY-4.0",
)  # fmt: skip


def about(title: str, authors: str = "\"><b onclick='alert(3)'>Eve</b>") -> About:
    changes = {"title": title, "authors": authors, "how": HOSTILE, "hardware": HOSTILE}
    return About(**({name: getattr(ABOUT, name) for name in ABOUT.__struct_fields__} | changes))


def make_site(folder: Path) -> tuple[Path, Built]:
    """Two baselines, an entry whose texts are markup, a damaged entry, and one entry given twice."""
    baselines, entries = folder / "baselines", folder / "entries"
    baselines.mkdir()
    entries.mkdir()
    write_entry(make_entry(TRACK, "fifo", about("fifo", "developers"), progress=False), baselines / "fifo.entry.xz")
    write_entry(make_entry(TRACK, "srtf", about(HOSTILE), progress=False), entries / "hostile.entry.xz")
    write_entry(make_entry(TRACK, "las", about("fifo"), progress=False), entries / "same-title.entry.xz")
    packed = (entries / "hostile.entry.xz").read_bytes()
    (entries / "twice.entry.xz").write_bytes(packed)
    (entries / "<b>damaged.entry.xz").write_bytes(packed[:-9] + bytes(9))
    built = build_site(entry_files(entries), folder / "site", map(read_entry, entry_files(baselines)))
    return folder / "site", built
