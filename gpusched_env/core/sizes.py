"""The size of an elastic job: the number of GPUs on which it runs, one of those in ``sizes``."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import WAITING, Run


@kernel(lazy=True)
def size_row(sim: Run, row: int, gpus: int) -> int:
    """Return the row of ``sizes`` for a number of GPUs of a job, by binary search; -1 = the job does not have it."""
    low = sim.jobs[row]["first_size"]
    end = low + sim.jobs[row]["sizes"]
    high = end
    while low < high:
        middle = (low + high) // 2
        if sim.sizes[middle]["gpus"] < gpus:
            low = middle + 1
        else:
            high = middle
    return low if low < end and sim.sizes[low]["gpus"] == gpus else -1


@kernel(lazy=True)
def set_size(sim: Run, row: int, size: int) -> None:
    """Set the present size of a job that is not running to that of a row of ``sizes``.

    Its attained service up to now is that at the size that it had.
    """
    job = sim.jobs[row]
    job["earlier_gpu_s"] += job["gpus"] * (job["service_s"] - job["earlier_s"])
    job["earlier_s"] = job["service_s"]
    if job["status"] == WAITING:
        sim.world["waiting_gpus"] += sim.sizes[size]["gpus"] - job["gpus"]
    job["gpus"] = sim.sizes[size]["gpus"]
    job["job_class"] = sim.sizes[size]["job_class"]
