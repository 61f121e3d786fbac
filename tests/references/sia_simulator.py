"""Sia's published simulator in plain Python, and what each rule that the package replaces does to the mean JCT.

``PYTHONPATH=tests/support python tests/references/sia_simulator.py [WORKLOAD.csv ...]``
prints, for the first 25 jobs of each workload, the mean JCT of the
published simulator, that after each rule of the package in place of its own, and that of the package. Without
arguments, it reads all workloads of Sia in the folder of traces.

Written from siasosp23/artifacts, ``sia-simulator/`` (multi_simulator.py, cluster.py, job.py, sia.py, goodput.py,
applications.py, simulator_config.py), with the arguments of ``run_experiment.sh``. HiGHS solves the programs, where the
authors use CBC; ``tie`` draws which of several equal solutions is taken.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pollux_simulator import Application, Placement, read
from published import TRACES
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp, minimize

from gpusched_env.baselines.elastic.sia.scheduler import Sia
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate

TICK_S, JOBS = 60, 25
MEAN_RESTART_S = get_scenario("sia-hetero-v0").semantics.restore_s  # one for all applications
TYPES = {"aws": (6, 4), "dgx-ext": (2, 8), "rtx": (3, 8)}  # nodes, and GPUs of each
NAMES = {"T4": "aws", "A100": "dgx-ext", "RTX2080Ti": "rtx"}
RESTART_S = {"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15}
PENALTY_S = {"cifar10": 30, "deepspeech2": 25, "bert": 120, "yolov3": 45, "imagenet": 250, "ncf": 30}
SLOWDOWNS = {"cifar10": 1.8, "ncf": 1.5, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2}
POWER, WAIT, LARGEST_COST, NOTHING = -0.5, 1.1, 3000.0, 1e-4
MOST_GPUS, BATCHES = 64, 50
NOISE = 1e-5  # of costs, which are rounded to 0.01: it decides ties alone
LARGEST = {("deepspeech2", "rtx"): 57}  # [samples] in a pass on one GPU, where it is not the largest measured batch
CONFIGURATIONS = [
    (kind, gpus)
    for kind, (nodes, each) in TYPES.items()
    for gpus in [1 << k for k in range(each.bit_length() - 1)] + [each * n for n in range(1, nodes + 1)]
]
Profile = dict[tuple[int, int, int], tuple[float, float]]  # (nodes, GPUs, samples of a pass) -> step and sync time
Gain = Callable[[Any], Any]
FITTED: dict[tuple[Any, ...], np.ndarray] = {}


class Trained(Application):
    """What was measured of an application on one GPU type."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name, *((TRACES / "sia" / "measured" / name, f"-{kind}") if kind != "aws" else ()))
        batches = [samples for times in self.placed.values() for samples in times]
        self.least, self.most = min(batches), LARGEST.get((name, kind), max(batches))
        single = self.placed["1"]
        self.rate = max(single) / max(step for step, _ in single.values())

    @cache  # noqa: B019 - there are eighteen applications
    def most_on(self, placement: Placement) -> int:
        """Return the largest batch of a pass that was measured on a placement, or on larger gangs."""
        placement = min(placement[i:] + placement[:i] for i in range(len(placement)))
        known = self.placed.get("".join(map(str, placement)))
        if known:
            return max(known)
        return max(m for n, r, m in self.scaled if n >= len(placement) and r >= sum(placement))

    @cache  # noqa: B019
    def most_of(self, gpus: int) -> float:
        """Return the largest batch of a pass that was measured on a number of GPUs; inf = none was."""
        found = [m for place, times in self.placed.items() if sum(map(int, place)) == gpus for m in times]
        return max(found, default=math.inf)

    @cache  # noqa: B019
    def best(self, placement: Placement, epoch: int) -> tuple[int, int]:
        """Return the samples of a pass and the passes but one of the largest measured goodput in an epoch."""
        gpus, found = sum(placement), []
        low, most = max(self.first, self.least * gpus), self.most_on(placement)
        for m, extra in sorted(set(zip(*candidates(self, low, self.last, most, gpus), strict=True))):
            if self.least <= m <= most and gpus * m * (extra + 1) <= self.last:
                step, sync = self.step_s(placement, m)
                found.append((self.gain(gpus * m * (extra + 1), epoch) / (step + (step - sync) * extra), m, extra))
        _, m, extra = max(found)
        return m, extra


