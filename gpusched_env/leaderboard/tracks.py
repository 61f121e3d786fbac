"""The tracks: a few problems on which schedulers part. A track never changes; what replaces it has a new version."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusched_env.cluster import NodeGroup
from gpusched_env.errors import EntryError, GpuschedError, unknown_name
from gpusched_env.files import file_digest
from gpusched_env.instance import Instance
from gpusched_env.metrics import Window
from gpusched_env.scenarios import Scenario, Seeds, WorkloadSpec, get_scenario, list_scenarios
from gpusched_env.traces import ReadReport, read_trace
from gpusched_env.traces.downloads.public_files import find
from gpusched_env.workload import Workload

# What tables of entries show.
METRICS: Final = (
    "mean_jct_s",
    "median_jct_s",
    "p99_jct_s",
    "makespan_s",
    "mean_queueing_s",
    "rho_mean",
    "rho_fair_share",
    "utilisation",
    "communication_share",
    "preemptions_per_job",
)
DAY: Final = 86_400.0  # [s]


@dataclass(frozen=True)
class LogWindows:
    """Windows of a public log, one after the other. The number of a window stands for a seed.

    Parameters
    ----------
    format : reader of the log
    file : public name, which ``gpusched traces fetch`` takes, and which its SHA-256 is known by
    first_s, length_s : where window 0 begins, and how long each is [s]
    """

    format: str
    file: str
    first_s: float
    length_s: float

    def path(self, given: Path | None) -> Path:
        """Find the log: the given file, or the fetched one.

        Raises
        ------
        EntryError : absent, or its bytes are not those of the track
        """
        public = find(self.file)
        path = public.file if given is None else given
        if not path.is_file():
            raise EntryError(f"needs the log {self.file}: gpusched traces fetch {self.file}, or name it with --log")
        if file_digest(path, EntryError) != (public.unpacked_sha256 or public.sha256):
            raise EntryError(f"{path} is not the log of this track: its SHA-256 is not that of {self.file}")
        return path

    def cut(self, scenario: Scenario, number: int) -> Scenario:
        """Give the scenario with the jobs of one window."""
        start_s = self.first_s + number * self.length_s
        jobs = dataclasses.replace(scenario.workload, start_s=start_s, stop_s=start_s + self.length_s)
        return scenario.replace(workload=jobs)


@dataclass(frozen=True)
class Track:
    """A scenario, the seeds that are reported, and who may take part.

    Parameters
    ----------
    name : with a version
    title : in tables
    parts : what schedulers part on, one sentence
    scenario : name of a registered scenario; or one of a log, whose path is filled in
    clairvoyant : whether schedulers that know true run times may take part; their entries are marked
    reports : how many report seeds count, the first of the scenario's [at least 10]
    windows : the windows of a log, None where seeds draw the jobs
    metric : that the score is of, ``mean_jct_s`` or ``makespan_s``
    """

    name: str
    title: str
    parts: str
    scenario: str | Scenario
    clairvoyant: bool = True
    reports: int = 10
    windows: LogWindows | None = None
    metric: str = "mean_jct_s"

    @property
    def scenario_name(self) -> str:
        """Name of the scenario."""
        return self.scenario if isinstance(self.scenario, str) else self.scenario.name

    def absence(self, log: Path | None = None) -> str:
        """Say why the track cannot be played here; empty if it can."""
        try:
            self.problem(log)
        except GpuschedError as error:
            return str(error)
        return ""

    def problem(self, log: Path | None = None) -> TrackProblem:
        """Give what is played.

        Parameters
        ----------
        log : the file of the log, if it was not fetched; ignored where the track has none

        Raises
        ------
        EntryError : the scenario is not registered, or the log is absent or another one
        """
        if isinstance(self.scenario, Scenario):
            assert self.windows is not None
            try:
                path = self.windows.path(log)
            except EntryError as error:
                raise EntryError(f"track {self.name}: {error}") from None
            jobs = dataclasses.replace(self.scenario.workload, source=f"{self.windows.format}:{path}")
            return TrackProblem(self, self.scenario.replace(workload=jobs))
        if self.scenario not in list_scenarios():
            raise EntryError(f"track {self.name}: this version has no scenario {self.scenario!r}")
        return TrackProblem(self, get_scenario(self.scenario))


@dataclass(frozen=True)
class TrackProblem:
    """A track that can be played: what :func:`gpusched_env.evaluation.evaluate` needs of a scenario, and its seeds."""

    track: Track
    scenario: Scenario

    @property
    def name(self) -> str:
        """Name in results."""
        return self.track.name

    @property
    def seeds(self) -> tuple[int, ...]:
        """Report seeds, in order."""
        first, end = self.scenario.seeds.report
        return tuple(range(first, min(end, first + self.track.reports)))

    @property
    def tracked_window(self) -> Window | None:
        """Arrival ranks of the jobs that are measured; None = all."""
        return self.scenario.tracked_window

    def instance(self, seed: int) -> Instance:
        """Draw the problem of one seed, or cut that window out of the log."""
        if self.track.windows is None:
            return self.scenario.instance(seed)
        scenario = self.track.windows.cut(self.scenario, seed)
        report = ReadReport(self.track.windows.format, self.track.windows.file)  # nobody looks at it
        return scenario.instance(seed, scenario.workload.cut(_read_once(scenario.workload.source), report)[0])

    def fingerprint(self) -> str:
        """SHA-256 over all that decides results: the scenario's fingerprint, seeds, windows and rules."""
        windows = self.track.windows
        data = {
            "scenario": self.scenario.fingerprint(),
            "seeds": self.seeds,
            "clairvoyant": self.track.clairvoyant,
            "metric": self.track.metric,
            "windows": None if windows is None else [windows.first_s, windows.length_s],
        }
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _read_once(source: str) -> Workload:
    """Read a log, once for all windows: :meth:`LogWindows.path` has checked its bytes."""
    return read_trace(source)[0]


