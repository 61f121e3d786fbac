"""Time to verify an entry of 1,200 jobs on 10 seeds, and to build a site of 44 entries on 9 tracks.

    python benchmarks/leaderboard.py [--schedulers fifo srtf tiresias] [--log FILE] [--workers -1]

Prints wall-clock seconds, and CPU seconds of a verification. An entry is read and verified in the process that has
made it, so the time to load Python and compiled code is not counted. The site is built by ``gpusched`` in separate
processes, whose whole time is counted; run the benchmark twice if kernels were not compiled before. The entries are
those of five schedulers that may take part in every track, as shipped with the package. A track whose jobs are those
of a log needs the file of the log.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

from gpusched_env.leaderboard import SUFFIX, About, Track, make_entry, read_entry, verify, write_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.replaying import compile_kernels

TRACK = Track("philly-256", "1,200 jobs", "The time of a verification.", "philly-256-v1")
ABOUT = About(title="", authors="", how="", hardware="", training_seeds=[], link="", licence="")
FIVE = ("fifo", "tiresias", "tiresias-g", "delay-zaharia", "random")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedulers", nargs="*", default=["fifo", "srtf", "tiresias"], help="whose entries to verify")
    parser.add_argument("--log", help="the log of philly-log-v0, if it was not fetched")
    parser.add_argument("--workers", help="processes that build the site; the command's default if left out")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for scheduler in given.schedulers:
            verifying(scheduler, Path(folder) / f"entry{SUFFIX}")
        building(Path(folder), given.log, given.workers)


def verifying(scheduler: str, path: Path) -> None:
    """Make and verify an entry."""
    write_entry(make_entry(TRACK, scheduler, ABOUT), path)
    wall, cpu = time.perf_counter(), time.process_time()
    entry = read_entry(path)
    verify(entry, track=TRACK)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    decisions = sum(len(run.decisions.kinds) for run in entry.runs)
    print(
        f"{scheduler}: verified in {wall:.2f} s ({cpu:.2f} s of CPU), {decisions:,} decisions, "
        f"{path.stat().st_size:,} bytes"
    )


def building(folder: Path, log: str | None, workers: str | None) -> None:
    """Build the site of 44 entries, and measure the size of its first page with everything that the page loads."""
    entries, site = folder / "entries", folder / "site"
    entries.mkdir()
    chosen = [entry for entry in shipped_entries() if entry.player.spec in FIVE]
    for entry in chosen:
        write_entry(entry, entries / f"{entry.track}-{entry.player.spec}{SUFFIX}")
    compile_kernels()
    options = [*(["--workload", log] if log else []), *(["--workers", workers] if workers else [])]
    command = ["leaderboard", "build", str(entries), "--output", str(site), "--no-baselines", *options]
    wall = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gpusched_env.cli", *command], check=True)
    wall = time.perf_counter() - wall
    first = sum(path.stat().st_size for path in first_page(site))
    every = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(
        f"site of {len(chosen)} entries: built in {wall:.0f} s; {every / 1e6:.0f} MB, "
        f"first page {first / 1e3:.0f} kB with everything that it loads"
    )


def first_page(site: Path) -> list[Path]:
    """Return the first page and the files that it loads."""
    index = site / "index.html"
    found = [index]

    class Loads(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            fields = dict(attrs)
            if loaded := fields.get("src") if tag == "script" else fields.get("href") if tag == "link" else None:
                found.append(site / loaded)

    Loads().feed(index.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