@cache
def trained(name: str, kind: str) -> Trained:
    """Return an application on a GPU type."""
    return Trained(name, kind)


def network(p: np.ndarray, nodes: np.ndarray | float, gpus: np.ndarray | float) -> np.ndarray:
    """Return the time of Pollux's model to synchronise."""
    more = np.maximum(np.asarray(gpus) - 2, 1e-8)
    local = np.where(np.asarray(gpus) > 1, p[4] + p[5] * more, 1e-8 + 1e-8 * more)
    return np.where(np.asarray(nodes) > 1, p[2] + p[3] * more, local)


def log_step(p: np.ndarray, compute: np.ndarray, net: np.ndarray) -> np.ndarray:
    """Return the logarithm of the time of Pollux's model for a step with one pass."""
    big = np.maximum(compute, net)
    found: np.ndarray = np.log(big) + np.log((compute / big) ** p[6] + (net / big) ** p[6]) / p[6]
    return found


def fit(profile: Profile) -> np.ndarray:
    """Fit Pollux's model to what a job has measured on a GPU type; the same measurements are fitted once."""
    key = tuple(profile.items())
    if key not in FITTED:
        FITTED[key] = _fit(profile)
    return FITTED[key]


def _fit(profile: Profile) -> np.ndarray:
    n, r, m = np.array(list(profile), float).T
    step, sync = np.array(list(profile.values())).T
    compute_s, log_s = step - sync, np.log(step)
    start, low = np.array([0.1, 0.01] * 3 + [1.001]), np.array([1e-8] * 6 + [1.0])
    high = np.array([np.inf] * 6 + [10.0])
    apart, local = n > 1, (n == 1) & (r > 1)
    fixed: dict[int, float] = {}
    if len(set(m)) == 1:
        fixed[0] = compute_s.mean() / 2
    if not apart.any():
        fixed |= {2: 1e-8, 3: 1e-8}
    if not local.any():
        fixed |= {4: 1e-8, 5: 1e-8}
    if not (r > 2).any():
        fixed |= {3: 1e-8, 5: 1e-8}
    for at, value in fixed.items():
        start[at] = low[at] = high[at] = value
    more, count = np.maximum(r - 2, 1e-8), len(m)

    def loss(p: np.ndarray) -> tuple[float, np.ndarray]:
        compute, net, g = p[0] + p[1] * m, network(p, n, r), p[6]
        big = np.maximum(compute, net)
        a, b = (compute / big) ** g, (net / big) ** g
        errors = np.log(compute) - np.log(compute_s), np.log(big) + np.log(a + b) / g - log_s
        root = [math.sqrt((each**2).mean()) for each in errors]
        value = sum(root) + 1e-3 * (g - 1) ** 2 + 1e-2 * ((p[3] / p[2]) ** 2 + (p[5] / p[4]) ** 2)
        d1, d2 = (each / (count * size) if size else 0 * each for each, size in zip(errors, root, strict=True))
        dc, dn = d1 / compute + d2 * a / (a + b) / compute, d2 * b / (a + b) / net
        dg = (a * np.log(compute / big) + b * np.log(net / big)) / (a + b) / g - np.log(a + b) / g**2
        slopes = [dc.sum(), (dc * m).sum()]
        for k, where in ((2, apart), (4, local)):
            slopes.append((dn * where).sum() - 2e-2 * p[k + 1] ** 2 / p[k] ** 3)
            slopes.append((dn * where * more).sum() + 2e-2 * p[k + 1] / p[k] ** 2)
        return value, np.array([*slopes, (d2 * dg).sum() + 2e-3 * (g - 1)])

    p: np.ndarray = minimize(loss, start, jac=True, bounds=Bounds(low, high, keep_feasible=True), tol=1e-5).x
    if not apart.any():
        p[2], p[3] = max(p[2], 1.1 * p[4]), max(p[3], 1.1 * p[5])
    return p


