"""The names of schedulers, and the functions that build a scheduler from a text such as ``tiresias:knob=8``."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import keyword
import re
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpusched_env.baselines.own_code import import_named
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import Scheduler
from gpusched_env.simulator.scheduler import check_no_nan, check_sizes_of_numbers
from gpusched_env.support.plugins import load_plugins


class Baseline(NamedTuple):
    """A registered scheduler: the place of its class, and the parameters that its name implies."""

    target: str  # "module:Class"
    parameters: dict[str, Any]
    summary: str
    variant_of: str = ""  # name of the scheduler of which this is a variant; tables of all schedulers omit variants
    needs_links: bool = (
        False  # True = designed for gangs that share links; without links it is hardly better than a simpler policy
    )
    needs_types: bool = False  # True = designed for clusters of several GPU types
    needs_sharing: bool = (
        False  # True = designed for jobs that share GPUs; without GPU sharing it equals another policy
    )
    one_node: bool = False  # True = refuses jobs whose gang fits on no single node
    needs_sizes: bool = False  # True = designed for elastic jobs, whose sizes it chooses
    needs_tenants: bool = False  # True = designed for tenants; without them it is another FIFO
    plans_ahead: bool = False  # True = plans by many rehearsals at every arrival: slow where jobs arrive one by one


LEARNED: Final = "learned"  # an agent of the package, or one of the user's own
GENERAL_AGENT: Final = "general"  # the agent that ``learned`` plays if no other is named
_HERE: Final = "gpusched_env.baselines"
# The words that a spec may contain for True and False.
_TRUTH: Final = {
    "true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
# A new scheduler needs one file and one line here.
BASELINES: Final[dict[str, Baseline]] = {
    "fifo": Baseline(f"{_HERE}.fifo:Fifo", {}, "first in, first out; the first job that does not fit blocks the queue"),
    "fifo-skip": Baseline(
        f"{_HERE}.fifo:Fifo", {"variant": "skip"}, "first in, first out; jobs that do not fit are skipped"
    ),
    "fifo-easy": Baseline(f"{_HERE}.fifo:Fifo", {"variant": "easy"}, "EASY backfill: the first job has a reservation"),
    "sjf": Baseline(f"{_HERE}.sjf:ShortestJobFirst", {}, "shortest run time first, non-preemptive"),
    "ssf": Baseline(f"{_HERE}.sjf:ShortestJobFirst", {"key": "gpu-time"}, "smallest GPU-time first, non-preemptive"),
    "lpt": Baseline(
        f"{_HERE}.sjf:ShortestJobFirst",
        {"longest": True},
        "longest run time first, non-preemptive: small makespans",
        variant_of="sjf",
    ),
    "srtf": Baseline(f"{_HERE}.srtf:ShortestRemainingFirst", {}, "shortest remaining time first, preemptive"),
    "srsf": Baseline(
        f"{_HERE}.srtf:ShortestRemainingFirst", {"key": "gpu-time"}, "shortest remaining GPU-time first, preemptive"
    ),
    "las": Baseline(f"{_HERE}.las:LeastAttainedService", {}, "least attained seconds first, preemptive, in rounds"),
    "las-2d": Baseline(
        f"{_HERE}.las:LeastAttainedService",
        {"two_dimensional": True},
        "least attained GPU-seconds first, preemptive, in rounds",
    ),
    "tiresias": Baseline(f"{_HERE}.tiresias:Tiresias", {}, "discretised 2D-LAS with skew-based consolidation"),
    "tiresias-g": Baseline(
        f"{_HERE}.tiresias:Tiresias", {"policy": "gittins"}, "discretised 2D-Gittins with skew-based consolidation"
    ),
    "yarn-cs": Baseline(f"{_HERE}.yarn_cs:YarnCapacity", {}, "arrival order; each gang below one switch, or it waits"),
    "delay-zaharia": Baseline(
        f"{_HERE}.delay_scheduling:DelayScheduling",
        {},
        "arrival order; a job declines GPUs that are far apart for a limited time",
    ),
    "gandiva-lite": Baseline(
        f"{_HERE}.gandiva.scheduler:Gandiva",
        {},
        "affinity placement, time slicing of full machines, migration to tighter places",
    ),
    "themis-lite": Baseline(
        f"{_HERE}.themis.scheduler:Themis", {}, "leases to the jobs with the worst finish-time fairness"
    ),
    "themis": Baseline(
        f"{_HERE}.themis.arbiter:ThemisArbiter",
        {},
        "leases by auction among the jobs with the worst finish-time fairness",
    ),
    "themis-lease": Baseline(
        f"{_HERE}.themis.arbiter:ThemisArbiter",
        {"payment": "lease"},
        "Themis whose winners pay with time: whole gangs on shorter leases",
        variant_of="themis",
    ),
    "sjf-bco": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {},
        "plans for the least makespan under contention, smallest gang first",
        needs_links=True,
        plans_ahead=True,
    ),
    "bco-ff": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {"policy": "ff", "order": "trace"},
        "baseline of SJF-BCO: first fit; rehearsals choose the load limit theta",
        needs_links=True,
    ),
    "bco-ls": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {"policy": "ls", "order": "trace"},
        "baseline of SJF-BCO: least loaded GPUs first",
        needs_links=True,
    ),
    "bco-rand": Baseline(
        f"{_HERE}.bco.scheduler:SjfBco",
        {"policy": "rand", "order": "trace"},
        "baseline of SJF-BCO: random GPUs",
        needs_links=True,
    ),
    "ada-srsf": Baseline(
        f"{_HERE}.ada_srsf:AdaSrsf",
        {},
        "smallest remaining GPU-time first; AdaDUAL decides which gangs may share ports",
        needs_links=True,
    ),
    "gavel": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel", {}, "LAS by time shares on GPU types, in rounds", needs_types=True
    ),
    "gavel-las": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "max_min_fairness"},
        "as gavel, but it ignores the speeds of the GPU types",
        needs_types=True,
    ),
    "gavel-ftf": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "finish_time_fairness_perf"},
        "finish-time fairness by time shares on GPU types",
        needs_types=True,
    ),
    "gavel-makespan": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "min_total_duration_perf"},
        "least makespan by time shares on GPU types",
        needs_types=True,
    ),
    "gavel-fifo": Baseline(
        f"{_HERE}.gavel.scheduler:Gavel",
        {"policy": "fifo_perf"},
        "first in, first out, each gang on its fastest type with room",
        needs_types=True,
    ),
    "hadar": Baseline(
        f"{_HERE}.hadar.scheduler:Hadar",
        {},
        "reconstruction: gangs on mixed GPU types, admitted by prices, in rounds",
        needs_types=True,
    ),
    "hadare": Baseline(
        f"{_HERE}.hadar.hadare:HadarE",
        {},
        "reconstruction: copies of a job on separate nodes, replanned in each slot",
        needs_types=True,
        one_node=True,
    ),
    "hadare-single": Baseline(
        f"{_HERE}.hadar.hadare:HadarE",
        {"copies": 1},
        "baseline of HadarE: one copy, moves to the fastest free node in each slot",
        needs_types=True,
        one_node=True,
    ),
    "hadare-sticky": Baseline(
        f"{_HERE}.hadar.hadare:HadarE",
        {"copies": 1, "sticky": True},
        "baseline of HadarE: one copy, stays on its first node",
        needs_types=True,
        one_node=True,
    ),
    "sjf-bsbf": Baseline(
        f"{_HERE}.bsbf.scheduler:SjfBsbf",
        {},
        "shortest run time first; shares GPUs where the mean JCT of the pair falls",
        needs_sharing=True,
    ),
    "sjf-ffs": Baseline(
        f"{_HERE}.bsbf.scheduler:SjfBsbf",
        {"benefit_test": False},
        "shortest run time first; shares GPUs wherever there is room",
        needs_sharing=True,
    ),
    "dally": Baseline(
        f"{_HERE}.dally.scheduler:Dally", {}, "delay scheduling, network-sensitive priority, leases, tuned timers"
    ),
    "dally-no-wait": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"tuner": "off", "rack_wait": 0.0, "nw_wait": 0.0},
        "Dally without waiting: both timers 0",
        variant_of="dally",
    ),
    "dally-fully-consolidated": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"tuner": "off", "rack_wait": inf, "nw_wait": inf},
        "Dally with infinite timers: a gang waits for its tightest tier",
        variant_of="dally",
    ),
    "dally-manual": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"tuner": "off"},
        "Dally with fixed timers of 6 and 12 leases",
        variant_of="dally",
    ),
    "dally-no-preempt": Baseline(
        f"{_HERE}.dally.scheduler:Dally", {"preemption": "none"}, "Dally without leases", variant_of="dally"
    ),
    "tiresias-dally": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"policy": "tiresias", "priority": "gpu-time"},
        "Tiresias as Dally's simulator implements it",
        variant_of="dally",
    ),
    "gandiva-dally": Baseline(
        f"{_HERE}.dally.scheduler:Dally",
        {"policy": "gandiva", "priority": "first-start"},
        "Gandiva as Dally's simulator implements it",
        variant_of="dally",
    ),
    "slurm": Baseline(
        f"{_HERE}.slurm.scheduler:Slurm",
        {},
        "Slurm: jobs in order of priority, conservative backfill by time limits",
        needs_tenants=True,
    ),
    "slurm-multifactor": Baseline(
        f"{_HERE}.slurm.scheduler:Slurm",
        {
            "age_weight": 1_000.0,
            "fair_share_weight": 10_000.0,
            "size_weight": 500.0,
            "qos_weight": 2_000.0,
            "gpu_weight": 2_000.0,
        },
        "Slurm with weights of age, fair share, size, QOS and GPUs",
        needs_tenants=True,
    ),
    "max-min": Baseline(
        f"{_HERE}.elastic.max_min:ElasticMaxMin", {}, "elastic: equal numbers of GPUs for all jobs", needs_sizes=True
    ),
    "afs": Baseline(
        f"{_HERE}.elastic.afs:Afs", {}, "AFS-L: elastic; GPUs by comparison of two jobs at a time", needs_sizes=True
    ),
    "afs-p": Baseline(
        f"{_HERE}.elastic.afs:AfsWithoutLengths",
        {},
        "AFS-P: elastic; AFS with attained GPU time instead of run times",
        needs_sizes=True,
    ),
    "tiresias-elastic": Baseline(
        f"{_HERE}.elastic.tiresias:ElasticTiresias",
        {},
        "elastic: least attained service first, gangs shrink and grow",
        needs_sizes=True,
    ),
    "optimus": Baseline(
        f"{_HERE}.elastic.optimus:Optimus", {}, "Optimus: elastic; GPUs to the largest gain in time", needs_sizes=True
    ),
    "pollux": Baseline(
        f"{_HERE}.elastic.pollux.scheduler:Pollux",
        {},
        "Pollux: elastic; genetic search for the fairest goodputs",
        needs_sizes=True,
    ),
    "elasticflow": Baseline(
        f"{_HERE}.deadlines.elasticflow:ElasticFlow",
        {},
        "ElasticFlow: elastic; admits jobs whose deadlines it can keep",
        needs_sizes=True,
    ),
    "edf": Baseline(
        f"{_HERE}.deadlines.edf:EarliestDeadlineFirst",
        {},
        "elastic; earliest deadline first, each job on as many GPUs as it can use",
        needs_sizes=True,
    ),
    "edf-admission": Baseline(
        f"{_HERE}.deadlines.edf:EarliestDeadlineFirst",
        {"admission": True},
        "as edf; refuses jobs if deadlines would be missed",
        needs_sizes=True,
    ),
    "chronus": Baseline(
        f"{_HERE}.deadlines.chronus:Chronus",
        {},
        "Chronus: leases by an integer program; admits the jobs whose deadlines it can keep",
        needs_sizes=True,
    ),
    "sia": Baseline(
        f"{_HERE}.elastic.sia.scheduler:Sia",
        {},
        "Sia: elastic; sizes and GPU types by an integer program in each round",
        needs_types=True,
        needs_sizes=True,
    ),
    "kueue": Baseline(
        f"{_HERE}.kueue.scheduler:Kueue",
        {},
        "Kueue: quotas that queues lend to each other; no preemption",
        needs_tenants=True,
    ),
    "kueue-reclaim": Baseline(
        f"{_HERE}.kueue.scheduler:Kueue",
        {"reclaim": "any", "within": "lower"},
        "Kueue: lent quota is taken back by preemption",
        needs_tenants=True,
    ),
    "kueue-fair": Baseline(
        f"{_HERE}.kueue.scheduler:Kueue",
        {"fair": True, "reclaim": "any", "within": "lower"},
        "Kueue with fair sharing: the queue that borrows least comes first",
        needs_tenants=True,
    ),
    "drf": Baseline(
        f"{_HERE}.fair_sharing.scheduler:FairSharing",
        {},
        "DRF: the tenant with the lowest dominant share first",
        needs_tenants=True,
    ),
    "fair": Baseline(
        f"{_HERE}.fair_sharing.scheduler:FairSharing",
        {"order": "fair"},
        "YARN's fair scheduler: tenants below their minimum first, then the lowest share",
        needs_tenants=True,
    ),
    "capacity": Baseline(
        f"{_HERE}.fair_sharing.scheduler:FairSharing",
        {"order": "capacity"},
        "YARN's capacity scheduler: the tenant that uses least of its quota first",
        needs_tenants=True,
    ),
    "volcano": Baseline(
        f"{_HERE}.volcano_kai.scheduler:DeservedShares",
        {},
        "Volcano: GPUs in proportion to weights, priorities, preemption and reclaim",
        needs_tenants=True,
    ),
    "kai": Baseline(
        f"{_HERE}.volcano_kai.scheduler:DeservedShares",
        {"order": "kai"},
        "KAI: quotas, the rest by over-quota weights, and reclaim between queues",
        needs_tenants=True,
    ),
    LEARNED: Baseline(
        "gpusched_env.agents.learned:LearnedScheduler",
        {},
        "a trained agent: learned (the general one), learned:NAME or learned:path=FILE",
    ),
    "random": Baseline(f"{_HERE}.random_choice:RandomChoice", {}, "uniform choice among feasible starts and waiting"),
}


def register_scheduler(name: str, summary: str, **parameters: Any) -> Callable[[type[Scheduler]], type[Scheduler]]:
    """Register a class of schedulers under a name, for :func:`make_scheduler` and the command line.

    Use it as a decorator of the class.

    Parameters
    ----------
    name : name of the scheduler
    summary : short description, shown in tables
    parameters : values of parameters of the class that the name implies

    Raises
    ------
    SchedulerError : the name is already in use, or it contains a character that is not allowed in a name
    """

    def register(cls: type[Scheduler]) -> type[Scheduler]:
        if name in BASELINES:
            raise SchedulerError(f"scheduler {name!r} exists already; choose another name")
        if not name or set(name) & set(":,=. "):
            raise SchedulerError(f"scheduler {name!r}: a name must not be empty or contain blanks or : , = .")
        if "name" not in vars(cls):
            cls.name = name  # type: ignore[assignment, method-assign]
        BASELINES[name] = Baseline(f"{cls.__module__}:{cls.__qualname__}", parameters, summary)
        return cls

    return register


def list_baselines(
    links: bool = True,
    types: bool = False,
    variants: bool = True,
    sharing: bool = False,
    sizes: bool = False,
    tenants: bool = False,
) -> list[str]:
    """Return the names of the schedulers that :func:`make_scheduler` builds without further parameters.

    Parameters
    ----------
    links : whether to include schedulers that were designed for gangs that share links
    types : whether to include schedulers that were designed for clusters of several GPU types; most of them run each
        gang on GPUs of one type
    variants : whether to include variants of other schedulers in the list
    sharing : whether to include schedulers that were designed for jobs that share GPUs
    sizes : whether to include schedulers that were designed for elastic jobs
    tenants : whether to include schedulers that were designed for tenants
    """
    load_plugins()
    return [
        name
        for name, baseline in BASELINES.items()
        if name != LEARNED
        and (links or not baseline.needs_links)
        and (types or not baseline.needs_types)
        and (variants or not baseline.variant_of)
        and (sharing or not baseline.needs_sharing)
        and (sizes or not baseline.needs_sizes)
        and (tenants or not baseline.needs_tenants)
    ]


def make_scheduler(spec: str, **overrides: Any) -> Scheduler:
    """Build a scheduler from ``NAME``, ``NAME:parameter=value,...`` or ``package.module:Class[:parameter=value,...]``.

    ``learned:AGENT[,parameter=value,...]`` is an agent of the package.

    Parameters
    ----------
    spec : text of one of these forms. The elements of a tuple are separated by slashes. A Boolean value is "true" or
        "false", "on" or "off", "yes" or "no". Example: ``tiresias:thresholds=3250/7200,incumbents_first=on``
    overrides : parameters as Python values, which replace those of ``spec``

    Raises
    ------
    SchedulerError : a name, module, class or parameter is unknown, or a value is invalid
    """
    load_plugins()
    name, _, rest = spec.partition(":")
    if name in BASELINES:
        named = name == LEARNED and "agent" not in overrides
        baseline, rest = _agent(rest, str(overrides.get("path", ""))) if named else (BASELINES[name], rest)
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
        where = f"scheduler {spec!r}"
        check_sizes_of_numbers(cls, given | overrides, where)
        scheduler = cls(**given | overrides)
    except TypeError as error:
        raise SchedulerError(f"scheduler {spec!r}: {error}") from error
    check_no_nan(given | overrides, where)
    if not isinstance(scheduler, Scheduler):
        raise SchedulerError(f"scheduler {spec!r}: {cls.__name__} is not a subclass of gpusched_env.Scheduler")
    return scheduler


def _agent(rest: str, path: str) -> tuple[Baseline, str]:
    """Return the scheduler that plays ``learned:REST``, and its parameters without the name of the agent.

    A file, ``path`` or the parameter of this name, is played by the scheduler that can read it.
    """
    cards = importlib.import_module("gpusched_env.agents.cards")  # imported late: agents import the baselines
    name, *others = re.split("[,:]", rest or GENERAL_AGENT, maxsplit=1)
    if "=" in name or path:
        path = path or next((one[len("path=") :] for one in rest.split(",") if one.startswith("path=")), "")
        return BASELINES[LEARNED]._replace(target=cards.PLAYED_BY[cards.kind_of_file(Path(path))]), rest
    target = cards.PLAYED_BY[cards.read_card(name).kind]
    return BASELINES[LEARNED]._replace(target=target, parameters={"agent": name}), "".join(others)


def _load(target: str) -> type[Scheduler]:
    cls = import_named(target, "scheduler")
    if not isinstance(cls, type):
        module_name, _, class_name = target.partition(":")
        raise SchedulerError(f"scheduler {target!r}: module {module_name!r} has no class {class_name!r}")
    return cls


def _parse(cls: type[Scheduler], spec: str, text: str) -> dict[str, Any]:
    """Turn ``a=1,b=x`` into keyword arguments; each value gets the type of the default of its field."""
    if not text:
        return {}
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else None
    given: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        key += "_" * keyword.iskeyword(key)  # such as ``lambda``
        if not equals or not key:
            raise SchedulerError(f"scheduler {spec!r}: {item!r} is not of the form parameter=value")
        if fields is not None and key not in fields:
            # For a parameter that only other schedulers have, a scheduler may name the parameter to use instead.
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
        if default is None:  # the parameter may be a number, a Boolean value or a name
            return {"true": True, "false": False, "inf": inf}.get(text.lower(), text)
        like = "true or false, on or off, yes or no" if isinstance(default, bool) else f"a value like {default!r}"
        raise SchedulerError(f"{where}: expected {like}") from error
