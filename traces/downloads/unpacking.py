"""Extract one file from a downloaded archive, and detect whether that file is changed later."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from gpusched_env.errors import FetchError
from gpusched_env.support.files import sha256_of, whole, write_whole
from gpusched_env.traces.downloads.public_files import PublicFile
from gpusched_env.traces.downloads.resuming import CHUNK, Watch


def unharmed(public: PublicFile) -> bool:
    """Whether the file has its published checksum; if none is published, the one that it had when it was unpacked."""
    if not public.file.is_file():
        return False
    expected = (public.unpacked_sha256 or _noted(public)) if public.packed else public.sha256
    return sha256_of(public.file) == expected


def unpack(public: PublicFile, watch: Watch) -> None:
    """Extract the file from its archive, and keep the archive.

    Raises
    ------
    FetchError : the archive has no such file, or the file's SHA-256 is not the published one
    """
    with (
        public.download.open("rb") as packed,
        tarfile.open(fileobj=packed, mode="r|gz") as archive,
        whole(public.file) as part,
    ):
        for member in archive:
            watch("unpacking", packed.tell(), public.bytes)
            if member.isfile() and Path(member.name).name == public.file.name:
                stream = archive.extractfile(member)
                assert stream is not None  # the member is a regular file
                break
        else:
            raise FetchError(f"{public.download}: there is no file {public.file.name} in it")
        with part.open("wb") as file:
            shutil.copyfileobj(stream, file, CHUNK)
        found = sha256_of(part)
        if public.unpacked_sha256 not in ("", found):
            raise FetchError(
                f"{public.download}: {public.file.name} in it has SHA-256 {found}, not {public.unpacked_sha256}"
            )
        write_whole(_note(public), found)


def _note(public: PublicFile) -> Path:
    """Return the path at which :func:`unpack` stores the SHA-256 of the unpacked file; owners rarely publish it."""
    return public.file.with_name(f".{public.file.name}.sha256")


def _noted(public: PublicFile) -> str:
    note = _note(public)
    return note.read_text(encoding="utf-8") if note.is_file() else ""
