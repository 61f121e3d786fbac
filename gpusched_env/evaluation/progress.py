"""Progress bars, which appear only on a terminal and only after two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_S: Final = 2.0
MEGA: Final = 1_000_000
REFRESH_S: Final = 0.1  # an update of rich takes tens of microseconds, too long for every event


class ProgressBar:
    """A bar for runs, and one for the finished jobs of the run in progress.

    Use it as a context manager. It prints nothing, and costs almost nothing, before ``delay_s`` has passed, off a
    terminal, or if not ``enabled``.

    Parameters
    ----------
    runs : number of runs
    enabled : False = never show anything
    delay_s : delay before the bars appear [s]
    """

    def __init__(self, runs: int, enabled: bool = True, delay_s: float = DELAY_S) -> None:
        self._runs, self._finished_runs = runs, 0
        self._part: tuple[str, int, int] | None = None  # text of the second bar, done, total
        self._bar: Progress | None = None
        self._rows: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._shown_at = 0.0
        # A timer instead of checks between runs, so that one long run shows its bar too.
        self._timer = threading.Timer(delay_s, self._show) if enabled and sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        """Start the timer."""
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bars."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def run_finished(self) -> None:
        """Count one more run."""
        with self._lock:
            self._finished_runs += 1
            self._part = None
            self._update()

    def jobs_finished(self, what: str, done: int, total: int) -> None:
        """Update the second bar with the finished jobs of the run ``what``; cheap enough to be called often."""
        self.advanced(f"{what}: jobs", done, total)

    def advanced(self, what: str, done: int, total: int) -> None:
        """Update the second bar; ``what`` says what is in progress and what is counted."""
        if self._timer is None:
            return
        with self._lock:
            self._part = (what, done, total)
            if time.monotonic() - self._shown_at > REFRESH_S:
                self._update()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self._lock:
            if self._timer is None:  # __exit__ came first
                return
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._update()

    def _update(self) -> None:
        """Redraw both bars; the caller holds the lock."""
        if self._bar is None:
            return
        self._shown_at = time.monotonic()
        if self._runs > 1:
            self._row("runs", "runs", self._finished_runs, self._runs)
        if self._part is not None:
            what, done, total = self._part
            self._row("part", what, done, total)

    def _row(self, key: str, text: str, done: int, total: int) -> None:
        if self._bar is None:
            return
        if key not in self._rows:
            self._rows[key] = self._bar.add_task(text, total=total)
        self._bar.update(self._rows[key], description=text, completed=done, total=total)


@contextmanager
def reading_shown() -> Iterator[None]:
    """Context manager that shows a bar for every trace read inside it."""
    from gpusched_env.traces.parsing.containers import watched

    with ProgressBar(1) as bar:

        def tell(path: Path, done: int, total: int) -> None:
            bar.advanced(f"reading {path.name}: MB", done // MEGA, total // MEGA)

        with watched(tell):
            yield
