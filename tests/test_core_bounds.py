"""No kernel reads or writes beyond an array: short runs of the battery with bounds checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_core_kernel_cache import STRICT

from gpusched_env.core.handle import INTERPRETED

TWINS = """
import runpy
sys.argv = ["portability", "--parts", "twins"]
runpy.run_module("gpusched_env.portability", run_name="__main__")
"""


@pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: NumPy checks indices anyway")
def test_the_short_runs_of_the_battery_stay_within_their_arrays(tmp_path: Path) -> None:
    """Every scheduler on every kind of scenario, and batches; an IndexError in a kernel ends the process."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    surroundings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    played = subprocess.run(
        [sys.executable, "-W", "error", "-c", STRICT + TWINS], env=os.environ | surroundings, cwd=tmp_path, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout[-2_000:] + played.stderr[-2_000:]
    assert "all digests are the golden ones" in played.stdout
