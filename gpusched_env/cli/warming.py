"""``gpusched warmup``: compile kernels ahead of the first run."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusched_env.cli.choosing import WORKERS, WorkersOption
from gpusched_env.errors import GpuschedError


def warmup(
    everything: Annotated[
        bool, typer.Option("--all", help="Also the loops of all schedulers, not only the simulator and environments.")
    ] = False,
    workers: WorkersOption = WORKERS,
) -> None:
    """Compile the simulator ahead, so that no run waits for compilation; kernels that are already compiled are skipped.

    Call it once in a container image or in CI. The machine code is kept in the user's cache folder, or in
    NUMBA_CACHE_DIR.
    """
    from gpusched_env.core.handle import cache_folder
    from gpusched_env.evaluation.progress import ProgressBar
    from gpusched_env.support.warmup import warm_up

    folder = cache_folder()
    if folder is None:
        raise GpuschedError(
            "warmup: the folder of the machine code cannot be written, or NUMBA_DISABLE_JIT is set; name another "
            "folder in NUMBA_CACHE_DIR"
        )
    with ProgressBar(1, delay_s=0.0) as bar:
        count = warm_up(everything, workers, lambda done, missing: bar.advanced("compiling: kernels", done, missing))
    print(f"{count} kernels compiled; machine code: {folder}")
