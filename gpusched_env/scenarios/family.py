"""Scenarios with parameters, for example ``dally-poisson-v1:gpus=512,oversubscription=8``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.scenarios.scenario import Scenario

Value = int | float | str | None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a family, and its allowed values.

    Parameters
    ----------
    name : name of the parameter
    default : default value; None = the family computes it, as ``meaning`` says
    meaning : description in one phrase, with the unit
    values : all allowed values, numbers or names; empty = any number from ``least`` to ``most``
    least, most : smallest and largest allowed number
    whole : True = only whole numbers are allowed
    text : True = any text without a comma is allowed, such as a path
    """

    name: str
    default: Value
    meaning: str
    values: tuple[Value, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    whole: bool = False
    text: bool = False

    @property
    def allowed(self) -> str:
        """Description of the allowed values, for error messages."""
        if self.values:
            return " or ".join(map(str, self.values))
        if self.text:
            return "a text without a comma"
        if self.whole and math.isfinite(self.least) and math.isfinite(self.most):
            return f"a whole number from {int(self.least)} to {int(self.most)}"
        return f"a {'whole ' * self.whole}number from {self.least:g} to {self.most:g}"

    def read(self, given: object, where: str) -> Value:
        """Parse and check a value, which is given as a text or as a Python value."""
        text = str(given)
        if self.text:
            return text
        for value in self.values:
            if text == str(value) or (not isinstance(value, str) and _number(text) == value):
                return value
        number = _number(text)
        # A text that is not a number is NaN here, so the comparison is False.
        fits = self.least <= number <= self.most and not (self.whole and number % 1)
        if self.values or isinstance(given, bool) or not fits:
            raise ScenarioError(f"{where}: {self.name} is {text!r}; give {self.allowed}")
        return int(number) if self.whole else number


@dataclass(frozen=True)
class ScenarioFamily:
    """A set of scenarios that share a name and differ in a few parameters.

    Parameters
    ----------
    name : name of the family, and of its scenario in which all parameters have their defaults
    build : function that builds a scenario from keyword arguments, one for each parameter; the family replaces the name
        of the scenario
    parameters : the parameters, in the order in which scenario names list them
    """

    name: str
    build: Callable[..., Scenario]
    parameters: tuple[Parameter, ...]

    def scenario(self, text: str = "", **given: Value) -> Scenario:
        """Build a scenario from a text ``parameter=value,...`` or from keyword arguments.

        The name of the scenario lists the parameters that differ from their defaults, in the order of ``parameters``.
        So two texts that list the same parameters in different order give equal scenarios.
        """
        where = f"scenario {self.name + (':' + text if text else '')!r}"
        known = {parameter.name: parameter for parameter in self.parameters}
        values: dict[str, Value] = {}
        for key, value in distinct([*pairs(text, where), *given.items()], where).items():
            if key not in known:
                raise ScenarioError(f"{where}: {unknown_name('parameter', key, known)}")
            values[key] = known[key].read(value, where)
        chosen = {name: values.get(name, parameter.default) for name, parameter in known.items()}
        differing = [f"{name}={written(chosen[name])}" for name in known if chosen[name] != known[name].default]
        name = ":".join([self.name, ",".join(differing)]) if differing else self.name
        return dataclasses.replace(self.build(**chosen), name=name)

    def plain(self, **given: Any) -> Scenario:
        """Build a scenario from values that are not checked, such as a longer list of jobs, with a plain name."""
        defaults = {one.name: one.default for one in self.parameters}
        if unknown := given.keys() - defaults.keys():
            raise ScenarioError(f"scenario {self.name!r}: {unknown_name('parameter', min(unknown), defaults)}")
        return self.build(**defaults | given)


def pairs(text: str, where: str) -> Iterable[tuple[str, Any]]:
    """Split ``a=1,b=x`` into pairs (name, text)."""
    for part in text.split(",") if text else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise ScenarioError(f"{where}: {part!r} is not of the form parameter=value")
        yield key, value


def distinct(named: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return pairs (name, value) as a dict; raise ScenarioError if a name occurs twice."""
    found: dict[str, Any] = {}
    for name, value in named:
        if name in found:
            raise ScenarioError(f"{where}: {name} is given twice; keep one")
        found[name] = value
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def written(value: Value) -> str:
    """Format a value for the name of a scenario; a float that is a whole number is written as such (8.0 as 8)."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
