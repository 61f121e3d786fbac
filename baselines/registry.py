"""Names of the schedulers, and how a text such as ``tiresias:knob=8`` becomes one."""

from __future__ import annotations

import ast
import dataclasses
import keyword
from collections.abc import Callable
from math import inf
from typing import Any, Final, NamedTuple

from gpusched_env.baselines.own_code import import_named
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.plugins import load_plugins
from gpusched_env.simulator import Scheduler


class Baseline(NamedTuple):
    """A registered scheduler: where its class is and which parameters its name stands for."""

    target: str  # "module:Class"
    parameters: dict[str, Any]
    summary: str
    variant_of: str = ""  # the name of which it shows one side; tables of all schedulers leave such names out
    needs_links: bool = False  # its idea is about gangs that share links; without them it is another policy's shadow
    needs_types: bool = False  # its idea is about GPU types that differ; on one type it says little
    needs_sharing: bool = False  # its idea is about jobs that share GPUs; where they may not it is another policy


_HERE: Final = "gpusched_env.baselines"
# How a truth value may be written in a spec.
_TRUTH: Final = {
    "true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
# To add a scheduler: one file and one line here.
BASELINES: Final[dict[str, Baseline]] = {
    "fifo": Baseline(f"{_HERE}.fifo:Fifo", {}, "first in, first out; head of line blocks"),
    "fifo-skip": Baseline(f"{_HERE}.fifo:Fifo", {"variant": "skip"}, "first in, first out; whatever fits starts"),
    "fifo-easy": Baseline(f"{_HERE}.fifo:Fifo", {"variant": "easy"}, "EASY backfill: the head has a reservation"),
    "sjf": Baseline(f"{_HERE}.sjf:ShortestJobFirst", {}, "shortest run time first"),
    "ssf": Baseline(f"{_HERE}.sjf:ShortestJobFirst", {"key": "gpu-time"}, "smallest GPU-time first"),
    "srtf": Baseline(f"{_HERE}.srtf:ShortestRemainingFirst", {}, "shortest remaining time first, preemptive"),
    "srsf": Baseline(
        f"{_HERE}.srtf:ShortestRemainingFirst", {"key": "gpu-time"}, "shortest remaining GPU-time first, preemptive"
    ),
    "las": Baseline(f"{_HERE}.las:LeastAttainedService", {}, "least attained seconds first, in rounds"),
    "las-2d": Baseline(
        f"{_HERE}.las:LeastAttainedService", {"two_dimensional": True}, "least attained GPU-seconds first, in rounds"
    ),
    "tiresias": Baseline(f"{_HERE}.tiresias:Tiresias", {}, "discretised 2D-LAS with skew-based consolidation"),
    "tiresias-g": Baseline(
        f"{_HERE}.tiresias:Tiresias", {"policy": "gittins"}, "discretised 2D-Gittins with skew-based consolidation"
    ),
    "yarn-cs": Baseline(f"{_HERE}.yarn_cs:YarnCapacity", {}, "arrival order; a gang below one switch, or it waits"),
    "delay-zaharia": Baseline(
        f"{_HERE}.delay_scheduling:DelayScheduling", {}, "arrival order; declines GPUs that are far apart for a while"
    ),
    "gandiva-lite": Baseline(
        f"{_HERE}.gandiva.scheduler:Gandiva", {}, "affinity placement, time slices where gangs share GPUs, migration"
    ),
    "themis-lite": Baseline(
        f"{_HERE}.themis.scheduler:Themis", {}, "leases to the jobs with the worst finish-time fairness"
    ),
    "sjf-bco": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {},
        "plans for least makespan under contention, smallest gang first",
        needs_links=True,
    ),
    "bco-ff": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {"policy": "ff", "order": "trace"},
        "SJF-BCO's rival FF: first fit, theta by rehearsal",
        needs_links=True,
    ),
    "bco-ls": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {"policy": "ls", "order": "trace"},
        "SJF-BCO's rival LS: least charged GPUs first",
        needs_links=True,
    ),
    "bco-rand": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {"policy": "rand", "order": "trace"},
        "SJF-BCO's rival RAND: random GPUs",
        needs_links=True,
    ),
    "ada-srsf": Baseline(
        f"{_HERE}.ada_srsf:AdaSrsf",
        {},
        "smallest GPU-time first; AdaDUAL gates the sharing of ports",
        needs_links=True,
    ),
    "gavel": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel", {}, "LAS over time shares on GPU types, in rounds", needs_types=True
    ),
    "gavel-las": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "max_min_fairness"},
        "the same, blind to the types' speeds",
        needs_types=True,
    ),
    "gavel-ftf": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "finish_time_fairness_perf"},
        "finish-time fairness over time shares on GPU types",
        needs_types=True,
    ),
    "gavel-makespan": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "min_total_duration_perf"},
        "least makespan over time shares on GPU types",
        needs_types=True,
    ),
    "gavel-fifo": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "fifo_perf"},
        "first in, first out, each gang on its fastest type",
        needs_types=True,
    ),
    "hadar": Baseline(
        f"{_HERE}.hadar.scheduler:Hadar",
        {},
        "a reconstruction: gangs on mixed GPU types, granted by prices in rounds",
        needs_types=True,
    ),
    "hadare": Baseline(
        f"{_HERE}.hadar.hadare:HadarE",
        {},
        "copies of a job on separate nodes, planned anew in each slot",
        needs_types=True,
    ),
    "hadare-single": Baseline(
        f"{_HERE}.hadar.hadare:HadarE",
        {"copies": 1},
        "HadarE's rival: one copy, moves each slot to the fastest free node",
        needs_types=True,
    ),
    "hadare-sticky": Baseline(
        f"{_HERE}.hadar.hadare:HadarE",
        {"copies": 1, "sticky": True},
        "HadarE's rival: one copy, stays on its first node",
        needs_types=True,
    ),
    "sjf-bsbf": Baseline(
        f"{_HERE}.bsbf.scheduler:SjfBsbf",
        {},
        "shortest run time first; beside running jobs where the mean JCT of the pair falls",
        needs_sharing=True,
    ),
    "sjf-ffs": Baseline(
        f"{_HERE}.bsbf.scheduler:SjfBsbf",
        {"benefit_test": False},
        "shortest run time first; beside running jobs wherever there is room",
        needs_sharing=True,
    ),
    "dally": Baseline(f"{_HERE}.dally.scheduler:Dally", {}, "delay scheduling, Nw priority, leases, tuned timers"),
    "dally-no-wait": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"tuner": "off", "rack_wait": 0.0, "nw_wait": 0.0},
        "Dally without delay",
        variant_of="dally",
    ),
    "dally-fully-consolidated": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"tuner": "off", "rack_wait": inf, "nw_wait": inf},
        "Dally that always waits",
        variant_of="dally",
    ),
    "dally-manual": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"tuner": "off"},
        "Dally with fixed timers, 6 and 12 leases",
        variant_of="dally",
    ),
    "dally-no-preempt": Baseline(
        f"{_HERE}.dally.scheduler:Dally", {"preemption": "none"}, "Dally without leases", variant_of="dally"
    ),
    "tiresias-dally": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"policy": "tiresias", "priority": "gpu-time"},
        "Tiresias of Dally's simulator",
        variant_of="dally",
    ),
    "gandiva-dally": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"policy": "gandiva", "priority": "first-start"},
        "Gandiva of Dally's simulator",
        variant_of="dally",
    ),
    "learned": Baseline(
        "gpusched_env.agents.learned:LearnedScheduler", {}, "a trained agent: learned:path=.../model.zip"
    ),
    "random": Baseline(f"{_HERE}.random_choice:RandomChoice", {}, "uniform over feasible starts and waiting"),
}


