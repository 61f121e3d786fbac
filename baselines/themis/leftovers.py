"""Which job of an app takes the next GPUs, and which app takes GPUs that the auction leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpusched_env.baselines.themis.places import Menu


class Step(NamedTuple):
    """The next GPUs that an app would take: ``job`` gets ``size`` GPUs instead of those that it has."""

    job: int
    size: int
    more: int  # [GPU]


def next_step(jobs: Sequence[int], sizes: Mapping[int, int], menus: Sequence[Menu], gpus: int) -> Step | None:
    """Return the next step of an app; None = it can use no GPUs.

    Every job gets its smallest size, in order; then the job with the fewest GPUs gets its next size. Jobs that cannot
    use the GPUs that are left are passed over. Ties: the first job.

    Parameters
    ----------
    jobs : jobs of the app that want GPUs, in order
    sizes : GPUs that some of them have
    menus : menu of each job, by row
    gpus : number of GPUs that are left
    """
    best: Step | None = None
    for job in jobs:
        menu, had = menus[job].sizes, sizes.get(job, 0)
        if had == 0:
            if menu[0] <= gpus:
                return Step(job, menu[0], menu[0])
        elif had != menu[-1]:
            size = menu[menu.index(had) + 1]
            if size - had <= gpus and (best is None or had < sizes.get(best.job, 0)):
                best = Step(job, size, size - had)
    return best
