"""Workloads drawn at random from a seed.

To add a generator, write one function and add it to GENERATORS.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.portable import arrays, draws
from gpusched_env.problem.workload import Workload, refuse_too_many_jobs
from gpusched_env.traces.generators.bursty import bursty_jobs, check_bounds
from gpusched_env.traces.generators.calibration import read_calibration
from gpusched_env.traces.generators.dally_jobs import dally_jobs
from gpusched_env.traces.generators.demand import demand_of, demand_table, draw_demand
from gpusched_env.traces.generators.gavel_jobs import gavel_jobs
from gpusched_env.traces.generators.hadar_jobs import hadar_jobs
from gpusched_env.traces.generators.hadare_jobs import hadare_jobs
from gpusched_env.traces.generators.llm_jobs import llm_dev_jobs
from gpusched_env.traces.generators.pollux_jobs import bsbf_jobs, pollux_jobs
from gpusched_env.traces.generators.ring_all_reduce import ring_all_reduce_jobs
from gpusched_env.traces.generators.users import RECURRENCE, plant_users

MOST_OF_A_PARAMETER: Final = 1e9  # largest value of a parameter; counts fit into 32 bits and products stay finite
MOST_LOG_SIGMA: Final = 5.0  # the mean is then 3e5 medians
DURATION_LAWS: Final = ("constant", "exponential", "lognormal")
Generator = Callable[..., Workload]  # (rng, jobs, max_gpus=None, **parameters); in SEEDED, (seed, jobs, ...)


def calibrated(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    *,
    name: str,
    users: int = 0,
    theta: float = 10.0,
    **parameters: Any,
) -> Workload:
    """Draw jobs like those of the log ``name``.

    ``users``, ``theta`` : as for :func:`gpusched_env.traces.generators.users.plant_users`; with users, jobs have the
    attributes ``user``, ``virtual_cluster`` and ``name``. 0 = nobody submits them. Other parameters are those of
    :func:`gpusched_env.traces.generators.bursty.bursty_jobs`.
    """
    drawn = bursty_jobs(rng, jobs, CALIBRATIONS[name], max_gpus, **parameters)
    if not users:
        return Workload.from_columns(*drawn)
    planted = plant_users(rng, drawn, RECURRENCE[name], users, theta)
    return Workload.from_columns(*drawn[:2], planted.duration_s).unchecked_replace(attributes=planted.attributes())


@dataclass(frozen=True)
class RunTimes:
    """The law of run times, with the parameters of :func:`poisson`.

    Raises
    ------
    WorkloadError : a parameter out of range
    """

    law: str
    mean_s: float
    log_sigma: float
    least_s: float
    most_s: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        _positive("mean_duration_s", self.mean_s)
        if not 0 <= self.log_sigma <= MOST_LOG_SIGMA:
            raise WorkloadError(f"log_sigma is {self.log_sigma!r}: give 0 to {MOST_LOG_SIGMA:g}")
        check_bounds(self.least_s, self.most_s)

    def draw(self, rng: np.random.Generator, jobs: int) -> np.ndarray:
        """Draw run times [s], float64 [jobs]."""
        if self.law == "constant":
            shares = np.ones(jobs)
        elif self.law == "exponential":
            shares = draws.exponential(rng, jobs)
        else:
            sigma = self.log_sigma
            shares = arrays.exp(sigma * draws.normal(rng, jobs) - 0.5 * sigma * sigma)
        return np.clip(self.mean_s * shares, max(self.least_s, np.finfo(float).tiny), self.most_s)


def poisson(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    rate_per_s: float = 1.0,
    mean_duration_s: float = 1.0,
    durations: str = "exponential",
    log_sigma: float = 1.0,
    min_duration_s: float = 0.0,
    max_duration_s: float = math.inf,
    demand: Mapping[int, float] | None = None,
) -> Workload:
    """Draw jobs with Poisson arrivals, for comparison with queueing theory.

    Parameters
    ----------
    rate_per_s : mean rate of arrivals
    mean_duration_s : mean of the law of run times, before they are clipped [s]
    durations : law of run times: "exponential", "constant" or "lognormal"
    log_sigma : standard deviation of ln(run time) where the law is lognormal
    min_duration_s, max_duration_s : bounds to which run times are clipped [s]
    demand : probability of each gang size, None = one GPU
    """
    run_times = RunTimes(durations, mean_duration_s, log_sigma, min_duration_s, max_duration_s)
    _positive("rate_per_s", rate_per_s)
    arrival = np.cumsum(draws.exponential(rng, jobs)) / rate_per_s
    gpus = _gangs(rng, jobs, demand, max_gpus)
    return Workload.from_columns(arrival - arrival[0], gpus, run_times.draw(rng, jobs))


def batch(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    mean_duration_s: float = 1.0,
    durations: str = "exponential",
    log_sigma: float = 1.0,
    min_duration_s: float = 0.0,
    max_duration_s: float = math.inf,
    demand: Mapping[int, float] | None = None,
) -> Workload:
    """Draw jobs that all arrive at time 0; the parameters are those of :func:`poisson`."""
    run_times = RunTimes(durations, mean_duration_s, log_sigma, min_duration_s, max_duration_s)
    gpus = _gangs(rng, jobs, demand, max_gpus)
    return Workload.from_columns(np.zeros(jobs), gpus, run_times.draw(rng, jobs))


def drift(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    rate_per_s: float = 1.0,
    mean_duration_s: float = 1.0,
    durations: str = "exponential",
    log_sigma: float = 1.0,
    min_duration_s: float = 0.0,
    max_duration_s: float = math.inf,
    demand: Mapping[int, float] | None = None,
    late_demand: Mapping[int, float] | None = None,
    shift_s: float = math.inf,
    swing: float = 0.5,
    period_s: float = 86_400.0,
) -> Workload:
    """Draw Poisson arrivals whose rate changes with the time of day, and gang sizes whose distribution changes once.

    Parameters
    ----------
    late_demand : probability of each gang size for arrivals from ``shift_s`` on; None = ``demand``
    shift_s : time at which the gang sizes change [s]
    swing : the rate is (1 - swing) x its mean in the first half of each period and (1 + swing) x its mean in the second
    period_s : period of the rate [s]
    """
    run_times = RunTimes(durations, mean_duration_s, log_sigma, min_duration_s, max_duration_s)
    arrival = _swinging_arrivals(rng, jobs, rate_per_s, swing, period_s)
    before = demand or {1: 1.0}
    gpus = _shifting_gangs(rng, arrival, before, late_demand or before, shift_s, max_gpus)
    return Workload.from_columns(arrival, gpus, run_times.draw(rng, jobs))


CALIBRATIONS: Final = {name: read_calibration(name) for name in ("helios-venus", "pai", "philly")}
GENERATORS: Final[dict[str, Generator]] = {
    "batch": batch,
    "bsbf": bsbf_jobs,
    "dally": dally_jobs,
    "drift": drift,
    "gavel": gavel_jobs,
    "hadar": hadar_jobs,
    "hadare": hadare_jobs,
    "llm-dev": llm_dev_jobs,
    "poisson": poisson,
    "pollux": pollux_jobs,
    "ring-all-reduce": ring_all_reduce_jobs,
    **{name: partial(calibrated, name=name) for name in CALIBRATIONS},
}
# Generators that take the seed and reproduce the random streams of the published code
SEEDED: Final = frozenset({"gavel"})
# Parameters that map gang sizes to probabilities
DEMANDS: Final = ("demand", "late_demand")
# Generators that pass their keyword parameters on -> the function that receives them
_HANDED_ON: Final = dict.fromkeys(CALIBRATIONS, bursty_jobs)
_SET_HERE: Final = frozenset({"rng", "jobs", "calibration", "max_gpus", "name", "parameters", "seed"})


def generator_parameters(name: str) -> dict[str, Any]:
    """Return the names and defaults of a generator's parameters except ``jobs`` and ``max_gpus``.

    Raises
    ------
    WorkloadError : unknown generator
    """
    if name not in GENERATORS:
        raise WorkloadError(unknown_name("generator", name, GENERATORS))
    handed_on = _defaults(_HANDED_ON[name]) if name in _HANDED_ON else {}
    return handed_on | _defaults(GENERATORS[name])


@cache
def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key not in _SET_HERE}


def check_parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the names and the types of a generator's parameters; return those that are not None."""
    known = generator_parameters(name)
    given = {key: value for key, value in parameters.items() if value is not None}
    for key, value in parameters.items():
        if key not in known:
            raise WorkloadError(f"synthetic:{name}: {unknown_name('parameter', key, known)}")
        if key in DEMANDS and value is not None:
            given[key] = demand_of(value)
        elif key == "durations":
            if value not in DURATION_LAWS:
                raise WorkloadError(f"durations: {unknown_name('law', str(value), DURATION_LAWS)}")
        elif isinstance(known[key], bool):
            if not isinstance(value, bool | None):
                raise WorkloadError(f"synthetic:{name}: {key} is {value!r}: give true or false, or leave it out")
        elif value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_OF_A_PARAMETER
        ):
            raise WorkloadError(
                f"synthetic:{name}: {key} is {value!r}: give a finite number, at most {MOST_OF_A_PARAMETER:g}, "
                "or leave it out"
            )
    return given


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Make the PCG64 generator of a seed and stream, whatever the machine, worker process or order of calls."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))