def register_scheduler(name: str, summary: str, **parameters: Any) -> Callable[[type[Scheduler]], type[Scheduler]]:
    """Register a class of schedulers under a name, which :func:`make_scheduler` and the command line then take.

    Parameters
    ----------
    name : as specs name it
    summary : half a sentence for tables
    parameters : those that the name stands for, of the class

    Raises
    ------
    SchedulerError : the name is taken, or cannot stand in a spec
    """

    def register(cls: type[Scheduler]) -> type[Scheduler]:
        if name in BASELINES:
            raise SchedulerError(f"scheduler {name!r} exists already; choose another name")
        if not name or set(name) & set(":,=. "):
            raise SchedulerError(f"scheduler {name!r}: a name has no blanks and none of : , = .")
        if "name" not in vars(cls):
            cls.name = name  # type: ignore[assignment, method-assign]
        BASELINES[name] = Baseline(f"{cls.__module__}:{cls.__qualname__}", parameters, summary)
        return cls

    return register


def list_baselines(links: bool = True, types: bool = False, variants: bool = True, sharing: bool = False) -> list[str]:
    """Names of the heuristics that :func:`make_scheduler` builds without further parameters.

    Parameters
    ----------
    links : False leaves out those that are about gangs which share links
    types : True adds those that are about GPU types which differ; most run each gang on one type
    variants : False leaves out those that show one side of another one
    sharing : True adds those that are about jobs which share GPUs
    """
    load_plugins()
    return [
        name
        for name, baseline in BASELINES.items()
        if name != "learned"
        and (links or not baseline.needs_links)
        and (types or not baseline.needs_types)
        and (variants or not baseline.variant_of)
        and (sharing or not baseline.needs_sharing)
    ]


