"""The source of the jobs of a scenario, and the cuts and changes that are applied to these jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final

from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.problem.workload import GPU_TYPES, MAX_NODES, MIN_NODES, Workload, refuse_too_many_jobs
from gpusched_env.scenarios.convert import check_types
from gpusched_env.scenarios.measured_on import MeasuredOn
from gpusched_env.support.files import file_digest
from gpusched_env.traces import (
    PROFILE_RULES,
    ReadOptions,
    ReadReport,
    assign_profiles,
    clip_gpus,
    first_jobs,
    ignore_placement,
    read_trace,
    sample,
    scale_to_load,
    up_to_gpus,
    where,
    window,
)
from gpusched_env.traces.deadlines import check_deadlines, draw_deadlines
from gpusched_env.traces.elastic import ELASTIC_RULES, check_rule, elastic_jobs
from gpusched_env.traces.filters import check_amount, split_condition
from gpusched_env.traces.generators.synthetic import check_parameters, draw_jobs, random_stream
from gpusched_env.traces.noise import START_LATENCIES, check_noise, draw_noise, draw_start_latency
from gpusched_env.traces.parsing.sources import split, split_here
from gpusched_env.traces.profiles import FILE_RULES
from gpusched_env.traces.read_options import OPTIONS
from gpusched_env.traces.reading import resolve_source, source_files, split_source

SYNTHETIC: Final = "synthetic:"
DEFAULT_JOBS: Final = 200  # number of jobs that a generator draws if ``jobs`` is None
DEADLINES, NOISE, LATENCY = 2, 3, 4  # numbers of random streams
# Fields that are written only if they differ from their defaults, so that a scenario which does not use them has the
# same fingerprint in all versions.
LATER_FIELDS: Final = (
    "where", "sample", "sample_seed", "clip", "ignore_placement", "ignore_types", "ignore_nodes", "elastic",
    "deadlines", "measured_on", "noise", "start_latency",
)  # fmt: skip


@dataclass(frozen=True)
class WorkloadSpec:
    """The rules by which a workload is made from a generator or a log.

    Parameters
    ----------
    source : "synthetic:GENERATOR" for a generator, or "FORMAT:PATH" for a log. The format "file" is a saved workload;
        "auto" recognises the format of the file
    parameters : for a generator, its parameters; for a log, the fields of :class:`gpusched_env.traces.ReadOptions`:
        ``map``, ``skip_bad_rows`` and ``estimate``
    profiles : a rule of :func:`gpusched_env.traces.assign_profiles`, or "own" = the jobs keep the profiles of their
        source; if it gives none, the rule is "unit". Jobs whose source gives them profiles (such as measured models)
        keep these under every rule but "unit" and "gavel:PATH"
    jobs : number of jobs of an episode; for a log, these are the first jobs by arrival. None = 200 jobs for a
        generator, all jobs of a log
    max_gpus : largest gang [GPU]; a generator draws no larger gangs, and larger jobs of a log are dropped. None = no
        limit
    load : offered load, ideal GPU time / GPU time of the cluster, to which arrival times are scaled; None = arrival
        times are not scaled
    start_s, stop_s : jobs of a log that arrive before ``start_s``, or at or after ``stop_s``, are dropped [s];
        ``stop_s`` None = no upper limit
    where : conditions on attributes of a log, such as "virtual_cluster=6214e9,11cb48" or "status!=Killed"; a job is
        dropped if it fails one of them, see :func:`gpusched_env.traces.where`
    sample : random sample of a log, as a share below 1 or as a number of jobs; None = all jobs
    sample_seed : seed of the sample, which is independent of the seeds of the scenario
    clip : True = jobs above ``max_gpus`` are not dropped, but get ``max_gpus`` GPUs and a longer run time, so that
        their GPU time stays the same
    ignore_placement : True = gangs of measured models run on every placement at the rate measured on one machine, see
        :func:`gpusched_env.traces.ignore_placement`
    ignore_types : True = jobs run on GPUs of every type, whatever types they ask for
    ignore_nodes : True = gangs may be split over any nodes, whatever numbers of nodes they ask for
    elastic : the rule that makes the jobs elastic, and its parameters, such as ``{"rule": "amdahl", "serial": 0.1}``,
        see :func:`gpusched_env.traces.elastic.elastic_jobs`; None = jobs are as their source has them
    deadlines : the parameters of :func:`gpusched_env.traces.deadlines.draw_deadlines`, such as
        ``{"least": 0.5, "most": 1.5}``; {} = its defaults; None = jobs have the deadlines of their source
    measured_on : ``NETWORK`` or ``NETWORK/CLUSTER``, such as "dgxv-100g/16x8@V100": on its ideal placement, jobs take
        their run times, and they have these iterations everywhere. None = that is so where they are played. ``load``
        and ``deadlines`` are those of the measured run times
    noise : the log-sigmas of :func:`gpusched_env.traces.noise.draw_noise`, such as ``{"step": 0.05}``; {} = measured
        ones; None = no noise. ``load`` and ``deadlines`` are those without noise
    start_latency : kind of the latency of first starts, a key of START_LATENCIES; it adds to ``semantics.start_s``

    Notes
    -----
    The fields are applied in this order: start_s and stop_s, where, max_gpus, sample, jobs, clip, load, deadlines,
    noise, start_latency, profiles, ignore_placement, elastic, measured_on.
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
    ignore_types: bool = False
    ignore_nodes: bool = False
    elastic: Mapping[str, Any] | None = field(default=None, hash=False)
    deadlines: Mapping[str, Any] | None = field(default=None, hash=False)
    measured_on: str | None = None
    noise: Mapping[str, Any] | None = field(default=None, hash=False)
    start_latency: str | None = None

    def __post_init__(self) -> None:
        """Check every field; the file is not opened."""
        check_types(self, "workload")
        for name in ("jobs", "max_gpus"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ScenarioError(f"workload.{name} is {value}: it must be at least 1, or left out")
        refuse_too_many_jobs(self.jobs or 0, "workload")
        if self.load is not None and not (0 < self.load < math.inf):
            raise ScenarioError(f"workload.load is {self.load!r}: it must be a finite number > 0, or left out")
        if not 0 <= self.start_s < (math.inf if self.stop_s is None else self.stop_s) or self.stop_s == math.inf:
            raise ScenarioError(
                f"workload window {self.start_s!r} to {self.stop_s!r}: give 0 <= start_s < stop_s, "
                "and leave stop_s out for a window to the end"
            )
        self._check_profiles()
        object.__setattr__(self, "where", tuple(self.where))
        for condition in self.where:
            split_condition(condition)
        if self.sample is not None:
            check_amount(self.sample)
        if self.elastic is not None:
            if "rule" not in self.elastic:
                raise ScenarioError(f"workload.elastic names no rule: give one of {', '.join(ELASTIC_RULES)}")
            check_rule(self.elastic["rule"], {name: self.elastic[name] for name in self.elastic if name != "rule"})
        if self.deadlines is not None:
            check_deadlines(self.deadlines)
        check_noise(self.noise or {})
        if self.start_latency not in (None, *START_LATENCIES):
            kind = str(self.start_latency)
            raise ScenarioError(f"workload.start_latency: {unknown_name('kind', kind, START_LATENCIES)}")
        _ = self.measured  # checks the field
        if self.clip and self.max_gpus is None:
            raise ScenarioError("workload.clip cuts demands to max_gpus: give max_gpus, or leave clip out")
        self._check_source()

    def _check_source(self) -> None:
        if self.synthetic:
            for name in OPTIONS:
                if name in self.parameters:
                    raise ScenarioError(f"workload {self.source}: {name} applies to logs only; leave it out")
            _ = self._given  # checks the parameters
            cuts = {"a window": self.start_s or self.stop_s is not None, "where": self.where, "sample": self.sample}
            for name, given in cuts.items():
                if given:
                    raise ScenarioError(f"workload {self.source}: {name} applies to logs only; leave it out")
        else:
            ReadOptions.of(self.source, split_source(self.source)[0], self.parameters)

    def _check_profiles(self) -> None:
        rules = [*PROFILE_RULES, "own"]
        if ":" in self.profiles:
            split(self.profiles, "workload.profiles", FILE_RULES)
        elif self.profiles not in rules:
            raise ScenarioError(f"workload.profiles: {unknown_name('profile rule', self.profiles, rules)}")

    @cached_property
    def _given(self) -> dict[str, Any]:
        """The parameters of a generator, checked once for all draws."""
        return check_parameters(self.source.removeprefix(SYNTHETIC), self.parameters)

    @cached_property
    def measured(self) -> MeasuredOn | None:
        """Where the run times were measured; None = where the jobs are played."""
        return None if self.measured_on is None else MeasuredOn.parse(self.measured_on)

    @property
    def synthetic(self) -> bool:
        """Whether jobs come from a generator, so that each seed draws different jobs."""
        return self.source.startswith(SYNTHETIC)

    @property
    def planned(self) -> bool:
        """Whether the profiles have plans of gangs that train LLMs; those of a file have not yet been read."""
        return self.profiles == "llm"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        default = {item.name: item.default for item in fields(self)}
        data = asdict(self)
        return {name: data[name] for name in data if name not in LATER_FIELDS or data[name] != default[name]}

    def read(self) -> tuple[Workload, ReadReport]:
        """Read the log and apply the cuts; the report also counts the jobs that the cuts dropped."""
        return self.cut(*read_trace(self.source, **self.parameters))

    def cut(self, whole: Workload, report: ReadReport) -> tuple[Workload, ReadReport]:
        """Apply the cuts to a log that has been read; ``report`` is updated in place."""
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
        """Yield the cuts of a log in their order, each as a reason for the report and a function."""
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
        """Make the workload of a seed.

        The seed determines the jobs of a generator. It also determines the model of each job, for generators and logs.

        ``log`` is what :meth:`read` returned; None for a generator.
        """
        if log is None:
            name, largest = self.source.removeprefix(SYNTHETIC), None if self.clip else self.max_gpus
            workload = draw_jobs(name, seed, self.jobs or DEFAULT_JOBS, largest, self._given)
        else:
            workload = log
        ignored = (GPU_TYPES,) * self.ignore_types + (MIN_NODES, MAX_NODES) * self.ignore_nodes
        if workload.attributes.keys() & ignored:
            told = {name: column for name, column in workload.attributes.items() if name not in ignored}
            workload = replace(workload, attributes=told)
        if self.clip and self.max_gpus is not None:
            workload = clip_gpus(workload, self.max_gpus)
        if self.load is not None:
            workload = scale_to_load(workload, self.load, cluster_gpus)
        if self.deadlines is not None:
            workload = draw_deadlines(workload, random_stream(seed, DEADLINES), **self.deadlines)
        if self.noise is not None:
            workload = draw_noise(workload, random_stream(seed, NOISE), **self.noise)
        if self.start_latency is not None:
            workload = draw_start_latency(workload, random_stream(seed, LATENCY), self.start_latency)
        if self.measured is not None and self.measured.cluster is not None:
            gpu_types = tuple(dict.fromkeys((*self.measured.cluster.gpu_types, *gpu_types)))
        if workload.profiles.is_unit or self.profiles == "unit" or ":" in self.profiles:
            rule = "unit" if self.profiles == "own" else self.profiles
            workload = assign_profiles(workload, rule, random_stream(seed, 1), gpu_types)
        if self.ignore_placement:
            workload = ignore_placement(workload)
        return workload if self.elastic is None else elastic_jobs(workload, **self.elastic)

    def identities(self) -> dict[str, Any]:
        """Return the fields that name files, with the SHA-256 of each file instead of its path."""
        data: dict[str, Any] = {"source": self.identity()}
        if ":" in self.profiles:
            name, path = split_here(self.profiles, "workload.profiles", FILE_RULES)
            data["profiles"] = f"{name}:{file_digest(path, WorkloadError)}"
        if not self.synthetic and self.parameters:
            options = ReadOptions(**self.parameters)
            data["parameters"] = {
                "map": dict(options.map),
                "skip_bad_rows": options.skip_bad_rows,
                "estimate": options.estimate_file and file_digest(options.estimate_file, WorkloadError),
            }
            later = {"gpu_resource": options.gpu_resource, "columns": options.columns}
            data["parameters"] |= {name: value for name, value in later.items() if value}  # as in older fingerprints
        return data

    def identity(self) -> str:
        """Return the source without a path: for a log, its format (recognised if "auto") and the SHA-256 of its files.

        Raises
        ------
        TraceError, WorkloadError : the log cannot be read, or its format is not recognised
        """
        if self.synthetic:
            return self.source
        name, path = resolve_source(self.source)
        return f"{name}:{'+'.join(file_digest(file, WorkloadError) for file in source_files(name, path))}"
