"""Workloads: readers of public cluster logs, calibrated synthetic generators, model profiles."""

from gpusched_env.traces.fetching import fetch
from gpusched_env.traces.profiles import PROFILE_RULES, assign_profiles, mix_profiles
from gpusched_env.traces.reading import READERS, read_trace, read_workload
from gpusched_env.traces.report import ReadReport
from gpusched_env.traces.synthetic import GENERATORS, generate_workload, generator_parameters
from gpusched_env.traces.transform import (
    describe_workload,
    first_jobs,
    offered_load,
    scale_to_load,
    up_to_gpus,
    window,
)

__all__ = [
    "GENERATORS",
    "PROFILE_RULES",
    "READERS",
    "ReadReport",
    "assign_profiles",
    "describe_workload",
    "fetch",
    "first_jobs",
    "generate_workload",
    "generator_parameters",
    "mix_profiles",
    "offered_load",
    "read_trace",
    "read_workload",
    "scale_to_load",
    "up_to_gpus",
    "window",
]
