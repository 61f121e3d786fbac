"""The tracks of the leaderboard, which ``tracks.toml`` lists."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import EntryError, GpuschedError, MissingLogError, unknown_name
from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.scoring import Scored
from gpusched_env.metrics import TENANT_COLUMNS, Window, summarise, tenant_summary
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario, get_scenario, list_scenarios, scenario_from_dict
from gpusched_env.support.files import file_digest, toml_beside
from gpusched_env.traces import ReadReport, read_trace
from gpusched_env.traces.downloads.public_files import find

# Metrics in tables of entries, if the entries of the track have them.
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
    *(column.name for column in TENANT_COLUMNS),
)
# Metrics by which a track can score entries, because they have bounds or are shares -> description
SCORED: Final = {"mean_jct_s": "mean JCT", "makespan_s": "makespan", "deadlines_met": "share of deadlines met"}
FIFO: Final = "fifo"


@dataclass(frozen=True)
class LogWindows:
    """Consecutive windows of a public log that ``gpusched traces fetch`` names; the seed is the number of a window."""

    format: str
    file: str
    first_s: float
    length_s: float

    def path(self, given: Path | None) -> Path:
        """Return the path of the log, which is the given file or else the fetched file."""
        public = find(self.file)
        path = public.file if given is None else given
        if not path.is_file():
            raise MissingLogError(
                f"needs the log {self.file}: gpusched traces fetch {self.file}, or name it with --workload"
            )
        if file_digest(path, MissingLogError) != (public.unpacked_sha256 or public.sha256):
            raise MissingLogError(f"{path} is not the log of this track: its SHA-256 is not that of {self.file}")
        return path

    def cut(self, scenario: Scenario, number: int) -> Scenario:
        """Return the scenario with the jobs of one window."""
        start_s = self.first_s + number * self.length_s
        jobs = dataclasses.replace(scenario.workload, start_s=start_s, stop_s=start_s + self.length_s)
        return scenario.replace(workload=jobs)


@dataclass(frozen=True)
class Track:
    """A track: a scenario, the number of its report seeds, and the rules for entries.

    Parameters
    ----------
    name : name with a version
    title : title in tables
    parts : description of the problem, and of what the outcome depends on, in one or two sentences
    scenario : name of a registered scenario, with values of its parameters if need be; or a scenario with a log, in
        which :meth:`problem` replaces the path of the log
    clairvoyant : whether schedulers that read true run times may take part; their entries are marked
    reports : number of seeds of the track, which are the first report seeds of the scenario; at least 10
    windows : windows of a log; None = the jobs are drawn by seed
    metric : metric by which entries are scored and ranked, a key of :data:`SCORED`
    reference : spec of a scheduler of the package. Entries are scored by the ratio of the metric, which must be above
        0, to that of this scheduler, and share ranks if they do not differ; those that read true run times are ranked
        apart. "" = entries are scored from 0, FIFO, to 1, the bound (:func:`gpusched_env.leaderboard.score`)
    also : specs of further entries that the package ships, beside registered schedulers and trained agents
    """

    name: str
    title: str
    parts: str
    scenario: str | Scenario
    clairvoyant: bool = True
    reports: int = 10
    windows: LogWindows | None = None
    metric: str = "mean_jct_s"
    reference: str = ""
    also: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """Spec of the scheduler against which entries are scored."""
        return self.reference or FIFO

    @property
    def score_name(self) -> str:
        """Name of the score in tables."""
        return f"ratio to {self.reference}" if self.reference else "score"

    @property
    def rules(self) -> str:
        """How entries are scored, in a sentence or two."""
        if not self.reference:
            return f"Scored: {self.scored}."
        return (
            f"Scored: {self.scored} / that of {self.reference} on the same seed, geometric mean over seeds. Entries "
            "share a rank if they do not differ from its first; those that read true run times are ranked apart."
        )

    @property
    def scored(self) -> str:
        """Description of the scored metric."""
        return SCORED[self.metric]

    @property
    def scenario_name(self) -> str:
        """Name of the scenario."""
        return self.scenario if isinstance(self.scenario, str) else self.scenario.name

    def absence(self, log: Path | None = None) -> str:
        """Say why the track cannot be played on this machine; "" if it can."""
        try:
            self.problem(log)
        except GpuschedError as error:
            return str(error)
        return ""

    def problem(self, log: Path | None = None) -> TrackProblem:
        """Build the problem of the track; ``log`` : path of its log, None = the fetched file, ignored if it needs none.

        Raises
        ------
        EntryError : the scenario is not registered
        MissingLogError : the log is missing, or is not the log of the track
        """
        if isinstance(self.scenario, Scenario):
            assert self.windows is not None
            try:
                path = self.windows.path(log)
            except MissingLogError as error:
                raise MissingLogError(f"track {self.name}: {error}") from None
            jobs = dataclasses.replace(self.scenario.workload, source=f"{self.windows.format}:{path}")
            return TrackProblem(self, self.scenario.replace(workload=jobs))
        if self.scenario.partition(":")[0] not in list_scenarios():
            raise EntryError(f"track {self.name}: this version has no scenario {self.scenario!r}")
        return TrackProblem(self, get_scenario(self.scenario))


@dataclass(frozen=True)
class TrackProblem:
    """The problem of a track: its seeds, and the methods that :func:`gpusched_env.evaluation.evaluate` needs."""

    track: Track
    scenario: Scenario

    @property
    def name(self) -> str:
        """Name in results."""
        return self.track.name

    @property
    def seeds(self) -> tuple[int, ...]:
        """Report seeds of the track, ascending."""
        first, end = self.scenario.seeds.report
        return tuple(range(first, min(end, first + self.track.reports)))

    @property
    def tracked_window(self) -> Window | None:
        """Arrival ranks of the jobs that are measured; None = all jobs."""
        return self.scenario.tracked_window

    def instance(self, seed: int) -> Instance:
        """Return the problem of a seed: it is drawn, or it is the window of the log with this number."""
        if self.track.windows is None:
            return self.scenario.instance(seed)
        scenario = self.track.windows.cut(self.scenario, seed)
        report = ReadReport(self.track.windows.format, self.track.windows.file)  # required argument, not used
        return scenario.instance(seed, scenario.workload.cut(_read_once(scenario.workload.source), report)[0])

    def metrics(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Return the metrics of a run that an entry claims; NaN = undefined."""
        found = summarise(instance, log)
        return found if self.scenario.tenants is None else found | tenant_summary(instance, log)

    def fingerprint(self) -> str:
        """Return the SHA-256 over all data on which results depend: scenario fingerprint, seeds, windows and rules."""
        windows = self.track.windows
        data = {
            "scenario": self.scenario.fingerprint(),
            "seeds": self.seeds,
            "clairvoyant": self.track.clairvoyant,
            "metric": self.track.metric,
            "windows": None if windows is None else [windows.first_s, windows.length_s],
        }
        if self.track.reference:
            data["reference"] = self.track.reference
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _read_once(source: str) -> Workload:
    """Read a log once for all windows; :meth:`LogWindows.path` has checked its SHA-256."""
    return read_trace(source)[0]


def _track(name: str, entry: dict[str, Any]) -> Track:
    if isinstance(entry["scenario"], dict):
        windows = LogWindows(**entry["windows"])
        entry |= {"scenario": scenario_from_dict({"name": name, **entry["scenario"]}, name), "windows": windows}
    return Track(name, **entry | {"also": tuple(entry.get("also", ()))})


TRACKS: Final = tuple(_track(name, entry) for name, entry in toml_beside(__file__).items())
_BY_NAME: Final = {track.name: track for track in TRACKS}


def scored_first(metric: str, runs: Sequence[Scored]) -> list[str]:
    """Return the names of METRICS that the runs of an entry have, with the scored metric first."""
    return [metric, *(name for name in METRICS if name != metric and name in runs[0].metrics)]


def get_track(name: str) -> Track:
    """Return the track with a name."""
    if name not in _BY_NAME:
        raise EntryError(unknown_name("track", name, _BY_NAME, "gpusched leaderboard list"))
    return _BY_NAME[name]
