"""Parsing of command-line options into scenarios, seeds and schedulers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gpusched_env.baselines import BASELINES, make_scheduler
from gpusched_env.baselines.registry import split_name
from gpusched_env.baselines.specs import takes
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.evaluation.results import plain
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.traces import read_cluster

DEFAULT_SEEDS: Final = 5  # for generators; a log gives the same jobs for every seed
DEFAULT_SCENARIO: Final = "philly-64-v1"
MOST_SEEDS: Final = 100_000  # largest number of seeds of a comparison; a scenario has the same number of training seeds
_PARAMETER: Final = re.compile(r"\w+=")  # a spec has a colon before its first parameter


def chosen_scenario(
    scenario: str | None, workload: str | None, cluster: str | None, jobs: dict[str, Any] | None = None
) -> Scenario:
    """Return a scenario by name or path, with other jobs or machines if given; the name of the new scenario says so.

    Parameters
    ----------
    scenario : None = DEFAULT_SCENARIO; with a workload, one of these jobs on this cluster, with no field of another one
    workload : ``FORMAT:PATH`` or ``synthetic:NAME``, which replaces the jobs
    cluster : as for :func:`chosen_cluster`
    jobs : changed fields of the workload; as :meth:`gpusched_env.cli.choosing.Jobs.changes` gives them
    """
    changes = []
    if workload is None or scenario is not None:
        found = get_scenario(scenario or DEFAULT_SCENARIO)
        changes.append(found.name)
    elif cluster is None:
        raise GpuschedError(f"--workload {workload}: on which machines? Give --cluster, such as 16x8, or --scenario")
    else:
        found = Scenario("log", "Jobs on a cluster.", (NodeGroup(1, 1),), WorkloadSpec(workload, profiles="own"))
    if workload is not None:
        found = found.with_workload(workload, **(jobs or {}))
        kind, _, place = workload.partition(":")
        changes.append(f"{kind}:{place if found.workload.synthetic else Path(place).name}")
    elif jobs:
        own = dict(found.workload.parameters) | jobs.get("parameters", {})
        found = found.replace(workload=dataclasses.replace(found.workload, **{**jobs, "parameters": own}))
    changes += _in_words(jobs or {})
    if cluster is not None:
        machines, name = chosen_cluster(cluster)
        found = found.with_cluster(machines)
        changes.append(name)
    return found.replace(name=" + ".join(changes))


def _in_words(changes: dict[str, Any]) -> list[str]:
    """Describe what the options of jobs chose, in short texts for the name of a scenario."""
    parts = []
    if "start_s" in changes:
        stop = changes["stop_s"]
        parts.append(f"window {changes['start_s']:.15g}:{'' if stop is None else f'{stop:.15g}'}")
    parts += changes.get("where", ())
    for name in ("max_gpus", "sample", "jobs", "load"):
        if name in changes:
            parts.append(f"{name.replace('_', ' ')} {changes[name]:g}")
    for name, value in changes.get("parameters", {}).items():
        shown = ",".join(f"{role}={column}" for role, column in value.items()) if name == "map" else value
        parts.append(name.replace("_", " ") if value is True else f"{name} {shown}")
    parts += [name.replace("_", " ") for name in changes if name.startswith("ignore_")]
    parts += ["noise"] * ("noise" in changes)
    for name in ("profiles", "measured_on", "start_latency"):
        if name in changes:
            parts.append(f"{name.replace('_', ' ')} {changes[name]}")
    return parts


def chosen_cluster(text: str) -> tuple[Cluster, str]:
    """Return machines and a short name; ``text`` is as for Cluster.parse, or ``FORMAT:PATH``, whose report is printed.

    A path that ends in ``.conf`` is read as Slurm's.
    """
    text = text.strip()
    text = f"slurm:{text}" if text.endswith(".conf") and ":" not in text else text
    kind, described, place = text.partition(":")
    if not described:
        return Cluster.parse(text), text
    machines, report = read_cluster(text)
    print(report.describe())
    return machines, f"{kind}:{Path(place).name}"


def chosen_seeds(text: str | None, scenario: Scenario, use: str = "report", default: int = DEFAULT_SEEDS) -> list[int]:
    """Parse ``COUNT``, which means the first COUNT report seeds of the scenario, or ``FIRST:END``, END excluded.

    Parameters
    ----------
    text : None = the first ``default`` seeds, or only the first one if the jobs come from a log
    use : which seeds of the scenario: "train", "validation" or "report"
    """
    first, end = getattr(scenario.seeds, use)
    if text is None:
        return list(range(first, min(end, first + (default if scenario.workload.synthetic else 1))))
    seeds = parsed_seeds(text, first)
    count = seeds.stop - seeds.start
    if ":" not in text and count > end - first:
        raise GpuschedError(
            f"--seeds {text}: the scenario has {end - first} {use} seeds, {first}:{end}; write FIRST:END for others"
        )
    if count > MOST_SEEDS:
        raise GpuschedError(f"--seeds {text}: that is {count:,} seeds; give at most {MOST_SEEDS:,}")
    return list(seeds)


def parsed_seeds(text: str, first: int) -> range:
    """Parse ``COUNT``, which means so many seeds from ``first`` on, or ``FIRST:END``, END excluded."""
    match = re.fullmatch(r"(?:(\d+):)?(\d+)", text.strip())
    if match is None:
        raise GpuschedError(f"--seeds {text!r}: write COUNT or FIRST:END, for example 5 or 200000:200010")
    seeds = range(first, first + int(match[2])) if match[1] is None else range(int(match[1]), int(match[2]))
    if not seeds:
        raise GpuschedError(f"--seeds {text!r}: that is no seed; END is excluded and must be above FIRST")
    return seeds


def not_for_reports(seeds: Sequence[int], scenario: Scenario) -> str:
    """Return a note if seeds are reserved for training or validation; empty if none are."""
    for use, name in (("train", "training"), ("validation", "validation")):
        first, end = getattr(scenario.seeds, use)
        if any(first <= seed < end for seed in seeds):
            kept, report = seed_range(range(first, end)), seed_range(range(*scenario.seeds.report))
            return f"note: the scenario reserves {kept} for {name}, and {report} for reports"
    return ""


def seed_range(seeds: Sequence[int]) -> str:
    """Return consecutive seeds as ``FIRST:END``, as the option accepts them."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]}:{seeds[-1] + 1}"


