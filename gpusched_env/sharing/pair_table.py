"""Interference from a table of measured pairs of models, and the rules by which an entry is chosen."""

from __future__ import annotations

import itertools
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.problem.workload import Workload
from gpusched_env.sharing.interference import MEASURED_XI, Constant, Interference, class_names, model_of
from gpusched_env.sharing.pair_numbers import FLEET, PairRate, predicted
from gpusched_env.support.files import file_digest

MISSING: Final = ("error", "forbid", "default", "fit")


class Pair(NamedTuple):
    """Key of an entry of the table; None means that the entry holds for any value."""

    model: str
    other: str
    gpus: int | None = None  # gang size of ``model``
    gpu_type: str | None = None


class Entry(NamedTuple):
    """An entry of the table."""

    pair: Pair
    rate: float  # rate of the model beside the other model / its rate alone
    place: str  # file and line, for error messages


@dataclass(frozen=True)
class PairTable(Interference):
    """Interference from a file of the user; the package has no such file.

    Parameters
    ----------
    path : path of the file; a relative path stays relative to the working directory
    missing : rule for a pair that the table lacks: "error" = raise an error; "forbid" = the pair must not share a GPU;
        "default" = the slowdown of the pair is ``default_xi``; "fit" = predict it by two numbers per model, which are
        fitted to the pairs that the table has on this GPU type, and warn; an error for models that it lacks
    default_xi : slowdown of missing pairs if ``missing`` is "default"
    names : name of a model in profiles -> its name in the table, for models whose two names differ

    Notes
    -----
    A profile is looked up by its name, then by the name of its model (:func:`model_of`). An entry for its gang size and
    GPU type takes precedence over an entry for any gang size or GPU type. The model ``*`` of an entry stands for all
    models for which there is no entry. A rate of 0 means that the pair must not
    share a GPU. A rate above 1 (xi below 1) counts as 1, and a warning is issued.
    """

    path: str
    missing: str = "error"
    default_xi: float = MEASURED_XI
    names: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check every field; the file is not opened."""
        if self.missing not in MISSING:
            raise ScenarioError(f"sharing.interference.missing: {unknown_name('rule', str(self.missing), MISSING)}")
        Constant(self.default_xi)

    @abstractmethod
    def entries(self) -> Iterable[Entry]:
        """Read the entries from the file."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Name in INTERFERENCE_SOURCES."""

    @cached_property
    def table(self) -> dict[Pair, float]:
        """Slowdown xi of each pair, at least 1; inf = the pair must not share a GPU."""
        table: dict[Pair, float] = {}
        place_of: dict[Pair, str] = {}
        faster: list[str] = []
        for pair, rate, place in self.entries():
            if pair in table:
                raise ScenarioError(
                    f"{place}: {pair.model!r} beside {pair.other!r} is given at {place_of[pair]} already: keep one"
                )
            if rate > 1.0:
                faster.append(place)
            table[pair], place_of[pair] = (1.0 / min(rate, 1.0) if rate else math.inf), place
        if not table:
            raise ScenarioError(f"{self.path}: no pair in it: give one line for each ordered pair of models")
        if faster:
            warnings.warn(
                f"{faster[0]}: xi is below 1: sharing would make the job faster; xi = 1 is used instead ({len(faster)} "
                f"of {len(table)} entries)",
                stacklevel=2,
            )
        if self.missing == "fit":
            self._fill(table)
        return table

    def _fill(self, table: dict[Pair, float]) -> None:
        """Add predictions of the pairs that the table lacks for other gang sizes, for each of its GPU types."""
        measured = dict(table)
        for gpu_type in {pair.gpu_type: None for pair in measured}:
            here = {pair: xi for pair, xi in measured.items() if pair.gpu_type in (gpu_type, None)}
            fitted = {pair: xi for pair, xi in here.items() if FLEET not in pair[:2]}
            models = {name: None for pair in fitted for name in pair[:2]}
            told = {pair[:2] for pair in here if pair.gpus is None}
            lacking = [pair for pair in itertools.product(models, models) if told.isdisjoint(self._rows_of(*pair))]
            rates = [PairRate(*pair[:2], 1.0 / xi) for pair, xi in fitted.items() if xi < math.inf]
            for (model, other), rate in predicted(self.path, rates, lacking).items() if lacking else ():
                table[Pair(model, other, None, gpu_type)] = 1.0 / rate

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        """Return xi of each job class beside each other class on each GPU type; inf = they must not share a GPU."""
        profiles, gangs = class_names(classes, workload), classes[:, 1].tolist()
        found = np.empty((len(classes), len(classes), len(gpu_types)))
        for row, column, t in np.ndindex(found.shape):
            found[row, column, t] = self._xi(profiles[row], profiles[column], gangs[row], gpu_types[t])
        return found

    def _xi(self, profile: str, other: str, gpus: int, gpu_type: str) -> float:
        for names, size, kind in itertools.product(self._rows_of(profile, other), (gpus, None), (gpu_type, None)):
            if (xi := self.table.get(Pair(*names, size, kind))) is not None:
                return xi
        if self.missing in ("error", "fit"):
            a, b = self._called(profile)[-1], self._called(other)[-1]
            needed = "add it, set missing to 'fit' (predict it)"
            if self.missing == "fit":
                needed = "to predict it, add rows of both models there"
            raise ScenarioError(
                f"{self.path}: no xi for {a!r} on {gpus} GPUs beside {b!r} on {gpu_type}: {needed}, or set missing to "
                "'forbid' (such pairs never share) or 'default' (they have default_xi)"
            )
        return math.inf if self.missing == "forbid" else self.default_xi

    def _rows_of(self, profile: str, other: str) -> list[tuple[str, str]]:
        """Return the pairs of names under which the table may list two profiles: specific ones first, ``*`` last."""
        own, others = self._called(profile), self._called(other)
        return [*itertools.product(own, others), *itertools.product((*own, FLEET), (*others, FLEET))]

    def _called(self, profile: str) -> list[str]:
        """Return the names under which the table may list a profile, the most specific name first."""
        return [self.names.get(name, name) for name in dict.fromkeys((profile, model_of(profile)))]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        data: dict[str, Any] = {"source": self.kind, "path": self.path, "missing": self.missing}
        if self.missing == "default":
            data["default_xi"] = self.default_xi
        return data | ({"names": dict(self.names)} if self.names else {})

    def identity(self) -> dict[str, Any]:
        """Return the data of :meth:`as_dict` with the SHA-256 of the file instead of its path, for fingerprints."""
        return self.as_dict() | {"path": file_digest(Path(self.path), ScenarioError)}
