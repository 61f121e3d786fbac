"""Expressions in the files of cards: values of runs, selected by labels, and the texts that show them.

An expression is Python without assignments. Its names are, in this order: the labels of the row, column, claim or line
that it belongs to; the tables of its card; the names of the card's program; the functions below and Python's; and
metrics. A metric is called with the labels that differ from those of its place: ``makespan_s(policy="fifo")`` is
float64 [seeds]. A text has expressions in braces, with a format: ``"{mean(makespan_s()) / HOUR:.1f} h"``.

What needs runs that were not played is :class:`Missing`: a cell of a table is then empty, a claim or a point of a
figure is left out. Cards are files of this folder, never a user's input.
"""

from __future__ import annotations

import builtins
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from keyword import iskeyword
from types import CodeType
from typing import Any, Final, NoReturn

import numpy as np

from gpusched_env.metrics import Interval, bootstrap_mean, mean_interval, paired_difference
from gpusched_env.metrics.statistics import paired_ratio
from gpusched_env.support.figures import COLOURS
from gpusched_env.support.units import three_digits
from studies.reproduce.results import Results

ANY: Final = object()  # the value of a label by which no runs are selected
FEWEST: Final = 3  # minimum number of values for an interval, as the t interval of two values is too wide to be of use
FIELD: Final = re.compile(r"\{((?:[^{}]|\{[^{}]*\})+)\}")  # of a text; braces of a set or dict may be inside
FORMAT: Final = re.compile(r"(?:(?<!:):(?P<format>[<>+,]*[0-9]*[,.]*[0-9]*[defg%s]))$")
TIE_WITHIN: Final = 0.01  # two values that differ by at most this fraction are a tie (our choice)


class Missing(Exception):  # noqa: N818 - no error: a part of a card was not played
    """Runs that an expression needs were not played."""


def spread(values: np.ndarray) -> str:
    """Format the median over seeds, with the quartiles in brackets."""
    low, high = np.percentile(values, (25, 75), method="closest_observation")
    return f"{np.median(values):,.0f} \\[{low:,.0f}, {high:,.0f}]"


def plus_minus(values: np.ndarray) -> str:
    """Format the mean over seeds, with half its 95 % interval from three seeds on."""
    interval = mean_interval(values)
    text = three_digits(interval.mean)
    if interval.count < FEWEST:
        return text
    return f"{text} ± {interval.half_width:,.{len(text.partition('.')[2])}f}"


def bracketed(interval: Interval, decimals: int = 2, fewest: int = FEWEST) -> str:
    """Format a mean with its interval in brackets, if it is of enough values."""
    mean, low, high = (f"{value:.{decimals}f}" for value in (interval.mean, interval.low, interval.high))
    return mean if interval.count < fewest else f"{mean} \\[{low}, {high}]"


def as_change(interval: Interval) -> str:
    """Format a ratio as a change in per cent, with the interval in brackets if there are at least three values."""
    mean, low, high = (f"{100 * (value - 1):+.0f}" for value in (interval.mean, interval.low, interval.high))
    return f"{mean} %" if interval.count < FEWEST else f"{mean} % \\[{low}, {high}]"


def tied(ratio: Interval) -> bool:
    """Return whether a ratio is no verdict: at most TIE_WITHIN from 1, or 1 is in its interval of enough values."""
    return abs(ratio.mean - 1.0) <= TIE_WITHIN or (ratio.count >= FEWEST and ratio.low <= 1.0 <= ratio.high)


def quartiles(values: np.ndarray) -> Interval:
    """Return the median over seeds, with the quartiles as ends."""
    low, high = np.percentile(values, (25, 75), method="closest_observation")
    return Interval(float(np.median(values)), float(low), float(high), len(values))


def missing() -> NoReturn:
    """Leave out the cell, claim or point.

    Raises
    ------
    Missing : always
    """
    raise Missing


