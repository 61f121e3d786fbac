"""Writing files atomically, safe file names, and digests of files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import re
import secrets
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from gpusched_env.errors import GpuschedError

ABANDONED_S: Final = 86_400.0  # [s] a temporary file that nobody has written to for this time is of a killed process


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; at the end, move its file to ``path`` if no error occurred.

    Temporary files that killed processes have left in the folder are removed.
    """
    # The name is unpredictable, so that in a shared folder no other user can put a symbolic link there in advance.
    partial = path.with_name(f".{secrets.token_hex(8)}.part{path.suffix}")
    try:
        yield partial
        partial.replace(path)
        _remove_abandoned(path.parent)
    except OSError as error:
        raise GpuschedError(f"{path}: cannot be written ({error.strerror or error}); name another place") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _remove_abandoned(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process may remove them, too
        for partial in folder.glob(f".{'?' * 16}.part*"):
            if time.time() - partial.stat().st_mtime > ABANDONED_S:
                partial.unlink()


def write_whole(path: Path, text: str) -> None:
    """Write text as UTF-8, atomically and without conversion of line ends."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def toml_beside(module: str) -> dict[str, Any]:
    """Return what is in the TOML file beside a module, of the same name; ``module`` is its ``__file__``."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))


def file_name(text: str) -> str:
    """Turn ``text`` into a file name without ``:``, ``,``, ``=`` and spaces, which is valid on every system."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-")


def visible(text: object) -> str:
    r"""Return untrusted text, such as a file name, on one line, with escapes (``\x1b``) for unprintable characters.

    Unprintable characters could control the terminal or hide text. Bytes that are not UTF-8 cannot be printed at all.
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in str(text)
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_digest(path: Path, error: type[GpuschedError]) -> str:
    """Return the SHA-256 of a file; raise ``error`` if the file cannot be read."""
    try:
        return sha256_of(path)
    except (OSError, ValueError) as reason:  # ValueError: the path contains a null character
        raise error(f"{path}: cannot be read ({getattr(reason, 'strerror', None) or reason})") from reason


def read_arrays(stream: BinaryIO, most_bytes: int) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file by name; nothing in the file can run code, or take more memory than allowed.

    Parameters
    ----------
    most_bytes : limit of all arrays together, after decompression [byte]
    """
    if stream.read(4) != b"PK\x03\x04":
        raise ValueError("it is no .npz")
    arrays = {}
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        if (size := sum(part.file_size for part in parts)) > most_bytes:
            raise ValueError(f"{size:,} bytes after decompression are more than {most_bytes:,}")
        for part in parts:
            if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{part.filename} is not compressed by deflate")
            with archive.open(part) as opened:  # to read a given size decompresses no more than that
                data = opened.read(part.file_size)
            content = io.BytesIO(data)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, is_fortran, dtype = read_header[np.lib.format.read_magic(content)](content)
            begin = content.tell()
            if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - begin:
                raise ValueError(f"{part.filename} is not an array of {shape} {dtype}")
            array = np.frombuffer(data, dtype, offset=begin).reshape(shape, order="F" if is_fortran else "C")
            arrays[part.filename.removesuffix(".npy")] = array.copy(order="K")
    return arrays
