"""``python -m tools.portability``: run the battery on this machine and compare with the golden digests."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Annotated, Final

import numba
import numpy as np
import typer
from llvmlite import binding

from tools.portability.battery import PARTS

GOLDEN: Final = Path(__file__).with_name("golden.json")

Digests = dict[str, str]


def machine() -> str:
    """Describe everything that floating-point bits depend on: processor, numpy's loops, compiler target, versions."""
    import scipy

    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    loops = ", ".join(found) or "baseline"
    target = numba.config.CPU_NAME or binding.get_host_cpu_name()
    library = " ".join(platform.libc_ver()) or "C library unknown"
    return (
        f"{platform.system()} {platform.machine()}, {library}; compiled for {target}; NumPy's loops: {loops}\n"
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Numba {numba.__version__}"
    )


def compare(part: str, found: Digests, golden: Digests) -> int:
    """Print the digests that differ, and return their number."""
    wrong = sorted(name for name in found.keys() | golden.keys() if found.get(name) != golden.get(name))
    print(f"{part:<16} {len(found):>3} digests  {'DIFFER' if wrong else 'equal'}", flush=True)
    for name in wrong:
        print(f"    {name}: {found.get(name, 'not run')}, golden {golden.get(name, 'unknown')}")
    return len(wrong)


def main(
    write: Annotated[bool, typer.Option("--write", help="Make this machine's digests the golden ones.")] = False,
    parts: Annotated[str, typer.Option(help="Run only these parts, separated by semicolons.")] = "",
) -> None:
    """Run draws, simulations and environments, and compare the digests of their bits with the golden ones.

    Equal digests mean equal results: the same event logs, metrics and observations, bit for bit. The first run compiles
    the simulator, which takes a minute or two. Exit status 1: something differs; send the output with your report.
    """
    chosen = [part.strip() for part in parts.split(";") if part.strip()] or list(PARTS)
    if unknown := [part for part in chosen if part not in PARTS]:
        raise typer.BadParameter(f"no part {unknown[0]!r}; parts: {'; '.join(PARTS)}", param_hint="--parts")
    if write and parts:
        raise typer.BadParameter("the golden digests are written whole: leave out --parts", param_hint="--write")
    print(machine(), flush=True)
    if write:
        found = {part: dict(digests()) for part, digests in PARTS.items()}
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{GOLDEN}: {sum(map(len, found.values()))} digests written")
        return
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    wrong = sum(compare(part, dict(PARTS[part]()), golden.get(part, {})) for part in chosen)
    print(f"{wrong} digests differ from the golden ones" if wrong else "all digests are the golden ones")
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
