"""How long it takes to verify an entry of 1,200 jobs on 10 seeds, and how large it is.

    python benchmarks/leaderboard.py [SCHEDULER ...]

Prints wall clock and CPU seconds of reading and verifying, in one process that has made the entry before: loading
Python and compiled code is not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from gpusched_env.leaderboard import About, Track, make_entry, read_entry, verify, write_entry

TRACK = Track("philly-256", "1,200 jobs", "How long verifying takes.", "philly-256-v0")
ABOUT = About(title="", authors="", how="", hardware="", training_seeds=[], link="", licence="")


def main(schedulers: list[str]) -> None:
    """Make and verify an entry of each scheduler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entry.json.zst"
        for scheduler in schedulers:
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


if __name__ == "__main__":
    main(sys.argv[1:] or ["fifo", "srtf", "tiresias"])
