"""Imports inside functions: each has one of the reasons that CONTRIBUTING.md lists."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpusched_env

PACKAGE = Path(gpusched_env.__file__).parent
ROOT = PACKAGE.parent
# Name of a module -> name of the distribution, where they differ.
DISTRIBUTIONS = {"PIL": "matplotlib", "markupsafe": "jinja2", "sb3_contrib": "sb3-contrib"}
DISTRIBUTIONS |= {"stable_baselines3": "stable-baselines3"}
# Libraries that take long to load, and resource, which not every system has.
SLOW = {"scipy", "rich", "joblib", "requests", "networkx", "pooch", "zstandard", "resource"}
COMMAND = "from typer.testing import CliRunner; from gpusched_env.cli import app; CliRunner().invoke(app, {!r})"
MAKE = "import gymnasium, gpusched_env; env = gymnasium.make('gpusched/Cluster-v0')"
STARTS = (
    "import gpusched_env",
    COMMAND.format(["--help"]),
    COMMAND.format(["schedulers", "list"]),
    COMMAND.format(["scenarios", "list"]),
    MAKE,
    f"{MAKE}; env.reset(seed=0); env.step(env.action_space.sample())",
)


@pytest.fixture(scope="module")
def starts() -> list[set[str]]:
    """Return the modules that are loaded after each of STARTS."""
    found = []
    for code in STARTS:
        tell = f"{code}; import sys, json; print(json.dumps(sorted(sys.modules)))"
        out = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, check=True, cwd=ROOT)
        found.append(set(json.loads(out.stdout.splitlines()[-1])))
    return found


def extras() -> set[str]:
    """Return the names of the distributions of all extras."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("no checkout")
    lists = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"].values()
    return {text.split(">")[0].split("[")[0].split(";")[0].strip() for texts in lists for text in texts}


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that an import loads."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    names = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if is_module(name) else str(node.module) for name in names]


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_every_import_inside_a_function_has_a_reason(starts: list[set[str]]) -> None:
    optional, wrong = extras(), []
    files = [
        path for folder in (PACKAGE, *(p for p in PACKAGE.iterdir() if p.is_symlink())) for path in folder.rglob("*.py")
    ]
    assert len(files) > 500
    for path in files:
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        functions = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)]
        for node in {
            one for function in functions for one in ast.walk(function) if isinstance(one, ast.Import | ast.ImportFrom)
        }:
            names = imported(node)
            packages = {name.split(".")[0] for name in names}
            later = any(own in start and not start.issuperset(names) for start in starts)
            slow = bool(packages & SLOW) and not any(own in start and start.issuperset(names) for start in starts)
            if not (later or slow or {DISTRIBUTIONS.get(name, name) for name in packages} & optional):
                wrong.append(f"{path}:{node.lineno}: {', '.join(names)}")
    assert not wrong, "move them to the top of their modules:\n" + "\n".join(sorted(wrong))
