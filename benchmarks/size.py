"""Size of the code, beside budgets: lines, files, functions, circles of imports, the wheel, tests and documentation.

    python benchmarks/size.py [--name] [--json]

* "The package" is all Python of ``gpusched_env``, ``baselines``, ``agents`` and ``traces``. Lines are all lines of its
  files, with comments and empty lines.
* Functions are those of the package, with methods. Their lines are those from ``def`` to the end, with docstrings.
  Parameters are counted by ruff (PLR0913, ``self`` and ``*`` aside), complexity is cyclomatic, by ruff (C901).
* A circle of imports is a strongly connected set of modules of the package. Imports inside functions and under
  ``if TYPE_CHECKING`` do not count, nor does the import of the packages above a module.
* The wheel is built with hatchling, as ``pip wheel`` builds it. ``-`` = it cannot be built here.
* Words of the documentation are separated by blanks, in the Markdown of ``docs/`` and its folders, tables and code
  included, and in the README, CONTRIBUTING and CHANGELOG. Pages that the build of the site makes do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import networkx
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("gpusched_env", "baselines", "agents", "traces")
LIMITS: Final = {"lines": 60, "PLR0913": 6, "C901": 15}  # of a function


def python_files(*folders: str) -> list[Path]:
    """List the Python files under folders of the repository; links are not followed."""
    links = [path for path in (ROOT / PARTS[0]).iterdir() if path.is_symlink()]
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if not any(link in path.parents for link in links)]


def lines_of(paths: list[Path]) -> int:
    """Count the lines of files."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def words_of(paths: list[Path]) -> int:
    """Count the words of files."""
    return sum(len(path.read_text().split()) for path in paths)


def long_functions() -> list[str]:
    """List the functions of the package that are too long."""
    found = []
    for path in python_files(*PARTS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > LIMITS["lines"]:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    return found


def refused_by_ruff(rule: str) -> list[str]:
    """List the functions of the package that break a rule with a limit, by ruff."""
    options = [f"lint.mccabe.max-complexity={LIMITS['C901']}", f"lint.pylint.max-args={LIMITS['PLR0913']}"]
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--output-format", "json"]
    command += [part for option in options for part in ("--config", option)]
    answer = subprocess.run([*command, "--select", rule, *PARTS], check=False, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode > 1:
        sys.exit(answer.stderr)
    links = tuple(str(ROOT / PARTS[0] / part) for part in PARTS)
    return [
        f"{Path(one['filename']).relative_to(ROOT)}:{one['location']['row']} {one['message']}"
        for one in json.loads(answer.stdout)
        if not one["filename"].startswith(links)
    ]


def module_of(path: Path) -> str:
    """Return the name under which a file of the package is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts if parts[0] == PARTS[0] else (PARTS[0], *parts))
    return name.removesuffix(".__init__")


def imported(body: list[ast.stmt], in_functions: bool) -> Iterator[tuple[str, str]]:
    """Yield (module, name or "") of each import in the body of a module, perhaps also of those in functions."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not in_functions:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imported(node.orelse, in_functions)
        else:
            for field in ("body", "orelse", "handlers", "finalbody"):
                yield from imported(getattr(node, field, []), in_functions)


def circles(in_functions: bool) -> list[str]:
    """List the circles of imports, each as the names of its modules."""
    modules = {module_of(path): path for path in python_files(*PARTS)}
    graph = networkx.DiGraph()
    for name, path in modules.items():
        for module, part in imported(ast.parse(path.read_text()).body, in_functions):
            wanted = f"{module}.{part}" if f"{module}.{part}" in modules else module
            if wanted in modules and wanted != name:
                graph.add_edge(name, wanted)
    found = (sorted(one) for one in networkx.strongly_connected_components(graph) if len(one) > 1)
    return [f"{len(one)} modules: {', '.join(one)}" for one in sorted(found)]


def wheel_mb() -> float | None:
    """Build the wheel and return its size [MB]; None = it cannot be built here."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        if subprocess.run(command, check=False, cwd=ROOT, capture_output=True).returncode:
            return None
        return max(path.stat().st_size for path in Path(folder).glob("*.whl")) / 1e6


def measure() -> Iterator[tuple[str, float | list[str] | None, float | None]]:
    """Yield (what, its number or a list of all that counts, budget)."""
    core = python_files("gpusched_env/core", "gpusched_env/envs")
    full = [path for path in python_files(*PARTS) if re.search(r"\b(LOG|BUFFER)_FULL\b", path.read_text())]
    yield "lines of core/ and envs/", lines_of(core), 11_500
    yield "files that name LOG_FULL or BUFFER_FULL", [str(path.relative_to(ROOT)) for path in full], 4
    yield f"functions above {LIMITS['lines']} lines", long_functions(), 15
    yield f"functions with more than {LIMITS['PLR0913']} parameters", refused_by_ruff("PLR0913"), 25
    yield f"functions with complexity above {LIMITS['C901']}", refused_by_ruff("C901"), 4
    yield "lines of the package", lines_of(python_files(*PARTS)), 78_000
    yield "circles of imports", circles(in_functions=False), 0
    yield "circles of imports, with those in functions", circles(in_functions=True), None
    yield "wheel [MB]", wheel_mb(), 2.5
    entries = [path for path in (ROOT / "gpusched_env/leaderboard/baselines").rglob("*") if path.is_file()]
    yield "shipped leaderboard entries [MB]", sum(path.stat().st_size for path in entries) / 1e6, 0.5
    yield "lines of tests", lines_of(python_files("tests")), 52_000
    made = {ROOT / "docs" / folder for folder in ("api", "tutorials", "examples")}
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not made & set(path.parents)]
    yield "words of the documentation", words_of([*pages, *ROOT.glob("*.md")]), 80_000


def shown(number: float | None) -> str:
    """Return a number as the table shows it."""
    return "-" if number is None else f"{number:,.3g}" if number < 100 else f"{number:,}"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", action="store_true", help="name each file, function and circle that counts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found = list(measure())
    if options.json:
        print(json.dumps({what: {"found": value, "budget": budget} for what, value, budget in found}, indent=2))
        return
    table = Table("what", "found", "at most")
    for what, value, budget in found:
        table.add_row(what, *map(shown, (len(value) if isinstance(value, list) else value, budget)))
    Console().print(table)
    for what, value, _ in found:
        if options.name and isinstance(value, list):
            print(f"\n{what}", *value, sep="\n  ")


if __name__ == "__main__":
    main()
