"""Finish-time fairness under Themis and other schedulers: largest rho, Jain's index, and what fairness costs.

    python benchmarks/themis.py [--seeds 10] [--problems gangs sizes sweeps] [--output FILE.json]

Three problems: ``gangs`` are the jobs of philly-64-v1 at a load of 0.9; ``sizes`` are the elastic jobs of pollux-64-v0;
``sweeps`` are the jobs of ``gangs`` in apps of five, which arrive together as the trials of a search would.

rho is that of the paper, per app: time from arrival to the last completion / (mean number of apps meanwhile x time on
the whole cluster). Jain's index of rho is 1 if all apps are treated equally. Means over seeds with 95 % intervals; the
last three columns are ratios to themis-lease on the same seeds, by geometric means.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.themis.fairness import private_time_s
from gpusched_env.baselines.themis.places import menu_of
from gpusched_env.event_log import PREEMPT
from gpusched_env.metrics import job_times
from gpusched_env.metrics.statistics import mean_interval, paired_ratio
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import TENANT
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Simulation
from gpusched_env.support.commands import run_script

TRIALS: Final = 5  # jobs of an app of ``sweeps``
JOBS: Final = ("themis", "themis-lease", "themis:payment=none", "themis-lite", "gavel", "tiresias")
SCHEDULERS: Final = {
    "gangs": JOBS,
    "sizes": (*JOBS, "max-min"),
    "sweeps": ("themis:app=tenant", "themis-lease:app=tenant", "themis:app=tenant,payment=none", *JOBS),
}
COLUMNS: Final = ("rho max", "Jain", "mean JCT [h]", "preemptions per job", "GPU time [1000 h]")
SHOWN: Final = 4  # columns whose means are shown
RATIOS: Final = {"rho max": 0, "mean JCT": 2, "GPU time": 4}  # heading -> column
REFERENCE: Final = "themis-lease"


@dataclass
class Options:
    """Print a table for each problem."""

    seeds: int = 10
    problems: tuple[str, ...] = ("gangs", "sizes", "sweeps")
    output: Path | None = None
    """JSON file for the results."""


def gangs(seed: int) -> Instance:
    """300 rigid gangs on 64 GPUs."""
    scenario = get_scenario("philly-64-v1")
    return scenario.replace(workload=dataclasses.replace(scenario.workload, load=0.9)).instance(seed)


def sizes(seed: int) -> Instance:
    """160 elastic jobs on 64 GPUs."""
    return get_scenario("pollux-64-v0").instance(seed)


def sweeps(seed: int) -> Instance:
    """The gangs of ``gangs`` in apps of five jobs, which arrive with the first of them."""
    plain = gangs(seed)
    jobs = plain.workload.jobs.copy()
    app = np.arange(len(jobs)) // TRIALS
    jobs["arrival_s"] = jobs["arrival_s"][app * TRIALS]
    names = {TENANT: np.array([f"app{number:04d}" for number in app])}
    workload = plain.workload.unchecked_replace(jobs=jobs, attributes={**plain.workload.attributes, **names})
    return Instance(plain.cluster, workload, plain.network, plain.semantics, tenants=Tenants())


PROBLEMS: Final[dict[str, Callable[[int], Instance]]] = {"gangs": gangs, "sizes": sizes, "sweeps": sweeps}


def rho_of_apps(played: Simulation, finish_s: np.ndarray) -> np.ndarray:
    """Return rho of each app; an app is the jobs of a tenant, or a job if there is one tenant only."""
    instance, view = played.instance, ClusterView(played)
    menus = [menu_of(view, job) for job in range(len(finish_s))]
    tree, leaf = instance.tenancy
    app = leaf if len(tree.leaves) > 1 else np.arange(len(finish_s))
    _, app = np.unique(app, return_inverse=True)
    work, power = (
        np.bincount(app, column)
        for column in (instance.ideal_s * instance.workload.jobs["gpus"], [menu.most for menu in menus])
    )
    need = np.bincount(app, [menu.sizes[-1] for menu in menus])
    begin, end = np.full(len(work), np.inf), np.zeros(len(work))
    np.minimum.at(begin, app, instance.workload.jobs["arrival_s"])
    np.maximum.at(end, app, finish_s)
    together = np.minimum(end[:, None], end) - np.maximum(begin[:, None], begin)
    contenders = np.maximum(together, 0.0).sum(axis=1) / (end - begin)
    power *= np.minimum(1.0, instance.cluster.gpus / need)
    return (end - begin) / private_time_s(work, power, contenders)


def measure(instance: Instance, spec: str, seed: int) -> list[float]:
    """Play a scheduler; return the values of COLUMNS."""
    simulation = Simulation(instance, seed)
    simulation.run(make_scheduler(spec))
    log = simulation.log()
    times = job_times(instance, log)
    rho = rho_of_apps(simulation, times["finish_s"])
    jain = rho.sum() ** 2 / (len(rho) * (rho**2).sum())
    preemptions = (log.events["kind"] == PREEMPT).sum() / len(times)
    hours = times["gpu_seconds"].sum() / 3.6e6
    return [rho.max(), jain, times["jct_s"].mean() / 3600.0, preemptions, hours]


def row_of(spec: str, values: np.ndarray, reference: np.ndarray) -> str:
    """Return a line of a table; ``values`` and ``reference`` are float64 [seeds, COLUMNS]."""
    means = [mean_interval(column) for column in values.T[:SHOWN]]
    ratios = [paired_ratio(values[:, column], reference[:, column]) for column in RATIOS.values()]
    cells = [f"{one.mean:.3g} ± {one.half_width:.2g}" for one in means]
    same = values is reference
    cells += ["1" if same else f"{one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in ratios]
    return f"| `{spec}` | {' | '.join(cells)} |"


def main(options: Options) -> None:
    """Print a table for each problem, in the form of the documentation."""
    found = {}
    for problem in options.problems:
        headings = [*COLUMNS[:SHOWN], *(f"{name} / {REFERENCE}" for name in RATIOS)]
        print(f"\n**{problem}**\n\n| scheduler | {' | '.join(headings)} |\n|---|{'---|' * len(headings)}")
        instances = [PROBLEMS[problem](200_000 + seed) for seed in range(options.seeds)]

        def values_of(spec: str, instances: list[Instance] = instances) -> np.ndarray:
            return np.array([measure(instance, spec, seed) for seed, instance in enumerate(instances)])

        reference = values_of(REFERENCE)
        for spec in SCHEDULERS[problem]:
            values = reference if spec == REFERENCE else values_of(spec)
            print(row_of(spec, values, reference), flush=True)
            found[f"{problem} {spec}"] = values.tolist()
    if options.output is not None:
        options.output.write_text(json.dumps({"columns": COLUMNS, "seeds": options.seeds, "values": found}))


if __name__ == "__main__":
    run_script(main)
