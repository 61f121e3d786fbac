"""The apps of Themis: what each has to do, how long it has been there, and how many others were there meanwhile."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.themis.fairness import private_time_s
from gpusched_env.simulator import ClusterView


class Apps:
    """The apps that have unfinished jobs: an app is a job or, ``by_tenant``, a tenant from first to last job."""

    def __init__(self, view: ClusterView, by_tenant: bool) -> None:
        self._by_tenant = by_tenant
        count = len(view.tenants.names) if by_tenant else len(view.simulation.instance.workload)
        self._there = np.zeros(count, bool)  # whether the app has unfinished jobs
        self.arrival_s = np.zeros(count)  # [s]
        self._work = np.zeros(count)  # [GPU s] of all jobs since then
        self._power = np.zeros(count)  # [GPU] of all these jobs on their ideal placements
        self._need = np.zeros(count)  # [GPU] number of GPUs of these placements
        # the number of apps, as counted at decision points
        self._present = 0
        self._load = self._counted_s = 0.0  # [app s] its integral until then
        self._seen_s, self._load_before = np.zeros(count), np.zeros(count)  # time and integral when first counted

    def of(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Return the app of each of the jobs ``rows``."""
        return view.tenant[rows] if self._by_tenant else rows

    def count(self, view: ClusterView, unfinished: np.ndarray) -> None:
        """Update the number of apps and its integral; apps without ``unfinished`` rows leave."""
        self._load += self._present * (view.now_s - self._counted_s)
        self._counted_s = view.now_s
        there = np.zeros(len(self._there), bool)
        there[self.of(view, unfinished)] = True
        self._there &= there

    def add(self, view: ClusterView, job: int, work: float, power: float, need: int) -> None:
        """Add a job that has arrived: its work [GPU s], and power and GPUs of its largest size, ideally placed."""
        app = int(self.of(view, np.array([job]))[0])
        if not self._there[app]:
            self._there[app] = True
            self.arrival_s[app] = view.arrival_s[job]
            self._work[app] = self._power[app] = self._need[app] = 0.0
            self._seen_s[app], self._load_before[app] = view.now_s, self._load
        self._work[app] += work
        self._power[app] += power
        self._need[app] += need

    def add_work(self, view: ClusterView, rows: np.ndarray, work: np.ndarray) -> None:
        """Add work of jobs that are known [GPU s]."""
        np.add.at(self._work, self.of(view, rows), work)

    def counted(self) -> None:
        """Finish the update: the arrivals of this time are added."""
        self._present = int(self._there.sum())

    def private_s(self, view: ClusterView, apps: np.ndarray) -> np.ndarray:
        """float64 [s]: T_id of each of the apps, with the mean number of apps while it was there, itself included."""
        there_s = view.now_s - self._seen_s[apps]
        mean = np.full(len(apps), float(self._present))
        contenders = np.divide(self._load - self._load_before[apps], there_s, out=mean, where=there_s > 0)
        gpus = view.cluster.gpus
        return private_time_s(
            self._work[apps], self._power[apps] * (gpus / np.maximum(self._need[apps], gpus)), contenders
        )
