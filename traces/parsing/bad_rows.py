"""Malformed rows raise an error, or are skipped and counted if the caller asks for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.report import ReadReport

__all__ = ["skippable"]

_skipped: ContextVar[ReadReport | None] = ContextVar("skipped", default=None)


class BadRowError(TraceError):
    """A malformed row: the numbers of its lines, or of its record, and the reason under which a report counts it."""

    def __init__(self, message: str, numbers: Sequence[int] = (), reason: str = "") -> None:
        super().__init__(message)
        self.numbers, self.reason = numbers, f"malformed: {reason}"


@contextmanager
def skipping_bad_rows() -> Iterator[None]:
    """Open a context in which readers of this thread skip malformed rows and count them in their reports."""
    token = _skipped.set(ReadReport("", ""))
    try:
        yield
    finally:
        _skipped.reset(token)


def skipped_rows() -> ReadReport | None:
    """Return the report of the rows skipped so far; None if bad rows raise an error."""
    return _skipped.get()


def refuse_row(error: BadRowError) -> None:
    """Raise ``error``; if bad rows are skipped, count the row instead, and the caller continues with the next row."""
    skipped = _skipped.get()
    if skipped is None:
        raise error
    skipped.rows += len(error.numbers)
    for number in error.numbers:
        skipped.drop(error.reason, number)


class _Skippable:
    """Context manager for the body of a loop over rows. It has no state, so one object serves every row."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, BadRowError) or _skipped.get() is None:
            return False
        refuse_row(error)
        return True


skippable: Final = _Skippable()  # ``with skippable:`` encloses the code that handles one row