def make_scheduler(spec: str, **overrides: Any) -> Scheduler:
    """Build a scheduler from ``NAME``, ``NAME:parameter=value,...`` or ``package.module:Class[:parameter=value,...]``.

    Parameters
    ----------
    spec : what to build; tuples are written with slashes, truth values as true or false, on or off, yes or no, for
        example ``tiresias:thresholds=3250/7200,incumbents_first=on``
    overrides : parameters as Python values

    Raises
    ------
    SchedulerError : unknown name, module, class, parameter or value
    """
    load_plugins()
    name, _, rest = spec.partition(":")
    if name in BASELINES:
        baseline = BASELINES[name]
        cls = _load(baseline.target)
        given = baseline.parameters | _parse(cls, spec, rest)
    elif "." in name or rest:
        class_name, _, rest = rest.partition(":")
        cls = _load(f"{name}:{class_name}")
        given = _parse(cls, spec, rest)
    else:
        raise SchedulerError(
            f"{unknown_name('scheduler', name, BASELINES)}; a scheduler of your own is written package.module:Class"
        )
    try:
        scheduler = cls(**(given | overrides))
    except TypeError as error:
        raise SchedulerError(f"scheduler {spec!r}: {error}") from error
    if not isinstance(scheduler, Scheduler):
        raise SchedulerError(f"scheduler {spec!r}: {cls.__name__} is not a subclass of gpusched_env.Scheduler")
    return scheduler


def _load(target: str) -> type[Scheduler]:
    cls = import_named(target, "scheduler")
    if not isinstance(cls, type):
        module_name, _, class_name = target.partition(":")
        raise SchedulerError(f"scheduler {target!r}: module {module_name!r} has no class {class_name!r}")
    return cls


def _parse(cls: type[Scheduler], spec: str, text: str) -> dict[str, Any]:
    """Turn ``a=1,b=x`` into keyword arguments typed like the fields' defaults."""
    if not text:
        return {}
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else None
    given: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        key += "_" * keyword.iskeyword(key)  # lambda
        if not equals or not key:
            raise SchedulerError(f"scheduler {spec!r}: {item!r} is not of the form parameter=value")
        if fields is not None and key not in fields:
            # a scheduler may say what to write in place of a parameter that others have
            instead = getattr(cls, "not_parameters", {}).get(key)
            known = unknown_name("parameter", key, fields)
            raise SchedulerError(f"scheduler {spec!r}: " + (f"no parameter {key!r}: {instead}" if instead else known))
        where = f"scheduler {spec!r}, {key}={value!r}"
        if fields is not None and "bool" in str(fields[key].type) and value.lower() in _TRUTH:
            given[key] = _TRUTH[value.lower()]
        else:
            given[key] = _value(value, fields[key].default if fields else None, where)
    return given


def _value(text: str, default: Any, where: str) -> Any:
    try:
        if isinstance(default, bool):
            return _TRUTH[text.lower()]
        if isinstance(default, int | float):
            return type(default)(text)
        if isinstance(default, tuple):
            return tuple(float(part) for part in text.split("/"))
        if isinstance(default, str):
            return text
        return ast.literal_eval(text)
    except (ValueError, KeyError, SyntaxError) as error:
        if default is None:  # a word: a number or truth value in the spelling of the other parameters, or a name
            return {"true": True, "false": False, "inf": inf}.get(text.lower(), text)
        like = "true or false, on or off, yes or no" if isinstance(default, bool) else f"a value like {default!r}"
        raise SchedulerError(f"{where}: expected {like}") from error