def candidates(app: Trained, low: int, last: int, most: int, gpus: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples of a pass and the passes but one of 50 batches in a geometric sequence."""
    share = np.geomspace(low, last, BATCHES) / gpus
    extra = np.ceil(share / most - 1e-8) - 1
    if gpus == 1:
        extra = np.where(share > app.first + 1e-8, np.maximum(extra, 1), extra)
    return np.ceil(share / (extra + 1) - 1e-8).astype(int), extra.astype(int)


def best_batch(
    p: np.ndarray, gain: Gain, app: Trained, last: int, most: int, nodes: int, gpus: int
) -> tuple[float, int, int]:
    """Return the largest goodput of the model, and the samples of a pass and the passes but one that give it."""
    m, extra = candidates(app, max(app.first, app.least * gpus), last, most, gpus)
    batch, compute = gpus * m * (extra + 1), p[0] + p[1] * m
    seconds = extra * compute + np.exp(log_step(p, compute, network(p, nodes, gpus)))
    goodput = np.where((app.least <= m) & (m <= most), app.first * gain(batch) / seconds, 0.0)
    at = int(np.argmax(goodput))
    return float(goodput[at]), int(m[at]), int(extra[at])


def gain_of(stats: tuple[float, float], first: int) -> Gain:
    """Return what an iteration is worth by its batch, in iterations at the smallest batch."""
    square, variance = stats

    def gain(batch: Any) -> Any:
        below = variance / (batch / first) + square
        return np.where(below > 0, (variance + square) / below, 1.0)

    return gain


@dataclass
class Rules:
    """Which rules of the package are played in place of those of the published simulator."""

    calibrated: bool = False  # published: True
    one_restart: bool = False  # one restart cost for all applications
    any_batch: bool = False  # the policy may assume batches above the one that the workload names
    best_batch: bool = False  # jobs know the batch of the largest measured goodput
    speeds: bool = False  # progress at the package's speeds: fitted models, means over the training
    knows: bool = False  # on GPU types on which a job has run, the policy knows the package's speeds
    tie: int = 0  # seed by which ties of the program are broken; 0 = as HiGHS does


@dataclass
class Job:
    """A job, and how far it is."""

    model: str
    arrival_s: float
    batch: int
    slow: float = 1.0
    finish_s: float = math.inf
    kind: str | None = None
    placement: Placement = ()
    config: int | None = None
    restart_s: float = 0.0
    restarts: int = -1
    progress: float = 0.0
    epoch: int = 0
    m: int = 0
    extra: int = 0  # passes but one
    now_s: float = 0.0
    stats: tuple[float, float] | None = None
    seen: dict[str, Profile] = field(default_factory=dict)  # by GPU type
    fits: dict[str, np.ndarray] = field(default_factory=dict)  # by GPU type
    rates: dict[tuple[str, int], float] = field(default_factory=dict)  # the package's iterations / s, by type and GPUs
    work: float = 0.0  # the package's iterations

    def app(self, kind: str | None = None) -> Trained:
        """Return its application on a GPU type, by default the present one."""
        return trained(self.model, kind or self.kind or "aws")


class Simulator:
    """The cluster, its jobs and its policy."""

    def __init__(self, jobs: list[Job], rules: Rules) -> None:
        self.jobs, self.rules, self.now_s = jobs, rules, 0
        self.rng = np.random.default_rng(rules.tie)

    def run(self) -> list[float]:
        """Play to the end and return the JCT of each job [s]."""
        while any(math.isinf(job.finish_s) for job in self.jobs):
            for job in self.jobs:
                if math.isinf(job.finish_s):
                    self.play(job)
            self.now_s += TICK_S
            self.decide([job for job in self.jobs if job.arrival_s <= self.now_s and math.isinf(job.finish_s)])
        return [job.finish_s - job.arrival_s for job in self.jobs]

    def play(self, job: Job) -> None:
        """Play one tick of a job."""
        paused = min(job.restart_s, TICK_S) if job.placement else TICK_S
        job.restart_s = max(job.restart_s - paused, 0.0)
        job.now_s += paused
        left = TICK_S - paused
        if left > 0 and self.rules.speeds:
            assert job.kind is not None
            rate = job.rates[job.kind, sum(job.placement)] / job.slow
            spent = min((job.work - job.progress) / rate, left)
            job.progress += rate * spent
            if spent < left:
                job.finish_s = job.now_s + spent
            job.now_s += left
            if not self.rules.knows:
                self.measure(job, self.epoch_at(job))
                self.choose_batch(job)
            return
        while left > 0 and math.isinf(job.finish_s):
            app, batch = job.app(), sum(job.placement) * job.m * (job.extra + 1)
            step, sync = self.measure(job, job.epoch)
            rate = app.gain(batch, job.epoch) / (step + (step - sync) * job.extra) / job.slow
            end = app.progress(job.epoch + 1)
            if job.progress + rate * left < end:
                job.progress += rate * left
                spent = left
            else:
                spent = round((end - job.progress) / rate)
                job.progress, job.epoch = end, job.epoch + 1
                if job.epoch == app.epochs:
                    job.finish_s = job.now_s + spent
            job.now_s, left = job.now_s + spent, left - spent
            self.choose_batch(job)
        job.now_s += left

    def epoch_at(self, job: Job) -> int:
        """Return the epoch that a job with the package's work is in."""
        app = job.app()
        at = job.progress / job.work * app.progress(app.epochs)
        return next((epoch for epoch in range(app.epochs) if app.progress(epoch + 1) > at), app.epochs - 1)

    def measure(self, job: Job, epoch: int) -> tuple[float, float]:
        """Return the step and the synchronisation time of a job, which fits its model to them if they are new."""
        assert job.kind is not None
        app, nodes, gpus = job.app(), len(job.placement), sum(job.placement)
        times = app.step_s(job.placement, job.m)
        job.epoch, job.stats = epoch, app.gradient(gpus * job.m * (job.extra + 1), epoch)
        seen = job.seen.setdefault(job.kind, {})
        if (nodes, gpus, job.m) not in seen:
            seen[nodes, gpus, job.m] = times
            job.fits[job.kind] = fit(seen)
        return times

    def choose_batch(self, job: Job) -> None:
        """Choose the batch of a job: that of the largest goodput by its model, or the smallest one without a model."""
        app, nodes, gpus = job.app(), len(job.placement), sum(job.placement)
        most = app.most_on(job.placement)
        if self.rules.best_batch:
            job.m, job.extra = app.best(job.placement, min(job.epoch, app.epochs - 1))
        elif job.stats is None or job.kind not in job.fits:
            batch = max(app.first, app.least * gpus)
            share = math.ceil(batch / gpus - 1e-8)
            job.extra = math.ceil(share / most - 1e-8) - 1
            if gpus == 1 and batch > app.first:
                job.extra = max(job.extra, 1)
            job.m = math.ceil(share / (job.extra + 1) - 1e-8)
        else:
            gain = gain_of(job.stats, app.first)
            _, job.m, job.extra = best_batch(job.fits[job.kind], gain, app, app.last, most, nodes, gpus)
        job.m = int(min(job.m, app.most_of(gpus), app.last // (gpus * (job.extra + 1))))

    def values(self, job: Job) -> np.ndarray:
        """Return the goodput of each configuration / that of the worst one."""
        found = np.full(len(CONFIGURATIONS), NOTHING, np.float32)
        known = [kind for kind in TYPES if kind in job.fits or (self.rules.knows and kind in job.seen)]
        if not known:
            found[[gpus == 1 for _, gpus in CONFIGURATIONS]] = 1.0
            return found
        tried = max(key[1] for seen in job.seen.values() for key in seen)
        apps = {kind: job.app(kind) for kind in TYPES}
        most = max(min(2 * tried, MOST_GPUS, app.last // app.least) for app in apps.values())
        for c, (kind, gpus) in enumerate(CONFIGURATIONS):
            if gpus > most:
                continue
            of = kind if kind in known else known[0]
            app = apps[of]
            if self.rules.knows:
                ratio = 1.0 if of == kind else job.rates[kind, 1] / job.rates[of, 1]
                found[c] = max(job.rates.get((of, gpus), 0.0) * ratio, NOTHING)
                continue
            assert job.stats is not None
            ratio = 1.0 if of == kind else apps[kind].rate / app.rate
            last, nodes = app.last if self.rules.any_batch else job.batch, math.ceil(gpus / TYPES[of][1])
            gain = gain_of(job.stats, app.first)
            found[c] = np.float32(best_batch(job.fits[of], gain, app, last, app.most, nodes, gpus)[0]) * ratio
        found *= np.float32(1.0 / found[found > np.float32(NOTHING)].min())
        return np.maximum(found, np.float32(NOTHING))

    def factor(self, job: Job) -> float:
        """Return the factor on the values of configurations that need a restart."""
        age, penalty = self.now_s - job.arrival_s, float(PENALTY_S[job.model])
        if self.rules.one_restart:
            penalty = MEAN_RESTART_S
        return 1.0 if age < penalty else max(age - max(job.restarts, 0) * penalty, 0) / (age + penalty)

    def decide(self, active: list[Job]) -> None:
        """Solve the program, place the jobs, and restart those whose GPU type or shape changes."""
        if not active:
            return
        cost = np.zeros((len(active), len(CONFIGURATIONS)))
        kept = np.zeros_like(cost)
        for i, job in enumerate(active):
            row = self.values(job)
            if job.config is not None:
                present = row[job.config]
                row = row * np.float32(self.factor(job))
                row[job.config] = present
            cost[i] = np.minimum(np.round(np.power(row, np.float32(POWER)), 2), LARGEST_COST)
            if job.restart_s > 0 and job.config is not None:
                kept[i, job.config] = 1
        chosen = self.solve(cost - WAIT, kept)
        shapes: dict[int, Placement] = {}
        for kind, (nodes, each) in TYPES.items():
            wanted = [(i, CONFIGURATIONS[c][1]) for i, c in enumerate(chosen) if c is not None]
            shapes |= place(nodes, each, [(i, g) for i, g in wanted if CONFIGURATIONS[chosen[i] or 0][0] == kind])
        for i, job in enumerate(active):
            config = chosen[i]
            new = None if config is None else CONFIGURATIONS[config][0]
            job.config = config
            if new is None:
                job.kind, job.placement = None, ()
            elif (new, shapes[i]) != (job.kind, job.placement):
                job.kind, job.placement = new, shapes[i]
                if self.rules.knows:
                    job.seen.setdefault(new, {})[len(shapes[i]), sum(shapes[i]), 0] = (0.0, 0.0)
                else:
                    self.choose_batch(job)
                job.restart_s = MEAN_RESTART_S if self.rules.one_restart else RESTART_S[job.model]
                job.restarts += 1

    def solve(self, cost: np.ndarray, kept: np.ndarray) -> list[int | None]:
        """Return the configuration of each job at the least cost, None = it waits; those of ``kept`` stay."""
        jobs, width = cost.shape
        rows = sparse.kron(sparse.eye(jobs), np.ones((1, width)))
        use = np.array([[gpus if kind == of else 0 for of, gpus in CONFIGURATIONS] for kind in TYPES], float)
        matrix = sparse.vstack([rows, sparse.hstack([sparse.csr_matrix(use)] * jobs)]).tocsc()
        limits = np.concatenate([np.ones(jobs), [nodes * each for nodes, each in TYPES.values()]])
        flat, fixed = cost.ravel(), kept.ravel()
        useful = (flat < 0) | (fixed > 0)
        if self.rules.tie:
            flat = flat + self.rng.uniform(0, NOISE, flat.shape)
        found = milp(
            flat,
            integrality=np.ones(flat.size),
            bounds=Bounds(fixed, useful.astype(float)),
            constraints=LinearConstraint(matrix, -np.inf, limits),
            options={"mip_rel_gap": 1e-9},
        ).x.reshape(cost.shape)
        return [int(np.argmax(row)) if row.max() > 0.5 else None for row in found]


def place(nodes: int, each: int, wanted: list[tuple[int, int]]) -> dict[int, Placement]:
    """Return job -> GPUs on its nodes: large gangs first, in turn from the node after that of the last gang."""
    free, at, found = [each] * nodes, 0, {}
    for job, asked in sorted(wanted, key=lambda pair: -pair[1]):
        gpus, whole, shape = asked, asked // each, []
        for _ in range(nodes):
            if not whole:
                break
            if free[at] == each:
                free[at], gpus, whole = 0, gpus - each, whole - 1
                shape.append(each)
            at = (at + 1) % nodes
        while gpus:
            taken = min(gpus, free[at])
            if taken:
                free[at], gpus = free[at] - taken, gpus - taken
                shape.append(taken)
            at = (at + 1) % nodes
        found[job] = tuple(shape)
    return found


def load(path: Path, rules: Rules, count: int = JOBS) -> list[Job]:
    """Read the first jobs of a workload of Sia."""
    jobs = []
    for row in read(path)[:count]:
        model = str(row["application"])
        batch = 32_768 if model == "ncf" else int(row["batch_size"])
        jobs.append(Job(model, float(row["time"]), batch, SLOWDOWNS[model] if rules.calibrated else 1.0))
    if rules.speeds or rules.knows:
        add_speeds(jobs, path)
    return jobs


def add_speeds(jobs: list[Job], path: Path) -> None:
    """Give jobs the speeds and the work that they have in the package."""
    instance = get_scenario(f"sia-hetero-v0:jobs={len(jobs)},workload={path}").instance(0)
    profiles = instance.workload.profiles
    times = {
        (int(row["profile"]), NAMES[profiles.gpu_types[row["gpu_type"]]], int(row["gpus"]), int(row["tier"])): (
            float(row["compute_s"] + row["communication_s"])
        )
        for row in profiles.measured
        if profiles.gpu_types[row["gpu_type"]] in NAMES
    }
    for job, own in zip(jobs, instance.workload.jobs, strict=True):
        job.work = float(own["iterations"])
        for kind, gpus in CONFIGURATIONS:
            took = times.get((int(own["profile"]), kind, gpus, MACHINE if gpus <= TYPES[kind][1] else RACK), math.inf)
            if math.isfinite(took):
                job.rates[kind, gpus] = 1.0 / took


def mean_jct_s(path: Path, count: int = JOBS, **rules: Any) -> float:
    """Return the mean JCT of the first jobs of a workload under some rules [s]."""
    made = Rules(**rules)
    jcts = Simulator(load(path, made, count), made).run()
    return math.fsum(jcts) / len(jcts)


def package_s(path: Path, calibration: str = "none", count: int = JOBS) -> float:
    """Return the mean JCT of the first jobs of a workload under ``sia`` in ``sia-hetero-v0`` [s]."""
    instance = get_scenario(f"sia-hetero-v0:jobs={count},calibration={calibration},workload={path}").instance(0)
    return float(job_times(instance, simulate(instance, Sia()))["jct_s"].mean())


STEPS: dict[str, dict[str, Any]] = {
    "published, calibrated": {"calibrated": True},
    "published, not calibrated": {},
    "one restart cost": {"one_restart": True},
    "and any batch": {"one_restart": True, "any_batch": True},
    "and the best batch": {"one_restart": True, "any_batch": True, "best_batch": True},
    "and mean, fitted speeds": {"one_restart": True, "any_batch": True, "speeds": True},
    "and known speeds": {"one_restart": True, "any_batch": True, "speeds": True, "knows": True},
}
TIES = (0, 1, 2)


def main(paths: list[Path]) -> None:
    """Print the table."""
    table = Table(
        "mean JCT [s]", *(f"{path.parent.name[:3]} {path.stem.split('-')[1]}" for path in paths), "mean", "of published"
    )
    rows = {name: [[mean_jct_s(p, tie=tie, **rules) for tie in TIES] for p in paths] for name, rules in STEPS.items()}
    rows["the package"] = [[package_s(path)] for path in paths]
    rows["the package, calibrated"] = [[package_s(path, "published")] for path in paths]
    base = np.mean([np.mean(each) for each in rows["published, not calibrated"]])
    for name, cells in rows.items():
        means = [float(np.mean(each)) for each in cells]
        table.add_row(
            name, *(f"{value:,.0f}" for value in means), f"{np.mean(means):,.0f}", f"{np.mean(means) / base:.1%}"
        )
        if name == "published, not calibrated":
            spans = [f"{min(each):,.0f}-{max(each):,.0f}" for each in cells]
            table.add_row("its range over ties", *spans, "", "")
    Console(width=150).print(table)


if __name__ == "__main__":
    folder = TRACES / "sia"
    main([Path(each) for each in sys.argv[1:]] or sorted(folder.glob("*/workload-*.csv")))
