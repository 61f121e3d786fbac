"""Checkpoints of networks: arrays and JSON in one ``.npz`` file, so that reading it runs no code."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.files import whole

LARGEST_BYTES: Final = 2_000_000  # [byte] limit of a checkpoint
_METADATA: Final = "metadata"
_FILE_DATE: Final = (1980, 1, 1, 0, 0, 0)  # a constant, so that equal networks give equal files


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of all weights, in the order of the arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())).hexdigest()


def write_checkpoint(path: Path, metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays and metadata; equal ones give equal files.

    Parameters
    ----------
    metadata : anything that JSON can hold; the SHA-256 of the weights is added

    Raises
    ------
    GpuschedError : the file has more than 2 MB, or cannot be written
    """
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
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return str(json.loads(file[_METADATA].tobytes())["format"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        return ""


def read_checkpoint(path: Path, file_format: str, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read metadata and arrays that :func:`write_checkpoint` wrote.

    Parameters
    ----------
    file_format : value of the metadata's field ``format`` that the caller can read
    what : what the file should be, for messages, such as "a delay tuner"

    Raises
    ------
    SchedulerError : the file is missing, damaged, or of another format
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            metadata = json.loads(file[_METADATA].tobytes())
            if metadata["format"] != file_format:
                raise SchedulerError(
                    f"{path}: format {metadata['format']!r} is not {file_format!r}; train {what} again"
                )
            arrays = {name: file[name] for name in file.files if name != _METADATA}
    except OSError as error:
        raise SchedulerError(f"{path}: cannot be read ({error.strerror or error}); name {what}") from error
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SchedulerError(f"{path}: not {what} ({error}); train one again") from error
    if metadata.get("weights_sha256") != digest_of(arrays):
        raise SchedulerError(f"{path}: the weights do not match their SHA-256; fetch it or train {what} again")
    return metadata, arrays
