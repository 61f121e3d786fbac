"""The folder of a training run: its log, and the state from which an interrupted run continues."""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from tensorboardX import SummaryWriter

from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import whole, write_whole

UPDATES_FILE: Final = "updates.csv"
STATE_FILE: Final = "state.pt"
ANY: Final = ("commit", "uncommitted_changes")  # entries of the record that may differ when a run is resumed
TENSORBOARD: Final = "tensorboard"
MOST_EVENTS: Final = 100  # that wait to be written; an update has fewer numbers


class RunFolder:
    """Log each update to ``updates.csv`` and TensorBoard; save and read the state of the training.

    ``record`` is the content of ``config.json``; a state is only continued, with ``resume``, under an equal one,
    whatever the commit. ``state`` is that state; None = begin anew.
    """

    def __init__(self, folder: Path, record: Mapping[str, Any], resume: bool) -> None:
        self.folder, self._record = folder, dict(record)
        self._rows: list[dict[str, float]] = []
        self.state = self._read() if resume else None
        self._has_saved = resume
        if self.state is not None:
            self._rows = self.state["rows"]
        step = int(self._rows[-1]["steps"]) if self._rows else 0
        # Events after the saved state are played again: TensorBoard drops those from purge_step on.
        self._writer = SummaryWriter(str(folder / TENSORBOARD), purge_step=step + 1, max_queue=MOST_EVENTS)

    def _read(self) -> dict[str, Any]:
        path = self.folder / STATE_FILE
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)  # tensors and plain values: runs no code
            record, rows = state["record"], state["rows"]
        except FileNotFoundError as error:
            raise GpuschedError(
                f"{path}: no such file, so there is nothing to resume: the run has finished, or was stopped before its "
                "first validation; train without --resume"
            ) from error
        except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
            raise GpuschedError(f"{path}: not a saved state; train without --resume") from error
        for name, value in self._record.items():
            if record.get(name) != value and name not in ANY:
                raise GpuschedError(
                    f"{path}: saved under another {name}: {difference(record.get(name), value)}; "
                    "resume with the settings and the version of the run, or train without --resume"
                )
        return {"learner": state["learner"], "validation": state["validation"], "rows": rows}

    @property
    def can_resume(self) -> bool:
        """Whether the folder holds a state of this run."""
        return self._has_saved

    def log(self, numbers: Mapping[str, float]) -> None:
        """Log the numbers of an update; ``steps`` is one of them."""
        # If the disk is full, the thread that writes events dies; the next event that the queue cannot hold would wait
        # for it for ever.
        if not self._writer.file_writer.event_writer._worker.is_alive():
            raise self._unwritten("the disk may be full")
        self._rows.append({name: float(value) for name, value in numbers.items()})
        for name, value in numbers.items():
            self._writer.add_scalar(f"updates/{name}", value, int(numbers["steps"]))

    def save(self, state: Mapping[str, Any]) -> None:
        """Save the state and the log, so that a killed run can continue from here."""
        with whole(self.folder / STATE_FILE) as partial:
            torch.save({**state, "record": self._record, "rows": self._rows}, partial)
        self._has_saved = True
        self._write_log()

    def finish(self) -> None:
        """Write the log, and remove the state: nothing is left to resume."""
        self._write_log()
        (self.folder / STATE_FILE).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file of TensorBoard."""
        try:
            self._writer.close()
        except OSError as error:
            raise self._unwritten(error.strerror or error) from error

    def _unwritten(self, why: object) -> GpuschedError:
        return GpuschedError(f"{self.folder / TENSORBOARD}: cannot be written ({why}); name another place")

    def _write_log(self) -> None:
        if not self._rows:
            (self.folder / UPDATES_FILE).unlink(missing_ok=True)  # of an earlier run in this folder
            return
        text = io.StringIO()
        table = csv.DictWriter(text, list(self._rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: f"{value:.10g}" for name, value in row.items()} for row in self._rows)
        write_whole(self.folder / UPDATES_FILE, text.getvalue())


def difference(saved: Any, given: Any) -> str:
    """Say in which fields two records differ."""
    if not isinstance(saved, Mapping) or not isinstance(given, Mapping):
        return f"{saved!r}, not {given!r}"
    names = [name for name in {**saved, **given} if saved.get(name) != given.get(name)]
    return ", ".join(f"{name} was {saved.get(name)!r}, is {given.get(name)!r}" for name in names)
