"""Progress bars that appear only on a terminal, and only after two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from gpusched_env.traces.parsing.containers import watched

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_S: Final = 2.0
MEGA: Final = 1_000_000
REFRESH_S: Final = 0.1  # time between updates; an update of rich takes tens of microseconds, too long for each event


class ProgressBar:
    """A progress bar for the finished runs, and one for the finished jobs of the run in progress.

    The object is a context manager. The bars appear only if stderr is a terminal and ``enabled`` is True, and only
    after ``delay_s``. While no bars are shown, calls take almost no time.
    """

    def __init__(self, runs: int, enabled: bool = True, delay_s: float = DELAY_S) -> None:
        self._runs, self._finished_runs = runs, 0
        self._part: tuple[str, int, int] | None = None  # text, value and maximum of the second bar
        self._bar: Progress | None = None
        self._rows: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._shown_at = 0.0
        # A timer shows the bars, not a check between runs, so that the bar of a single long run appears, too.
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
        """Count a finished run."""
        with self._lock:
            self._finished_runs += 1
            self._part = None
            self._update()

    def jobs_finished(self, what: str, done: int, total: int) -> None:
        """Update the second bar with the finished jobs of the run ``what``; fast enough to be called for each event."""
        self.advanced(f"{what}: jobs", done, total)

    def advanced(self, what: str, done: int, total: int) -> None:
        """Update the second bar; ``what`` is its text, which names the task in progress and the unit of the numbers."""
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
            if self._timer is None:  # __exit__ was called before the timer ran out
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
        """Redraw both bars; the caller must hold the lock."""
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
    """Open a context in which a progress bar is shown for every trace that is read."""
    with ProgressBar(1) as bar:

        def tell(path: Path, done: int, total: int) -> None:
            bar.advanced(f"reading {path.name}: MB", done // MEGA, total // MEGA)

        with watched(tell):
            yield