TRACKS: Final = (
    Track(
        "general-v1",
        "General",
        "Bursty jobs on 64 GPUs of one type; order and preemption decide, places matter a little.",
        "philly-64-v1",
    ),
    Track(
        "network-v1",
        "Network",
        "Gangs of many sizes contend for the uplinks of four racks, 4:1 oversubscribed: where a gang runs decides.",
        "leaf-spine-256-v1",
    ),
    Track(
        "ring-all-reduce-v0",
        "Ring all-reduce",
        "All jobs at time 0 on servers of 4 to 32 GPUs at one switch: gangs that spread slow each other down.",
        "rar-160-v0",
    ),
    Track(
        "heterogeneous-v1",
        "Heterogeneous",
        "Three GPU types whose speeds differ by the model, all jobs at time 0: who runs on what decides.",
        "hadar-60gpu-v1",
    ),
    Track(
        "sharing-v1",
        "Sharing",
        "Jobs may share GPUs, and slow each other down by pair: whom to put together decides.",
        "bsbf-sim-240-v1",
    ),
    Track(
        "philly-log-v0",
        "Philly log",
        "Windows of 3.6 days of a virtual cluster of the Philly log, in order; run times are not known beforehand.",
        Scenario(
            name="philly-log-v0",
            description="A window of the Philly log, as Muri publishes it, on 256 GPUs.",
            groups=(NodeGroup(32, 8, nodes_per_rack=8),),
            workload=WorkloadSpec("muri:@muri/trace2.csv", max_gpus=128),
            seeds=Seeds(train=(0, 9), validation=(9, 12), report=(12, 22)),
        ),
        clairvoyant=False,
        windows=LogWindows("muri", "muri/trace2.csv", first_s=10 * DAY, length_s=3.6 * DAY),
    ),
)
_BY_NAME: Final = {track.name: track for track in TRACKS}


def get_track(name: str) -> Track:
    """Give a track by name.

    Raises
    ------
    EntryError : unknown, with the known ones
    """
    if name not in _BY_NAME:
        raise EntryError(unknown_name("track", name, _BY_NAME))
    return _BY_NAME[name]
