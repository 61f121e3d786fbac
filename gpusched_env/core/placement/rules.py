"""The registry of placement rules: which GPUs a gang gets. Users add their own with :func:`placement_rule`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.core.handle import Numbered
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import RULE_FLAGS, Run
from gpusched_env.errors import GpuschedError, unknown_name


class Rule(NamedTuple):
    """A placement rule.

    Parameters
    ----------
    name : its name in decisions and scenarios
    number : its number in kernels
    meaning : short description for tables
    place : called as (sim, at, kind, gang, supply)
    """

    name: str
    number: int
    meaning: str
    place: Any


def _signature(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    raise NotImplementedError


# In a kernel: place(rule, sim, at, kind, gang, supply).
place: Final = Numbered("placement-rules", _signature, most=len(RULE_FLAGS))
_rules: Final[dict[str, Rule]] = {}
_names: Final[list[str]] = []  # index = number


def placement_rule(name: str, meaning: str, *, anywhere: bool = False, shares: int = 0) -> Callable[[Any], Any]:
    """Register a placement rule under a name.

    It decorates a function ``(sim: Run, at: int, kind: int, gang: int, supply: int) -> int``: a kernel, or a plain
    Python function where speed does not matter. The function reserves the GPUs of a gang of job class ``kind`` with
    ``take`` and the like (taking.py), which append them to ``sim.chosen`` from ``at`` on. It returns the end of what it
    appended: ``at + gang``, more if it places several copies, ``at`` if it reserved nothing. ``supply`` >= gang GPUs
    are free. Machines on which the class cannot run look full.

    Parameters
    ----------
    name : its name in decisions and scenarios
    meaning : short description for tables
    anywhere : the rule finds a place for every gang for which enough GPUs are free
    shares : flags of core/sharing/choices.py: which GPUs a gang may share if too few are free; 0 = it never shares

    Raises
    ------
    GpuschedError : the name is taken, the kernel has another signature, or there are too many rules
    """

    def register(function: Any) -> Any:
        number = len(_rules)
        put_named("placement rule", name, name in _rules, number, [(place, function)])
        RULE_FLAGS[number] = anywhere, shares
        _rules[name] = Rule(name, number, meaning, function)
        _names.append(name)
        return function

    return register


class _Names(Mapping[str, Any]):
    """A live view of one column of the registry, by name."""

    def __init__(self, column: str) -> None:
        self._column = column

    def __getitem__(self, name: str) -> Any:
        return getattr(_rules[name], self._column)

    def __iter__(self) -> Iterator[str]:
        return iter(_rules)

    def __len__(self) -> int:
        return len(_rules)


PLACEMENT_RULES: Final[Mapping[str, str]] = _Names("meaning")
RULE_NUMBER: Final[Mapping[str, int]] = _Names("number")


def rule_number(name: str) -> int:
    """Return the number of a placement rule.

    Raises
    ------
    GpuschedError : an unknown rule, with the nearest names
    """
    if name not in _rules:
        raise GpuschedError(unknown_name("placement rule", str(name), list(_rules)))
    return _rules[name].number


def rule_name(number: int) -> str:
    """Return the name of a placement rule by its number."""
    return _names[number]


def check_numbers(numbers: np.ndarray) -> None:
    """Check rule numbers.

    Raises
    ------
    GpuschedError : a number that no rule has
    """
    bad = numbers[(numbers < 0) | (numbers >= len(_rules))]
    if len(bad):
        raise GpuschedError(f"placement rule number {bad[0]}: no rule has it; take numbers from RULE_NUMBER")


def goes_anywhere(name: str) -> bool:
    """Tell whether a rule finds a place for every gang for which enough GPUs are free."""
    return bool(RULE_FLAGS[rule_number(name)]["anywhere"])


def shares_by(name: str) -> int:
    """Return the flags of core/sharing/choices.py by which a rule chooses shared GPUs; 0 = it never shares."""
    return int(RULE_FLAGS[rule_number(name)]["shares"])
