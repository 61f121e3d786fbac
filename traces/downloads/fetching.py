"""Fetch public data by name: download once, check the SHA-256, unpack an archive, and keep the file."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpusched_env.errors import FetchError
from gpusched_env.support.files import sha256_of, whole, write_whole
from gpusched_env.traces.downloads.public_files import PublicFile, data_folder, find
from gpusched_env.traces.downloads.resuming import CHUNK, FULL, AddressError, ResumingDownloader, Watch


def fetch(name: str, mirrors: Sequence[str] = (), watch: Watch = lambda step, done, size: None) -> Path:
    """Return the path of a public file in the data folder; download it first if it is missing or damaged.

    An interrupted download resumes where it stopped. If several processes fetch the same file, one downloads it and the
    others wait.

    Parameters
    ----------
    name : name or alias of the file, as ``gpusched traces list`` shows it
    mirrors : URL templates to try in this order, such as ``https://host/{repository}/{commit}/{path}``; empty = those
        in the environment variable GPUSCHED_MIRRORS (separated by spaces), or else the owners' address
    watch : called with the current step, the number of bytes so far and the number of bytes in total

    Raises
    ------
    FetchError : an unknown name, no network, an address without the file, a wrong checksum, a full disk, or a folder
        that cannot be written; the message says how to get the file by hand
    """
    public = find(name)
    templates = mirrors or os.environ.get("GPUSCHED_MIRRORS", "").split() or [public.address]
    urls = [public.url(template) for template in templates]
    with _explained(public):
        if _unharmed(public):
            return public.file
        from filelock import FileLock

        public.file.parent.mkdir(parents=True, exist_ok=True)
        watch("waiting for", 0, public.bytes)  # while another process holds the lock, then until the first byte
        with FileLock(public.download.with_name(f".{public.download.name}.lock")):
            if not _unharmed(public):
                _download(public, urls, watch)
                if public.packed:
                    _unpack(public, watch)
    return public.file


def _download(public: PublicFile, urls: Sequence[str], watch: Watch) -> None:
    """Try one address after the other; if a download with the right checksum exists, pooch keeps it."""
    import pooch

    downloader = ResumingDownloader(public.partial, public.bytes, public.sha256, watch)
    failures = []
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # messages of lower levels would break up a progress bar
    try:
        for url in urls:
            try:
                pooch.retrieve(
                    url,
                    f"sha256:{public.sha256}",
                    fname=public.download.name,
                    path=public.download.parent,
                    downloader=downloader,
                )
                return
            except AddressError as error:
                failures.append(f"{url}: {error}")
    finally:
        logger.setLevel(level)
    raise FetchError(
        f"{public.name} could not be fetched.\n"
        + ".\n".join(failures)
        + f".\nBy hand: open {public.url(public.address)} "
        f"and save it as {public.download} (SHA-256 {public.sha256}), then run this again; or set GPUSCHED_DATA to a "
        "folder that has it, or try another address with --mirror or GPUSCHED_MIRRORS"
    )


@contextmanager
def _explained(public: PublicFile) -> Iterator[None]:
    """Convert file-system errors into a FetchError with a remedy."""
    try:
        yield
    except OSError as error:
        folder = data_folder()
        if error.errno in FULL:
            free = shutil.disk_usage(next(parent for parent in public.file.parents if parent.exists())).free
            raise FetchError(
                f"{folder}: the disk is full: {public.name} takes {public.bytes:,} bytes, {free:,} are "
                "free; make room, or set GPUSCHED_DATA to a folder on another disk"
            ) from error
        raise FetchError(
            f"{error.filename or folder}: cannot be written or read ({error.strerror or error}); "
            "set GPUSCHED_DATA to a folder where you may write"
        ) from error


def _unharmed(public: PublicFile) -> bool:
    """Whether the file has its published checksum; if none is published, the one that it had when it was unpacked."""
    if not public.file.is_file():
        return False
    expected = (public.unpacked_sha256 or _noted(public)) if public.packed else public.sha256
    return sha256_of(public.file) == expected


def _unpack(public: PublicFile, watch: Watch) -> None:
    """Extract the file from its archive, and keep the archive."""
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
    """Return the path at which :func:`_unpack` stores the SHA-256 of the unpacked file; owners rarely publish it."""
    return public.file.with_name(f".{public.file.name}.sha256")


def _noted(public: PublicFile) -> str:
    note = _note(public)
    return note.read_text(encoding="utf-8") if note.is_file() else ""
