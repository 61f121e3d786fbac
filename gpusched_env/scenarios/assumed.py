"""What is assumed of run times, so that comparisons of networks or clusters would mislead."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios.registry import get_scenario, list_scenarios
from gpusched_env.scenarios.scenario import Scenario

IDEAL: Final = "run times are ideal on {}; to compare {}, say where they were measured (--measured-on); jobs"
SAME: Final = "run times are the same on every network and GPU type (--profiles unit); jobs"


def assumed(scenario: Scenario, workload: Workload) -> dict[str, int]:
    """Return what is assumed of the run times of jobs, in words -> number of jobs.

    Nothing is told of a generator on the network and the cluster of its scenario, which say what its jobs are.

    Parameters
    ----------
    workload : the jobs of a seed, as they are played
    """
    profiles, measured = workload.profiles, scenario.workload.measured
    if scenario.workload.synthetic and not _moved(scenario):
        return {}
    if profiles.is_unit:
        chosen = scenario.network.topology is not None or {group.gpu_type for group in scenario.groups} != {"V100"}
        return {SAME: len(workload)} if chosen else {}
    alike = (profiles.compute_s == profiles.compute_s[:, :1]).all() and not profiles.rows["gradient_bytes"].any()
    if (alike and not len(profiles.measured) and not len(profiles.shaped)) or (measured and measured.cluster):
        return {}
    if measured is not None:
        return {IDEAL.format("this cluster", "shapes or GPU types"): len(workload)}
    timed = int(np.isfinite(workload.jobs["duration_s"]).sum())
    return {IDEAL.format("this network and cluster", "networks, shapes or GPU types"): timed} if timed else {}


def _moved(scenario: Scenario) -> bool:
    """Whether this is a registered scenario, by its name, on another network or cluster; other names are one's own."""
    name = scenario.name.partition(" + ")[0]
    if name.partition(":")[0] not in list_scenarios():
        return False
    try:
        own = get_scenario(name)
    except GpuschedError:
        return False
    return (own.network, own.groups) != (scenario.network, scenario.groups)