def generate_workload(name: str, seed: int, jobs: int, max_gpus: int | None = None, **parameters: Any) -> Workload:
    """Draw ``jobs`` jobs from the generator ``name``; the same seed gives the same jobs.

    Arrivals [s] start at 0. Work is given by ``duration_s`` [s] and every job has the unit profile, unless the
    docstring of the generator says otherwise.

    Parameters
    ----------
    name : name of the generator, a key of GENERATORS
    seed : seed of the random numbers
    jobs : number of jobs
    max_gpus : larger gangs are left out; None = no limit [GPU]
    parameters : parameters of the generator, see :func:`generator_parameters`

    Raises
    ------
    WorkloadError : unknown generator or parameter, a parameter out of range, or more than MOST_JOBS jobs
    """
    given = check_parameters(name, parameters)
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise WorkloadError(f"synthetic:{name}: jobs is {jobs!r}: it must be a whole number of at least 1")
    refuse_too_many_jobs(jobs, f"synthetic:{name}")
    return draw_jobs(name, seed, jobs, max_gpus, given)


def draw_jobs(name: str, seed: int, jobs: int, max_gpus: int | None, given: Mapping[str, Any]) -> Workload:
    """Draw as :func:`generate_workload`; ``given`` is what :func:`check_parameters` has returned."""
    drawn = GENERATORS[name](seed if name in SEEDED else random_stream(seed, 0), jobs, max_gpus, **given)
    return drawn.unchecked_replace(name=name, source=f"synthetic:{name}")


