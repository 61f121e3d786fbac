"""Filter the jobs of a workload by time, demand, attribute or position, or at random.

The jobs that are kept keep their ids and attributes.
"""

from __future__ import annotations

import difflib
import math
import re
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.transform import from_zero

_CONDITION: Final = re.compile(r"\s*(\w+)\s*(!?=)\s*(.*?)\s*")


def window(workload: Workload, start_s: float = 0.0, stop_s: float = math.inf) -> Workload:
    """Keep the jobs with ``start_s <= arrival < stop_s`` [s], and shift their arrivals so that the first is 0."""
    arrival = workload.jobs["arrival_s"]
    none = f"no job arrives from {start_s:g} s to {stop_s:g} s; arrivals run from 0 s to {arrival.max():g} s"
    return _keep(workload, (arrival >= start_s) & (arrival < stop_s), none)


def first_jobs(workload: Workload, count: int) -> Workload:
    """Keep the first ``count`` jobs by arrival; ties: the lower id. If there are fewer jobs, keep all."""
    return workload.select(np.lexsort([workload.jobs["id"], workload.jobs["arrival_s"]])[:count])


def up_to_gpus(workload: Workload, max_gpus: int) -> Workload:
    """Drop the jobs that demand more than ``max_gpus`` GPUs; :func:`clip_gpus` shrinks their gangs instead."""
    none = f"every job demands more than max_gpus = {max_gpus}; raise it"
    return _keep(workload, workload.jobs["gpus"] <= max_gpus, none)


def split_condition(condition: str) -> tuple[str, bool, list[str]]:
    """Split ``name=value,value`` or ``name!=value,value`` into the attribute, whether it is ``=``, and the values."""
    match = _CONDITION.fullmatch(condition)
    if match is None or not match[3]:
        raise WorkloadError(
            f"condition {condition!r}: write ATTRIBUTE=VALUE to keep jobs or ATTRIBUTE!=VALUE to drop them, "
            "with commas between several values"
        )
    return match[1], match[2] == "=", [value.strip() for value in match[3].split(",")]


def where(workload: Workload, condition: str) -> Workload:
    """Keep or drop the jobs whose attribute has one of the given values.

    The arrivals of the kept jobs are shifted so that the first is 0.

    Parameters
    ----------
    condition : ``virtual_cluster=6214e9,11cb48`` keeps the jobs of two virtual clusters. ``status!=Killed`` drops the
        killed jobs. Which attributes exist depends on the log: user, virtual_cluster, status, model and others
    """
    name, keep, values = split_condition(condition)
    if name not in workload.attributes:
        raise WorkloadError(f"workload {workload.name!r}: {unknown_name('attribute', name, workload.attributes)}")
    column = np.asarray(workload.attributes[name]).astype(str)
    chosen = np.isin(column, values) == keep
    near = [] if chosen.any() else difflib.get_close_matches(values[0], np.unique(column)[:1_000].tolist(), cutoff=0.0)
    return _keep(workload, chosen, f"no job has {condition}; values of {name} are {', '.join(map(repr, near))}, ...")


def sample(workload: Workload, amount: float, seed: int = 0) -> Workload:
    """Keep a random sample of the jobs, and shift their arrivals so that the first is 0.

    Parameters
    ----------
    amount : a number below 1 is the probability with which each job is kept; a whole number of at least 2 is the number
        of jobs to keep (all jobs if there are fewer)
    seed : seed of the hash; another seed keeps another sample

    Notes
    -----
    A hash of seed and job id decides whether a job is kept. So sampling with a probability commutes with the filters by
    attribute and demand, and the sample of a lower probability is a subset of that of a higher one. The hash is
    SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
    """
    check_amount(amount)
    rank = _split_mix(workload.jobs["id"], seed)
    if amount > 1:
        chosen = np.zeros(len(workload), bool)
        chosen[np.argsort(rank, kind="stable")[: int(amount)]] = True
    else:
        chosen = rank < np.uint64(amount * 2.0**64)
    return _keep(workload, chosen, f"a sample of {amount:g} holds none of its {len(workload)} jobs; raise the share")


def check_amount(amount: float) -> None:
    """Check the amount of :func:`sample`."""
    if not 0 < amount < math.inf or amount == 1 or (amount > 1 and amount != int(amount)):
        raise WorkloadError(f"sample is {amount!r}: give a share above 0 and below 1, or a number of jobs, at least 2")


def _keep(workload: Workload, chosen: np.ndarray, if_none: str) -> Workload:
    rows = np.flatnonzero(chosen)
    if not len(rows):
        raise WorkloadError(f"workload {workload.name!r}: {if_none}")
    return from_zero(workload.select(rows))


def _split_mix(ids: np.ndarray, seed: int) -> np.ndarray:
    """Hash ids to distinct uint64 values; the result has the shape of ``ids``."""
    # A large multiplier, so that the hashes for seed + 1 are not those of shifted ids
    offset = seed * 0xD1342543DE82EF95 & 0xFFFFFFFFFFFFFFFF
    z = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(offset)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