FUNCTIONS: Final[dict[str, Any]] = {
    "ANY": ANY,
    "COLOURS": COLOURS,
    "Interval": Interval,
    "np": np,
    "HOUR": 3_600.0,
    "FEWEST": FEWEST,
    "TIE_WITHIN": TIE_WITHIN,
    # whether an interval is above a value; with fewer than three values, whether its mean is
    "above": lambda it, least: (it.low if it.count >= FEWEST else it.mean) > least,
    "as_change": as_change,
    "ascending": lambda values: list(values) == sorted(values),  # whether no value is smaller than the one before
    "below": lambda it, most: (it.high if it.count >= FEWEST else it.mean) < most,  # as above
    "beside": lambda value, runs: value,  # a published value, to be shown only beside runs
    "bootstrap_mean": bootstrap_mean,
    "bracketed": bracketed,
    "counted": lambda draws: f"on {draws.sum()} of {len(draws)}",  # on how many draws something is true
    "fsum": math.fsum,
    "formatted": lambda values, form, between=" ": between.join(format(value, form) for value in values),
    "join": lambda between, values: between.join(map(str, values)),
    "maximise": lambda values: max(values, key=values.__getitem__),  # first key with the largest value
    "mean": lambda values: float(np.mean(values)),
    "mean_interval": mean_interval,
    "median": lambda values: float(np.median(values)),
    "minimise": lambda values: min(values, key=values.__getitem__),  # first key with the smallest value
    "missing": missing,
    # whether something is true on at least a fraction of the draws
    "often": lambda draws, least=0.75: bool(draws.mean() >= least),
    "paired_difference": paired_difference,
    "paired_ratio": paired_ratio,
    "pairwise": itertools.pairwise,
    "plus_minus": plus_minus,
    "quartiles": quartiles,
    "spread": spread,
    "tied": tied,
    "within": lambda value, band: bool(band[0] <= value <= band[1]),  # whether a value is in a closed band
}


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> tuple[CodeType, frozenset[str]]:
    code = compile(f"({expression})", f"<{expression.strip()}>", "eval")
    return code, frozenset(_names(code))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Scope:
    """The names of expressions at one place of a card.

    Parameters
    ----------
    names : tables of the card, and names of its program
    derived : label -> expression that replaces its value where runs are labelled or selected
    labels : labels of the place
    results : runs; None while they are listed
    """

    def __init__(
        self,
        names: Mapping[str, Any],
        derived: Mapping[str, str],
        labels: Mapping[str, Any] | None = None,
        results: Results | None = None,
    ) -> None:
        self.names, self.derived, self.labels, self.results = names, derived, dict(labels or {}), results
        self.found = [0]  # number of look-ups of runs, which the scopes of a card share

    def at(self, **labels: Any) -> Scope:
        """Return the scope with further labels."""
        place = Scope(self.names, self.derived, self.labels | labels, self.results)
        place.found = self.found
        return place

    def places(self, axes: Mapping[str, Any]) -> Iterator[Scope]:
        """Yield a scope for each place of a product of axes; an axis is a list, or an expression for one.

        Later axes may depend on earlier ones; an axis may have several names. The axis ``where`` is a condition, and
        the values of ``labels`` are dicts.
        """
        if not axes:
            yield self
            return
        (name, values), *rest = axes.items()
        found = self.value(values) if isinstance(values, str) else values
        if name == "where":
            found = [{}] if found else []
        elif name != "labels":
            keys = name.split(", ")
            found = (dict(zip(keys, value if len(keys) > 1 else [value], strict=True)) for value in found)
        for labels in found:
            yield from self.at(**labels).places(dict(rest))

    def let(self, names: Mapping[str, str]) -> Scope:
        """Return the scope with further names, each the value of an expression."""
        place = self
        for name, expression in names.items():
            place = place.at(**{name: place.value(expression)})
        return place

    def value(self, expression: str) -> Any:
        """Return the value of an expression.

        Raises
        ------
        Missing : runs that it needs were not played
        """
        code, wanted = _compiled(expression)
        own: dict[str, Callable[..., Any]] = {
            "values": self.values, "known": self.known, "has": self.has, "bounds": self.bounds,
            "seeds": self.seeds, "metrics": self.metrics,
            "text": lambda template, **labels: self.at(**labels).text(template),
            "value": lambda expression, **labels: self.at(**labels).value(expression),
        }  # fmt: skip
        known = {**FUNCTIONS, **self.names, **own, **self.labels}
        metrics = {name: partial(self.values, name) for name in wanted - known.keys() - vars(builtins).keys()}
        return eval(code, known | metrics)

    def used(self, expression: str) -> str:
        """Return the labels that an expression uses; where they are equal, its value is."""
        return repr([(name, self.labels[name]) for name in sorted(_compiled(expression)[1]) if name in self.labels])

    def text(self, template: str) -> str:
        """Return a text with its expressions evaluated."""
        return FIELD.sub(self._field, template)

    def _field(self, match: re.Match[str]) -> str:
        inside = match[1]
        split = FORMAT.search(inside)
        if split is None:
            return str(self.value(inside))
        return format(self.value(inside[: split.start()]), split["format"])

    def labels_of(self, names: Any) -> dict[str, Any]:
        """Return the labels of a run, or of a selection of runs, without those that are ANY.

        A label that is a word of Python is written with a ``_`` in expressions: ``lambda_``.
        """
        written = {name: f"{name}_" if iskeyword(name) else name for name in names}
        own = {name: self.labels[key] for name, key in written.items() if key in self.labels}
        changed = {
            name: self.value(expression) for name, expression in self.derived.items() if own.get(name, ANY) is not ANY
        }
        return {name: value for name, value in (own | changed).items() if value is not ANY}

    def where(self, **labels: Any) -> Results:
        """Return the runs of this place, with some labels replaced."""
        assert self.results is not None
        return self.results.where(**self.at(**labels).labels_of(self.results.names))

    def of_seeds_of(self, labels: Mapping[str, Any]) -> Scope:
        """Return the scope of the runs whose seeds the runs with some labels have as well; no labels = of all runs."""
        place = self.at()
        if labels and self.results is not None:
            place.results = self.results.of_seeds_of(self.where(**labels))
        return place

    def values(self, metric: str, **labels: Any) -> np.ndarray:
        """float64 [seeds]: values of a metric of the runs of this place, sorted by seed; NaN is given as inf."""
        runs = self.where(**labels)
        if not runs.runs:
            raise Missing(metric)
        self.found[0] += 1
        return runs.values(metric)

    def seeds(self, **labels: Any) -> list[int]:
        """Seeds of the runs of this place, ascending."""
        return self.where(**labels).seeds

    def metrics(self, **labels: Any) -> list[str]:
        """Metrics that all runs of this place have, sorted."""
        runs = self.where(**labels).runs
        return [name for name in sorted(runs[0].metrics if runs else ()) if all(name in run.metrics for run in runs)]

    def bounds(self, metric: str, **labels: Any) -> np.ndarray:
        """float64 [runs]: lower bounds of a metric."""
        return np.array([run.bounds[metric] for run in self.where(**labels).runs])

    def known(self, label: str, **labels: Any) -> list[Any]:
        """Distinct values of a label, or of several ("part, jobs"), among the runs of this place, in their order."""
        names = label.split(", ")
        return self.where(**(dict.fromkeys(names, ANY) | labels)).known(*names)

    def has(self, **labels: Any) -> bool:
        """Return whether there are runs of this place."""
        return bool(self.where(**labels).runs)
