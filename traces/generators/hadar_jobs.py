"""A job mix for a cluster of three GPU types, after the set-up of Hadar's evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import draws
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.generators.bursty import bursty_jobs
from gpusched_env.traces.generators.calibration import read_calibration
from gpusched_env.traces.generators.demand import demand_table, draw_demand
from gpusched_env.traces.profile_tables import load_measured


class SizeClass(NamedTuple):
    """A share of the jobs: uniform bounds of the GPU-hours on V100, and their model families."""

    share: float
    least_h: float
    most_h: float
    families: tuple[str, ...]


# The bounds and families are believed to be those of the paper, but were not checked against it. The shares and the
# lowest bound, 0.05 h, are choices, because the paper's values are not known.
SIZES: Final = (
    SizeClass(0.55, 0.05, 1.0, ("ResNet-18",)),
    SizeClass(0.30, 1.0, 10.0, ("CycleGAN",)),
    SizeClass(0.13, 10.0, 50.0, ("LM", "Transformer")),
    SizeClass(0.02, 60.0, 100.0, ("ResNet-50",)),
)
GANGS: Final = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}  # of models measured on several GPUs; those of Gavel (choice)


def hadar_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    mean_gap_s: float = 0.0,
    bursty: bool = False,
    demand: Mapping[int, float] | None = None,
    ignore_placement: bool = False,
) -> Workload:
    """Draw jobs of four size classes that train models of Gavel's throughput table; work is given by iterations.

    A job with H GPU-hours on W GPUs has as many iterations as its model completes in H / W hours on W V100 GPUs in one
    machine. Profiles are for V100, P100 and K80; ResNet-50 with a batch of 128 does not run on several K80 GPUs.
    Attributes: model, size (S, M, L, XL) and v100_gpu_hours.

    ``mean_gap_s`` = 0: all arrive at time 0; ``bursty``: in bursts like those of Philly, else as a Poisson process.
    ``demand`` is the probability of each gang size instead of GANGS, for models measured on several GPUs.

    References
    ----------
    Sultana et al., arXiv 2503.10918 and IPDPS 2024 (set-up, reconstructed); Narayanan et al., OSDI 2020 (throughputs).
    """
    if not 0 <= mean_gap_s < math.inf:
        raise WorkloadError(f"mean_gap_s is {mean_gap_s!r}: it must be a finite number of seconds >= 0")
    if bursty and mean_gap_s == 0:
        raise WorkloadError("bursty is true but mean_gap_s is 0: give the mean gap between arrivals [s]")
    table = load_measured("gavel")
    kinds = rng.choice(len(SIZES), jobs, p=[size.share for size in SIZES])
    least_h, most_h = np.array([(SIZES[kind].least_h, SIZES[kind].most_h) for kind in kinds]).T
    hours = draws.uniform(rng, least_h, most_h)
    drawn_gangs = draw_demand(rng, jobs, demand_table(GANGS if demand is None else demand, max_gpus))
    which = rng.random(jobs)
    models, gangs, steps = [], [], []
    for kind, job_hours, gang, draw in zip(
        kinds.tolist(), hours.tolist(), drawn_gangs.tolist(), which.tolist(), strict=True
    ):
        family = [name for name in table.models if name.partition(" (")[0] in SIZES[kind].families]
        gpus = gang if any(len(table.models[name].gangs) > 1 for name in family) else 1
        able = [name for name in family if "V100" in table.gpu_types_of(name, gpus)]
        if not able:
            raise WorkloadError(f"synthetic:hadar: no {' or '.join(SIZES[kind].families)} was measured on {gpus} GPUs")
        model = able[int(draw * len(able))]
        models.append(model)
        gangs.append(gpus)
        steps.append(job_hours * 3600.0 / gpus * table.models[model].rates["V100"][gpus][0])
    profiles, profile = table.for_jobs(models, gangs, ignore_placement=ignore_placement)
    return Workload.from_columns(
        _arrivals(rng, jobs, mean_gap_s, bursty),
        gangs,
        iterations=steps,
        profiles=profiles,
        profile=profile,
        attributes={"model": np.array(models), "size": np.array(["S", "M", "L", "XL"])[kinds], "v100_gpu_hours": hours},
    )


def _arrivals(rng: np.random.Generator, jobs: int, mean_gap_s: float, bursty: bool) -> np.ndarray:
    """Draw arrival times; float64 [jobs], ascending from 0 [s]."""
    if mean_gap_s == 0:
        return np.zeros(jobs)
    if bursty:
        submitted_s: np.ndarray = bursty_jobs(rng, jobs, read_calibration("philly"))[0]
        return submitted_s * (mean_gap_s * (jobs - 1) / max(float(submitted_s[-1]), 1.0))
    gaps = draws.exponential(rng, jobs) * mean_gap_s
    arrival_s: np.ndarray = np.cumsum(gaps) - gaps[0]
    return arrival_s
