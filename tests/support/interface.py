"""The interface that docs/api.md promises to keep: names, ids, commands with their options, and files.

    python tests/support/interface.py        writes tests/golden/interface.json again

``tests/golden/files`` holds files that version 1.0.0 wrote. They are never written again within a major version.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from code_blocks import blocks_of

import gpusched_env
from gpusched_env.baselines import BASELINES
from gpusched_env.cli import app
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.leaderboard import TRACKS
from gpusched_env.scenarios import list_scenarios
from gpusched_env.support.commands import Command

ROOT = Path(gpusched_env.__file__).parents[1]
KEPT = ROOT / "tests" / "golden" / "interface.json"
FILES = ROOT / "tests" / "golden" / "files"


def documented() -> dict[str, set[str]]:
    """The names that README, the documentation and the examples import, by module."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    texts = [one.text for page in pages for one in blocks_of(page.read_text("utf-8")) if one.language == "python"]
    texts += [path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.py")]
    found: dict[str, set[str]] = {}
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("gpusched_env"):
            found.setdefault(str(node.module), set()).update(one.name for one in node.names)
    return found


def public_modules() -> set[str]:
    """The package, the modules of docs/api.md, and those that the documentation imports from."""
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    return {"gpusched_env", *re.findall(r"^   (gpusched_env\.\S+)$", page, re.M), *documented()}


def listed(module: str) -> list[str]:
    """The names in ``__all__`` of a module, which need not be importable: its library may be missing."""
    if module == "gpusched_env":
        return sorted(gpusched_env.__all__)
    path = ROOT / "gpusched_env" / Path(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    return []


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Each command with its options."""
    command = typer.main.get_command(app) if command is None else command
    if isinstance(command, Command):
        options = command.get_params(typer.Context(command))
        yield " ".join(path), sorted(name for one in options for name in one.opts if name.startswith("--"))
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def parameters(name: str) -> list[str]:
    """The parameters of a scheduler."""
    module, _, of_class = BASELINES[name].target.partition(":")
    cls = getattr(importlib.import_module(module), of_class)
    return sorted(one.name for one in dataclasses.fields(cls) if one.init) if dataclasses.is_dataclass(cls) else []


def interface() -> dict[str, dict[str, list[str]]]:
    """All that is promised."""
    return {
        "names": {module: listed(module) for module in sorted(public_modules())},
        "commands": dict(sorted(commands())),
        "schedulers": {name: parameters(name) for name in sorted(BASELINES)},
        "ids": {
            "environments": sorted(ENVIRONMENTS),
            "scenarios": sorted(list_scenarios()),
            "tracks": sorted(track.name for track in TRACKS),
        },
    }


if __name__ == "__main__":
    KEPT.write_text(json.dumps(interface(), indent=1) + "\n", encoding="utf-8")
