"""Programs of the card of Themis: jobs in apps, as the trials of a search would arrive, and rho of the apps.

rho is that of the paper, per app: time from arrival to the last completion / (mean number of apps meanwhile x time on
the whole cluster).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.themis.fairness import private_time_s
from gpusched_env.baselines.themis.places import menu_of
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import TENANT
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import ClusterView, Simulation


@dataclass(frozen=True)
class Sweeps:
    """The jobs of a scenario in apps of ``trials`` jobs, which arrive with the first of them."""

    scenario: Scenario
    trials: int

    @property
    def name(self) -> str:
        """Name in results."""
        return f"{self.scenario.name}, apps of {self.trials}"

    def fingerprint(self) -> str:
        """SHA-256 of the draw of seed 0, which changes with everything that a draw depends on."""
        return self.instance(0).fingerprint()

    def instance(self, seed: int) -> Instance:
        """Draw the jobs."""
        plain = self.scenario.instance(seed)
        jobs = plain.workload.jobs.copy()
        app = np.arange(len(jobs)) // self.trials
        jobs["arrival_s"] = jobs["arrival_s"][app * self.trials]
        names = {TENANT: np.array([f"app{number:04d}" for number in app])}
        workload = plain.workload.unchecked_replace(jobs=jobs, attributes={**plain.workload.attributes, **names})
        return Instance(plain.cluster, workload, plain.network, plain.semantics, tenants=Tenants())


def gangs(load: float) -> Scenario:
    """Return philly-64-v1 at a load."""
    scenario = get_scenario("philly-64-v1")
    return scenario.replace(workload=dataclasses.replace(scenario.workload, load=load))


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure rho of the apps, Jain's index of it (1 = all are treated equally), and GPU time [h]."""
    times = job_times(instance, log)
    rho = rho_of_apps(instance, times["finish_s"])
    jain = rho.sum() ** 2 / (len(rho) * (rho**2).sum())
    gpu_hours = float(times["gpu_seconds"].sum() / 3.6e3)
    return {"app_rho_max": float(rho.max()), "app_rho_jain": float(jain), "gpu_hours": gpu_hours}


def rho_of_apps(instance: Instance, finish_s: np.ndarray) -> np.ndarray:
    """float64 [apps]: rho of each app; an app is the jobs of a tenant, or a job if there is one tenant only."""
    played = Simulation(instance, 0)
    played.run(make_scheduler("fifo"))  # a view tells of jobs that have arrived; sizes and rates depend on no schedule
    view = ClusterView(played)
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
