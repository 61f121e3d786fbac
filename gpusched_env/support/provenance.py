"""Where a result comes from: the command, the versions, and the event logs of its runs."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from gpusched_env import __version__

LIBRARIES: Final = ("numpy", "numba")
_command: list[str] = []


def remember_command(text: str) -> None:
    """Remember the command line that runs, as typed."""
    _command[:] = [text]


def origin() -> dict[str, Any]:
    """Return the command line, if there is one, and the versions of this package, Python and the libraries."""
    versions = {"gpusched-env": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in LIBRARIES}
    return {**({"command": _command[0]} if _command else {}), "versions": versions}


def versions_in_words() -> str:
    """Return the versions on one line."""
    return ", ".join(f"{name} {number}" for name, number in origin()["versions"].items())


def comments(runs: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return lines on the origin of a table and of its runs, which are as in JSON; for comments in a file.

    The event logs of a scheduler have one SHA-256, over lines "SEED DIGEST", one per run.
    """
    lines = [f"command: {text}" for text in _command] + [f"versions: {versions_in_words()}"]
    lines += dict.fromkeys(f"scenario: {run['scenario']}, fingerprint {run['fingerprint']}" for run in runs or ())
    logs: dict[str, str] = {}
    for run in sorted(runs or (), key=lambda run: run["seed"]):
        logs[run["label"]] = logs.get(run["label"], "") + f"{run['seed']} {run['digest']}\n"
    hashes = {label: hashlib.sha256(text.encode()).hexdigest() for label, text in logs.items()}
    lines += [f"event logs of {label}: {sha}" for label, sha in hashes.items()]
    return [" ".join(line.splitlines()) for line in lines]  # a line break would end the comment
