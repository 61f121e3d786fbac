"""Checkpoints of networks: arrays and JSON in one ``.npz`` file, so that reading it runs no code."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.support.files import read_arrays, visible, whole

LARGEST_BYTES: Final = 2_000_000  # [byte] limit of a checkpoint
MOST_BYTES: Final = 64_000_000  # [byte] limit of what a checkpoint holds, after decompression
# Errors of reading a damaged file, and of making an agent from what is in it: zip, JSON, numpy and torch raise a dozen.
DAMAGED: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RuntimeError,
    TypeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_METADATA: Final = "metadata"
_FILE_DATE: Final = (1980, 1, 1, 0, 0, 0)  # a constant, so that equal networks give equal files


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of all weights, in the order of the arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())).hexdigest()


def write_checkpoint(path: Path, metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays and metadata (JSON), to which the SHA-256 of the weights is added; equal ones give equal files."""
    text = json.dumps(dict(metadata) | {"weights_sha256": digest_of(arrays)}, sort_keys=True)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in {_METADATA: np.frombuffer(text.encode(), np.uint8), **arrays}.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _FILE_DATE), part.getvalue(), zipfile.ZIP_DEFLATED)
    if stream.tell() > LARGEST_BYTES:
        raise GpuschedError(f"{path}: the network has {stream.tell():,} bytes; a checkpoint may have {LARGEST_BYTES:,}")
    with whole(path) as partial:
        partial.write_bytes(stream.getvalue())


def format_of(path: Path) -> str:
    """Return the format of a checkpoint; "" = the file is missing or is no checkpoint."""
    try:
        return str(_read(path)[0]["format"])
    except DAMAGED:
        return ""


@contextlib.contextmanager
def checkpoint(path: Path, file_format: str, what: str) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Yield metadata and arrays that :func:`write_checkpoint` wrote, to a body that makes an agent, ``what``."""
    try:
        metadata, arrays = _read(path)
        if metadata["format"] != file_format:
            raise SchedulerError(f"{path}: format {metadata['format']!r} is not {file_format!r}; train {what} again")
        if metadata["weights_sha256"] != digest_of(arrays):
            raise SchedulerError(f"{path}: the weights do not match their SHA-256; fetch it or train {what} again")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise SchedulerError(f"{path}: some weights are not finite; train {what} again")
        yield metadata, arrays
    except SchedulerError as error:
        raise (error if str(path) in str(error) else SchedulerError(f"{path}: {error}")) from None
    except OSError as error:
        raise SchedulerError(f"{path}: cannot be read ({error.strerror or error}); name {what}") from error
    except DAMAGED as error:
        why = visible(f"{type(error).__name__}: {error}".splitlines()[0][:200])
        raise SchedulerError(f"{path}: not {what} ({why}); train one again") from error


def weights_of(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of the array ``weights``, one for each of ``names``."""
    weights = arrays["weights"]
    if weights.shape != (len(names),):
        raise ValueError(f"weights are {list(weights.shape)}, not one for each of {', '.join(names)}")
    return tuple(weights.astype(np.float64).tolist())


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with path.open("rb") as stream:
        arrays = read_arrays(stream, MOST_BYTES)
    metadata = json.loads(arrays.pop(_METADATA).tobytes())
    if not isinstance(metadata, dict):
        raise ValueError("its metadata are no object of JSON")
    return metadata, arrays
