"""The rivals of the study: every baseline that reads no run times, tuned on the training windows.

``rivals.json`` has the parameters that were found. ``python -m studies.unseen_logs.rivals LOGS`` finds them
again (extra ``tuning``). With ``--scenario NAME`` instead of LOGS, rivals are tuned on training seeds of a scenario.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.portable.arrays import mean
from gpusched_env.portable.elementary import exp, log
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import whole
from studies.index_search.rule_search import training_problems
from studies.settings_search import optuna_library
from studies.unseen_logs.windows import TRAINING, list_windows

LARGEST_TUNED: Final = 32  # nodes of the largest cluster on which rivals are tuned, since there are so many runs
Choice = tuple[float, float] | tuple[str, ...]


@dataclass(frozen=True)
class Rival:
    """A baseline and the parameters that are tuned.

    Parameters
    ----------
    name : registered name of the scheduler, or a spec whose parameters are not tuned
    ranges : parameter -> two numbers, between which the logarithm of the value is uniform; or several texts, of which
        one is chosen. Names with a slash, such as "waits/0", are elements of a tuple, each relative to the one before
    trials : number of settings that are tried; the first is the default
    """

    name: str
    ranges: Mapping[str, Choice] = field(default_factory=dict)
    trials: int = 1


_PLACEMENTS: Final = ("pack", "consolidate")
_LEASES: Final = ("600", "1200", "1800", "3600", "7200", "14400")
_TIRESIAS: Final[dict[str, Choice]] = {
    "thresholds/0": (60.0, 100_000.0), "thresholds/1": (2.0, 1_000.0), "queues": ("2", "3"),
    "packlimit": ("0.0", "0.3", "2.0"), "placement": _PLACEMENTS, "incumbents_first": ("false", "true"),
}  # fmt: skip
RIVALS: Final = (
    Rival("fifo-skip", {"placement": _PLACEMENTS}, 2),
    Rival("yarn-cs"),
    Rival(
        "delay-zaharia",
        {"waits/0": (3.0, 30_000.0), "waits/1": (3.0, 30_000.0), "clock": ("declining", "waiting")},
        40,
    ),
    Rival("las", {"round_s": (60.0, 28_800.0), "placement": _PLACEMENTS}, 420),
    Rival("las-2d", {"round_s": (60.0, 28_800.0), "placement": _PLACEMENTS}, 420),
    Rival("tiresias", {**_TIRESIAS, "knob": ("inf",)}, 700),
    Rival("tiresias-g", {**_TIRESIAS, "knob": ("inf",)}, 700),
    Rival("gandiva-lite"),
    Rival(
        "dally",
        {
            "tuner": ("hand", "off"), "rack_wait": (0.1, 48.0), "nw_wait": (0.1, 48.0), "lease_s": _LEASES,
            "priority": ("nw", "gpu-time", "arrival"), "preemption": ("lease", "victim", "none"),
            "victim_margin": ("0.05", "0.1", "0.3"),
        },
        700,
    ),
    Rival("tiresias-dally", {"lease_s": _LEASES}, 6),
    Rival("gandiva-dally", {"lease_s": _LEASES}, 6),
)  # fmt: skip


def tuned_rivals() -> dict[str, str]:
    """Return the tuned spec of every rival, by name."""
    text = resources.files(__package__).joinpath("rivals.json").read_text(encoding="utf-8")
    return {name: one["spec"] for name, one in json.loads(text).items()}


def mean_jct_s(spec: str, instance: Instance) -> float:
    """Return the mean JCT of a scheduler on a problem instance [s]."""
    simulation = Simulation(instance)
    simulation.run(make_scheduler(spec))
    jobs = simulation.arrays.jobs
    return mean(jobs["finish_s"] - jobs["arrival_s"])


def spec_of(rival: Rival, values: Mapping[str, Any]) -> str:
    """Write the spec of a rival with some parameters; no parameters = the defaults."""
    given: dict[str, str] = {}
    tuples: dict[str, list[float]] = {}
    queues = int(values.get("queues", 3))
    for name, value in values.items():
        parameter, slash, number = name.partition("/")
        if slash:
            entries = tuples.setdefault(parameter, [])
            relative = parameter == "thresholds" and int(number) > 0
            if not relative:
                entries.append(value)
            elif int(number) < queues - 1:
                entries.append(entries[-1] * value)
        elif name != "queues":
            given[name] = value if isinstance(value, str) else f"{value:.4g}"
    given |= {name: "/".join(f"{entry:.4g}" for entry in entries) for name, entries in tuples.items()}
    if given.get("tuner") == "hand":
        given = {name: value for name, value in given.items() if name not in ("rack_wait", "nw_wait")}
    if given.get("preemption") != "victim":
        given.pop("victim_margin", None)
    parameters = ",".join(f"{name}={value}" for name, value in given.items())
    return f"{rival.name}{',' if ':' in rival.name else ':'}{parameters}" if parameters else rival.name


def tune(
    rival: Rival, problems: Sequence[Instance], measure: Callable[[str, Instance], float] = mean_jct_s
) -> dict[str, Any]:
    """Try settings of a rival; return the best spec, its score, and the numbers of settings and of simulated jobs.

    The score is the mean logarithm of the mean JCT [s] over the problems, or of what ``measure`` gives.
    """
    optuna = optuna_library()
    jobs = 0
    found: dict[str, float] = {}

    def score(spec: str) -> float:
        nonlocal jobs
        if spec not in found:
            jobs += sum(len(instance.workload) for instance in problems)
            found[spec] = mean([log(measure(spec, instance)) for instance in problems])
        return found[spec]

    def objective(trial: Any) -> float:
        values = {
            name: trial.suggest_float(name, *options, log=True)
            if isinstance(options[0], float)
            else trial.suggest_categorical(name, options)
            for name, options in rival.ranges.items()
        }
        return score(spec_of(rival, values))

    default = score(rival.name)
    if rival.ranges:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
        study.optimize(objective, n_trials=rival.trials)
    spec = min(found, key=lambda one: found[one])
    return {
        "spec": spec,
        "ratio to default": round(exp(found[spec] - default), 4),
        "settings": len(found),
        "jobs": jobs,
    }


@dataclass
class Settings:
    """Tune the rivals again."""

    logs: Annotated[Path | None, typer.Argument()] = None
    """Folder of the logs."""
    scenario: str = ""
    """Instead of logs: tune on training seeds of this scenario."""
    problems: int = 12
    """Number of these seeds."""
    only: Sequence[str] = ()
    """Names of rivals; the others keep their entries."""
    trials: int | None = None
    """Trials of a rival at most."""
    output: Path | None = None
    """File to write; for logs rivals.json beside this module."""


def main(options: Settings) -> None:
    """Write ``rivals.json``."""
    if (options.logs is None) == (not options.scenario) or (options.scenario and options.output is None):
        raise GpuschedError("give either LOGS, a folder, or --scenario NAME and --output FILE")
    output: Path = options.output or Path(str(resources.files(__package__))) / "rivals.json"
    if options.logs is None:
        problems = training_problems(options.scenario, options.problems)
    else:
        windows = [window for window in list_windows(TRAINING) if window.nodes <= LARGEST_TUNED][::2]
        problems = [window.instance(options.logs) for window in windows]
    known = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else {}
    for rival in RIVALS:
        if options.only and rival.name not in options.only:
            continue
        begun = time.process_time()
        fewer = replace(rival, trials=min(rival.trials, options.trials or rival.trials))
        known[rival.name] = tune(fewer, problems)
        print(rival.name, known[rival.name], f"{time.process_time() - begun:.0f} CPU s", flush=True)
        with whole(output) as partial:
            partial.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
