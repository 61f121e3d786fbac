"""Folders appear whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from gpusched_env.errors import GpuschedError

LOCK: Final = "lock"  # held by the process that fills a scratch folder


@contextlib.contextmanager
def whole_folder(path: Path, mark: str) -> Iterator[Path]:
    """Give an empty folder beside ``path``; it takes the place of ``path`` only if nothing goes wrong.

    What a process that was killed has left beside ``path`` is removed.

    Parameters
    ----------
    path : the folder; one that exists is replaced if it is empty or holds the file ``mark``
    mark : name of a file that says what made the folder

    Raises
    ------
    GpuschedError : ``path`` is a file or a folder of something else, or cannot be written
    """
    target = path.absolute()
    check_folder(target, mark)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        lock = FileLock(scratch / LOCK)
        lock.acquire()
    except OSError as error:
        raise GpuschedError(f"{path}: cannot be written ({error.strerror or error}); name another place") from error
    try:
        fresh, old = scratch / "new", scratch / "old"
        fresh.mkdir()
        yield fresh
        (fresh / mark).touch()
        check_folder(target, mark)
        if target.exists():
            target.replace(old)
        try:
            fresh.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
    except OSError as error:
        raise GpuschedError(f"{path}: cannot be written ({error.strerror or error}); name another place") from error
    finally:
        lock.release()
        shutil.rmtree(scratch, ignore_errors=True)


def _remove_abandoned(target: Path) -> None:
    """Remove scratch folders whose process is gone: the system frees the lock of one that was killed."""
    for lock_file in target.parent.glob(f".{glob.escape(target.name)}.*/{LOCK}"):
        lock = FileLock(lock_file)
        with contextlib.suppress(Timeout, OSError):
            lock.acquire(blocking=False)
            lock.release()
            shutil.rmtree(lock_file.parent, ignore_errors=True)


def check_folder(path: Path, mark: str) -> None:
    """Refuse to replace what was not made by the same command.

    Raises
    ------
    GpuschedError : a file, a link, or a folder with other things in it
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise GpuschedError(f"{path}: this is a file or a link; name a folder")
    if path.is_dir() and any(path.iterdir()) and not (path / mark).is_file():
        raise GpuschedError(f"{path}: this folder holds other things, which are not overwritten; name a new folder")
