"""Write folders atomically."""

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

LOCK: Final = "lock"  # name of the file that the process which fills a scratch folder keeps locked


@contextlib.contextmanager
def whole_folder(path: Path, mark: str) -> Iterator[Path]:
    """Open a context with an empty scratch folder, which replaces ``path`` on exit if there was no error.

    The scratch folder is in the parent folder of ``path``. Scratch folders of killed processes are removed there. An
    existing folder is replaced if it is empty or has the file ``mark``, which the same command made.
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
    """Remove scratch folders whose process has ended; the system releases the lock of a killed process."""
    for lock_file in target.parent.glob(f".{glob.escape(target.name)}.*/{LOCK}"):
        lock = FileLock(lock_file)
        with contextlib.suppress(Timeout, OSError):
            lock.acquire(blocking=False)
            lock.release()
            shutil.rmtree(lock_file.parent, ignore_errors=True)


def check_folder(path: Path, mark: str) -> None:
    """Check that ``path`` may be replaced: it must be absent, an empty folder, or a folder with the file ``mark``."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise GpuschedError(f"{path}: this is a file or a link; name a folder")
    if path.is_dir() and any(path.iterdir()) and not (path / mark).is_file():
        raise GpuschedError(f"{path}: this folder holds other things, which are not overwritten; name a new folder")
