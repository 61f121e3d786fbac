"""The names of schedulers, and the functions that build a scheduler from a text such as ``tiresias:knob=8``."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import keyword
import re
import sys
from collections.abc import Callable, Collection
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpusched_env.baselines.users_schedulers import import_named
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import Scheduler
from gpusched_env.simulator.scheduler import check_no_nan, check_sizes_of_numbers
from gpusched_env.support.files import toml_beside
from gpusched_env.support.plugins import load_plugins
from gpusched_env.support.tables import BOUND


class Baseline(NamedTuple):
    """A registered scheduler, as ``registry.toml`` explains: its class as "module:Class", and what its name implies."""

    target: str
    parameters: dict[str, Any]
    summary: str
    variant_of: str = ""
    needs: tuple[str, ...] = ()
    plans_ahead: bool = False


_NAMED: Final = re.compile(r"\s*([^,:=]*?)\s*=\s*(.*)", re.DOTALL)  # a spec has a colon before its first "="
LEARNED: Final = "learned"  # an agent of the package, or one of the user's own
GENERAL_AGENT: Final = "general"  # the agent that ``learned`` plays if no other is named
# The words that a spec may contain for True and False.
_TRUTH: Final = {
    "true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def _read() -> dict[str, Baseline]:
    rows = toml_beside(__file__)
    return {
        name: Baseline(
            f"gpusched_env.{row.pop('class')}", row.pop("parameters", {}), needs=tuple(row.pop("needs", ())), **row
        )
        for name, row in rows.items()
    }


BASELINES: Final = _read()


def register_scheduler(
    name: str, summary: str, needs: Collection[str] = (), **parameters: Any
) -> Callable[[type[Scheduler]], type[Scheduler]]:
    """Register a class of schedulers under a name, for :func:`make_scheduler` and the command line.

    Use it as a decorator of the class.

    Parameters
    ----------
    name : name of the scheduler
    summary : short description, shown in tables
    needs : what a problem must have so that the scheduler is itself, such as ("sharing",)
        (:data:`gpusched_env.baselines.domains.NEEDS`); the class may add more in its attribute ``needs``
    parameters : values of parameters of the class that the name implies
    """
    importlib.import_module("gpusched_env.baselines.domains").check_needs(needs, name)  # it imports this module

    def register(cls: type[Scheduler]) -> type[Scheduler]:
        if name in BASELINES:
            raise SchedulerError(f"scheduler {name!r} exists already; choose another name")
        if not name or set(name) & set(":,=. "):
            raise SchedulerError(f"scheduler {name!r}: a name must not be empty or contain blanks or : , = .")
        if "name" not in vars(cls):
            cls.name = name  # type: ignore[assignment, method-assign]
        BASELINES[name] = Baseline(f"{cls.__module__}:{cls.__qualname__}", parameters, summary, needs=tuple(needs))
        return cls

    return register


def list_baselines(met: Collection[str] | None = None, variants: bool = True) -> list[str]:
    """Return the names of the schedulers that :func:`make_scheduler` builds without further parameters.

    Parameters
    ----------
    met : needs that a problem meets (:func:`gpusched_env.baselines.domains.needs_met`); schedulers that need more are
        left out. None = list all
    variants : whether to include variants of other schedulers in the list
    """
    load_plugins()
    return [
        name
        for name, baseline in BASELINES.items()
        if name != LEARNED
        and (met is None or set(baseline.needs) <= set(met))
        and (variants or not baseline.variant_of)
    ]


def make_scheduler(spec: str, **overrides: Any) -> Scheduler:
    """Build a scheduler from ``NAME``, ``NAME:parameter=value,...`` or ``package.module:Class[:parameter=value,...]``.

    ``learned:AGENT[,parameter=value,...]`` is an agent of the package. A label before it, ``LABEL=SPEC``, is only for
    tables.

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
    label, spec = split_name(spec)
    name, _, rest = spec.partition(":")
    check_label(label or "", spec)
    if name in BASELINES:
        named = name == LEARNED and "agent" not in overrides
        baseline, rest = _agent(rest, str(overrides.get("path", ""))) if named else (BASELINES[name], rest)
        cls = _load(baseline.target)
        given = baseline.parameters | parameters_in(cls, f"scheduler {spec!r}", rest)
    elif ("." in name or rest) and "=" not in rest.partition(":")[0]:
        class_name, _, rest = rest.partition(":")
        cls = _load(f"{name}:{class_name}")
        given = parameters_in(cls, f"scheduler {spec!r}", rest)
    else:
        raise SchedulerError(
            f"{unknown_name('scheduler', name, BASELINES, 'gpusched schedulers list')}; "
            "a scheduler of your own is written package.module:Class"
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


def split_name(text: str) -> tuple[str | None, str]:
    """Return the name, None if there is none, and the spec of ``NAME=SPEC`` or ``SPEC``."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return None, text
    if not all(match.groups()):
        raise SchedulerError(f"scheduler {text!r}: write NAME=SPEC, such as ours=tiresias:knob=8, or a spec alone")
    return match[1], match[2]


def check_label(label: str, spec: str) -> None:
    """Refuse a name of a user that ``NAME=SPEC`` cannot have, that breaks lines, or that means another row."""
    if not label.isprintable() or label == BOUND or set(label) & set(",:="):
        told = f"it must be printable characters without a comma, colon or =, and not {BOUND!r}"
        raise SchedulerError(f"the name {label!r} in tables: {told}")
    name = spec.partition(":")[0]
    if label in BASELINES and label not in (name, name in BASELINES and BASELINES[name].variant_of):
        raise SchedulerError(f"scheduler {spec!r}: {label!r} is the name of another scheduler; choose another NAME")


def _agent(rest: str, path: str) -> tuple[Baseline, str]:
    """Return the scheduler that plays ``learned:REST``, and its parameters without the name of the agent."""
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
        classes = (name for name, one in vars(sys.modules[module_name]).items() if isinstance(one, type))
        told = unknown_name("class", class_name, classes)
        raise SchedulerError(f"scheduler {target!r}: module {module_name!r} has no class {class_name!r}; {told}")
    return cls


def parameters_in(cls: type[Scheduler], where: str, text: str) -> dict[str, Any]:
    """Turn ``a=1,b=x`` into keyword arguments; each value gets the type of the default of its field.

    ``where`` : begin of an error
    """
    if not text:
        return {}
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else None
    given: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        key += "_" * keyword.iskeyword(key)  # such as ``lambda``
        if not equals or not key:
            raise SchedulerError(f"{where}: {item!r} is not of the form parameter=value")
        if fields is not None and key not in fields:
            # For a parameter that only other schedulers have, a scheduler may name the parameter to use instead.
            instead = getattr(cls, "not_parameters", {}).get(key)
            known = unknown_name("parameter", key, fields)
            raise SchedulerError(f"{where}: " + (f"no parameter {key!r}: {instead}" if instead else known))
        if fields is not None and "bool" in str(fields[key].type) and value.lower() in _TRUTH:
            given[key] = _TRUTH[value.lower()]
        else:
            given[key] = _value(value, fields[key].default if fields else None, f"{where}, {key}={value!r}")
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
