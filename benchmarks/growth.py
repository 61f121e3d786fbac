"""How the time of a replay grows: CPU seconds with all jobs and with a tenth of them, and peak memory.

    python benchmarks/growth.py                                  every case
    python benchmarks/growth.py --quick                          without the cases that take minutes, once each
    python benchmarks/growth.py --only "100,000 contended"       cases whose name begins with this text
    python benchmarks/growth.py --schedulers sjf las --jobs 100000 --gpus 2000

Jobs arrive as a Poisson process and have log-normal run times; preemption is free. Each case runs in its own process,
so that the peak memory of the case can be measured. Kernels are compiled before the clock starts. Times are CPU
seconds, so that other processes count little; medians over repeats. The process keeps memory that a run frees, so only
the first repeat allocates new memory.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from machine import KEEPS_MEMORY, peak_bytes
from poisson_jobs import FREE, LOAD, columns, poisson
from rich.console import Console
from rich.table import Table

from gpusched_env import make_scheduler
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Decision, Scheduler, Start, simulate
from gpusched_env.support.commands import run_script
from gpusched_env.traces import assign_profiles

# The load counts ideal run times, and contention makes jobs longer: at 0.95 the queue would grow forever.
CONTENDED_LOAD: Final = 0.8
GROWTH: Final = 12.0  # ten times the jobs may take at most this many times as long
MAX_MIN: Final = Network("topology", topology=NETWORK_PRESETS["oversub4"].topology, contention=Contention("maxmin"))


def contended(jobs: int, gpus: int, seed: int, load: float = CONTENDED_LOAD) -> Instance:
    """Draw gangs of up to 96 GPUs that train nine models on a leaf-spine network, max-min fair."""
    demand = get_scenario("leaf-spine-256-v1").workload.parameters["demand"]
    shares = {int(gang): share for gang, share in demand.items()}
    rng, workload, cluster = columns(jobs, gpus, seed, load, shares)
    return Instance(cluster, assign_profiles(workload, "mix", rng), MAX_MIN, FREE)


class PlainSmallestFirst(Scheduler):
    """A scheduler in plain Python, by the documented protocol: smallest gang first; what does not fit is skipped."""

    def decide(self, view: Any) -> Iterable[Decision]:
        """Yield the starts, smallest gang first."""
        for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
            yield Start(job, "pack")


class PlainSrtf(Scheduler):
    """A preemptive scheduler in plain Python, by the documented protocol: shortest remaining time first."""

    clairvoyant = True

    def decide(self, view: Any) -> Iterable[Decision]:
        """Return the decisions for an order of all jobs."""
        waiting = view.waiting
        if not len(waiting):
            return []
        rows = np.concatenate([np.sort(view.running), waiting])
        return view.preemptive_schedule(rows[np.argsort(view.remaining_s(rows), kind="stable")])


PLAIN: Final = {"plain smallest first": PlainSmallestFirst, "plain srtf": PlainSrtf}


@dataclass(frozen=True)
class Case:
    """A replay.

    Parameters
    ----------
    scheduler : its spec, or a name in PLAIN
    jobs, gpus : number of jobs and of GPUs
    kind : "poisson", "contended" or "shared" (two jobs may hold a GPU)
    load : demand / capacity
    target_s : most CPU seconds that it may take; None = for information
    target_GB : most peak memory that it may take
    slow : the case takes minutes, so --quick leaves it out
    tenth : the case is also measured with a tenth of the jobs
    """

    scheduler: str
    jobs: int
    gpus: int
    kind: str = "poisson"
    load: float = LOAD
    target_s: float | None = None
    target_GB: float | None = None
    slow: bool = False
    tenth: bool = False

    @property
    def name(self) -> str:
        """Jobs, kind and scheduler."""
        load = "" if self.load == (CONTENDED_LOAD if self.kind == "contended" else LOAD) else f" load {self.load:g}"
        return f"{self.jobs:,}{'' if self.kind == 'poisson' else ' ' + self.kind}{load} {self.scheduler}"

    def instance(self, jobs: int | None = None, seed: int = 0) -> Instance:
        """Draw the jobs, ``jobs`` of them if given."""
        count = self.jobs if jobs is None else jobs
        if self.kind == "contended":
            return contended(count, self.gpus, seed, self.load)
        return poisson(count, self.gpus, seed, self.load, Sharing(2, 1.5) if self.kind == "shared" else None)

    def make(self) -> Scheduler:
        """Make the scheduler."""
        return PLAIN[self.scheduler]() if self.scheduler in PLAIN else make_scheduler(self.scheduler)


_FIFO: Final = "fifo:placement=consolidate"
CASES: Final = (
    *[Case(name, 10_000, 64, target_s=s) for name, s in (("fifo", 0.02), ("srtf", 0.1), ("tiresias", 0.1))],
    *[Case(name, 10_000, 64) for name in ("sjf", "las", "dally")],
    *[
        Case(name, 100_000, 2_000, target_s=s, tenth=True)
        for name, s in ((_FIFO, 0.3), ("srtf", 3.0), ("tiresias", 3.0), ("dally", 3.0))
    ],
    *[
        Case(name, 100_000, 2_000, "contended", CONTENDED_LOAD, target_s=10.0, tenth=True)
        for name in (_FIFO, "srtf", "tiresias", "dally")
    ],
    *[
        Case(name, 100_000, 2_000, "contended", LOAD, slow=True, tenth=True)
        for name in (_FIFO, "srtf", "tiresias", "dally")
    ],
    *[Case(name, 1_000, 64, "shared", tenth=True) for name in ("sjf-ffs", "sjf-bsbf")],
    *[
        Case(name, 1_000_000, 10_000, target_s=s, target_GB=2.0, slow=True, tenth=True)
        for name, s in (("fifo", 5.0), ("srtf", 90.0), ("tiresias", 90.0))
    ],
    *[Case(name, 100_000, 2_000, target_s=30.0) for name in PLAIN],
)


@dataclass
class Settings:
    """Measure the time of replays."""

    quick: bool = False
    """Leave out the cases that take minutes, and measure once."""
    only: str = ""
    """Measure only the cases whose name begins with this text."""
    schedulers: tuple[str, ...] = ()
    """Measure these schedulers on ``jobs`` and ``gpus`` instead of the cases."""
    jobs: int = 10_000
    """Jobs, for ``schedulers``."""
    gpus: int = 64
    """GPUs, eight to a machine, 25 machines to a rack, for ``schedulers``."""
    repeats: int = 3
    """Runs of each case; the median is reported."""
    seed: int = 0
    """Seed of the jobs."""
    output: Path | None = None
    """JSON file for the results."""
    one: str | None = None
    """Measure this case (JSON) in this process and print JSON (used by the command itself)."""


def measure(case: Case, repeats: int = 3, seed: int = 0) -> dict[str, Any]:
    """Replay a case in this process.

    Returns
    -------
    seconds, tenth_s : CPU time of each repeat, with all jobs and with a tenth of them (empty = not measured) [s]
    events, tenth_events, digest : number of events and digest of the event log
    peak_bytes : peak resident memory [byte]
    """
    simulate(case.instance(50, seed), case.make())  # compile
    instances = {"seconds": case.instance(None, seed)}
    if case.tenth:
        instances = {"tenth_s": case.instance(case.jobs // 10, seed)} | instances
    found: dict[str, Any] = {"seconds": [], "tenth_s": []}
    told: dict[str, Any] = {}
    for _ in range(repeats):
        for name, instance in instances.items():
            begin = time.process_time()
            log = simulate(instance, case.make())
            found[name].append(time.process_time() - begin)
            told[name] = {"events": len(log.events), "digest": log.digest()}
            del log  # its memory must not count in the next run
    tenth_events = told.get("tenth_s", {}).get("events", 0)
    return found | told["seconds"] | {"tenth_events": tenth_events, "peak_bytes": peak_bytes()}


def measure_apart(case: Case, repeats: int = 3, seed: int = 0) -> dict[str, Any]:
    """Apply :func:`measure` in a fresh process."""
    data = json.dumps(asdict(case))
    command = [sys.executable, __file__, "--one", data, "--repeats", str(repeats), "--seed", str(seed)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | KEEPS_MEMORY)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def choose(settings: Settings) -> list[Case]:
    """Return the cases that the settings select."""
    if settings.schedulers:
        return [Case(name, settings.jobs, settings.gpus, tenth=True) for name in settings.schedulers]
    return [case for case in CASES if case.name.startswith(settings.only) and not (settings.quick and case.slow)]


def _against(value: float, target: float | None, digits: int = 3) -> str:
    """Format a value, with its target if there is one."""
    if target is None:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} {'<=' if value <= target else 'MISSES'} {target:g}"


def show(figures: Sequence[dict[str, Any]]) -> Table:
    """Return the table of measured cases."""
    table = Table(title="replays, CPU seconds (medians) and targets", title_justify="left")
    for heading in ("case", "GPUs", "seconds", "us/event", "ten times the jobs", "peak [GB]"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for row in figures:
        case = Case(**row["case"])
        median_s = statistics.median(row["seconds"])
        grown = "" if not row["tenth_s"] else _against(median_s / statistics.median(row["tenth_s"]), GROWTH, 1)
        table.add_row(
            case.name, f"{case.gpus:,}", _against(median_s, case.target_s), f"{1e6 * median_s / row['events']:.2f}",
            grown, _against(row["peak_bytes"] / 1e9, case.target_GB, 2),
        )  # fmt: skip
    return table


def main(settings: Settings) -> None:
    """Measure, print and save."""
    repeats = 1 if settings.quick else settings.repeats
    if settings.one is not None:
        print(json.dumps(measure(Case(**json.loads(settings.one)), repeats, settings.seed)))
        return
    figures = []
    for case in choose(settings):
        figures.append({"case": asdict(case), **measure_apart(case, repeats, settings.seed)})
        print(f"{case.name}: {statistics.median(figures[-1]['seconds']):.3f} s", file=sys.stderr, flush=True)
    Console(width=120).print(show(figures))
    if settings.output is not None:
        settings.output.write_text(json.dumps({"load": LOAD, "cases": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
