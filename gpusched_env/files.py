"""Files appear whole or not at all, and are known by their bytes."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from gpusched_env.errors import GpuschedError


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a path beside ``path`` to write to; it takes the place of ``path`` only if nothing goes wrong.

    Raises
    ------
    GpuschedError : the disk is full, the folder is missing, or it may not be written
    """
    # Nobody can foresee the name: in a folder that others may write, no link of theirs sends the bytes elsewhere.
    partial = path.with_name(f".{secrets.token_hex(8)}.part{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise GpuschedError(f"{path}: cannot be written ({error.strerror or error}); name another place") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text, line ends as they are."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def file_name(text: str) -> str:
    """Give a name, of a scenario say, as a file may have it on every system: without ``:``, ``,``, ``=`` or spaces."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-")


def visible(text: object) -> str:
    r"""Give a text of a stranger, such as a file's name, on one line: ``\x1b`` and its like stand as escapes.

    What is not printable could steer a terminal, hide or turn a text; bytes that are no UTF-8 cannot be written at all.
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in str(text)
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_digest(path: Path, error: type[GpuschedError]) -> str:
    """SHA-256 of a file's bytes; a file that cannot be read raises ``error``."""
    try:
        return sha256_of(path)
    except (OSError, ValueError) as reason:  # a ValueError for a path with a null character
        raise error(f"{path}: cannot be read ({getattr(reason, 'strerror', None) or reason})") from reason
