"""Malformed rows: refused, or skipped and counted where the caller asks for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.report import ReadReport

_skipped: ContextVar[ReadReport | None] = ContextVar("skipped", default=None)


class BadRowError(TraceError):
    """A malformed row.

    Attributes
    ----------
    numbers : its lines or record
    reason : by which a report counts it
    """

    def __init__(self, message: str, numbers: Sequence[int] = (), reason: str = "") -> None:
        super().__init__(message)
        self.numbers, self.reason = numbers, f"malformed: {reason}"


@contextmanager
def skipping_bad_rows() -> Iterator[None]:
    """Skip and count malformed rows meanwhile, in this thread; each reader adds them to its report."""
    token = _skipped.set(ReadReport("", ""))
    try:
        yield
    finally:
        _skipped.reset(token)


def skipped_rows() -> ReadReport | None:
    """Return the account of the rows skipped so far; None where bad rows are refused."""
    return _skipped.get()


def refuse_row(error: BadRowError) -> None:
    """Raise a malformed row, or count it where bad rows are skipped: the caller then goes on with the next one."""
    skipped = _skipped.get()
    if skipped is None:
        raise error
    skipped.rows += len(error.numbers)
    for number in error.numbers:
        skipped.drop(error.reason, number)


class _Skippable:
    """The body of a loop over rows. Without state: one object serves every row."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, BadRowError) or _skipped.get() is None:
            return False
        refuse_row(error)
        return True


skippable: Final = _Skippable()  # ``with skippable:`` around what a reader does with one row
