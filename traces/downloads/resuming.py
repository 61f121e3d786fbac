"""HTTP downloads that resume after an interruption and accept only the expected bytes."""

from __future__ import annotations

import errno
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.support.files import sha256_of

if TYPE_CHECKING:
    from requests import RequestException, Response

CHUNK: Final = 1 << 16  # [byte] largest loss when the connection is cut
TIMEOUT_S = 30.0  # [s] longest wait for a connection, and for the next bytes
PAUSES_S = (1.0, 4.0)  # [s] pauses before the second and the third try
BUSY: Final = frozenset({429, 500, 502, 503, 504})  # HTTP status codes after which another try may succeed
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Watch = Callable[[str, int, int], None]
"""Callback with the current step, the number of bytes so far and the number of bytes in total."""


class AddressError(Exception):
    """An address did not deliver the file; the message says why."""


class CutError(Exception):
    """The server was busy, or the connection was cut: another try may succeed."""


@dataclass(frozen=True)
class ResumingDownloader:
    """A downloader for pooch that keeps the received bytes in ``partial`` until the file is complete and verified.

    A call raises AddressError if the address does not deliver the file; ``partial`` is kept if a later call can
    complete it. A call raises OSError if the folder cannot be written; if the disk is full, ``partial`` is removed.
    """

    partial: Path
    size: int
    sha256: str
    watch: Watch

    def __call__(self, url: str, output_file: str, _pooch: object) -> None:
        """Download ``url`` and move it to ``output_file``."""
        pauses = iter(PAUSES_S)
        while True:
            try:
                resumed = self._transfer(url)
            except CutError as error:
                pause_s = next(pauses, None)
                if pause_s is None:
                    kept = f"; {self._have():,} of {self.size:,} bytes are kept: run it again to resume"
                    raise AddressError(f"{error}, {1 + len(PAUSES_S)} times{kept if self._have() else ''}") from error
                time.sleep(pause_s)
                continue
            problem = self._problem()
            if not problem:
                break
            self.partial.unlink()
            if not resumed:  # a resumed download may be wrong because of its old part: download the whole file once
                raise AddressError(problem)
        self.partial.replace(output_file)

    def _have(self) -> int:
        return self.partial.stat().st_size if self.partial.exists() else 0

    def _transfer(self, url: str) -> bool:
        """Download the missing bytes; return whether they were appended to the bytes of an earlier try."""
        import requests

        have = self._have()
        if have == self.size:
            return True
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        try:
            response = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            if any(isinstance(cause, ConnectionResetError) for cause in _causes(error)):
                raise CutError("the connection was cut") from error
            raise AddressError(_unreachable(error)) from error
        with response:
            if have and response.status_code == 416:  # the kept part is longer than the file at this address
                self.partial.unlink()
                return self._transfer(url)
            if response.status_code in BUSY:
                raise CutError(f"HTTP {response.status_code} ({response.reason})")
            if not response.ok:
                raise AddressError(f"HTTP {response.status_code} ({response.reason})")
            resumed = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            self._write(response, have if resumed else 0)
        return resumed

    def _write(self, response: Response, done: int) -> None:
        import requests

        length = response.headers.get("Content-Length", "")
        whole = done + (int(length) if length.isdigit() else 0)
        if shutil.disk_usage(self.partial.parent).free < self.size - done:
            raise OSError(errno.ENOSPC, "No space left on device")
        try:
            with self.partial.open("ab" if done else "wb") as file:
                for chunk in response.iter_content(CHUNK):
                    done += file.write(chunk)
                    self.watch("downloading", done, self.size)
                    if done > self.size:
                        return
        except requests.RequestException as error:
            raise CutError("the connection was cut") from error
        except OSError as error:
            if error.errno in FULL:
                self.partial.unlink()
            raise
        if done < whole:  # urllib3 before version 2 raises no error for a cut connection
            raise CutError("the connection was cut")

    def _problem(self) -> str:
        """Say what is wrong with the received bytes; "" if they are the expected file."""
        size, found = self._have(), sha256_of(self.partial)
        if found == self.sha256:
            return ""
        with self.partial.open("rb") as file:
            beginning = file.read(100).lstrip().lower()
        if beginning.startswith(b"version https://git-lfs"):
            return "gave a Git LFS pointer instead of the file: take an address that serves large files"
        if beginning.startswith((b"<!doctype html", b"<html")):
            return "gave a web page instead of the file; does the network want a login?"
        return (
            f"gave another file, which was not kept: SHA-256 {found} ({size:,} bytes) instead of {self.sha256} "
            f"({self.size:,} bytes); it was changed or damaged there: take another address"
        )


def _unreachable(error: RequestException) -> str:
    """Say why the connection failed."""
    import requests

    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "the server's certificate was refused"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy was not reached"
    if any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
        return "the host is unknown (no network, or a wrong address)"
    return f"no connection ({type(error).__name__})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error of requests, then the errors of urllib3 and of the socket that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