def _positive(name: str, value: float) -> None:
    if not value > 0 or not math.isfinite(value):
        raise WorkloadError(f"{name} is {value!r}: it must be a finite number > 0")


def _gangs(rng: np.random.Generator, jobs: int, demand: Mapping[int, float] | None, max_gpus: int | None) -> np.ndarray:
    return draw_demand(rng, jobs, demand_table(demand or {1: 1.0}, max_gpus))


def _swinging_arrivals(
    rng: np.random.Generator, jobs: int, rate_per_s: float, swing: float, period_s: float
) -> np.ndarray:
    """Draw a Poisson process whose rate alternates between ``1 - swing`` and ``1 + swing`` times its mean.

    A period of ``period_s`` seconds begins quiet. With ``swing`` 1, no job but the first arrives in the quiet halves.
    Returns ascending times [s] from 0. The draw is exact: the arrivals of a process of rate 1 are mapped through the
    inverse of the expected number of arrivals, which is piecewise linear in time.
    """
    _positive("rate_per_s", rate_per_s)
    _positive("period_s", period_s)
    if not 0 <= swing <= 1:
        raise WorkloadError(f"swing is {swing!r}: it must be a share, 0 <= swing <= 1")
    passed = np.cumsum(draws.exponential(rng, jobs))
    # Arrival times at the constant mean rate, as a number of periods and a time within the period
    periods, within = np.divmod((passed - passed[0]) / rate_per_s, period_s)
    quiet_s = 0.5 * (1 - swing) * period_s  # arrivals before this time within their period go into the quiet half
    quiet = within < quiet_s
    late = 0.5 * period_s + (within - quiet_s) / (1 + swing)
    early = within / (1 - swing) if swing < 1 else np.zeros_like(within)
    arrival: np.ndarray = periods * period_s + np.where(quiet, early, late)
    arrival[0] = 0.0  # also with swing 1, where no other job arrives in a quiet half
    return arrival


def _shifting_gangs(
    rng: np.random.Generator,
    arrival_s: np.ndarray,
    before: Mapping[int, float],
    after: Mapping[int, float],
    shift_s: float,
    max_gpus: int | None = None,
) -> np.ndarray:
    """Draw gang sizes [GPU], int64 [jobs]: from ``before`` for arrivals before ``shift_s`` [s], else from ``after``."""
    if not shift_s >= 0:
        raise WorkloadError(f"shift_s is {shift_s!r}: it must be a time >= 0, or left out for no shift")
    drawn = rng.random(len(arrival_s))
    tables = [demand_table(mix, max_gpus) for mix in (before, after)]
    sizes = [gpus[np.searchsorted(cumulative, drawn, side="right")] for gpus, cumulative in tables]
    gangs: np.ndarray = np.where(arrival_s < shift_s, *sizes)
    return gangs
