"""The lines of a user's code in an error, which a person who writes a scheduler has to see first."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import Final

import gpusched_env

WHOLE: Final = "GPUSCHED_TRACEBACK"  # environment variable that asks for the whole traceback
_FRAME: Final = re.compile(r'^  File "([^"]+)", line (\d+)(?:, in (.+))?\n((?:    .*\n)*)', re.MULTILINE)


def users_frames(error: BaseException) -> list[tuple[str, str, str]]:
    """Return file, line and text of the frames that are of neither this package, nor a library, nor the command.

    Frames of the causes come first, and so do those of another process, which an error has as a text only.
    """
    told = "".join(traceback.format_exception(error))
    found = ((match[1], match[2], match[0].rstrip()) for match in _FRAME.finditer(told))
    return [frame for frame in found if not _foreign(frame[0])]


@cache
def _foreign(file: str) -> bool:
    path, package = Path(file).resolve(), Path(gpusched_env.__file__).parent
    links = (package / part for part in ("agents", "baselines", "traces"))  # in a checkout
    folders = [package, package.parent / "tools", package.parent / "studies", *links]
    folders += [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    inside = any(path.is_relative_to(folder.resolve()) for folder in folders)
    return inside or not path.is_file() or path == Path(sys.argv[0]).resolve()