def chosen_schedulers(texts: Sequence[str]) -> list[str]:
    """Split lists of specs, or of ``NAME=SPEC``, at their commas; refuse a scheduler or a label that occurs twice.

    A comma also separates the parameters of a spec: ``fifo,tiresias:knob=8,policy=las,sjf`` names three schedulers. So
    ``x=y`` at the beginning of a list gives y the name x. After a comma it does so if y is a scheduler and neither the
    scheduler before it nor a registered one has a parameter x; otherwise it is a parameter.
    """
    specs: list[str] = []
    for text in texts:
        own: list[str] = []
        for part in map(str.strip, text.split(",")):
            if not part:
                raise GpuschedError(f"--scheduler {text!r}: there is nothing between two commas, or at an end")
            if _is_parameter(part, own[-1] if own else None):
                own[-1] += f"{',' if '=' in split_name(own[-1])[1] else ':'}{part}"
            else:
                own.append(part)
        specs += own
    players: dict[str, str] = {}
    labels: set[str] = set()
    for spec, after in zip(specs, [*specs[1:], ""], strict=True):
        try:
            info = make_scheduler(spec).info
        except SchedulerError as error:
            if not any(_begins_a_spec(part.partition("=")[2]) for part in f"{split_name(spec)[1]},{after}".split(",")):
                raise
            told = "NAME=SPEC comes first in a --schedulers of its own, and NAME has no comma, colon or ="
            raise SchedulerError(f"{error}; {told}") from error
        key = repr((info.name, plain(info.parameters)))
        if key in players:
            raise GpuschedError(f"schedulers {players[key]!r} and {spec!r} are the same; name it once")
        players[key] = spec
        name, alone = split_name(spec)
        if (name or alone) in labels:
            raise GpuschedError(f"two schedulers are called {name or alone!r} in tables; give one another name")
        labels.add(name or alone)
    return specs


def _is_parameter(part: str, before: str | None) -> bool:
    """Return whether a part of a list is a parameter of the scheduler before it, not the beginning of a scheduler."""
    name, value = split_name(part)
    if name is None or not _PARAMETER.match(part):
        return False
    if _begins_a_spec(value):
        # a name much like a parameter of the scheduler before it is a typing error
        return before is not None and (takes(before, name, 0.8) or any(takes(spec, name) for spec in BASELINES))
    if before is None and any(takes(spec, name) for spec in BASELINES):
        raise GpuschedError(f"--scheduler {part!r}: the parameter has no scheduler before it; write SPEC:{part}")
    return before is not None


def _begins_a_spec(text: str) -> bool:
    """Return whether a text begins with the name of a scheduler, or is written ``module:Class``."""
    head, _, rest = text.partition(":")
    return head in BASELINES or (head.replace(".", "").isidentifier() and rest[:1].isupper())
