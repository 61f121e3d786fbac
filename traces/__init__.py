"""Workloads: readers of public cluster logs, calibrated synthetic generators, model profiles."""

from typing import TYPE_CHECKING

from gpusched_env.support.deprecation import old_names
from gpusched_env.traces.clusters import CLUSTER_READERS, read_cluster
from gpusched_env.traces.downloads.fetching import fetch
from gpusched_env.traces.filters import first_jobs, sample, up_to_gpus, where, window
from gpusched_env.traces.generators.synthetic import GENERATORS, generate_workload, generator_parameters
from gpusched_env.traces.kubernetes.quotas import read_kueue_quotas
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.profiles import PROFILE_RULES, assign_profiles, mix_profiles
from gpusched_env.traces.read_options import ReadOptions
from gpusched_env.traces.reading import READERS, read_trace, read_workload, trace_format
from gpusched_env.traces.slurm_files.description import SlurmCluster, SlurmNode, SlurmPartition, SlurmScheduling
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
from gpusched_env.traces.transform import (
    clip_gpus,
    describe_workload,
    from_zero,
    ignore_placement,
    offered_load,
    scale_to_load,
)

__all__ = [
    "CLUSTER_READERS", "GENERATORS", "PROFILE_RULES", "READERS", "ReadOptions", "ReadReport", "SlurmCluster",
    "SlurmNode", "SlurmPartition", "SlurmScheduling", "assign_profiles", "clip_gpus", "describe_workload",
    "fetch", "first_jobs", "from_zero", "generate_workload", "generator_parameters", "ignore_placement", "mix_profiles",
    "offered_load", "read_cluster", "read_kueue_quotas", "read_slurm_cluster",
    "read_trace", "read_workload", "sample", "scale_to_load", "trace_format", "up_to_gpus", "where", "window",
]  # fmt: skip

if not TYPE_CHECKING:  # a checker would accept any name
    __getattr__ = old_names(__name__, {"read_kueue_tenants": "read_kueue_quotas"})
