"""How far the makespan of a scheduler is above a lower bound: no agent can gain more.

python -m studies.index_search.makespan_headroom rar-160-v0 lpt:placement=consolidate,strict=true
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, diags_array, kron

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.metrics import lower_bounds
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script

SLACK = 1e-9  # relative, for rounding in whole iterations of a slot and in whole slots


def makespan_bound_of_types(instance: Instance) -> float:
    """Return a lower bound on the makespan that knows GPU types and slots, at least that of ``lower_bounds`` [s].

    Raises
    ------
    GpuschedError : jobs are elastic, share GPUs, run copies, or wait for other jobs

    Notes
    -----
    The program of Gavel (OSDI 2020, section 4.2) without its order in time. Let y be the share of a job's work that is
    done on a GPU type, s the seconds of the whole job there on the fastest placement, g its gang size. Then arrival +
    sum of y s over types <= finish of the job, and for each type the sum of g y s over jobs <= GPUs x makespan. With a
    slot of L seconds, only floor(L / iteration) iterations count in a slot, and jobs finish at ends of slots. A gang on
    several types is as slow as on the slowest, so it needs no less on any of its GPUs.
    """
    if instance.sizes.elastic or instance.gpu_jobs > 1 or instance.semantics.max_copies > 1 or instance.holds:
        raise GpuschedError("makespan bound: it is for rigid jobs that neither share GPUs, nor copy, nor wait for jobs")
    slot_s = instance.semantics.slot_s
    seconds = instance.iteration_s.min(axis=1)
    if slot_s > 0:
        whole = np.floor(slot_s / seconds * (1 + SLACK))
        seconds = np.divide(slot_s, whole, out=np.full_like(seconds, np.inf), where=whole > 0)
    seconds = instance.iterations[:, None] * seconds[instance.job_class]  # [jobs, types]
    jobs, types = seconds.shape
    able = np.isfinite(seconds)
    seconds = np.where(able, seconds, 0.0)
    arrival_s = instance.workload.jobs["arrival_s"] - instance.workload.jobs["arrival_s"].min()
    nodes = instance.cluster.nodes
    gpus = np.bincount(nodes["gpu_type"], nodes["gpus"], types)
    of_job = kron(diags_array(np.ones(jobs)), np.ones((1, types))).tocsr()  # sums over the types of each job
    used = kron(np.ones((1, jobs)), diags_array(np.ones(types))).tocsr()  # sums over the jobs of each type
    gang_seconds = (instance.workload.jobs["gpus"][:, None] * seconds).ravel()
    limits = block_array(
        [
            [of_job.multiply(seconds.ravel()), csr_array(-np.ones((jobs, 1)))],
            [used.multiply(gang_seconds), csr_array(-gpus[:, None])],
        ]
    )
    found = linprog(
        np.append(np.zeros(jobs * types), 1.0),
        A_ub=limits.tocsr(),
        b_ub=np.concatenate([-arrival_s, np.zeros(types)]),
        A_eq=block_array([[of_job, csr_array((jobs, 1))]]).tocsr(),
        b_eq=np.ones(jobs),
        bounds=[(0.0, 1.0 if one else 0.0) for one in able.ravel()] + [(0.0, None)],
        method="highs",
    )
    bound_s = max(float(found.fun), lower_bounds(instance)["makespan_s"])
    return float(np.ceil(bound_s / slot_s * (1 - SLACK)) * slot_s) if slot_s > 0 else bound_s


@dataclass
class Settings:
    """Compare makespans with a lower bound."""

    scenario: Annotated[str, typer.Argument()]
    scheduler: Annotated[str, typer.Argument()]
    seeds: int = 20
    """Number of report seeds."""


def main(options: Settings) -> None:
    """Print makespan / bound of a scheduler on report seeds."""
    scenario = get_scenario(options.scenario)
    first, _ = scenario.seeds.report
    seeds = range(first, first + options.seeds)
    results = evaluate(scenario, [options.scheduler], seeds)
    ratios = [
        one.metrics["makespan_s"] / makespan_bound_of_types(scenario.instance(seed))
        for one, seed in zip(results, seeds, strict=True)
    ]
    optimal = sum(ratio < 1.0005 for ratio in ratios)
    print(f"makespan of {options.scheduler} / lower bound, {scenario.name}, seeds {seeds.start}:{seeds.stop}")
    print(f"mean {np.mean(ratios):.4f}, largest {max(ratios):.4f}; within 0.05 % of the bound on {optimal} seeds")


if __name__ == "__main__":
    run_script(main)
