"""A page for each registered scheduler: its idea, a schedule, what it needs to know, its parameters, results."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path
from typing import Any

from numpydoc.docscrape import NumpyDocString

from gpusched_env.baselines import BASELINES, list_baselines, make_scheduler
from gpusched_env.baselines.domains import NEEDS, needs_of
from gpusched_env.baselines.registry import Baseline
from gpusched_env.support.units import unit_for
from pages import figures
from pages.leaderboard import Result, number
from pages.markdown import parameters, table, text_of
from pages.markdown import write as write_page

# Pages that say more about a family of schedulers, by the package of their class.
MORE = {
    "bco": ("reproduce_sjf_bco", "The experiments of the SJF-BCO paper again"),
    "bsbf": ("sjf_bsbf", "SJF-BSBF: claims and our numbers"),
    "deadlines": ("deadlines", "Deadlines: jobs, schedulers and metrics"),
    "deserved": ("volcano", "Volcano and KAI"),
    "elastic": ("elastic", "Elastic jobs: sizes, speeds and schedulers"),
    "dally": ("dally", "Dally: delay scheduling with leases"),
    "fair_sharing": ("kueue", "Kueue, DRF and YARN's queues"),
    "gavel": ("gavel", "Gavel: policies and rounds"),
    "hadar": ("hadar", "Hadar and HadarE"),
    "slurm": ("slurm", "Slurm: priority, fair share, backfill"),
    "hived": ("tenants", "Tenants: quotas, cells, pooling"),
    "kueue": ("kueue", "Kueue, DRF and YARN's queues"),
    "themis": ("themis", "Themis: auctions for finish-time fairness"),
}


def write(folder: Path, results: list[Result]) -> None:
    """Write an index and a page for each registered scheduler, and draw their schedules."""
    for name, baseline in BASELINES.items():
        own = [result for result in results if result.scheduler == name]
        write_page(folder / f"{name}.md", _page(name, baseline, own, folder))
    write_page(folder / "index.md", _index(results))


def _index(results: list[Result]) -> str:
    rows = [
        [
            f"[`{name}`]({name}.md)",
            baseline.summary,
            _preempts(name, baseline, results),
            _reads_run_times(name),
            ", ".join(_declared(name, baseline)),
        ]
        for name, baseline in BASELINES.items()
    ]
    pages = "\n".join(BASELINES)
    return (
        "# Schedulers\n\n"
        "The command line, `make_scheduler` and the leaderboard take the name of a scheduler. Parameters follow a\n"
        "colon: `tiresias:knob=8,policy=gittins`. A scheduler of your own has the form `module:Class`;\n"
        "[the tutorial](../tutorials/plot_02_own_scheduler) writes one.\n\n"
        f"{table(['name', 'what it does', 'preempts', 'reads true run times', 'needs'], rows)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    )


def _class(baseline: Baseline) -> Any:
    module, _, name = baseline.target.partition(":")
    return getattr(importlib.import_module(module), name)


def _plays(name: str) -> bool:
    """Tell whether the scheduler plays without a parameter of the user's."""
    return name in list_baselines()


def _declared(name: str, baseline: Baseline) -> list[str]:
    needs = needs_of(make_scheduler(name), name) if _plays(name) else baseline.needs
    return [NEEDS[need].words for need in needs]


def _reads_run_times(name: str) -> str:
    if not _plays(name):
        return "as trained"
    return "yes" if make_scheduler(name).clairvoyant else "no"


def _preempts(name: str, baseline: Baseline, results: list[Result]) -> str:
    """Say whether a job was preempted, in an entry of the leaderboard or in the picture."""
    if not _plays(name):
        return "as trained"
    entries = any(result.preemptions.mean > 0 for result in results if result.scheduler == name)
    return "yes" if entries or figures.preempts(name, baseline) else "no"


def _page(name: str, baseline: Baseline, results: list[Result], folder: Path) -> str:
    cls = _class(baseline)
    document = NumpyDocString(inspect.cleandoc(cls.__doc__ or ""))
    parts = [
        f"# {name}",
        f"**{baseline.summary}**",
        text_of(document["Summary"]),
        text_of(document["Extended Summary"]),
    ]
    if _plays(name):
        figures.draw(name, baseline, folder / f"{name}.png")
        parts += [f"![Schedules of fifo and of {name}]({name}.png)", figures.caption(name, baseline)]
    parts += ["## What it needs to know", *_needs(name, baseline, results)]
    head = ["parameter", "default", "meaning"]
    parts += ["## Parameters", f"`{name}:parameter=value,...`", table(head, _rows(cls, baseline))]
    if document["Notes"]:
        parts += ["## Our reading", text_of(document["Notes"])]
    parts += ["## Results", *_results(results)]
    if document["References"]:
        parts += ["## References", text_of(document["References"])]
    package = baseline.target.removeprefix("gpusched_env.baselines.").partition(".")[0]
    if package in MORE:
        page, title = MORE[package]
        parts += [f"More: [{title}](../{page}.md)."]
    return "\n\n".join(part for part in parts if part) + "\n"


def _needs(name: str, baseline: Baseline, results: list[Result]) -> list[str]:
    needs = [
        {
            "yes": "It reads true run times with its defaults.",
            "no": "It reads what a real cluster knows: requests, the cluster's state, the history of finished jobs.",
            "as trained": "It reads what the agent was trained with.",
        }[_reads_run_times(name)],
        {
            "yes": "It preempts running jobs.",
            "no": "It does not preempt.",
            "as trained": "It preempts if the agent was trained to.",
        }[_preempts(name, baseline, results)],
    ]
    if words := _declared(name, baseline):
        needs.append(f"To be itself it needs {', '.join(words)}; on other problems its idea gains nothing.")
    return ["\n".join(f"- {need}" for need in needs)]


def _rows(cls: Any, baseline: Baseline) -> list[list[str]]:
    meanings = parameters(cls)
    rows = []
    for field in dataclasses.fields(cls):
        if field.init:
            key = field.name.rstrip("_")
            default = baseline.parameters.get(field.name, field.default)
            shown = "required" if default is dataclasses.MISSING else f"`{default!r}`"
            rows.append([f"`{key}`", shown, meanings.get(key, "")])
    return rows


def _results(results: list[Result]) -> list[str]:
    if not results:
        return ["No track of the leaderboard has an entry of this scheduler."]
    rows = [
        [
            f"[{result.track.title}](../results/baselines.md)",
            f"{result.rank} of {result.of}",
            f"{result.track.scored}: {number(result.value, unit.seconds)} {unit.sign}",
            number(result.score),
        ]
        for result in results
        for unit in [unit_for([result.value.mean])]
    ]
    return [
        "From the entries that the package ships; a score of 0 is FIFO, 1 is the lower bound.",
        table(["track", "rank", "mean over seeds, with its 95 % interval", "score"], rows),
    ]
