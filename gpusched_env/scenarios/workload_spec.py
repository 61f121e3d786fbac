"""The source of a scenario's jobs, and the cuts and changes that are applied to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.files import file_digest
from gpusched_env.traces import (
    PROFILE_RULES,
    ReadOptions,
    ReadReport,
    assign_profiles,
    clip_gpus,
    first_jobs,
    generate_workload,
    ignore_placement,
    read_trace,
    sample,
    scale_to_load,
    up_to_gpus,
    where,
    window,
)
from gpusched_env.traces.filters import check_amount, split_condition
from gpusched_env.traces.generators.synthetic import check_parameters, random_stream
from gpusched_env.traces.read_options import OPTIONS
from gpusched_env.traces.reading import resolve_source, source_files, split_source
from gpusched_env.workload import Workload, refuse_too_many_jobs

SYNTHETIC: Final = "synthetic:"
DEFAULT_JOBS: Final = 200  # [job] of a generator when ``jobs`` is None
# Fields that are written only if they differ from their defaults, so scenarios older than them keep their fingerprints.
LATER_FIELDS: Final = ("where", "sample", "sample_seed", "clip", "ignore_placement")


@dataclass(frozen=True)
class WorkloadSpec:
    """How to make a workload: from a generator, or from a log.

    Parameters
    ----------
    source : "synthetic:GENERATOR" or "FORMAT:PATH" of a log ("file:" = saved workload, "auto:" = find the format)
    parameters : parameters of the generator; or how a log is read, fields of
        :class:`gpusched_env.traces.ReadOptions`: ``map``, ``skip_bad_rows``, ``estimate``
    profiles : a rule of assign_profiles, or "own" = profiles of the workload itself. Jobs that come with profiles (such
        as measured models) keep them under every rule but "unit"
    jobs : number of jobs of an episode, for a log the first by arrival; None = 200 for a generator, the whole log else
    max_gpus : largest demand; a generator draws no larger ones, and larger jobs of a log are dropped [GPU]; None = no
        limit
    load : arrival times are scaled to this offered load = ideal GPU time / GPU time of the cluster; None = unscaled
    start_s, stop_s : window of a log by arrival [s]; stop_s None = to the end
    where : conditions on a log's attributes, such as "virtual_cluster=6214e9,11cb48" or "status!=Killed"; jobs that
        fail one are dropped; see :func:`gpusched_env.traces.where`
    sample : random part of a log: a share below 1, or a number of jobs; None = all
    sample_seed : seed of the sample; it does not depend on the scenario's seeds
    clip : True = reduce demands above max_gpus to max_gpus, and lengthen the jobs to the same GPU time, instead of
        dropping them
    ignore_placement : True = gangs of measured models run on every placement at the rate measured on one machine; see
        :func:`gpusched_env.traces.ignore_placement`

    Notes
    -----
    Order: window, where, max_gpus, sample, jobs, clip, load, profiles, ignore_placement.

    Raises
    ------
    ScenarioError : a field out of range
    TraceError, WorkloadError : unknown format, generator or parameter; more than MOST_JOBS jobs
    """

    source: str
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    profiles: str = "mix"
    jobs: int | None = None
    max_gpus: int | None = None
    load: float | None = None
    start_s: float = 0.0
    stop_s: float | None = None
    where: tuple[str, ...] = ()
    sample: float | None = None
    sample_seed: int = 0
    clip: bool = False
    ignore_placement: bool = False

    def __post_init__(self) -> None:
        """Check every field; the file is not opened."""
        for name in ("jobs", "max_gpus"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ScenarioError(
                    f"workload.{name} is {value!r}: it must be a whole number of at least 1, or left out"
                )
        refuse_too_many_jobs(self.jobs or 0, "workload")
        if self.load is not None and not (0 < self.load < math.inf):
            raise ScenarioError(f"workload.load is {self.load!r}: it must be a finite number > 0, or left out")
        if not 0 <= self.start_s < (math.inf if self.stop_s is None else self.stop_s) or self.stop_s == math.inf:
            raise ScenarioError(
                f"workload window {self.start_s!r} to {self.stop_s!r}: give 0 <= start_s < stop_s, "
                "and leave stop_s out for a window to the end"
            )
        rules = [*PROFILE_RULES, "own"]
        if self.profiles not in rules:
            raise ScenarioError(f"workload.profiles: {unknown_name('profile rule', self.profiles, rules)}")
        if isinstance(self.where, str):
            raise ScenarioError(f"workload.where is {self.where!r}: give a list of conditions, such as ['user=ann']")
        object.__setattr__(self, "where", tuple(self.where))
        for condition in self.where:
            split_condition(condition)
        if self.sample is not None:
            check_amount(self.sample)
        if isinstance(self.sample_seed, bool) or not isinstance(self.sample_seed, int):
            raise ScenarioError(f"workload.sample_seed is {self.sample_seed!r}: it must be a whole number")
        if self.clip and self.max_gpus is None:
            raise ScenarioError("workload.clip cuts demands to max_gpus: give max_gpus, or leave clip out")
        if self.synthetic:
            for name in OPTIONS:
                if name in self.parameters:
                    raise ScenarioError(f"workload {self.source}: {name} applies to logs only; leave it out")
            check_parameters(self.source.removeprefix(SYNTHETIC), self.parameters)
            cuts = {"a window": self.start_s or self.stop_s is not None, "where": self.where, "sample": self.sample}
            for name, given in cuts.items():
                if given:
                    raise ScenarioError(f"workload {self.source}: {name} applies to logs only; leave it out")
        else:
            ReadOptions.of(self.source, split_source(self.source)[0], self.parameters)

    @property
    def synthetic(self) -> bool:
        """Whether jobs come from a generator, so that each seed draws different ones."""
        return self.source.startswith(SYNTHETIC)

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""
        default = {item.name: item.default for item in fields(self)}
        data = asdict(self)
        return {name: data[name] for name in data if name not in LATER_FIELDS or data[name] != default[name]}

    def read(self) -> tuple[Workload, ReadReport]:
        """Read a log and apply the cuts; the report also counts the jobs that they dropped."""
        return self.cut(*read_trace(self.source, **self.parameters))

    def cut(self, whole: Workload, report: ReadReport) -> tuple[Workload, ReadReport]:
        """Apply the cuts of :meth:`read` to a log that has been read; ``report`` is updated in place."""
        workload = whole
        for reason, cut in self._cuts():
            before = len(workload)
            workload = cut(workload)
            report.drop_many(reason, before - len(workload))
        if self.clip and (larger := int((workload.jobs["gpus"] > (self.max_gpus or 0)).sum())):
            report.notes[f"demand cut to {self.max_gpus} GPUs, run time lengthened to the same GPU time"] = larger
        report.kept = len(workload)
        if report.origin:
            same_job = whole.jobs["id"] == workload.jobs["id"][0]
            later_s = float(whole.jobs["arrival_s"][same_job][0] - workload.jobs["arrival_s"][0])
            report.origin = (datetime.fromisoformat(report.origin) + timedelta(seconds=later_s)).isoformat()
        return workload, report

    def _cuts(self) -> Iterator[tuple[str, Callable[[Workload], Workload]]]:
        """Yield the cuts of a log in order, each as a reason and a function."""
        if self.start_s or self.stop_s is not None:
            stop_s = math.inf if self.stop_s is None else self.stop_s
            yield "outside the window", partial(window, start_s=self.start_s, stop_s=stop_s)
        for condition in self.where:
            yield f"not {condition} (where)", partial(where, condition=condition)
        if self.max_gpus is not None and not self.clip:
            reason = f"more than {self.max_gpus} GPUs (max_gpus)"
            yield reason, partial(up_to_gpus, max_gpus=self.max_gpus)
        if self.sample is not None:
            reason = f"not in sample {self.sample_seed} of {self.sample:g}"
            yield reason, partial(sample, amount=self.sample, seed=self.sample_seed)
        if self.jobs is not None:
            yield f"after the first {self.jobs} jobs", partial(first_jobs, count=self.jobs)

    def draw(self, seed: int, log: Workload | None, cluster_gpus: int, gpu_types: tuple[str, ...]) -> Workload:
        """Make the workload of one seed; ``log`` is the workload from :meth:`read`, None for a generator.

        The seed determines the jobs of a generator and, for generators and logs, the model of each job.
        """
        if log is None:
            name, largest = self.source.removeprefix(SYNTHETIC), None if self.clip else self.max_gpus
            workload = generate_workload(name, seed, self.jobs or DEFAULT_JOBS, largest, **self.parameters)
        else:
            workload = log
        if self.clip and self.max_gpus is not None:
            workload = clip_gpus(workload, self.max_gpus)
        if self.load is not None:
            workload = scale_to_load(workload, self.load, cluster_gpus)
        if not (self.profiles == "own" or (self.profiles != "unit" and not workload.profiles.is_unit)):
            workload = assign_profiles(workload, self.profiles, random_stream(seed, 1), gpu_types)
        return ignore_placement(workload) if self.ignore_placement else workload

    def identities(self) -> dict[str, Any]:
        """Give the fields that name files, with SHA-256 of the files in place of their paths.

        Raises
        ------
        TraceError, WorkloadError : as :meth:`identity`
        """
        data: dict[str, Any] = {"source": self.identity()}
        if not self.synthetic and self.parameters:
            options = ReadOptions(**self.parameters)
            data["parameters"] = {
                "map": dict(options.map),
                "skip_bad_rows": options.skip_bad_rows,
                "estimate": options.estimate_file and file_digest(options.estimate_file, WorkloadError),
            }
        return data

    def identity(self) -> str:
        """Name the source without a path: a log by its format, found or given, and the SHA-256 of its files.

        Raises
        ------
        TraceError, WorkloadError : the log cannot be read, or its format cannot be found
        """
        if self.synthetic:
            return self.source
        name, path = resolve_source(self.source)
        return f"{name}:{'+'.join(file_digest(file, WorkloadError) for file in source_files(name, path))}"
