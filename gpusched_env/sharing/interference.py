"""Interference between jobs that share a GPU.

The slowdown xi of a job beside another job is its iteration time beside the other job / its iteration time alone. Each
ordered pair of models has its own xi.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.checks import check_number
from gpusched_env.portable.elementary import exp
from gpusched_env.portable.normal import normal_quantile
from gpusched_env.problem.workload import Workload
from gpusched_env.support.plain_data import set_fields

LARGEST: Final = 4.0  # upper limit on a drawn xi
# MEASURED_XI and MEASURED lie in the middle between the pairs that Lucid (half of them) and Gavel (on V100) measured;
# ``calibrate`` of studies.reproduce.testbeds.colocation computes them.
MEASURED_XI: Final = 1.25
DRAWN: Final = ("pair", "model")


class Interference(Protocol):
    """A source of the slowdowns xi of jobs that share a GPU.

    To add a source that scenario files can name, derive a dataclass whose fields are plain data, and add a line to
    INTERFERENCE_SOURCES.
    """

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        """Return xi of each job class beside each other class on each GPU type; float64 [C, C, T].

        inf = the two classes must not share a GPU of this type.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: ``source``, the name in INTERFERENCE_SOURCES, and the fields."""

    def identity(self) -> dict[str, Any]:
        """Return the data of :meth:`as_dict` with the SHA-256 of each file instead of its path, for fingerprints."""
        return self.as_dict()


def model_of(profile: str) -> str:
    """Return the name of the model that a profile trains: the name of the profile before " (".

    Names of profiles may give a batch size in brackets, as in "LM (batch size 80)".
    """
    return profile.partition(" (")[0]


def class_names(classes: np.ndarray, workload: Workload) -> list[str]:
    """Return the profile name of each job class."""
    names: list[str] = workload.profiles.rows["name"][classes[:, 0]].tolist()
    return names


@dataclass(frozen=True)
class Constant(Interference):
    """The same xi for all pairs."""

    xi: float = MEASURED_XI

    def __post_init__(self) -> None:
        """Check xi."""
        if isinstance(self.xi, bool) or not isinstance(self.xi, int | float) or not 1.0 <= self.xi < math.inf:
            raise ScenarioError(f"sharing.interference is {self.xi!r}: xi must be a number of at least 1")

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        """Return the same xi for all pairs of job classes; float64 [C, C, T]."""
        return np.full((len(classes), len(classes), len(gpu_types)), float(self.xi))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"source": "constant", "xi": self.xi}


@dataclass(frozen=True)
class Synthetic(Interference):
    """A random xi for each ordered pair of models: 1 + a log-normal excess, at most 4.

    The xi of a pair is the same on all GPU types. It depends only on the seed and the names of the two models, not on
    the rest of the workload.

    Parameters
    ----------
    seed : seed of the draws
    by : "pair" = the excess of each ordered pair is a draw of its own; "model" = it is the product of the sensitivity
        of the one model and the aggressiveness of the other, both drawn
    median, sigma : median of the excess, and standard deviation of its logarithm. The defaults are a choice;
        :data:`MEASURED` has those of measured pairs
    """

    seed: int = 0
    by: str = "pair"
    median: float = 0.3
    sigma: float = 0.8

    def __post_init__(self) -> None:
        """Check every field."""
        if self.by not in DRAWN:
            raise ScenarioError(f"sharing.interference.by: {unknown_name('value', str(self.by), DRAWN)}")
        for field in ("median", "sigma"):
            check_number(getattr(self, field), f"sharing.interference.{field}", positive=True)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ScenarioError(f"sharing.interference.seed is {self.seed!r}: it must be a whole number >= 0")

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        """Return xi of each job class beside each other class, by their models; float64 [C, C, T]."""
        models = [model_of(name) for name in class_names(classes, workload)]
        known = {(a, b): self.xi(a, b) for a in set(models) for b in set(models)}
        table = np.array([[known[a, b] for b in models] for a in models])
        return np.repeat(table[:, :, None], len(gpu_types), axis=2)

    def xi(self, model: str, other: str) -> float:
        """Return the slowdown of ``model`` beside ``other``."""
        if self.by == "model":
            deviation = (self._normal("sensitivity", model) + self._normal("aggressiveness", other)) / math.sqrt(2.0)
        else:
            deviation = self._normal(model, other)
        return min(1.0 + self.median * exp(self.sigma * deviation), LARGEST)

    def _normal(self, *names: str) -> float:
        """Return a standard normal draw that the seed and the names determine."""
        digest = hashlib.sha256("\0".join((str(self.seed), *names)).encode()).digest()
        return normal_quantile((int.from_bytes(digest[:8], "big") // 2**11 + 0.5) / 2**53)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"source": "synthetic"} | set_fields(self, "seed")


MEASURED: Final = Synthetic(0, "model", median=0.18, sigma=1.3)


def synthetic(seed: int) -> Synthetic:
    """Return an interference with a random xi for each ordered pair of models, see :class:`Synthetic`."""
    return Synthetic(seed)
