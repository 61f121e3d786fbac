"""The registry of placement rules, which choose the GPUs of a gang.

Users register their own rules with :func:`placement_rule`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from gpusched_env.core.handle import Numbered
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import RULE_FLAGS, Run
from gpusched_env.errors import GpuschedError, unknown_name


def _signature(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    raise NotImplementedError


# In a kernel: place(rule, sim, at, kind, gang, supply).
place: Final = Numbered("placement-rules", _signature, most=len(RULE_FLAGS))
_meanings: Final[dict[str, str]] = {}
_numbers: Final[dict[str, int]] = {}
PLACEMENT_RULES: Final = MappingProxyType(_meanings)  # name of each rule -> its meaning, shown in tables
RULE_NUMBER: Final = MappingProxyType(_numbers)  # name of each rule -> its number in kernels
_names: Final[list[str]] = []  # index = number


def placement_rule(name: str, meaning: str, *, anywhere: bool = False, shares: int = 0) -> Callable[[Any], Any]:
    """Register a placement rule under a name.

    Use it as a decorator of a function ``(sim: Run, at: int, kind: int, gang: int, supply: int) -> int``. The function
    is a kernel, or a plain Python function if speed does not matter. It reserves ``gang`` GPUs for a job of class
    ``kind`` with ``take`` or another function of taking.py. These functions append the GPUs to ``sim.chosen`` from
    index ``at`` on. The rule returns the index after the last GPU: ``at + gang``, a larger index if it places several
    copies of the gang, or ``at`` if it reserves nothing. ``supply`` is the number of free GPUs, which is at least
    ``gang``. Machines on which the class cannot run appear to have no free GPUs, and others as many as whole parts of
    the gang may use (gpusched_env.problem.node_counts; ``room_of`` tells how many of any number).

    Parameters
    ----------
    name : name of the rule in decisions and scenarios
    meaning : short description, shown in tables
    anywhere : whether the rule places every gang for which enough GPUs are free
    shares : how a gang chooses GPUs to share if too few GPUs are free: flags of core/sharing/choices.py; 0 = it never
        shares
    """

    def register(function: Any) -> Any:
        number = len(_names)
        put_named("placement rule", name, name in RULE_NUMBER, number, [(place, function)])
        RULE_FLAGS[number] = anywhere, shares
        _meanings[name], _numbers[name] = meaning, number
        _names.append(name)
        return function

    return register


def rule_number(name: str) -> int:
    """Return the number of a placement rule that is used from now on, which is compiled here if it is not.

    RULE_NUMBER has the numbers of rules that may never be used.
    """
    number = _known(name)
    place.prepare(number)
    return number


def _known(name: str) -> int:
    if name not in RULE_NUMBER:
        raise GpuschedError(unknown_name("placement rule", str(name), _names))
    return RULE_NUMBER[name]


def rule_name(number: int) -> str:
    """Return the name of a placement rule by its number."""
    return _names[number]


def check_numbers(numbers: np.ndarray) -> None:
    """Raise an error unless every element of ``numbers`` is the number of a placement rule."""
    bad = numbers[(numbers < 0) | (numbers >= len(_names))]
    if len(bad):
        raise GpuschedError(f"placement rule number {bad[0]}: no rule has it; take numbers from RULE_NUMBER")


def goes_anywhere(name: str) -> bool:
    """Return whether a rule finds a place for every gang for which enough GPUs are free."""
    return bool(RULE_FLAGS[_known(name)]["anywhere"])


def shares_by(name: str) -> int:
    """Return the flags of core/sharing/choices.py by which a rule chooses shared GPUs; 0 = it never shares."""
    return int(RULE_FLAGS[_known(name)]["shares"])
